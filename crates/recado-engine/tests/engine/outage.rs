//! A provider is down for ten minutes, in virtual time, with thousands of jobs waiting.

use std::sync::Arc;
use std::time::Duration;

use recado_core::breaker::BreakerState;
use recado_core::limit::Rate;
use recado_core::{Fault, Status, rules};
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::{Route, Settings};
use recado_store::Retention;

use crate::flaky::{BREAKER, Flaky, mail, protected, protected_with, sleep, submit_many, to, with_breaker};
use crate::given::{Given, settings, submit};

const JOBS: usize = 5_000;
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn f1_ten_minutes_of_outage_cost_one_probe_a_reset_time_and_no_waiting_job_an_attempt() {
    let given = Given::new();
    let latency = Duration::from_millis(20);
    let flaky = Arc::new(Flaky { latency, down: true.into(), ..Flaky::default() });
    let rate = Some(Rate { max: 2_000, per: MINUTE });
    let terms = [("mail", ProviderTerms { rate, ..with_breaker() })];
    let retention = Retention { ended_max_count: JOBS as u64, ..settings().retention };
    let engine = protected_with(&given, Settings { retention, ..settings() }, vec![mail(&flaky)], &terms);
    submit_many(&engine, JOBS).await;
    sleep(1).await;
    assert_eq!(engine.gate.provider_view("mail").unwrap().breaker.state, BreakerState::Open);
    assert_eq!(flaky.count(), 8, "what was on its way when it opened");
    let opened_at = engine.now();
    sleep(595).await;
    let probes = flaky.asked_since(opened_at);
    assert_eq!(probes.len(), 4, "one each 120 s of 600: {probes:?}");
    assert!(probes.windows(2).all(|pair| pair[1].since(pair[0]) >= BREAKER.reset), "{probes:?}");
    flaky.is_down(false);
    let back_at = engine.now();
    // The fifth probe closes it, and the ramp begins.
    sleep(10).await;
    let ramping = flaky.asked_since(back_at);
    assert!(!ramping.is_empty() && ramping.len() < 8 * 500, "not all at once: {}", ramping.len());
    given.until(&format!("job-{:04}", JOBS - 1), Status::Sent).await;
    sleep(60).await;
    assert!(flaky.most_within(MINUTE) <= 2_000, "{}", flaky.most_within(MINUTE));
    let mut failed_attempts = 0;
    for n in 0..JOBS {
        let view = given.view(&format!("job-{n:04}")).await;
        assert_eq!(view.status, Status::Sent, "{n}");
        failed_attempts += view.job.progress.attempts_spent - 1;
    }
    assert_eq!(failed_attempts, 8 + 4, "only what was really tried was spent");
}

#[tokio::test(start_paused = true)]
async fn a_daily_quota_that_is_used_up_quiets_the_provider_for_an_hour_and_spends_no_attempts() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    *flaky.answer.lock() = Some(Fault::answer("Throttling", "Daily message quota exceeded"));
    let ses = Route { classifier: rules::named("ses").unwrap(), ..mail(&flaky) };
    let engine = protected(&given, vec![ses], &[("mail", ProviderTerms::plain(1))]);
    submit(&engine, to("acme", "first")).await;
    sleep(1).await;
    for n in 0..20 {
        submit(&engine, to("globex", &format!("g-{n}"))).await;
    }
    sleep(3_000).await;
    assert_eq!(flaky.count(), 1, "one was enough to know");
    let hold = engine.gate.hold("mail", "globex").unwrap();
    assert_eq!(hold.why, "the provider asked for quiet: Throttling: Daily message quota exceeded");
    assert!(hold.until.unwrap().since(engine.now()) > Duration::from_secs(500));
    *flaky.answer.lock() = None;
    for id in ["first", "g-19"] {
        given.until(id, Status::Sent).await;
    }
    let tried = |view: recado_store::JobView| view.job.progress.attempts_spent;
    assert_eq!((tried(given.view("first").await), tried(given.view("g-19").await)), (2, 1));
}
