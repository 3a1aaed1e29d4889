//! A shortage of our own is no failure of a job, of a provider or of an endpoint.

use recado_store::prelude::*;
use std::sync::Arc;
use std::time::Duration;

use recado_core::breaker::{BreakerState, BreakerTerms};
use recado_core::{Cause, Fault, JobId, Status};
use recado_engine::Submission;
use recado_engine::admission::provider::ProviderTerms;

use crate::flaky::{BREAKER, Flaky, mail, protected, sleep};
use crate::given::{Given, submission, submit};

fn without_descriptors() -> Arc<Flaky> {
    let flaky = Flaky::default();
    *flaky.answer.lock() = Some(Fault::shortage("no free file descriptor"));
    Arc::new(flaky)
}

/// Opens at the first failure.
fn touchy() -> [(&'static str, ProviderTerms); 1] {
    let breaker = BreakerTerms { failures: 1, ..BREAKER };
    [("mail", ProviderTerms { breaker: Some(breaker), ..ProviderTerms::plain(8) })]
}

#[tokio::test(start_paused = true)]
async fn a_shortage_spends_no_attempt_and_moves_no_breaker() {
    let given = Given::new();
    let flaky = without_descriptors();
    let engine = protected(&given, vec![mail(&flaky)], &touchy());
    submit(&engine, submission("a")).await;
    sleep(120).await;
    let asked = flaky.count();
    assert!((3..=12).contains(&asked), "it was tried {asked} times in two minutes");
    let view = given.view("a").await;
    assert_eq!((view.job.attempts.len(), view.job.progress.attempts_spent), (0, 0));
    assert_eq!(view.job.progress.deferrals as usize, asked);
    let provider = engine.gate.provider_view("mail").unwrap();
    assert_eq!(
        (provider.breaker.state, provider.failures_in_window, provider.running),
        (BreakerState::Closed, 0, 0)
    );
    assert!(engine.gauges.prometheus().await.contains(&format!("recado_local_shortages_total {asked}")));

    *flaky.answer.lock() = None;
    let view = given.until("a", Status::Sent).await;
    assert_eq!((view.job.attempts.len(), view.job.progress.attempts_spent), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_shortage_that_outlasts_a_job_is_the_reason_of_its_dead_letter() {
    let given = Given::new();
    let flaky = without_descriptors();
    let engine = protected(&given, vec![mail(&flaky)], &touchy());
    submit(&engine, Submission { ttl: Some(Duration::from_secs(300)), ..submission("a") }).await;
    given.until("a", Status::Failed).await;
    let entry = given.store.dead_letter(&JobId::new("a").unwrap()).await.unwrap().unwrap();
    assert_eq!((entry.cause, entry.failure.code.as_deref()), (Cause::Expired, Some("LOCAL_SHORTAGE")));
    assert!(entry.failure.reason.as_str().contains("no free file descriptor"), "{}", entry.failure.reason);
    assert_eq!(entry.attempts.len(), 0);
}
