//! A job that had to wait although it was due says so, however it was held back, and no other does.

use recado_store::prelude::*;
use std::sync::Arc;
use std::time::Duration;

use recado_core::limit::Rate;
use recado_core::{CompanyId, JobId, RouteName, Status};
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::admission::tenant_limits::TermsChange;
use recado_engine::attempt::worker_leases::{LeaseRequest, Report};
use recado_engine::{Carrier, ProviderAct, RouteAct, Submission};

use crate::flaky::{Flaky, mail, protected, restarted, sleep, to, with_breaker};
use crate::given::{Given, route, submission, submit};

async fn deferrals(given: &Given, id: &str) -> u32 {
    given.until(id, Status::Sent).await;
    given.view(id).await.job.progress.deferrals
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_an_open_breaker_is_one_deferral_even_over_a_restart_and_no_write() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let terms = [("mail", with_breaker())];
    let engine = protected(&given, vec![mail(&flaky)], &terms);
    submit(&engine, submission("before")).await;
    assert_eq!(deferrals(&given, "before").await, 0);
    engine
        .gate
        .act_on_provider("mail", ProviderAct::OpenBreaker, Some("their maintenance"), None)
        .await
        .unwrap();
    submit(&engine, submission("parked")).await;
    sleep(600).await;
    assert_eq!(given.view("parked").await.job.progress.deferrals, 0, "nothing was written");
    engine.stop().await.unwrap();
    let engine = restarted(&given, vec![mail(&flaky)], &terms).await;
    sleep(60).await;
    engine
        .gate
        .act_on_provider("mail", ProviderAct::CloseBreaker, Some("they are back"), None)
        .await
        .unwrap();
    assert_eq!(deferrals(&given, "parked").await, 1);
    submit(&engine, submission("after")).await;
    assert_eq!(deferrals(&given, "after").await, 0);
    let attempt = given.view("parked").await.job.attempts[0].clone();
    assert_eq!((attempt.provider.as_deref(), attempt.held_up), (Some("mail"), true));
}

#[tokio::test(start_paused = true)]
async fn a_paused_tenants_jobs_are_held_up_and_no_other_tenants() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let engine = protected(&given, vec![mail(&flaky)], &[]);
    let acme = CompanyId::new("acme").unwrap();
    let paused = |paused| TermsChange { paused: Some(paused), ..TermsChange::default() };
    engine.gate.set_tenant(&acme, paused(true), None).await.unwrap();
    submit(&engine, to("acme", "a")).await;
    submit(&engine, to("globex", "g")).await;
    assert_eq!(deferrals(&given, "g").await, 0);
    sleep(60).await;
    // Due while the lane is not looked at, and held up all the same.
    submit(&engine, to("acme", "b")).await;
    sleep(1).await;
    engine.gate.set_tenant(&acme, paused(false), None).await.unwrap();
    assert_eq!((deferrals(&given, "a").await, deferrals(&given, "b").await), (1, 1));
    submit(&engine, to("acme", "c")).await;
    assert_eq!(deferrals(&given, "c").await, 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_rate_leaves_over_is_held_up_and_what_it_lets_through_is_not() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let rate = Some(Rate { max: 2, per: Duration::from_secs(60) });
    let terms = ProviderTerms { rate, ..ProviderTerms::plain(8) };
    let engine = protected(&given, vec![mail(&flaky)], &[("mail", terms)]);
    for id in ["a", "b", "c"] {
        submit(&engine, submission(id)).await;
    }
    let mut counted = Vec::new();
    for id in ["a", "b", "c"] {
        counted.push(deferrals(&given, id).await);
    }
    counted.sort_unstable();
    assert_eq!(counted, [0, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_slot_is_waiting_for_a_turn() {
    let given = Given::new();
    let flaky = Arc::new(Flaky { latency: Duration::from_secs(10), ..Flaky::default() });
    let engine = protected(&given, vec![mail(&flaky)], &[("mail", ProviderTerms::plain(1))]);
    for id in ["a", "b"] {
        submit(&engine, submission(id)).await;
    }
    assert_eq!((deferrals(&given, "a").await, deferrals(&given, "b").await), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_expires_while_it_is_held_back_says_by_what_and_counts_it() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let engine = protected(&given, vec![mail(&flaky)], &[("mail", with_breaker())]);
    engine
        .gate
        .act_on_provider("mail", ProviderAct::OpenBreaker, Some("their maintenance"), None)
        .await
        .unwrap();
    submit(&engine, Submission { ttl: Some(Duration::from_secs(60)), ..submission("closed") }).await;
    given.until("closed", Status::Failed).await;
    engine
        .gate
        .act_on_provider("mail", ProviderAct::CloseBreaker, Some("they are back"), None)
        .await
        .unwrap();
    engine.gate.act_on_route("mail", RouteAct::Pause, Some("new release"), None).await.unwrap();
    submit(&engine, Submission { ttl: Some(Duration::from_secs(60)), ..submission("paused") }).await;
    given.until("paused", Status::Failed).await;
    for (id, why) in [
        ("closed", "it was held back: circuit breaker OPEN: their maintenance"),
        ("paused", "it was held back: route paused: new release"),
    ] {
        assert_eq!(given.view(id).await.job.progress.deferrals, 1, "{id}");
        let entry = given.store.dead_letter(&JobId::new(id).unwrap()).await.unwrap().unwrap();
        assert!(entry.failure.reason.as_str().contains(why), "{}", entry.failure.reason);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_gets_after_a_pause_was_held_up_and_names_its_provider() {
    let given = Given::new();
    let engine = protected(&given, vec![route("work", Carrier::Workers)], &[]);
    engine.gate.act_on_route("work", RouteAct::Pause, Some("new release"), Some("ana")).await.unwrap();
    submit(&engine, Submission { route: "work".to_owned(), ..submission("a") }).await;
    let request = LeaseRequest {
        routes: vec![RouteName::new("work").unwrap()],
        max: 1,
        wait: Duration::from_secs(60),
        lease: Duration::from_secs(30),
        worker_id: "w".into(),
    };
    let (leases, ()) = tokio::join!(engine.attempts.lease(&request), async {
        sleep(10).await;
        engine.gate.act_on_route("work", RouteAct::Resume, None, None).await.unwrap();
    });
    let token = leases.unwrap()[0].token;
    engine.attempts.report(vec![(token, Report::Succeeded { result: None })]).await.unwrap();
    assert_eq!(deferrals(&given, "a").await, 1);
    assert_eq!(given.view("a").await.job.attempts[0].provider.as_deref(), Some("work"));
}
