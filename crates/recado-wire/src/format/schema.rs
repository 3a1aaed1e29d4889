//! Schemas of the core's own words, written from the words themselves.

use recado_core::audit::AuditStep;
use recado_core::breaker::BreakerState;
use recado_core::{AttemptResult, AuditKind, Blame, Cause, Class, DeadLetterState, EventKind, Status};
use serde::Serialize;
use utoipa::openapi::schema::{KnownFormat, Object, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type};

use crate::format::problem::Code;

/// Any JSON at all.
pub fn any() -> Schema {
    Schema::Object(ObjectBuilder::new().schema_type(SchemaType::AnyValue).build())
}

pub fn code() -> Object {
    words(Code::ALL.iter().map(|code| code.as_str()))
}

pub fn status() -> Object {
    words(Status::ALL)
}

pub fn cause() -> Object {
    words(Cause::ALL)
}

pub fn class() -> Object {
    words([Class::Transient, Class::Permanent, Class::RateLimit, Class::Unknown])
}

pub fn blame() -> Object {
    words([Blame::Message, Blame::Credential, Blame::Provider])
}

pub fn attempt_result() -> Object {
    words([
        AttemptResult::Sent,
        AttemptResult::Partial,
        AttemptResult::Failed,
        AttemptResult::Uncertain,
        AttemptResult::Lost,
    ])
}

pub fn dead_letter_state() -> Object {
    words([DeadLetterState::Dead, DeadLetterState::Replaying])
}

pub fn breaker_state() -> Object {
    words([BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen])
}

pub fn audit_step() -> Object {
    words(AuditStep::all())
}

pub fn audit_kind() -> Object {
    words(AuditKind::ALL)
}

pub fn event_kind() -> Object {
    words(EventKind::ALL)
}

/// An event as the core writes it: a test holds the two together.
pub fn event() -> Object {
    let text = || ObjectBuilder::new().schema_type(Type::String).build();
    let number = || ObjectBuilder::new().schema_type(Type::Integer).build();
    let time = || {
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).build()
    };
    let data = ObjectBuilder::new()
        .description(Some("Each kind fills what it knows."))
        .property("jobId", text())
        .property("claimId", text())
        .property("route", text())
        .property("userId", text())
        .property("correlationId", text())
        .property("status", text())
        .property("attempt", number())
        .property("retryCount", number())
        .property("errorCode", text())
        .property("lastError", text())
        .property("errorClassification", class())
        .property("rule", text())
        .property("blame", blame())
        .property("cause", cause())
        .property("mayHaveArrived", number())
        .property("advice", text())
        .property("advicePt", text())
        .property("nextRetryTime", time())
        .property("nextRetryDelayMs", number())
        .property("backoffMinutes", number())
        .property("provider", text())
        .property("endpointId", text())
        .property("failures", number())
        .property("actor", text())
        .property("reason", text())
        .property("alert", text())
        .property("severity", text())
        .property("since", time())
        .property("reasonPt", text())
        .property("runbook", text());
    ObjectBuilder::new()
        .property("id", text())
        .property("type", event_kind())
        .property("timestamp", time())
        .property("companyId", text())
        .property("data", data)
        .required("id")
        .required("type")
        .required("timestamp")
        .required("data")
        .build()
}

fn words<T: Serialize>(values: impl IntoIterator<Item = T>) -> Object {
    let words = values.into_iter().filter_map(|value| serde_json::to_value(value).ok());
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.collect::<Vec<_>>())).build()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use recado_core::{CompanyId, Event, EventAlert, EventData, EventJob, EventOutcome, Timestamp};
    use serde_json::Value;

    use super::*;

    fn names(value: &Value) -> BTreeSet<String> {
        value.as_object().into_iter().flat_map(|members| members.keys().cloned()).collect()
    }

    #[test]
    fn t20_an_event_is_described_with_every_field_that_it_has() {
        let (text, now) = (|| Some("x".into()), Timestamp::from_millis(0));
        let data = EventData {
            job: EventJob {
                job_id: text(),
                claim_id: text(),
                route: text(),
                user_id: text(),
                correlation_id: text(),
            },
            status: text(),
            outcome: EventOutcome {
                attempt: Some(1),
                retry_count: Some(1),
                error_code: text(),
                last_error: text(),
                error_classification: Some(Class::Transient),
                rule: text(),
                blame: Some(Blame::Provider),
                cause: Some(Cause::Exhausted),
                may_have_arrived: Some(1),
                advice: text(),
                advice_pt: text(),
                next_retry_time: Some(now),
                next_retry_delay_ms: Some(1),
                backoff_minutes: Some(1),
            },
            provider: text(),
            endpoint_id: text(),
            failures: Some(1),
            actor: text(),
            reason: text(),
            alert: EventAlert {
                name: text(),
                severity: text(),
                since: Some(now),
                reason_pt: text(),
                runbook: text(),
            },
        };
        let company = Some(CompanyId::trusted("acme"));
        let event = Event::new(EventKind::JobFailed, company, &["x"], now, data);
        let event = serde_json::to_value(event).expect("an event is JSON");
        let described = serde_json::to_value(super::event()).expect("a schema is JSON");
        assert_eq!(names(&described["properties"]), names(&event));
        assert_eq!(names(&described["properties"]["data"]["properties"]), names(&event["data"]));
    }
}
