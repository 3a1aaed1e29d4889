//! The audit trail: a job's, all of it, and erasures of one person's data.

use recado_core::audit::AuditStep;
use recado_core::{AuditEvent, AuditKind, Class, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::dlq::WORDS_LEN_MAX;
use crate::format::components;
use crate::format::read::{Body, Faults, Query};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditTrail {
    /// Oldest first.
    pub items: Vec<AuditItem>,
}

/// One step on the trail: the nine required fields, always there, and who, what and where beside them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditItem {
    #[schema(value_type = components::AuditStep)]
    pub event: AuditStep,
    /// The record that the step is of; its steps share everything else.
    #[schema(value_type = components::AuditKind)]
    pub kind: AuditKind,
    pub timestamp: Timestamp,
    /// The claim, or the job that stands for it.
    pub claim_id: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub company_id: Option<Box<str>>,
    /// Person the job was about, if its caller named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<Box<str>>,
    pub route: Box<str>,
    /// The provider that an act concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The provider's code of the failure, or Recado's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<Box<str>>,
    #[serde(flatten)]
    #[schema(inline)]
    pub retry: AuditedRetry,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Box<str>>,
    /// Person who acted, if a person did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<Box<str>>,
    #[serde(flatten)]
    #[schema(value_type = ArchivedRecord, inline)]
    pub archived: Option<ArchivedRecord>,
}

/// A failure and the decision about the next try; `null` where a step has nothing to do with one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditedRetry {
    #[schema(required)]
    pub error_message: Option<Box<str>>,
    #[schema(required)]
    pub retry_count: Option<u32>,
    #[schema(required, value_type = Option<components::ErrorClassification>)]
    pub error_classification: Option<Class>,
    #[schema(required)]
    pub backoff_minutes: Option<u64>,
    #[schema(required)]
    pub next_retry_time: Option<Timestamp>,
    #[schema(required)]
    pub should_retry: Option<bool>,
    #[schema(required)]
    pub retry_reason: Option<Box<str>>,
}

/// Facts about a record once it is archived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedRecord {
    /// Once it is archived: its place in the chain, when it was put there, and its hash.
    #[schema(required = false)]
    pub sequence: u64,
    #[schema(required = false)]
    pub recorded_at: Timestamp,
    #[schema(required = false)]
    pub hash: String,
    /// The record that says who erased what was personal in this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erased_by: Option<u64>,
}

impl AuditTrail {
    /// Spells stored records out: each stands for one or more steps.
    pub fn of(records: &[AuditEvent]) -> Self {
        AuditTrail { items: records.iter().flat_map(|record| AuditItem::steps(record, None)).collect() }
    }
}

impl AuditItem {
    /// The steps of one record, in the order they happened.
    pub fn steps(record: &AuditEvent, archived: Option<&ArchivedRecord>) -> Vec<Self> {
        record.kind.events().iter().map(|event| AuditItem::of(record, *event, archived)).collect()
    }

    fn of(record: &AuditEvent, event: AuditStep, archived: Option<&ArchivedRecord>) -> Self {
        let decision = &record.decision;
        AuditItem {
            event,
            kind: record.kind,
            user_id: record.user_id.clone(),
            correlation_id: record.correlation_id.clone(),
            provider: record.provider.clone(),
            archived: archived.cloned(),
            timestamp: record.timestamp,
            claim_id: record.claim_id.clone(),
            job_id: record.job_id.clone(),
            company_id: record.company_id.clone(),
            route: record.route.clone(),
            attempt: decision.attempt,
            error_code: decision.error_code.clone(),
            retry: AuditedRetry {
                error_message: decision.error_message.clone(),
                retry_count: decision.retry_count,
                error_classification: decision.error_classification,
                backoff_minutes: decision.backoff_minutes,
                next_retry_time: decision.next_retry_time,
                should_retry: decision.should_retry,
                retry_reason: decision.retry_reason.clone(),
            },
            rule: decision.rule.clone(),
            actor: record.actor.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditList {
    /// In the order asked for. A record's steps come together.
    pub items: Vec<AuditItem>,
    /// Cursor of the next page; absent on the last one. A page may be short, or empty, and still have a next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuditOrder {
    #[default]
    Newest,
    Oldest,
}

/// Selects records; every given condition must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub job_id: Option<String>,
    /// The claim, or the job that stands for it.
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub claim_id: Option<String>,
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub company_id: Option<String>,
    /// Person the job was about.
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub user_id: Option<String>,
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub correlation_id: Option<String>,
    /// Person who acted.
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub actor: Option<String>,
    #[param(value_type = Option<components::AuditKind>, inline)]
    pub kind: Option<AuditKind>,
    /// Happened at or after this.
    pub since: Option<Timestamp>,
    /// Happened before this.
    pub until: Option<Timestamp>,
    /// `newest` first when absent.
    #[param(inline)]
    pub order: Option<AuditOrder>,
    /// Items on a page at most, up to 1000; 100 when absent. The steps of one record, up to four, stay together:
    /// a page may have fewer items, and below four a few more.
    #[param(value_type = Option<components::PageLimit>, inline)]
    pub limit: Option<u32>,
    /// The `nextCursor` of the page before.
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub cursor: Option<String>,
}

impl Query for AuditQuery {}

/// One person, by one of the numbers that callers know them by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditSubject {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Only what this company sent: the same number may be another person elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub company_id: Option<String>,
}

impl Body for AuditSubject {
    fn check(&self, faults: &mut Faults) {
        let ids = [&self.user_id, &self.correlation_id, &self.claim_id, &self.job_id];
        if ids.iter().filter(|id| id.as_ref().is_some_and(|id| !id.is_empty())).count() != 1 {
            faults.note("", "must name one person; give one of userId, correlationId, claimId and jobId");
        }
    }
}

/// Body of `POST /v1/audit/erasures`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErasureRequest {
    pub subject: AuditSubject,
    /// Reason. It stays on record for good: give a reference, such as a request's number, and no name.
    #[schema(value_type = components::Reason, example = "LGPD request 17")]
    pub reason: String,
    /// Cancel the person's jobs that still wait, too. Without it they keep an erasure from being done.
    #[serde(default)]
    #[schema(value_type = Option<bool>)]
    pub with_jobs: bool,
}

impl Body for ErasureRequest {
    const WRITE: &'static [(&'static str, &'static str)] =
        &[("subject", "an object, such as {\"userId\": \"u-81\"}")];

    fn check(&self, faults: &mut Faults) {
        faults.within("subject", |faults| self.subject.check(faults));
        let length = self.reason.chars().count();
        if self.reason.trim().is_empty() {
            faults.note("reason", "is empty; give a reference, such as a request's number");
        } else if length > WORDS_LEN_MAX {
            faults.note("reason", format!("has {length} characters; give at most {WORDS_LEN_MAX}"));
        }
    }
}

/// Answer to `POST /v1/audit/erasures`: what was there of the person, and is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErasureDone {
    /// Records of the trail whose personal part is gone.
    pub records: u64,
    /// The sequences of the records that say so: none if nothing was on record.
    pub recorded_as: Vec<u64>,
    pub jobs_cancelled: u64,
    pub dead_letters_discarded: u64,
    /// Ended jobs that the store has forgotten before their time.
    pub jobs_forgotten: u64,
    /// Callbacks and notices about those jobs that are gone, whether they waited, were dead or were sent.
    #[serde(default)]
    pub follow_ups_erased: u64,
}
