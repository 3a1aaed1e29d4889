//! The situations that the tests start from.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{
    Attempt, AttemptResult, AuditEvent, AuditKind, BodyHash, CompanyId, JobId, Lease, NewJob, Payload,
    Priority, Random, RouteName, Timestamp, Transition,
};
use recado_store::{Claim, Pick, Settlement, Turns};

/// A source of its own for every store: two nodes never draw the same fence.
pub fn random() -> Arc<Random> {
    Arc::new(Random::from_entropy())
}

pub const T0: Timestamp = Timestamp::from_millis(1_736_677_800_000);
pub const HOUR: Duration = Duration::from_secs(3_600);

/// A job of company `acme` for route `email`, due at once.
pub fn job(name: &str) -> NewJob {
    NewJob {
        id: JobId::new(name).unwrap(),
        route: RouteName::new("email").unwrap(),
        company: CompanyId::new("acme").unwrap(),
        data: Payload::new(r#"{"to":"ana"}"#).unwrap(),
        user_id: None,
        correlation_id: None,
        traceparent: None,
        priority: Priority::default(),
        enqueued_at: T0,
        due_at: T0,
        expires_at: T0.plus(HOUR * 24),
        body_hash: BodyHash(1),
    }
}

pub fn jobs(names: std::ops::Range<usize>) -> Vec<NewJob> {
    names.map(|n| job(&format!("job-{n}"))).collect()
}

pub fn claim(max: usize) -> Claim {
    Claim {
        pick: Pick::Ready(RouteName::new("email").unwrap()),
        max,
        now: T0,
        lease_until: T0.plus(HOUR),
        worker: "node".into(),
        provider: None,
        outlives_process: false,
        turns: Turns::default(),
    }
}

pub fn delivered(lease: &Lease) -> Settlement {
    let attempt = Attempt::ended(lease.attempt, T0, T0, AttemptResult::Sent);
    Settlement {
        token: lease.token,
        transition: Transition::Deliver { attempt, answer: None },
        audit: Some(AuditEvent::about(&lease.job, AuditKind::Delivered, T0)),
        now: T0,
        follow_ups: Vec::new(),
    }
}
