//! A job's audit trail.

use recado_core::audit::AuditStep;
use recado_core::{AuditEvent, Class, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditTrail {
    /// Oldest first.
    pub items: Vec<AuditItem>,
}

/// One step on the trail: the nine fields of seed 003, always there, and who, what and where beside them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditItem {
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::audit_step))]
    pub event: AuditStep,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub timestamp: Timestamp,
    /// The claim, or the job that stands for it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub claim_id: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub job_id: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub company_id: Option<Box<str>>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub route: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub error_message: Option<Box<str>>,
    pub retry_count: Option<u32>,
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::class))]
    pub error_classification: Option<Class>,
    pub backoff_minutes: Option<u64>,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub next_retry_time: Option<Timestamp>,
    pub should_retry: Option<bool>,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub retry_reason: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub rule: Option<Box<str>>,
    /// Who did it, when a person did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub actor: Option<Box<str>>,
}

impl AuditTrail {
    /// Spells stored records out: each stands for one or more steps.
    pub fn of(records: &[AuditEvent]) -> Self {
        let steps = |record: &AuditEvent| {
            let item = |event: &AuditStep| AuditItem::of(record, *event);
            record.kind.events().iter().map(item).collect::<Vec<_>>()
        };
        AuditTrail { items: records.iter().flat_map(steps).collect() }
    }
}

impl AuditItem {
    fn of(record: &AuditEvent, event: AuditStep) -> Self {
        AuditItem {
            event,
            timestamp: record.timestamp,
            claim_id: record.claim_id.clone(),
            job_id: record.job_id.clone(),
            company_id: record.company_id.clone(),
            route: record.route.clone(),
            attempt: record.attempt,
            error_message: record.error_message.clone(),
            retry_count: record.retry_count,
            error_classification: record.error_classification,
            backoff_minutes: record.backoff_minutes,
            next_retry_time: record.next_retry_time,
            should_retry: record.should_retry,
            retry_reason: record.retry_reason.clone(),
            rule: record.rule.clone(),
            actor: record.actor.clone(),
        }
    }
}
