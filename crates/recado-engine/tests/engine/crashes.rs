//! Holders that vanish, and jobs that make them.

use recado_store::prelude::*;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{AttemptResult, Cause, JobId, RouteName, Status};
use recado_engine::{Carrier, Clock};
use recado_store::{Claim, Pick, Turns};

use crate::given::{Given, Scripted, route, submission, submit};

/// Takes the next job of `mail` as a process that is about to die would.
async fn take_and_vanish(given: &Given) {
    take_for_and_vanish(given, None).await;
}

/// The same by a process that was about to ask this provider.
pub async fn take_for_and_vanish(given: &Given, provider: Option<&str>) {
    let now = given.clock.now();
    let claim = Claim {
        pick: Pick::Ready(RouteName::new("mail").unwrap()),
        max: 1,
        now,
        lease_until: now.plus(Duration::from_secs(15)),
        worker: "doomed".into(),
        provider: provider.map(Into::into),
        outlives_process: false,
        turns: Turns::default(),
    };
    assert_eq!(given.store.claim(claim).await.unwrap().leases.len(), 1, "the fault fired: the job is leased");
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_holder_vanished_runs_again_within_the_lease_and_a_second() {
    let given = Given::new();
    // Accepted while the route has no carrier, so that the doomed holder gets it.
    let engine = given.engine([route("mail", Carrier::Workers)]);
    submit(&engine, submission("a")).await;
    take_and_vanish(&given).await;
    let vanished_at = given.clock.now();

    let far_end = Arc::new(Scripted::default());
    let _second = given.mail(&far_end);
    let view = given.until("a", Status::Sent).await;
    let [lost, sent] = &view.job.attempts[..] else { panic!("two attempts: {:?}", view.job.attempts) };
    assert_eq!((lost.result, sent.result), (AttemptResult::Lost, AttemptResult::Sent));
    assert_eq!((lost.number, sent.number), (1, 2));
    assert_eq!(view.job.progress.attempts_spent, 1, "a vanished holder spends no attempt");
    let waited = sent.started_at.since(vanished_at);
    assert!(waited <= Duration::from_secs(16), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_keeps_losing_its_holder_is_buried_as_poison() {
    let given = Given::new();
    let engine = given.engine([route("mail", Carrier::Workers)]);
    submit(&engine, submission("a")).await;
    for _ in 0..5 {
        while given.view("a").await.status == Status::Delivering
            || given.view("a").await.job.due_at > given.clock.now()
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        take_and_vanish(&given).await;
    }
    given.until("a", Status::Failed).await;
    let entry = engine.inspect().dead_letter(&JobId::new("a").unwrap()).await.unwrap().unwrap();
    assert_eq!(entry.cause, Cause::Exhausted);
    assert_eq!(entry.failure.code.as_deref(), Some("POISON"));
    assert_eq!(entry.attempts.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_slow_delivery_keeps_its_lease_by_heartbeat() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::slow(Duration::from_secs(25)));
    let engine = given.mail(&far_end);
    submit(&engine, submission("a")).await;
    let view = given.until("a", Status::Sent).await;
    assert_eq!(far_end.count(), 1, "25 s outlast a lease of 15 s, and no other took the job");
    assert_eq!(view.job.attempts.len(), 1);
}
