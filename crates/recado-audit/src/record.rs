//! Records, and the part of them that is personal.
//!
//! **Erasable** are the texts and numbers that may tell who a message was for: the job's and the claim's id
//! (callers choose them), the user, the correlation, the provider's words and the reason. **Never erased**
//! are the bare facts (time, kind, route, company, counts, rule) and the actor: an audit trail that forgets
//! its operators is none.

use std::borrow::Cow;

use recado_core::{AuditEvent, AuditKind, Class, RetryDecision, Timestamp};
use serde::{Deserialize, Serialize};

use crate::digest::Hash;
use crate::erasure::Erasure;

/// One event on its way into the trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The store that it comes from. A store whose numbers begin anew is another source.
    pub source: Box<str>,
    /// Its number there, rising. An entry whose number is not above the last one of its source is a repeat.
    pub sequence: u64,
    pub event: AuditEvent,
}

/// One record of the trail, as searches find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub sequence: u64,
    pub archived_at: Timestamp,
    pub hash: Hash,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Event {
        source: Box<str>,
        source_sequence: u64,
        /// Once erased, its claim is empty, and its job, its user, its correlation and its texts are absent.
        event: AuditEvent,
        /// The record of the act that erased the personal part, if it was erased.
        erased_by: Option<u64>,
    },
    Erasure {
        erasure: Erasure,
    },
}

impl Record {
    /// The record as an event, whatever it is about: an erasure reads as an act with its reason.
    pub fn event(&self) -> Cow<'_, AuditEvent> {
        match &self.content {
            Content::Event { event, .. } => Cow::Borrowed(event),
            Content::Erasure { erasure } => {
                let act = AuditEvent::claim("", "", AuditKind::PersonalDataErased, self.archived_at);
                let act = AuditEvent { company_id: erasure.company_id.clone(), ..act };
                Cow::Owned(act.reason(erasure.reason.to_string()).by(Some(&erasure.actor)))
            }
        }
    }

    /// Reads a line; whether it is authentic is for `verify` to say.
    pub(crate) fn read(line: &[u8]) -> serde_json::Result<Self> {
        let line: Written = serde_json::from_slice(line)?;
        let content = match (line.erasure, line.event) {
            (Some(erasure), _) => Content::Erasure { erasure },
            (None, Some(WrittenFacts(facts))) => Content::Event {
                source: line.source,
                source_sequence: line.source_sequence,
                erased_by: line.personal.erased_by,
                event: line.personal.join(facts),
            },
            (None, None) => return Err(serde::de::Error::custom("neither an event nor an erasure")),
        };
        Ok(Record { sequence: line.sequence, archived_at: line.archived_at, hash: line.hash, content })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    sequence: u64,
    archived_at: Timestamp,
    #[serde(default)]
    source: Box<str>,
    #[serde(default)]
    source_sequence: u64,
    event: Option<WrittenFacts>,
    erasure: Option<Erasure>,
    #[serde(default)]
    personal: Personal<Box<str>>,
    hash: Hash,
}

#[derive(Deserialize)]
struct WrittenFacts(#[serde(with = "Facts")] AuditEvent);

/// The part of an event that is under the chain's hash. Every field of an event is named here, so that a new one
/// cannot come in without being put on one side: those that are skipped are [`Personal`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "AuditEvent", rename_all = "camelCase")]
pub(crate) struct Facts {
    timestamp: Timestamp,
    kind: AuditKind,
    #[serde(skip)]
    claim_id: Box<str>,
    #[serde(skip)]
    job_id: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    company_id: Option<Box<str>>,
    #[serde(skip)]
    user_id: Option<Box<str>>,
    #[serde(skip)]
    correlation_id: Option<Box<str>>,
    route: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<Box<str>>,
    #[serde(flatten, with = "DecisionFacts")]
    decision: RetryDecision,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<Box<str>>,
    /// Absent from records of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    bulk_id: Option<Box<str>>,
    /// Absent from records of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_changed: Option<bool>,
}

/// The part of a decision that is under the chain's hash.
#[derive(Serialize, Deserialize)]
#[serde(remote = "RetryDecision", rename_all = "camelCase")]
struct DecisionFacts {
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip)]
    error_code: Option<Box<str>>,
    #[serde(skip)]
    error_message: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_classification: Option<Class>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_minutes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_retry_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    should_retry: Option<bool>,
    #[serde(skip)]
    retry_reason: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<Box<str>>,
}

/// The part that the chain only commits to. The salt goes with it, so that what is left tells nothing. Its texts are
/// borrowed to be written and owned when read.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Personal<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    salt: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claim_id: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_message: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_reason: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    erased_by: Option<u64>,
}

impl<'e> Personal<&'e str> {
    pub(crate) fn of(event: &'e AuditEvent, salt: &'e str) -> Self {
        Personal {
            salt: Some(salt),
            claim_id: Some(&event.claim_id),
            job_id: event.job_id.as_deref(),
            user_id: event.user_id.as_deref(),
            correlation_id: event.correlation_id.as_deref(),
            error_code: event.decision.error_code.as_deref(),
            error_message: event.decision.error_message.as_deref(),
            retry_reason: event.decision.retry_reason.as_deref(),
            erased_by: None,
        }
    }
}

impl Personal<Box<str>> {
    fn join(self, facts: AuditEvent) -> AuditEvent {
        AuditEvent {
            claim_id: self.claim_id.unwrap_or_default(),
            job_id: self.job_id,
            user_id: self.user_id,
            correlation_id: self.correlation_id,
            decision: RetryDecision {
                error_code: self.error_code,
                error_message: self.error_message,
                retry_reason: self.retry_reason,
                ..facts.decision
            },
            ..facts
        }
    }
}
