//! Breakers, rates, pauses and turns: what holds a lane back, and what it must not cost others.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use recado_core::breaker::{BreakerState, BreakerTerms};
use recado_core::limit::Rate;
use recado_core::{AttemptResult, CompanyId, EventKind, Fault, NetworkKind, RouteName, Status};
use recado_engine::admission::provider::{CompanySlots, ProviderTerms};
use recado_engine::admission::tenant_limits::TermsChange;
use recado_engine::{Carrier, Engine, Parts, ProviderAct, Random, Route, Routes, Submission};

use crate::flaky::{BREAKER, Flaky, protected, sleep, to, with_breaker};
use crate::given::{Given, Scripted, route, settings, submission, submit};

#[tokio::test(start_paused = true)]
async fn f1_jobs_of_an_open_provider_wait_and_spend_no_attempt() {
    let given = Given::new();
    let flaky = Flaky::down();
    let engine = protected(
        &given,
        vec![route("mail", Carrier::Transport(flaky.clone()))],
        &[("mail", with_breaker())],
    );
    let mut heard = engine.notifier.events.listen(None);
    for n in 0..50 {
        submit(&engine, submission(&format!("job-{n:02}"))).await;
    }
    sleep(110).await;
    assert_eq!(engine.gate.provider_view("mail").unwrap().breaker.state, BreakerState::Open);
    // Eight were on their way when it opened; no other was sent.
    assert_eq!(flaky.asked.lock().len(), 8);
    let mut untouched = 0;
    for n in 0..50 {
        untouched += usize::from(given.view(&format!("job-{n:02}")).await.job.progress.attempts_spent == 0);
    }
    assert_eq!(untouched, 42, "parked without spending an attempt");
    let opened = loop {
        let event = heard.receiver.recv().await.unwrap();
        if event.kind == EventKind::CircuitBreakerOpened {
            break event;
        }
    };
    assert_eq!(opened.data.provider.as_deref(), Some("mail"));
}

#[tokio::test(start_paused = true)]
async fn f1_exactly_one_probe_a_reset_time_reaches_a_broken_provider_and_recovery_lets_work_back_on_a_ramp() {
    let given = Given::new();
    let flaky = Flaky::down();
    let engine = protected(
        &given,
        vec![route("mail", Carrier::Transport(flaky.clone()))],
        &[("mail", with_breaker())],
    );
    for n in 0..200 {
        submit(&engine, submission(&format!("job-{n:03}"))).await;
    }
    sleep(10).await;
    let opened_at = engine.now();
    sleep(600).await;
    let probes = flaky.asked_since(opened_at);
    assert!((4..=5).contains(&probes.len()), "one every 120 s of 600: {probes:?}");
    for pair in probes.windows(2) {
        assert!(pair[1].since(pair[0]) >= Duration::from_secs(120), "{pair:?}");
    }
    flaky.down.store(false, Ordering::SeqCst);
    let back_at = engine.now();
    sleep(121).await;
    given.until("job-199", Status::Sent).await;
    assert_eq!(engine.gate.provider_view("mail").unwrap().breaker.state, BreakerState::Closed);
    let sent = flaky.asked_since(back_at);
    assert!(sent.len() >= 192, "all of them: {}", sent.len());
}

#[tokio::test(start_paused = true)]
async fn f1_a_broken_provider_holds_up_no_other() {
    let given = Given::new();
    let (broken, well) = (Flaky::down(), Arc::new(Scripted::default()));
    let engine = protected(
        &given,
        vec![route("mail", Carrier::Transport(broken)), route("other", Carrier::Transport(well.clone()))],
        &[("mail", with_breaker())],
    );
    for n in 0..100 {
        submit(&engine, submission(&format!("m-{n}"))).await;
    }
    sleep(5).await;
    let asked_at = engine.now();
    let other = Submission { route: "other".to_owned(), ..submission("o") };
    submit(&engine, other).await;
    given.until("o", Status::Sent).await;
    assert!(engine.now().since(asked_at) < Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn f1_a_restart_neither_closes_nor_resets_an_open_breaker() {
    let given = Given::new();
    let flaky = Flaky::down();
    let mail = || route("mail", Carrier::Transport(flaky.clone()));
    let engine = protected(&given, vec![mail()], &[("mail", with_breaker())]);
    for n in 0..20 {
        submit(&engine, submission(&format!("job-{n}"))).await;
    }
    sleep(5).await;
    let before = engine.gate.provider_view("mail").unwrap().breaker;
    assert_eq!(before.state, BreakerState::Open);
    engine.stop().await.unwrap();
    let mut parts = Parts::new(
        given.store.clone(),
        Routes::new([mail()]),
        settings(),
        given.clock.clone(),
        Random::from_seed(7),
    );
    parts.providers = [("mail".into(), with_breaker())].into();
    parts.read_back().await.unwrap();
    let asked = flaky.asked.lock().len();
    let engine = Engine::start(parts);
    sleep(30).await;
    assert_eq!(engine.gate.provider_view("mail").unwrap().breaker, before);
    assert_eq!(flaky.asked.lock().len(), asked, "the young process asked no provider");
}

#[tokio::test(start_paused = true)]
async fn only_the_providers_own_failures_open_its_breaker() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    *flaky.answer.lock() = Some(Fault::answer("550", "5.1.1 no such user"));
    let engine = protected(
        &given,
        vec![route("mail", Carrier::Transport(flaky.clone()))],
        &[("mail", with_breaker())],
    );
    for n in 0..50 {
        submit(&engine, submission(&format!("job-{n}"))).await;
    }
    given.until("job-49", Status::Failed).await;
    assert_eq!(engine.gate.provider_view("mail").unwrap().breaker.state, BreakerState::Closed);
    assert_eq!(flaky.asked.lock().len(), 50);
}

#[tokio::test(start_paused = true)]
async fn g16_no_more_go_out_than_the_providers_rate_allows() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let rate = Some(Rate { max: 100, per: Duration::from_secs(60) });
    let terms = ProviderTerms { rate, ..ProviderTerms::plain(5) };
    let engine =
        protected(&given, vec![route("mail", Carrier::Transport(flaky.clone()))], &[("mail", terms)]);
    for n in 0..400 {
        submit(&engine, submission(&format!("job-{n:03}"))).await;
    }
    sleep(59).await;
    assert_eq!(flaky.asked.lock().len(), 100);
    sleep(61).await;
    assert_eq!(flaky.asked.lock().len(), 200, "a hundred in each minute");
}

#[tokio::test(start_paused = true)]
async fn a_429_that_blames_the_provider_quiets_the_whole_provider_for_as_long_as_it_says() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let fault = Fault {
        retry_after: Some(Duration::from_secs(40)),
        ..Fault::answer("421", "4.7.28 rate limit exceeded, slow down")
    };
    *flaky.answer.lock() = Some(fault);
    let engine = protected(
        &given,
        vec![route("mail", Carrier::Transport(flaky.clone()))],
        &[("mail", ProviderTerms::plain(1))],
    );
    submit(&engine, to("acme", "a")).await;
    sleep(1).await;
    *flaky.answer.lock() = None;
    submit(&engine, to("globex", "b")).await;
    sleep(30).await;
    assert_eq!(flaky.asked.lock().len(), 1, "quiet, for every company");
    sleep(15).await;
    assert_eq!(given.view("b").await.status, Status::Sent);
}

#[tokio::test(start_paused = true)]
async fn g22_a_paused_tenant_waits_and_no_other_tenant_does() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::default());
    let engine = given.mail(&far_end);
    let acme = CompanyId::new("acme").unwrap();
    let paused = |paused| TermsChange { paused: Some(paused), ..TermsChange::default() };
    engine.gate.set_tenant(&acme, paused(true), None).await.unwrap();
    for n in 0..20 {
        submit(&engine, to("acme", &format!("a-{n}"))).await;
    }
    submit(&engine, to("globex", "g")).await;
    given.until("g", Status::Sent).await;
    sleep(60).await;
    assert_eq!(far_end.count(), 1);
    assert_eq!(engine.gate.hold("mail", "acme").unwrap().why, "tenant paused");
    engine.gate.set_tenant(&acme, paused(false), None).await.unwrap();
    given.until("a-19", Status::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn g22_a_tenants_own_rate_holds_over_all_it_sends() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::default());
    let engine = given.mail(&far_end);
    let acme = CompanyId::new("acme").unwrap();
    let terms = TermsChange { max_per_minute: Some(Some(6)), ..TermsChange::default() };
    engine.gate.set_tenant(&acme, terms, None).await.unwrap();
    for n in 0..40 {
        submit(&engine, to("acme", &format!("a-{n:02}"))).await;
    }
    sleep(59).await;
    assert_eq!(far_end.count(), 6);
    sleep(61).await;
    assert_eq!(far_end.count(), 12, "six in each minute");
}

#[tokio::test(start_paused = true)]
async fn while_the_first_providers_breaker_is_open_the_next_one_takes_over_and_the_attempt_says_so() {
    let given = Given::new();
    let (first, second) = (Flaky::down(), Arc::new(Flaky::default()));
    let mut mail = route("mail", Carrier::Transport(first.clone()));
    mail.others = vec![("backup".into(), second.clone())];
    let engine = protected(&given, vec![mail], &[("mail", with_breaker())]);
    for n in 0..40 {
        submit(&engine, submission(&format!("job-{n:02}"))).await;
    }
    sleep(30).await;
    let view = given.until("job-39", Status::Sent).await;
    assert_eq!(view.job.attempts.last().unwrap().provider.as_deref(), Some("backup"));
    assert_eq!(first.asked.lock().len(), 8, "what was on its way when it opened");
}

#[tokio::test(start_paused = true)]
async fn an_uncertain_outcome_never_fails_over_by_itself() {
    let given = Given::new();
    let (first, second) = (Arc::new(Flaky::default()), Arc::new(Flaky::default()));
    *first.answer.lock() = Some(Fault::network(NetworkKind::Dropped, "lost after sending"));
    let mut mail = route("mail", Carrier::Transport(first.clone()));
    mail.others = vec![("backup".into(), second.clone())];
    let one = BreakerTerms { failures: 1, ..BREAKER };
    let terms = ProviderTerms { breaker: Some(one), ..ProviderTerms::plain(8) };
    let engine = protected(&given, vec![mail], &[("mail", terms)]);
    submit(&engine, submission("a")).await;
    sleep(60).await;
    let view = given.view("a").await;
    assert_eq!(view.job.attempts[0].result, AttemptResult::Uncertain);
    assert_eq!(second.asked.lock().len(), 0, "the first one may have it");
    assert!(view.job.progress.deferrals > 0, "it stood back instead");
    *first.answer.lock() = None;
    sleep(130).await;
    assert_eq!(given.view("a").await.status, Status::Sent);
    assert_eq!(second.asked.lock().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn f3_the_same_breaker_serves_the_products_own_calls() {
    let given = Given::new();
    let engine = protected(
        &given,
        vec![route("mail", Carrier::Transport(Arc::new(Scripted::default())))],
        &[("mail", with_breaker())],
    );
    for _ in 0..5 {
        assert!(engine.gate.permit("mail").await.unwrap().permitted);
        engine.gate.record_call("mail", Err("my own call failed")).unwrap();
    }
    let refused = engine.gate.permit("mail").await.unwrap();
    assert_eq!((refused.permitted, refused.state), (false, BreakerState::Open));
    assert_eq!(refused.retry_after, Some(Duration::from_secs(120)));
    sleep(120).await;
    assert!(engine.gate.permit("mail").await.unwrap().permitted, "one probe");
    assert!(!engine.gate.permit("mail").await.unwrap().permitted, "and no second one");
    let view = engine.gate.record_call("mail", Ok(Duration::ZERO)).unwrap();
    assert_eq!(view.breaker.state, BreakerState::Closed);
    assert!(engine.gate.permit("unknown").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_a_person_opened_stays_open_until_a_person_closes_it() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::default());
    let engine = given.mail(&far_end);
    engine
        .gate
        .act_on_provider("mail", ProviderAct::OpenBreaker, Some("maintenance"), Some("ana"))
        .await
        .unwrap()
        .unwrap();
    let terms_less = engine.gate.provider_view("mail").unwrap();
    assert!(terms_less.breaker.held_open);
    assert!(
        engine
            .gate
            .act_on_provider("unknown", ProviderAct::OpenBreaker, Some("x"), None)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn a_paused_provider_is_not_asked_and_a_restart_keeps_it_so() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::default());
    let engine = given.mail(&far_end);
    engine
        .gate
        .act_on_provider("mail", ProviderAct::Pause, Some("audit"), Some("ana"))
        .await
        .unwrap()
        .unwrap();
    submit(&engine, submission("a")).await;
    sleep(60).await;
    assert_eq!(far_end.count(), 0);
    assert_eq!(engine.gate.hold("mail", "acme").unwrap().why, "paused: audit");
    engine.stop().await.unwrap();
    let routes = Routes::new([route("mail", Carrier::Transport(far_end.clone()))]);
    let mut parts =
        Parts::new(given.store.clone(), routes, settings(), given.clock.clone(), Random::from_seed(7));
    parts.read_back().await.unwrap();
    let engine = Engine::start(parts);
    sleep(60).await;
    assert_eq!(far_end.count(), 0);
    engine.gate.act_on_provider("mail", ProviderAct::Resume, None, None).await.unwrap().unwrap();
    given.until("a", Status::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn two_routes_of_one_provider_share_its_slots() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::slow(Duration::from_secs(1)));
    let provider =
        |name: &str| Route { provider: "shared".into(), ..route(name, Carrier::Transport(far_end.clone())) };
    let engine =
        protected(&given, vec![provider("one"), provider("two")], &[("shared", ProviderTerms::plain(5))]);
    for n in 0..20 {
        for name in ["one", "two"] {
            submit(&engine, Submission { route: name.to_owned(), ..submission(&format!("{name}-{n}")) })
                .await;
        }
    }
    given.until("one-19", Status::Sent).await;
    given.until("two-19", Status::Sent).await;
    assert_eq!(far_end.running_max.load(Ordering::SeqCst), 5);
}

#[tokio::test(start_paused = true)]
async fn one_company_may_not_take_all_slots_where_that_is_bounded() {
    let given = Given::new();
    let flaky = Arc::new(Flaky { latency: Duration::from_secs(10), ..Flaky::default() });
    let terms = ProviderTerms { company_slots: CompanySlots::AtMost(2), ..ProviderTerms::plain(8) };
    let engine =
        protected(&given, vec![route("mail", Carrier::Transport(flaky.clone()))], &[("mail", terms)]);
    submit(&engine, to("acme", "first")).await;
    sleep(1).await;
    for n in 0..20 {
        submit(&engine, to("acme", &format!("a-{n}"))).await;
    }
    sleep(5).await;
    assert_eq!(flaky.asked.lock().len(), 2);
    submit(&engine, to("globex", "g")).await;
    sleep(1).await;
    assert_eq!(flaky.asked.lock().last().unwrap().1, "globex");
}

#[tokio::test(start_paused = true)]
async fn adaptive_concurrency_rises_on_success_and_falls_on_throttling() {
    let given = Given::new();
    let flaky = Arc::new(Flaky { latency: Duration::from_millis(100), ..Flaky::default() });
    let terms = ProviderTerms { adaptive: true, ..ProviderTerms::plain(40) };
    let engine =
        protected(&given, vec![route("mail", Carrier::Transport(flaky.clone()))], &[("mail", terms)]);
    let bound = || engine.gate.provider_view("mail").unwrap().bound;
    assert_eq!(bound(), 10);
    for n in 0..4_000 {
        submit(&engine, submission(&format!("job-{n:04}"))).await;
    }
    sleep(5).await;
    let risen = bound();
    assert!((11..=40).contains(&risen), "{risen}");
    *flaky.answer.lock() = Some(Fault::answer("421", "4.7.28 rate limit exceeded"));
    sleep(1).await;
    assert!(bound() < risen, "{} is not below {risen}", bound());
}

#[tokio::test(start_paused = true)]
async fn e11_retries_do_not_drown_first_tries_while_a_provider_is_in_trouble() {
    let given = Given::new();
    let flaky = Flaky::down();
    let lenient = BreakerTerms { failures: 1_000_000, ..BREAKER };
    let terms = ProviderTerms { breaker: Some(lenient), ..ProviderTerms::plain(8) };
    let mut mail = route("mail", Carrier::Transport(flaky.clone()));
    mail.terms.policy =
        recado_core::Policy::exponential(Duration::from_secs(1), Duration::from_secs(1), 1_000);
    let engine = protected(&given, vec![mail], &[("mail", terms)]);
    for n in 0..1_000 {
        submit(&engine, submission(&format!("job-{n:04}"))).await;
    }
    sleep(60).await;
    let asked = flaky.asked.lock().len();
    // A thousand first tries, their credit of a fifth, the credit to start with, and ten a second.
    assert!(asked <= 1_000 + 200 + 100 + 10 * 62, "{asked}");
    let mut deferred = 0;
    for n in 0..1_000 {
        let progress = given.view(&format!("job-{n:04}")).await.job.progress;
        deferred += progress.deferrals;
        assert_eq!(progress.attempts_spent, progress.attempts_started, "standing back spends no attempt");
    }
    assert!(deferred > 0, "some stood back");
}

#[tokio::test(start_paused = true)]
async fn workers_are_held_back_like_deliveries_of_this_process() {
    let given = Given::new();
    let engine = protected(&given, vec![route("work", Carrier::Workers)], &[("work", with_breaker())]);
    submit(&engine, Submission { route: "work".to_owned(), ..submission("a") }).await;
    engine
        .gate
        .act_on_provider("work", ProviderAct::OpenBreaker, Some("closed"), None)
        .await
        .unwrap()
        .unwrap();
    let request = recado_engine::attempt::worker_leases::LeaseRequest {
        routes: vec![RouteName::new("work").unwrap()],
        max: 10,
        wait: Duration::from_secs(5),
        lease: Duration::from_secs(30),
        worker_id: "w".into(),
    };
    assert!(engine.attempts.lease(&request).await.unwrap().is_empty());
    engine
        .gate
        .act_on_provider("work", ProviderAct::CloseBreaker, Some("open again"), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(engine.attempts.lease(&request).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn f1_a_probe_that_found_nothing_to_send_is_there_for_the_next_job() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let mail = route("mail", Carrier::Transport(flaky.clone()));
    let engine = protected(&given, vec![mail], &[("mail", with_breaker())]);
    for _ in 0..5 {
        engine.gate.record_call("mail", Err("503")).unwrap();
    }
    sleep(125).await;
    assert_eq!(engine.gate.provider_view("mail").unwrap().breaker.state, BreakerState::HalfOpen);
    let asked_at = engine.now();
    submit(&engine, submission("a")).await;
    given.until("a", Status::Sent).await;
    assert!(
        engine.now().since(asked_at) < Duration::from_secs(1),
        "no job waits for a probe that never went"
    );
}

#[tokio::test(start_paused = true)]
async fn f1_what_was_sent_before_it_opened_says_nothing_while_the_probe_is_out() {
    let given = Given::new();
    let flaky = Arc::new(Flaky { latency: Duration::from_secs(20), ..Flaky::default() });
    let quick = BreakerTerms { reset: Duration::from_secs(5), ..BREAKER };
    let terms = ProviderTerms { breaker: Some(quick), ..ProviderTerms::plain(8) };
    let mail = route("mail", Carrier::Transport(flaky.clone()));
    let engine = protected(&given, vec![mail], &[("mail", terms)]);
    let state = || engine.gate.provider_view("mail").unwrap().breaker.state;
    submit(&engine, submission("straggler")).await;
    sleep(1).await;
    for _ in 0..5 {
        engine.gate.record_call("mail", Err("503")).unwrap();
    }
    submit(&engine, submission("probe")).await;
    sleep(10).await;
    assert_eq!((flaky.count(), state()), (2, BreakerState::HalfOpen), "the probe is out");
    flaky.is_down(true);
    sleep(11).await;
    assert_eq!(given.view("straggler").await.job.progress.attempts_spent, 1, "it has failed");
    assert_eq!(state(), BreakerState::HalfOpen, "and that is old news");
    flaky.is_down(false);
    sleep(5).await;
    assert_eq!(state(), BreakerState::Closed, "the probe decides");
}
