//! Acts of operators on providers, routes and companies: they hold, they last, and they are on record.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{AuditKind, CompanyId, Status};
use recado_engine::admission::provider::{CompanySlots, ProviderTerms};
use recado_engine::admission::tenant_limits::{TenantTerms, TermsChange};
use recado_engine::attempt::calls::{Call, Called};
use recado_engine::attempt::worker_leases::LeaseRequest;
use recado_engine::{Carrier, HoldCause, LimitKind, PauseScope, ProviderAct, Route, RouteAct, Submission};
use recado_store::{StoreError, Wakes};
use recado_store_conformance::faulty::Verb;

use crate::flaky::{Flaky, mail, node, protected, restarted, sleep, to};
use crate::given::{Given, route, submission, submit};

fn acme() -> CompanyId {
    CompanyId::new("acme").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_paused_route_waits_alone_and_a_restart_keeps_it_so() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let other = || Route { provider: "mail".into(), ..route("other", mail(&flaky).carrier) };
    let engine = protected(&given, vec![mail(&flaky), other()], &[]);
    assert!(
        engine.gate.act_on_route("mail", RouteAct::Pause, Some("wrong template"), Some("ana")).await.unwrap()
    );
    assert!(!engine.gate.act_on_route("unknown", RouteAct::Pause, None, None).await.unwrap());
    submit(&engine, submission("a")).await;
    submit(&engine, Submission { route: "other".to_owned(), ..submission("b") }).await;
    given.until("b", Status::Sent).await;
    sleep(60).await;
    let hold = engine.gate.hold("mail", "acme").unwrap();
    assert_eq!(hold.why, "route paused: wrong template");
    let HoldCause::Pause(PauseScope::Route, pause) = hold.by else { panic!("{:?}", hold.by) };
    assert_eq!((pause.reason.as_deref(), pause.actor.as_deref()), (Some("wrong template"), Some("ana")));
    assert_eq!(given.view("a").await.job.progress.attempts_started, 0);
    engine.stop().await.unwrap();
    let engine = restarted(&given, vec![mail(&flaky), other()], &[]).await;
    let pause = engine.gate.pause_of(&mail(&flaky).name).unwrap();
    assert_eq!((pause.reason.as_deref(), pause.actor.as_deref()), (Some("wrong template"), Some("ana")));
    sleep(60).await;
    assert_eq!(flaky.count(), 1);
    engine.gate.act_on_route("mail", RouteAct::Resume, None, None).await.unwrap();
    given.until("a", Status::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_polls_a_paused_route_gets_its_jobs_as_soon_as_it_goes_on() {
    let given = Given::new();
    let engine = protected(&given, vec![route("work", Carrier::Workers)], &[]);
    submit(&engine, Submission { route: "work".to_owned(), ..submission("a") }).await;
    engine.gate.act_on_route("work", RouteAct::Pause, None, None).await.unwrap();
    let request = LeaseRequest {
        routes: vec![recado_core::RouteName::new("work").unwrap()],
        max: 10,
        wait: Duration::from_secs(60),
        lease: Duration::from_secs(30),
        worker_id: "w".into(),
    };
    let asked_at = engine.now();
    let (leases, ()) = tokio::join!(engine.attempts.lease(&request), async {
        sleep(10).await;
        engine.gate.act_on_route("work", RouteAct::Resume, None, None).await.unwrap();
    });
    assert_eq!(leases.unwrap().len(), 1);
    assert!(engine.now().since(asked_at) < Duration::from_secs(11));
}

#[tokio::test(start_paused = true)]
async fn every_act_of_an_operator_is_on_record_with_who_and_why() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let flaky = Arc::new(Flaky::default());
    let (engine, store) = node(&given, &wakes, "a", vec![mail(&flaky)], &[]).await;
    engine
        .gate
        .act_on_provider("mail", ProviderAct::OpenBreaker, Some("their maintenance"), Some("ana"))
        .await
        .unwrap();
    engine
        .gate
        .act_on_provider("mail", ProviderAct::CloseBreaker, Some("they are back"), Some("ana"))
        .await
        .unwrap();
    engine.gate.act_on_provider("mail", ProviderAct::Pause, Some("new key"), Some("bea")).await.unwrap();
    engine.gate.act_on_provider("mail", ProviderAct::Resume, None, Some("bea")).await.unwrap();
    engine.gate.act_on_route("mail", RouteAct::Pause, Some("template"), Some("rui")).await.unwrap();
    engine.gate.act_on_route("mail", RouteAct::Resume, None, Some("rui")).await.unwrap();
    let reason = Some("pays for it".into());
    let change = TermsChange { weight: Some(3), max_per_minute: Some(Some(60)), paused: Some(true), reason };
    engine.gate.set_tenant(&acme(), change, Some("ana")).await.unwrap();
    let resumed = TermsChange { paused: Some(false), ..TermsChange::default() };
    engine.gate.set_tenant(&acme(), resumed, Some("ana")).await.unwrap();
    let recorded = store.recorded();
    let shown: Vec<_> = recorded
        .iter()
        .map(|act| {
            (act.kind, act.actor.as_deref().unwrap_or(""), act.decision.retry_reason.as_deref().unwrap_or(""))
        })
        .collect();
    let expected = [
        (AuditKind::BreakerOpened, "ana", "their maintenance"),
        (AuditKind::BreakerClosed, "ana", "they are back"),
        (AuditKind::ProviderPaused, "bea", "new key"),
        (AuditKind::ProviderResumed, "bea", ""),
        (AuditKind::RoutePaused, "rui", "template"),
        (AuditKind::RouteResumed, "rui", ""),
        (AuditKind::TenantTermsSet, "ana", "weight 3, 60 a minute: pays for it"),
        (AuditKind::TenantPaused, "ana", "pays for it"),
        (AuditKind::TenantResumed, "ana", ""),
    ];
    assert_eq!(shown, expected);
    assert_eq!(recorded[0].provider.as_deref(), Some("mail"));
    assert_eq!(&*recorded[4].route, "mail");
    assert_eq!(recorded[6].company_id.as_deref(), Some("acme"));
}

/// The store had the act, and its caller never heard of it: a lost answer, a client that hung up.
#[tokio::test(start_paused = true)]
async fn an_act_that_the_store_has_is_on_record_and_one_that_it_has_not_is_not() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let flaky = Arc::new(Flaky::default());
    let (engine, store) = node(&given, &wakes, "a", vec![mail(&flaky)], &[]).await;
    let gone = || StoreError::Unavailable("gone".to_owned());
    for (verb, kept) in [(Verb::KvWrite, 0), (Verb::KvWriteAnswer, 1)] {
        store.fail(verb, 0, 3, gone());
        let recorded = || store.recorded().len();
        let before = recorded();
        assert!(
            engine
                .gate
                .act_on_provider("mail", ProviderAct::OpenBreaker, Some("their maintenance"), Some("ana"))
                .await
                .is_err()
        );
        assert_eq!(recorded() - before, kept, "{verb:?}: breaker");
        let before = recorded();
        assert!(engine.gate.act_on_route("mail", RouteAct::Pause, None, Some("ana")).await.is_err());
        assert_eq!(recorded() - before, kept, "{verb:?}: route");
        let before = recorded();
        let change = TermsChange { weight: Some(2), ..TermsChange::default() };
        assert!(engine.gate.set_tenant(&acme(), change, Some("ana")).await.is_err());
        assert_eq!(recorded() - before, kept, "{verb:?}: company");
        assert_eq!(store.fired(verb), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn two_operators_who_set_a_companys_terms_at_the_same_time_lose_nothing() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let flaky = Arc::new(Flaky::default());
    let (a, _) = node(&given, &wakes, "a", vec![mail(&flaky)], &[]).await;
    let (b, _) = node(&given, &wakes, "b", vec![mail(&flaky)], &[]).await;
    let company = acme();
    let weight = TermsChange { weight: Some(3), ..TermsChange::default() };
    let bound = TermsChange { max_per_minute: Some(Some(60)), ..TermsChange::default() };
    let (one, other) = tokio::join!(
        a.gate.set_tenant(&company, weight, Some("ana")),
        b.gate.set_tenant(&company, bound, Some("bea")),
    );
    one.unwrap();
    other.unwrap();
    sleep(2).await;
    let expected = TenantTerms { weight: 3, max_per_minute: Some(60), ..TenantTerms::default() };
    assert_eq!((a.gate.tenants.terms("acme"), b.gate.tenants.terms("acme")), (expected.clone(), expected));
}

#[tokio::test(start_paused = true)]
async fn a_company_whose_slots_are_taken_waits_for_a_limit_and_not_for_its_turn() {
    let given = Given::new();
    let flaky = Arc::new(Flaky { latency: Duration::from_secs(10), ..Flaky::default() });
    let terms = ProviderTerms { company_slots: CompanySlots::AtMost(2), ..ProviderTerms::plain(8) };
    let engine = protected(&given, vec![mail(&flaky)], &[("mail", terms)]);
    for n in 0..6 {
        submit(&engine, to("acme", &format!("a-{n}"))).await;
    }
    sleep(1).await;
    assert_eq!(flaky.count(), 2, "not even the first claim takes more");
    let hold = engine.gate.hold("mail", "acme").unwrap();
    assert_eq!((hold.by, hold.until), (HoldCause::Limit(LimitKind::CompanySlots), None));
    assert_eq!(engine.gate.hold("mail", "globex"), None);
    given.until("a-5", Status::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn whatever_holds_a_companys_jobs_back_holds_its_calls_back() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let engine = protected(&given, vec![mail(&flaky)], &[]);
    let call = || Call {
        route: "mail".to_owned(),
        company_id: acme(),
        data: recado_core::Payload::new("{}").unwrap(),
        timeout: None,
        cache_key: None,
        traceparent: None,
    };
    let refused = async || match engine.attempts.call(call()).await.unwrap().unwrap() {
        Called::Unavailable { failure, .. } => failure.code.unwrap().to_string(),
        other => panic!("{other:?}"),
    };
    engine.gate.act_on_route("mail", RouteAct::Pause, None, None).await.unwrap();
    assert_eq!(refused().await, "PAUSED");
    engine.gate.act_on_route("mail", RouteAct::Resume, None, None).await.unwrap();
    let bound = TermsChange { max_per_minute: Some(Some(1)), ..TermsChange::default() };
    engine.gate.set_tenant(&acme(), bound, None).await.unwrap();
    assert!(matches!(engine.attempts.call(call()).await.unwrap().unwrap(), Called::Answered { .. }));
    assert_eq!(refused().await, "RATE_LIMITED", "a call spends the company's rate, too");
    let paused = TermsChange { paused: Some(true), ..TermsChange::default() };
    engine.gate.set_tenant(&acme(), paused, None).await.unwrap();
    assert_eq!(refused().await, "PAUSED");
    assert_eq!(flaky.count(), 1);
}
