//! Audit records: one for each failure analysed, retry scheduled, decision made and act of a person.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::classify::{Class, Failure};
use crate::job::Job;
use crate::values::name::CompanyId;
use crate::values::named_enum::named_enum;
use crate::values::sparse_struct::sparse_struct;
use crate::values::time::Timestamp;

named_enum! {
    /// The subject of a record. A failure's record stands for several steps at once: see [`AuditKind::events`].
    pub enum AuditKind {
        Delivered = "DELIVERED",
        RetryScheduled = "RETRY_SCHEDULED",
        Buried = "BURIED",
        LeaseLost = "LEASE_LOST",
        /// A process engine asked what to do about a claim.
        ClaimRetry = "CLAIM_RETRY",
        ClaimRefused = "CLAIM_REFUSED",
        Cancelled = "CANCELLED",
        Replayed = "REPLAYED",
        Discarded = "DISCARDED",
        /// A dead letter's time ended.
        DeadLetterExpired = "DEAD_LETTER_EXPIRED",
        /// A person opened or closed a breaker.
        BreakerOpened = "BREAKER_OPENED",
        BreakerClosed = "BREAKER_CLOSED",
        ProviderPaused = "PROVIDER_PAUSED",
        ProviderResumed = "PROVIDER_RESUMED",
        RoutePaused = "ROUTE_PAUSED",
        RouteResumed = "ROUTE_RESUMED",
        TenantPaused = "TENANT_PAUSED",
        TenantResumed = "TENANT_RESUMED",
        /// Its weight or its bound.
        TenantTermsSet = "TENANT_TERMS_SET",
        /// A person lifted a hold that an answer from outside had imposed.
        HoldLifted = "HOLD_LIFTED",
        /// There were too many: the oldest went to the archive.
        DeadLetterArchived = "DEAD_LETTER_ARCHIVED",
        /// It came back from an archive.
        DeadLetterImported = "DEAD_LETTER_IMPORTED",
        /// Many were replayed or discarded at once.
        BulkStarted = "BULK_STARTED",
        BulkEnded = "BULK_ENDED",
        /// Personal data was removed from other records of the trail. Only the trail's files hold this kind.
        PersonalDataErased = "PERSONAL_DATA_ERASED",
        /// An operator's act on a webhook endpoint; `claimId` is the endpoint's id.
        EndpointAdded = "ENDPOINT_ADDED",
        EndpointChanged = "ENDPOINT_CHANGED",
        EndpointSecretRotated = "ENDPOINT_SECRET_ROTATED",
        EndpointEnabled = "ENDPOINT_ENABLED",
        /// By an operator, or because deliveries to it kept failing.
        EndpointDisabled = "ENDPOINT_DISABLED",
        EndpointRemoved = "ENDPOINT_REMOVED",
        EndpointTested = "ENDPOINT_TESTED",
        /// A provider refused a company's credential.
        AccountMarked = "ACCOUNT_MARKED",
        AccountCleared = "ACCOUNT_CLEARED",
        /// The API showed payloads of jobs or dead letters.
        PayloadRead = "PAYLOAD_READ",
        DeadLettersExported = "DEAD_LETTERS_EXPORTED",
        /// The API showed the records of one person.
        PersonalDataRead = "PERSONAL_DATA_READ",
    }
}

/// A single step of a retry decision, or an act of a person.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AuditStep {
    ErrorAnalysed,
    BackoffCalculated,
    RetryDecided,
    /// The step that its record is called after.
    #[serde(untagged)]
    Named(AuditKind),
}

impl AuditStep {
    /// Returns all steps, in order.
    pub fn all() -> impl Iterator<Item = AuditStep> {
        let retry = AuditKind::RetryScheduled.events();
        let others = AuditKind::ALL.into_iter().filter(|kind| {
            !matches!(kind, AuditKind::RetryScheduled | AuditKind::ClaimRetry | AuditKind::ClaimRefused)
        });
        retry.into_iter().chain(others.map(AuditStep::Named))
    }

    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            AuditStep::ErrorAnalysed => "ERROR_ANALYSED",
            AuditStep::BackoffCalculated => "BACKOFF_CALCULATED",
            AuditStep::RetryDecided => "RETRY_DECIDED",
            AuditStep::Named(kind) => kind.as_str(),
        }
    }
}

impl AuditKind {
    /// Returns the steps that a record of this kind covers, in the order they happened.
    pub fn events(self) -> Vec<AuditStep> {
        use AuditStep::{BackoffCalculated, ErrorAnalysed, Named, RetryDecided};
        match self {
            AuditKind::RetryScheduled | AuditKind::ClaimRetry => {
                vec![ErrorAnalysed, BackoffCalculated, Named(AuditKind::RetryScheduled), RetryDecided]
            }
            AuditKind::Buried => vec![ErrorAnalysed, RetryDecided, Named(self)],
            AuditKind::ClaimRefused => vec![ErrorAnalysed, RetryDecided],
            _ => vec![Named(self)],
        }
    }

    /// Returns true when the record is of a read, which changed nothing.
    pub fn is_read(self) -> bool {
        matches!(self, AuditKind::PayloadRead | AuditKind::DeadLettersExported | AuditKind::PersonalDataRead)
    }
}

/// One line of the trail: the nine required fields, and who, what and where beside them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    pub timestamp: Timestamp,
    pub kind: AuditKind,
    /// The claim, or the job that stands for it; empty when an act concerns no single one.
    pub claim_id: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub company_id: Option<Box<str>>,
    /// The person the job was about and the process it belonged to, if the caller named them. Kept here
    /// because the record outlives the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<Box<str>>,
    /// Empty when an act concerns no single one.
    pub route: Box<str>,
    /// The provider that an act concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Box<str>>,
    #[serde(flatten)]
    pub decision: RetryDecision,
    /// The person who acted, if a person did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<Box<str>>,
    /// The bulk act that it belongs to; absent from records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk_id: Option<Box<str>>,
    /// Of a replay: true if it sent other data than the attempts before it; absent from records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_changed: Option<bool>,
}

sparse_struct! {
    /// The failure that was analysed and the decision about it; an act of a person has a reason alone.
    pub struct RetryDecision {
        pub attempt: Option<u32>,
        /// Absent from records of older versions.
        pub error_code: Option<Box<str>>,
        pub error_message: Option<Box<str>>,
        pub retry_count: Option<u32>,
        pub error_classification: Option<Class>,
        pub backoff_minutes: Option<u64>,
        pub next_retry_time: Option<Timestamp>,
        pub should_retry: Option<bool>,
        pub retry_reason: Option<Box<str>>,
        pub rule: Option<Box<str>>,
    }
}

impl AuditEvent {
    pub fn about(job: &Job, kind: AuditKind, now: Timestamp) -> Self {
        AuditEvent {
            job_id: Some(job.id.as_str().into()),
            company_id: Some(job.company.as_str().into()),
            user_id: job.user_id.clone(),
            correlation_id: job.correlation_id.clone(),
            ..AuditEvent::claim(job.id.as_str(), job.route.as_str(), kind, now)
        }
    }

    pub fn claim(claim_id: &str, route: &str, kind: AuditKind, now: Timestamp) -> Self {
        let should_retry = match kind {
            AuditKind::RetryScheduled | AuditKind::ClaimRetry => Some(true),
            AuditKind::Buried | AuditKind::ClaimRefused => Some(false),
            _ => None,
        };
        AuditEvent {
            timestamp: now,
            kind,
            claim_id: claim_id.into(),
            job_id: None,
            company_id: None,
            user_id: None,
            correlation_id: None,
            route: route.into(),
            provider: None,
            decision: RetryDecision { should_retry, ..RetryDecision::default() },
            actor: None,
            bulk_id: None,
            data_changed: None,
        }
    }

    /// Makes the record of an operator's act on a provider.
    pub fn about_provider(name: &str, kind: AuditKind, now: Timestamp) -> Self {
        AuditEvent { provider: Some(name.into()), ..AuditEvent::claim("", "", kind, now) }
    }

    /// Makes the record of an operator's act on a route.
    pub fn about_route(name: &str, kind: AuditKind, now: Timestamp) -> Self {
        AuditEvent::claim("", name, kind, now)
    }

    /// Makes the record of an operator's act on a company.
    pub fn about_company(name: &str, kind: AuditKind, now: Timestamp) -> Self {
        AuditEvent { company_id: Some(name.into()), ..AuditEvent::claim("", "", kind, now) }
    }

    /// An act on a company's webhook endpoint. `claimId` is the endpoint's id.
    pub fn about_endpoint(id: &str, company: &CompanyId, kind: AuditKind, now: Timestamp) -> Self {
        AuditEvent { company_id: Some(company.as_str().into()), ..AuditEvent::claim(id, "", kind, now) }
    }

    /// An act on a company's account at a provider.
    pub fn about_account(provider: &str, company: &str, kind: AuditKind, now: Timestamp) -> Self {
        AuditEvent { provider: Some(provider.into()), ..AuditEvent::about_company(company, kind, now) }
    }

    pub fn attempt(mut self, number: u32) -> Self {
        self.decision.attempt = Some(number);
        self
    }

    pub fn failure(mut self, failure: &Failure) -> Self {
        self.decision.error_code.clone_from(&failure.code);
        self.decision.error_message = Some(failure.reason.as_str().into());
        self.decision.error_classification = Some(failure.class);
        self.decision.rule = Some(failure.rule.clone());
        self
    }

    pub fn retry_count(mut self, count: u32) -> Self {
        self.decision.retry_count = Some(count);
        self
    }

    pub fn backoff(mut self, delay: Duration, at: Timestamp) -> Self {
        self.decision.backoff_minutes = Some(whole_minutes(delay));
        self.decision.next_retry_time = Some(at);
        self
    }

    pub fn reason(mut self, reason: String) -> Self {
        self.decision.retry_reason = Some(reason.into());
        self
    }

    pub fn by(mut self, actor: Option<&str>) -> Self {
        self.actor = actor.map(Into::into);
        self
    }
}

/// Minutes, to the nearest.
pub fn whole_minutes(delay: Duration) -> u64 {
    (delay.as_secs() + 30) / 60
}
