//! Records, and the part of them that is personal.
//!
//! **Erasable** are the texts and numbers that may tell who a message was for: the job's and the claim's id
//! (callers choose them), the user, the correlation, the provider's words and the reason. **Never erased**
//! are the bare facts (time, kind, route, company, counts, rule) and the actor: an audit trail that forgets
//! its operators is none.

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub sequence: u64,
    pub archived_at: Timestamp,
    pub hash: Hash,
    #[serde(flatten)]
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Content {
    #[serde(rename_all = "camelCase")]
    Event {
        source: Box<str>,
        source_sequence: u64,
        /// Once erased, its claim is empty, and its job, its user, its correlation and its texts are absent.
        event: AuditEvent,
        /// The record of the act that erased the personal part, if it was erased.
        #[serde(skip_serializing_if = "Option::is_none")]
        erased_by: Option<u64>,
    },
    Erasure {
        erasure: Erasure,
    },
}

/// The subject of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Event(AuditKind),
    /// Personal data was erased from other records.
    Erasure,
}

impl From<AuditKind> for Kind {
    fn from(kind: AuditKind) -> Self {
        match kind {
            AuditKind::PersonalDataErased => Kind::Erasure,
            kind => Kind::Event(kind),
        }
    }
}

impl Record {
    pub fn kind(&self) -> Kind {
        match &self.content {
            Content::Event { event, .. } => Kind::Event(event.kind),
            Content::Erasure { .. } => Kind::Erasure,
        }
    }

    /// The record as an event, whatever it is about: an erasure reads as an act with its reason.
    pub fn event(&self) -> AuditEvent {
        match &self.content {
            Content::Event { event, .. } => event.clone(),
            Content::Erasure { erasure } => {
                let act = AuditEvent::claim("", "", AuditKind::PersonalDataErased, self.archived_at);
                AuditEvent { company_id: erasure.company_id.clone(), ..act }
                    .reason(erasure.reason.to_string())
                    .by(Some(&erasure.actor))
            }
        }
    }

    /// Time of the event, which is before it was archived.
    pub fn timestamp(&self) -> Timestamp {
        match &self.content {
            Content::Event { event, .. } => event.timestamp,
            Content::Erasure { .. } => self.archived_at,
        }
    }

    /// Reads a line; whether it is authentic is for `verify` to say.
    pub(crate) fn read(line: &[u8]) -> serde_json::Result<Self> {
        let line: Written = serde_json::from_slice(line)?;
        let content = match (line.erasure, line.event) {
            (Some(erasure), _) => Content::Erasure { erasure },
            (None, Some(facts)) => {
                let erased_by = line.personal.erased_by;
                let event = join(facts, line.personal);
                let (source, source_sequence) = (line.source, line.source_sequence);
                Content::Event { source, source_sequence, event, erased_by }
            }
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
    event: Option<Facts<Box<str>>>,
    erasure: Option<Erasure>,
    #[serde(default)]
    personal: Personal<Box<str>>,
    hash: Hash,
}

/// The part of an event that is under the chain's hash. Its texts are borrowed to be written and owned when read.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Facts<T> {
    timestamp: Timestamp,
    kind: AuditKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    company_id: Option<T>,
    route: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<T>,
    /// Absent from records of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    bulk_id: Option<T>,
}

/// The part that the chain only commits to. The salt goes with it, so that what is left tells nothing.
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
    error_message: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_reason: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    erased_by: Option<u64>,
}

/// Every field of an event is named here, so that a new one cannot come in without being put on one side.
pub(crate) fn split<'e>(entry: &'e Entry, salt: &'e str) -> (Facts<&'e str>, Personal<&'e str>) {
    let AuditEvent {
        timestamp,
        kind,
        claim_id,
        job_id,
        company_id,
        user_id,
        correlation_id,
        route,
        provider,
        decision,
        actor,
        bulk_id,
    } = &entry.event;
    let RetryDecision {
        attempt,
        error_message,
        retry_count,
        error_classification,
        backoff_minutes,
        next_retry_time,
        should_retry,
        retry_reason,
        rule,
    } = decision;
    let facts = Facts {
        timestamp: *timestamp,
        kind: *kind,
        company_id: company_id.as_deref(),
        route: route.as_ref(),
        provider: provider.as_deref(),
        attempt: *attempt,
        retry_count: *retry_count,
        error_classification: *error_classification,
        backoff_minutes: *backoff_minutes,
        next_retry_time: *next_retry_time,
        should_retry: *should_retry,
        rule: rule.as_deref(),
        actor: actor.as_deref(),
        bulk_id: bulk_id.as_deref(),
    };
    let personal = Personal {
        salt: Some(salt),
        claim_id: Some(claim_id),
        job_id: job_id.as_deref(),
        user_id: user_id.as_deref(),
        correlation_id: correlation_id.as_deref(),
        error_message: error_message.as_deref(),
        retry_reason: retry_reason.as_deref(),
        erased_by: None,
    };
    (facts, personal)
}

fn join(facts: Facts<Box<str>>, personal: Personal<Box<str>>) -> AuditEvent {
    AuditEvent {
        timestamp: facts.timestamp,
        kind: facts.kind,
        claim_id: personal.claim_id.unwrap_or_default(),
        job_id: personal.job_id,
        company_id: facts.company_id,
        user_id: personal.user_id,
        correlation_id: personal.correlation_id,
        route: facts.route,
        provider: facts.provider,
        decision: RetryDecision {
            attempt: facts.attempt,
            error_message: personal.error_message,
            retry_count: facts.retry_count,
            error_classification: facts.error_classification,
            backoff_minutes: facts.backoff_minutes,
            next_retry_time: facts.next_retry_time,
            should_retry: facts.should_retry,
            retry_reason: personal.retry_reason,
            rule: facts.rule,
        },
        actor: facts.actor,
        bulk_id: facts.bulk_id,
    }
}
