//! Several nodes on one store, and a process after another: what they must agree on about providers and companies.

use recado_store::prelude::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use recado_core::breaker::BreakerState;
use recado_core::limit::Rate;
use recado_core::{CompanyId, EventKind, Fault, FaultKind, Payload, Status};
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::admission::tenant_limits::TermsChange;
use recado_engine::notify::endpoints::NAMESPACE as ENDPOINTS;
use recado_engine::{Engine, ProviderAct, Route, RouteAct, Settings};
use recado_store::{KvWrite, Namespace, StoreError, Wakes};
use recado_store_conformance::faulty::Verb;
use recado_transport_webhook::{Endpoints, Secret};

use crate::flaky::{
    BREAKER, Flaky, mail, node, protected, protected_with, restarted, sleep, submit_many, to, with_breaker,
};
use crate::given::{Given, settings, submission, submit};

const MINUTE: Duration = Duration::from_secs(60);

fn with_rate(max: u32) -> ProviderTerms {
    ProviderTerms { rate: Some(Rate { max, per: MINUTE }), ..ProviderTerms::plain(8) }
}

fn state(engine: &Engine) -> BreakerState {
    engine.gate.provider_view("mail").unwrap().breaker.state
}

fn fail(engine: &Engine, times: usize) {
    (0..times).for_each(|_| drop(engine.gate.record_call("mail", Err("503")).unwrap()));
}

fn gone() -> StoreError {
    StoreError::Unavailable("gone".to_owned())
}

#[tokio::test(start_paused = true)]
async fn f1_failures_at_all_nodes_count_together_and_one_of_them_tells_of_the_swing() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let flaky = Arc::new(Flaky::default());
    let terms = [("mail", with_breaker())];
    let (a, _) = node(&given, &wakes, "a", vec![mail(&flaky)], &terms).await;
    let (b, _) = node(&given, &wakes, "b", vec![mail(&flaky)], &terms).await;
    let mut heard = [a.notifier.events.listen(None), b.notifier.events.listen(None)];
    // At the same time, so that their writes meet.
    fail(&a, 3);
    fail(&b, 2);
    assert_eq!((state(&a), state(&b)), (BreakerState::Closed, BreakerState::Closed), "neither knows of all");
    sleep(2).await;
    assert_eq!((state(&a), state(&b)), (BreakerState::Open, BreakerState::Open));
    let told = heard.iter_mut().flat_map(|heard| std::iter::from_fn(|| heard.receiver.try_recv().ok()));
    let opened = told.filter(|event| event.kind == EventKind::CircuitBreakerOpened).count();
    assert_eq!(opened, 1, "a swing is told once");
}

#[tokio::test(start_paused = true)]
async fn f1_one_probe_a_reset_time_goes_out_over_all_nodes() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let flaky = Flaky::down();
    let terms = [("mail", with_breaker())];
    let (a, _) = node(&given, &wakes, "a", vec![mail(&flaky)], &terms).await;
    let (b, _) = node(&given, &wakes, "b", vec![mail(&flaky)], &terms).await;
    submit_many(&a, 200).await;
    sleep(10).await;
    assert_eq!((state(&a), state(&b)), (BreakerState::Open, BreakerState::Open));
    let opened_at = a.now();
    sleep(600).await;
    let probes = flaky.asked_since(opened_at);
    assert!((4..=5).contains(&probes.len()), "one every 120 s of 600: {probes:?}");
    assert!(probes.windows(2).all(|pair| pair[1].since(pair[0]) >= BREAKER.reset), "{probes:?}");
    flaky.is_down(false);
    given.until("job-0199", Status::Sent).await;
    sleep(2).await;
    assert_eq!((state(&a), state(&b)), (BreakerState::Closed, BreakerState::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_read_what_the_others_wrote_sends_nothing_until_it_can() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let (at_a, at_b) = (Arc::new(Flaky::default()), Arc::new(Flaky::default()));
    let terms = [("mail", with_rate(1_000))];
    let (a, _) = node(&given, &wakes, "a", vec![mail(&at_a)], &terms).await;
    let (b, store) = node(&given, &wakes, "b", vec![mail(&at_b)], &terms).await;
    store.fail(Verb::KvRead, 0, usize::MAX, gone());
    a.gate.act_on_provider("mail", ProviderAct::Pause, None, None).await.unwrap().unwrap();
    sleep(6).await;
    submit(&b, submission("during-a-pause")).await;
    sleep(60).await;
    assert!(store.fired(Verb::KvRead) > 0, "b tried to find out");
    assert_eq!((at_a.count(), at_b.count()), (0, 0), "b cannot know that nothing is paused");
    a.gate.act_on_provider("mail", ProviderAct::Resume, None, None).await.unwrap().unwrap();
    given.until("during-a-pause", Status::Sent).await;
    assert_eq!(at_a.count(), 1, "a knows");
}

#[tokio::test(start_paused = true)]
async fn f1_when_a_node_dies_with_the_probe_another_one_probes_when_the_probes_time_is_over() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let (stuck, well) = (Arc::new(Flaky::default()), Arc::new(Flaky::default()));
    stuck.stuck.store(true, Ordering::SeqCst);
    let terms = [("mail", with_breaker())];
    let (a, store) = node(&given, &wakes, "a", vec![mail(&stuck)], &terms).await;
    fail(&a, 5);
    sleep(1).await;
    submit_many(&a, 1).await;
    sleep(121).await;
    assert_eq!((stuck.count(), state(&a)), (1, BreakerState::HalfOpen), "a has the probe");
    // From here on nothing that a does reaches the store.
    for verb in [Verb::KvWrite, Verb::KvRead, Verb::Settle, Verb::Claim] {
        store.fail(verb, 0, usize::MAX, gone());
    }
    let probed_at = a.now();
    let (b, _) = node(&given, &wakes, "b", vec![mail(&well)], &terms).await;
    submit(&b, submission("after")).await;
    sleep(80).await;
    assert_eq!(well.count(), 0, "a may still be at it");
    given.until("after", Status::Sent).await;
    let waited = well.asked_since(probed_at)[0].since(probed_at);
    assert!((Duration::from_secs(85)..Duration::from_secs(95)).contains(&waited), "{waited:?}");
    assert!(store.fired(Verb::KvWrite) > 0, "a tried to say how it went");
    assert_eq!(state(&b), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn f1_a_probe_that_hangs_fails_at_the_routes_timeout_and_the_next_waits_the_reset_time() {
    let given = Given::new();
    let flaky = Flaky::down();
    let engine = protected(&given, vec![mail(&flaky)], &[("mail", with_breaker())]);
    submit_many(&engine, 20).await;
    sleep(5).await;
    flaky.stuck.store(true, Ordering::SeqCst);
    let stuck_at = engine.now();
    sleep(130).await;
    assert_eq!((flaky.asked_since(stuck_at).len(), state(&engine)), (1, BreakerState::HalfOpen));
    sleep(30).await;
    assert_eq!(state(&engine), BreakerState::Open, "cut off after 30 s");
    flaky.stuck.store(false, Ordering::SeqCst);
    sleep(100).await;
    let probes = flaky.asked_since(stuck_at);
    assert_eq!(probes.len(), 1, "{probes:?}");
    sleep(25).await;
    let probes = flaky.asked_since(stuck_at);
    assert!(probes[1].since(probes[0]) >= BREAKER.reset + Duration::from_secs(30), "{probes:?}");
}

#[tokio::test(start_paused = true)]
async fn f1_a_probe_that_a_stop_cancels_may_be_made_again_at_once_by_the_next_process() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let terms = [("mail", with_breaker())];
    let impatient = Settings { stop_grace: Duration::from_secs(1), ..settings() };
    let engine = protected_with(&given, impatient, vec![mail(&flaky)], &terms);
    fail(&engine, 5);
    submit_many(&engine, 3).await;
    flaky.stuck.store(true, Ordering::SeqCst);
    sleep(121).await;
    assert_eq!((flaky.count(), state(&engine)), (1, BreakerState::HalfOpen));
    assert!(engine.stop().await.is_err(), "the probe had ended");
    flaky.stuck.store(false, Ordering::SeqCst);
    let engine = restarted(&given, vec![mail(&flaky)], &terms).await;
    let asked_at = engine.now();
    sleep(20).await;
    assert_eq!(state(&engine), BreakerState::Closed, "no job waited for the lost probe");
    assert!(!flaky.asked_since(asked_at).is_empty());
}

#[tokio::test(start_paused = true)]
async fn g16_a_rate_holds_over_all_nodes_in_every_window_and_what_is_over_spends_nothing() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let flaky = Arc::new(Flaky { latency: Duration::from_millis(20), ..Flaky::default() });
    let terms = [("mail", with_rate(100))];
    let (a, _) = node(&given, &wakes, "a", vec![mail(&flaky)], &terms).await;
    let (b, _) = node(&given, &wakes, "b", vec![mail(&flaky)], &terms).await;
    submit_many(&a, 350).await;
    sleep(190).await;
    assert_eq!(flaky.most_within(MINUTE), 100, "never 101");
    assert_eq!(flaky.count(), 350, "and no less than it may");
    for n in 0..350 {
        let job = given.view(&format!("job-{n:04}")).await.job;
        assert!(job.progress.attempts_started == 1 && job.progress.deferrals <= 1, "{n}: {:?}", job.progress);
    }
    assert!(
        a.gate.provider_view("mail").unwrap().held.is_some()
            || b.gate.provider_view("mail").unwrap().running == 0
    );
}

#[tokio::test(start_paused = true)]
async fn g16_a_rate_holds_across_a_restart_in_every_window() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let terms = [("mail", with_rate(100))];
    let mut engine = protected(&given, vec![mail(&flaky)], &terms);
    submit_many(&engine, 300).await;
    // Before, at and after the moments when room becomes free.
    for lifetime in [10, 45, 7, 3, 30, 61] {
        sleep(lifetime).await;
        engine.stop().await.unwrap();
        engine = restarted(&given, vec![mail(&flaky)], &terms).await;
    }
    assert_eq!(flaky.most_within(MINUTE), 100, "never 101");
    assert_eq!(flaky.count(), 300, "and no less than it may");
}

#[tokio::test(start_paused = true)]
async fn g22_the_rates_of_companies_hold_over_all_nodes_and_across_a_restart() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let flaky = Arc::new(Flaky::default());
    let terms =
        ProviderTerms { company_rate: Some(Rate { max: 10, per: MINUTE }), ..ProviderTerms::plain(8) };
    let terms = [("mail", terms)];
    let (a, _) = node(&given, &wakes, "a", vec![mail(&flaky)], &terms).await;
    let (b, _) = node(&given, &wakes, "b", vec![mail(&flaky)], &terms).await;
    let globex = CompanyId::new("globex").unwrap();
    let bound = TermsChange { max_per_minute: Some(Some(4)), ..TermsChange::default() };
    a.gate.set_tenant(&globex, bound, None).await.unwrap();
    sleep(1).await;
    for n in 0..60 {
        submit(&a, to("acme", &format!("a-{n}"))).await;
        submit(&b, to("globex", &format!("g-{n}"))).await;
    }
    let sent_by = |company: &str| flaky.asked.lock().iter().filter(|(_, by)| by == company).count();
    sleep(30).await;
    assert_eq!((sent_by("acme"), sent_by("globex")), (10, 4));
    a.stop().await.unwrap();
    b.stop().await.unwrap();
    let engine = restarted(&given, vec![mail(&flaky)], &terms).await;
    sleep(29).await;
    assert_eq!((sent_by("acme"), sent_by("globex")), (10, 4), "a restart gives no company more");
    sleep(10).await;
    assert_eq!((sent_by("acme"), sent_by("globex")), (20, 8));
    assert!(engine.gate.hold("mail", "globex").unwrap().why.contains("rate"));
}

#[tokio::test(start_paused = true)]
async fn quiet_that_a_provider_asked_for_holds_on_every_node_and_across_a_restart() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let flaky = Arc::new(Flaky::default());
    let slower = Fault {
        retry_after: Some(Duration::from_secs(40)),
        ..Fault::answer("421", "4.7.28 rate limit exceeded, slow down")
    };
    *flaky.answer.lock() = Some(slower);
    let terms = [("mail", ProviderTerms::plain(1))];
    let (a, _) = node(&given, &wakes, "a", vec![mail(&flaky)], &terms).await;
    let (b, _) = node(&given, &wakes, "b", vec![mail(&flaky)], &terms).await;
    submit(&a, submission("first")).await;
    sleep(2).await;
    *flaky.answer.lock() = None;
    assert!(b.gate.hold("mail", "acme").unwrap().why.contains("slow down"), "b knows why");
    submit(&b, submission("second")).await;
    sleep(15).await;
    a.stop().await.unwrap();
    b.stop().await.unwrap();
    let engine = restarted(&given, vec![mail(&flaky)], &terms).await;
    sleep(20).await;
    assert_eq!(flaky.count(), 1, "quiet");
    given.until("second", Status::Sent).await;
    assert_eq!(engine.gate.hold("mail", "acme"), None);
}

#[tokio::test(start_paused = true)]
async fn a_pause_at_one_node_holds_the_others() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let flaky = Arc::new(Flaky::default());
    let other = || Route { provider: "mail".into(), ..crate::given::route("other", mail(&flaky).carrier) };
    let (a, _) = node(&given, &wakes, "a", vec![mail(&flaky), other()], &[]).await;
    let (b, _) = node(&given, &wakes, "b", vec![mail(&flaky), other()], &[]).await;
    let acme = CompanyId::new("acme").unwrap();
    let paused = |paused| TermsChange { paused: Some(paused), ..TermsChange::default() };
    a.gate.act_on_provider("mail", ProviderAct::Pause, Some("audit"), Some("ana")).await.unwrap();
    a.gate.act_on_route("mail", RouteAct::Pause, Some("template"), Some("ana")).await.unwrap();
    a.gate.set_tenant(&acme, paused(true), Some("ana")).await.unwrap();
    sleep(2).await;
    assert_eq!(b.gate.hold("mail", "acme").unwrap().why, "tenant paused");
    assert_eq!(b.gate.hold("mail", "globex").unwrap().why, "route paused: template");
    assert_eq!(b.gate.hold("other", "globex").unwrap().why, "paused: audit");
    submit(&b, to("acme", "held-by-all")).await;
    sleep(60).await;
    assert_eq!(flaky.count(), 0);
    // And let go at the other.
    b.gate.act_on_provider("mail", ProviderAct::Resume, None, None).await.unwrap();
    b.gate.act_on_route("mail", RouteAct::Resume, None, None).await.unwrap();
    sleep(60).await;
    assert_eq!(flaky.count(), 0, "its company is still paused");
    b.gate.set_tenant(&acme, paused(false), None).await.unwrap();
    given.until("held-by-all", Status::Sent).await;
    sleep(2).await;
    assert_eq!((a.gate.hold("mail", "acme"), a.gate.hold("other", "acme")), (None, None));
}

/// An endpoint as another node has just written it.
async fn endpoint_made_elsewhere(given: &Given, id: &str, enabled: bool) {
    let value = serde_json::json!({
        "id": id, "companyId": "acme", "url": "http://127.0.0.1:9/", "enabled": enabled,
        "secrets": [{ "secret": Secret::generate([1; 32]).reveal() }],
        "createdAt": given.clock_now(), "updatedAt": given.clock_now(),
    });
    let value = Some(Payload::new(&value.to_string()).unwrap());
    let note = KvWrite {
        namespace: ENDPOINTS,
        key: id.into(),
        value,
        expect: None,
        expires_at: None,
        audit: Vec::new(),
    };
    given.store.kv_write(vec![note], given.clock_now()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_another_node_has_just_made_or_switched_on_is_known_to_a_delivery() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let flaky = Arc::new(Flaky::default());
    endpoint_made_elsewhere(&given, "ep_off", false).await;
    let (engine, store) = node(&given, &wakes, "a", vec![mail(&flaky)], &[]).await;
    let (acme, globex) = (CompanyId::new("acme").unwrap(), CompanyId::new("globex").unwrap());
    let target =
        async |company, id| Endpoints::target(&*engine.notifier.endpoints, company, id).await.unwrap();
    assert!(target(&acme, "ep_new").await.is_none() && !target(&acme, "ep_off").await.unwrap().enabled);
    endpoint_made_elsewhere(&given, "ep_new", true).await;
    endpoint_made_elsewhere(&given, "ep_off", true).await;
    assert!(
        engine.notifier.endpoints.get("ep_new").is_none(),
        "its copies are of before: nothing was tested"
    );
    assert!(target(&acme, "ep_new").await.unwrap().enabled && target(&acme, "ep_off").await.unwrap().enabled);
    assert!(target(&globex, "ep_new").await.is_none(), "it is another company's");
    store.fail(Verb::KvRead, 0, 1, StoreError::Unavailable("away".to_owned()));
    let asked = Endpoints::target(&*engine.notifier.endpoints, &acme, "ep_other").await;
    assert_eq!(
        asked.unwrap_err().kind,
        FaultKind::Shortage,
        "a store that does not answer knows of no endpoint"
    );
    assert_eq!(store.fired(Verb::KvRead), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_grants_no_probe_and_nothing_of_a_rate_and_no_job_pays_for_it() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let flaky = Arc::new(Flaky::default());
    let terms = ProviderTerms { rate: Some(Rate { max: 100, per: MINUTE }), ..with_breaker() };
    let (engine, store) = node(&given, &wakes, "a", vec![mail(&flaky)], &[("mail", terms)]).await;
    store.fail(Verb::KvWrite, 0, 20, gone());
    submit_many(&engine, 5).await;
    sleep(2).await;
    assert_eq!(flaky.count(), 0, "nothing goes out uncounted");
    assert!(store.fired(Verb::KvWrite) > 1, "it kept asking");
    given.until("job-0004", Status::Sent).await;
    assert_eq!(given.view("job-0004").await.job.progress.attempts_started, 1);
    fail(&engine, 5);
    sleep(119).await;
    submit(&engine, submission("probe")).await;
    store.fail(Verb::KvWrite, 0, 20, gone());
    sleep(3).await;
    assert_eq!((flaky.count(), state(&engine)), (5, BreakerState::Open), "no probe goes out unseen");
    given.until("probe", Status::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_written_although_no_answer_came_is_not_counted_twice() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let flaky = Arc::new(Flaky::default());
    let terms = [("mail", with_breaker())];
    let (engine, store) = node(&given, &wakes, "a", vec![mail(&flaky)], &terms).await;
    // After what a node writes of itself when it starts.
    sleep(1).await;
    store.fail(Verb::KvWriteAnswer, 0, 1, gone());
    fail(&engine, 4);
    sleep(5).await;
    assert_eq!(store.fired(Verb::KvWriteAnswer), 1);
    let again = restarted(&given, vec![mail(&flaky)], &terms).await;
    let view = again.gate.provider_view("mail").unwrap();
    assert_eq!((view.failures_in_window, view.breaker.state), (4, BreakerState::Closed));
}

#[tokio::test(start_paused = true)]
async fn g23_a_provider_that_is_well_and_has_no_rate_costs_no_notes() {
    let (given, wakes) = (Given::new(), Arc::new(Wakes::default()));
    let flaky = Arc::new(Flaky::default());
    let (engine, _) = node(&given, &wakes, "a", vec![mail(&flaky)], &[("mail", with_breaker())]).await;
    submit_many(&engine, 100).await;
    given.until("job-0099", Status::Sent).await;
    for namespace in ["providers", "limits", "tenant-limits", "routes", "tenants"] {
        let notes = given.store.kv_list(Namespace::new(namespace), engine.now()).await.unwrap();
        assert!(notes.is_empty(), "{namespace}: {notes:?}");
    }
}

/// The effect of a set clock on a breaker that is open, half open, or just closed.
async fn after_the_clock_is_set(by_seconds: i64, state_before: BreakerState) -> Duration {
    let given = Given::new();
    let flaky = Flaky::down();
    let engine = protected(&given, vec![mail(&flaky)], &[("mail", with_breaker())]);
    submit_many(&engine, 40).await;
    sleep(5).await;
    flaky.is_down(false);
    match state_before {
        BreakerState::Open => {}
        BreakerState::HalfOpen => {
            flaky.stuck.store(true, Ordering::SeqCst);
            sleep(120).await;
        }
        BreakerState::Closed => sleep(121).await,
    }
    assert_eq!(state(&engine), state_before);
    let set_at = tokio::time::Instant::now();
    given.clock.set_by(by_seconds);
    flaky.stuck.store(false, Ordering::SeqCst);
    submit(&engine, submission("after")).await;
    given.until("after", Status::Sent).await;
    set_at.elapsed()
}

#[tokio::test(start_paused = true)]
async fn f1_a_clock_that_is_set_back_or_forward_keeps_no_job_waiting_longer_than_the_terms_say() {
    for by in [-3_600, 3_600] {
        for state in [BreakerState::Open, BreakerState::HalfOpen, BreakerState::Closed] {
            let waited = after_the_clock_is_set(by, state).await;
            // What a claimer slept for when the clock was set, and once the reset time.
            assert!(waited <= 2 * BREAKER.reset + Duration::from_secs(60), "{by} {state:?}: {waited:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn g16_a_clock_that_is_set_back_stops_no_rate_for_longer_than_its_window() {
    let given = Given::new();
    let flaky = Arc::new(Flaky::default());
    let engine = protected(&given, vec![mail(&flaky)], &[("mail", with_rate(10))]);
    submit_many(&engine, 30).await;
    sleep(5).await;
    assert_eq!(flaky.count(), 10);
    given.clock.set_by(-3_600);
    sleep(130).await;
    assert_eq!(flaky.count(), 20, "once more, and never more than that in a window");
    sleep(60).await;
    assert_eq!(flaky.count(), 30);
}
