//! The situations that the tests start from.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{
    Attempt, AttemptResult, AuditEvent, AuditKind, BodyHash, Lease, NewJob, Random, RouteName, Transition,
};
use recado_store::{Claim, Pick, Settlement, Turns};
use recado_testkit::jobs::new_job;

pub use recado_testkit::jobs::T0;

/// A source of its own for every store: two nodes never draw the same fence.
pub fn random() -> Arc<Random> {
    Arc::new(Random::from_entropy())
}

pub const HOUR: Duration = Duration::from_secs(3_600);

/// A job of company `acme` for route `email`, due at once.
pub fn job(name: &str) -> NewJob {
    NewJob { body_hash: BodyHash(1), ..new_job(name, "email", r#"{"to":"ana"}"#, T0) }
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
