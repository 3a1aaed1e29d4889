//! A route's fallback while every provider's breaker is open.

use recado_store::prelude::*;
use std::sync::Arc;
use std::time::Duration;

use recado_core::breaker::BreakerState;
use recado_core::{Cause, CompanyId, EventKind, Job, JobId, Status};
use recado_engine::admission::tenant_limits::TermsChange;
use recado_engine::{Act, Carrier, Engine, Fallback, ProviderAct, Route, RouteAct};
use recado_store::{StoreError, Wakes};
use recado_store_conformance::faulty::Verb;

use crate::flaky::{Flaky, mail, node, protected, sleep, submit_many, to, with_breaker};
use crate::given::{Given, Scripted, route, submission, submit};

fn falling_back(flaky: &Arc<Flaky>, act: Act) -> Route {
    let fallback = Fallback { act, on_open: true, ..Fallback::default() };
    Route { fallback, ..mail(flaky) }
}

/// An engine whose one provider has an open breaker, after five failures.
fn with_open_breaker(given: &Given, route: Route) -> Engine {
    let engine = protected(given, vec![route], &[("mail", with_breaker())]);
    for _ in 0..5 {
        engine.gate.record_call("mail", Err("503 down")).unwrap();
    }
    assert_eq!(engine.gate.provider_view("mail").unwrap().breaker.state, BreakerState::Open);
    engine
}

fn untried(job: &Job) -> bool {
    (job.progress.attempts_started, job.progress.attempts_spent) == (0, 0)
}

#[tokio::test(start_paused = true)]
async fn f12_publishing_is_given_up_at_once_while_the_breaker_is_open() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let engine = with_open_breaker(&given, falling_back(&flaky, Act::MarkFailed));
    let mut heard = engine.notifier.events.listen(None);
    submit_many(&engine, 300).await;
    sleep(1).await;
    for n in [0, 299] {
        let view = given.until(&format!("job-{n:04}"), Status::Failed).await;
        assert!(untried(&view.job), "no attempt is spent");
    }
    let id = JobId::new("job-0299").unwrap();
    let letter = given.store.dead_letter(&id).await.unwrap().unwrap();
    assert_eq!((letter.cause, letter.failure.code.as_deref()), (Cause::Fallback, Some("CIRCUIT_OPEN")));
    assert_eq!(letter.failure.reason.as_str(), "not sent: circuit breaker OPEN: 503 down");
    assert_eq!(flaky.count(), 0);
    let told = std::iter::from_fn(|| heard.receiver.try_recv().ok());
    assert_eq!(told.filter(|event| event.kind == EventKind::JobFailed).count(), 300, "the user hears of it");
    // When the reset time is over, the next job is the probe, and everything is as before.
    sleep(120).await;
    submit(&engine, submission("probe")).await;
    given.until("probe", Status::Sent).await;
    submit(&engine, submission("next")).await;
    given.until("next", Status::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn f12_collecting_is_put_off_while_the_breaker_is_open_and_spends_no_attempt() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let engine = with_open_breaker(&given, falling_back(&flaky, Act::Reschedule(Duration::from_secs(900))));
    submit(&engine, submission("a")).await;
    sleep(1).await;
    let job = given.view("a").await.job;
    assert!(untried(&job) && job.progress.deferrals == 1, "{:?}", job.progress);
    assert!(job.due_at.since(engine.now()) > Duration::from_secs(890), "{}", job.due_at);
    sleep(880).await;
    assert_eq!(flaky.count(), 0);
    given.until("a", Status::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn f12_renewing_a_token_marks_the_account_while_the_breaker_is_open() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let engine = with_open_breaker(&given, falling_back(&flaky, Act::MarkAccount));
    submit(&engine, submission("a")).await;
    let view = given.until("a", Status::Failed).await;
    sleep(1).await;
    assert!(untried(&view.job));
    let accounts = engine.notifier.accounts.list(Some("acme"));
    assert_eq!((accounts.len(), &*accounts[0].status), (1, "token_expired"));
}

#[tokio::test(start_paused = true)]
async fn f12_jobs_wait_without_a_fallback_and_with_one_that_concerns_calls_only() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let plain = mail(&flaky);
    let cached = Route {
        name: recado_core::RouteName::new("figures").unwrap(),
        provider: "mail".into(),
        ..falling_back(&flaky, Act::Cached)
    };
    let engine = protected(&given, vec![plain, cached], &[("mail", with_breaker())]);
    engine
        .gate
        .act_on_provider("mail", ProviderAct::OpenBreaker, Some("maintenance"), None)
        .await
        .unwrap()
        .unwrap();
    submit(&engine, submission("a")).await;
    submit(&engine, recado_engine::Submission { route: "figures".to_owned(), ..submission("b") }).await;
    sleep(600).await;
    for id in ["a", "b"] {
        let view = given.view(id).await;
        assert_eq!((view.status, view.job.progress.deferrals), (Status::Queued, 0), "{id}");
        assert!(engine.gate.hold(view.job.route.as_str(), "acme").unwrap().why.contains("maintenance"));
    }
}

#[tokio::test(start_paused = true)]
async fn f12_a_route_with_a_second_provider_falls_back_only_when_both_breakers_are_open() {
    let given = Given::new();
    let (first, second) = (Flaky::down(), Arc::new(Scripted::default()));
    let route =
        Route { others: vec![("backup".into(), second.clone())], ..falling_back(&first, Act::MarkFailed) };
    let worker = crate::given::route("other", Carrier::Workers);
    let terms = [("mail", with_breaker()), ("backup", with_breaker())];
    let engine = protected(&given, vec![route, worker], &terms);
    engine.gate.act_on_provider("mail", ProviderAct::OpenBreaker, Some("down"), None).await.unwrap().unwrap();
    submit(&engine, submission("a")).await;
    given.until("a", Status::Sent).await;
    engine
        .gate
        .act_on_provider("backup", ProviderAct::OpenBreaker, Some("down, too"), None)
        .await
        .unwrap()
        .unwrap();
    submit(&engine, submission("b")).await;
    given.until("b", Status::Failed).await;
    assert_eq!((first.count(), second.count()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn f12_a_paused_companys_jobs_wait_even_so_and_no_rate_slows_the_others() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let engine = with_open_breaker(&given, falling_back(&flaky, Act::MarkFailed));
    let set = async |company: &str, change| {
        engine.gate.set_tenant(&CompanyId::new(company).unwrap(), change, None).await.unwrap();
    };
    set("acme", TermsChange { paused: Some(true), ..TermsChange::default() }).await;
    set("globex", TermsChange { max_per_minute: Some(Some(1)), ..TermsChange::default() }).await;
    submit(&engine, to("acme", "waits")).await;
    for n in 0..20 {
        submit(&engine, to("globex", &format!("g-{n}"))).await;
    }
    sleep(1).await;
    for n in 0..20 {
        assert_eq!(given.view(&format!("g-{n}")).await.status, Status::Failed);
    }
    assert_eq!(given.view("waits").await.status, Status::Queued);
}

#[tokio::test(start_paused = true)]
async fn f12_jobs_for_workers_fall_back_like_all_others() {
    let given = Given::new();
    let fallback = Fallback { on_open: true, ..Fallback::default() };
    let work = Route { fallback, ..route("work", Carrier::Workers) };
    let engine = protected(&given, vec![work], &[("work", with_breaker())]);
    engine
        .gate
        .act_on_provider("work", ProviderAct::OpenBreaker, Some("maintenance"), None)
        .await
        .unwrap()
        .unwrap();
    submit(&engine, recado_engine::Submission { route: "work".to_owned(), ..submission("a") }).await;
    let view = given.until("a", Status::Failed).await;
    assert!(untried(&view.job));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_read_what_the_others_wrote_gives_no_job_up() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let flaky = Arc::new(Flaky::default());
    let route = || vec![falling_back(&flaky, Act::MarkFailed)];
    let terms = [("mail", with_breaker())];
    let (a, _) = node(&given, &wakes, "a", route(), &terms).await;
    let (b, store) = node(&given, &wakes, "b", route(), &terms).await;
    for _ in 0..5 {
        a.gate.record_call("mail", Err("503 down")).unwrap();
    }
    sleep(2).await;
    let state = |engine: &Engine| engine.gate.provider_view("mail").unwrap().breaker.state;
    assert_eq!((state(&a), state(&b)), (BreakerState::Open, BreakerState::Open));
    let gone = StoreError::Unavailable("gone".to_owned());
    store.fail(Verb::KvRead, 0, usize::MAX, gone);
    a.gate.act_on_route("mail", RouteAct::Pause, None, None).await.unwrap();
    sleep(6).await;
    submit(&b, submission("during-a-pause")).await;
    sleep(30).await;
    assert!(store.fired(Verb::KvRead) > 0, "b tried to find out");
    let view = given.store.job(&JobId::new("during-a-pause").unwrap(), b.now()).await.unwrap().unwrap();
    assert_eq!(view.status, Status::Queued, "b cannot know that nothing is paused");
    a.gate.act_on_route("mail", RouteAct::Resume, None, None).await.unwrap();
    given.until("during-a-pause", Status::Failed).await;
}
