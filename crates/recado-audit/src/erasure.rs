//! Erasure requests, and the record that says an erasure was done.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::{Hash, Hex};
use crate::month::Month;

/// The person whose records are meant, by an id that callers know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub identity: Identity,
    /// Only what this company sent; the same number may be another person elsewhere.
    pub company: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    User(Box<str>),
    Correlation(Box<str>),
    Claim(Box<str>),
    Job(Box<str>),
}

impl Identity {
    fn parts(&self) -> (IdentityKind, &str) {
        match self {
            Identity::User(id) => (IdentityKind::UserId, id),
            Identity::Correlation(id) => (IdentityKind::CorrelationId, id),
            Identity::Claim(id) => (IdentityKind::ClaimId, id),
            Identity::Job(id) => (IdentityKind::JobId, id),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IdentityKind {
    UserId,
    CorrelationId,
    ClaimId,
    JobId,
}

/// A hash of the erased person's number: a reader who knows the number can check it; it cannot be read off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectHash {
    pub by: IdentityKind,
    pub salt: Box<str>,
    /// SHA-256 of salt and number.
    pub digest: Hash,
}

/// The record of an erasure: who, whose, how many, and which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Erasure {
    pub subject: SubjectHash,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub company_id: Option<Box<str>>,
    pub actor: Box<str>,
    /// The reason; it stays, so it must not name the person again.
    pub reason: Box<str>,
    pub records: u64,
    /// The sequences whose personal part is gone, by segment.
    pub segments: BTreeMap<Month, Vec<u64>>,
}

impl Erasure {
    /// Returns true if this subject's data was erased.
    pub fn concerns(&self, subject: &Subject) -> bool {
        let (by, id) = subject.identity.parts();
        self.company_id == subject.company
            && self.subject.by == by
            && self.subject.digest == digest(&self.subject.salt, id)
    }
}

impl SubjectHash {
    pub(crate) fn of(subject: &Subject, salt: &[u8; 16]) -> Self {
        let (by, id) = subject.identity.parts();
        let salt = Hex(*salt).to_string();
        SubjectHash { by, digest: digest(&salt, id), salt: salt.into() }
    }
}

fn digest(salt: &str, id: &str) -> Hash {
    Hash::of([salt.as_bytes(), id.as_bytes()].concat().as_slice())
}
