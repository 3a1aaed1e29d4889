//! Jobs and failures that tests start from.

use std::time::Duration;

use recado_core::{
    Blame, BodyHash, Class, CompanyId, Failure, JobId, NewJob, Payload, Priority, Reason, RouteName,
    Timestamp,
};

/// 2025-01-12T10:30:00Z, when the tests of stores begin.
pub const T0: Timestamp = Timestamp::from_millis(1_736_677_800_000);

/// 2026-01-01T00:00:00Z, when the attempts of transports start.
pub const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// A job of company `acme`, due at once and worth an attempt for a day.
pub fn new_job(id: &str, route: &str, data: &str, now: Timestamp) -> NewJob {
    let data = Payload::new(data).expect("JSON");
    NewJob {
        id: JobId::new(id).expect("a name"),
        route: RouteName::new(route).expect("a name"),
        company: CompanyId::new("acme").expect("a name"),
        body_hash: BodyHash::of(&data, &[]).expect("JSON"),
        data,
        user_id: None,
        correlation_id: None,
        traceparent: None,
        priority: Priority::default(),
        enqueued_at: now,
        due_at: now,
        expires_at: now.plus(Duration::from_secs(24 * 3_600)),
    }
}

/// A permanent failure that is the message's own fault.
pub fn permanent_failure(code: Option<&str>, reason: &str) -> Failure {
    Failure {
        class: Class::Permanent,
        code: code.map(Into::into),
        reason: Reason::new(reason).expect("a reason"),
        rule: "smtp/5xx".into(),
        blame: Blame::Message,
        retry_after: None,
        asked_wait: None,
        uncertain: false,
        invalid_payload: false,
        stack_trace: None,
    }
}
