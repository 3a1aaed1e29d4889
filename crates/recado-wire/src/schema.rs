//! Schemas of the core's own words, written from the words themselves.

use recado_core::audit::AuditStep;
use recado_core::{AttemptResult, Blame, Cause, Class, DeadLetterState, Status};
use serde::Serialize;
use utoipa::openapi::schema::{Object, ObjectBuilder, Schema, SchemaType, Type};

use crate::problem::Code;

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

pub fn audit_step() -> Object {
    words([
        AuditStep::ErrorAnalysed,
        AuditStep::BackoffCalculated,
        AuditStep::RetryScheduled,
        AuditStep::RetryDecided,
        AuditStep::Delivered,
        AuditStep::Buried,
        AuditStep::LeaseLost,
        AuditStep::Cancelled,
        AuditStep::Replayed,
        AuditStep::Discarded,
        AuditStep::DeadLetterExpired,
    ])
}

fn words<T: Serialize>(values: impl IntoIterator<Item = T>) -> Object {
    let words = values.into_iter().filter_map(|value| serde_json::to_value(value).ok());
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.collect::<Vec<_>>())).build()
}
