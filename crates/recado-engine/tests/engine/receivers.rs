//! Receivers that users choose: each is held back on its own, for a bounded time, and its hold can be lifted.

use recado_store::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_core::breaker::BreakerState;
use recado_core::{AuditKind, Fault, Outcome, Payload, Status, Timestamp, rules};
use recado_engine::admission::provider::{CompanySlots, ProviderTerms};
use recado_engine::{Carrier, Engine, HeldScope, Receiver, Route, Submission};
use recado_store::{AuditSpan, KvWrite, Namespace, Wakes};
use recado_transport::{DataFault, Delivery, Transport, TransportKind};

use crate::flaky::{BREAKER, Flaky, node, protected, restarted, sleep, to};
use crate::given::{Given, route, submission, submit};

/// Far ends by name, each with a temper of its own. A job's data is the name as a JSON string.
#[derive(Debug, Default)]
struct FarEnds {
    tempers: Mutex<HashMap<String, Temper>>,
    asked: Mutex<Vec<(Timestamp, String)>>,
}

#[derive(Clone, Debug)]
enum Temper {
    Fails(Fault),
    Hangs,
}

impl FarEnds {
    fn set(&self, name: &str, temper: Temper) {
        self.tempers.lock().insert(name.to_owned(), temper);
    }

    fn recover(&self, name: &str) {
        self.tempers.lock().remove(name);
    }

    fn asked(&self, name: &str) -> usize {
        self.asked.lock().iter().filter(|(_, asked)| asked == name).count()
    }
}

fn name_in(data: &Payload) -> String {
    data.parse().unwrap()
}

#[async_trait]
impl Transport for FarEnds {
    fn kind(&self) -> TransportKind {
        TransportKind::Custom("far-ends")
    }

    fn check(&self, _: &Payload) -> Result<(), Vec<DataFault>> {
        Ok(())
    }

    fn receiver(&self, data: &Payload) -> Option<Receiver> {
        Some(Receiver::Endpoint(name_in(data).into()))
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        let name = name_in(&delivery.job.data);
        self.asked.lock().push((delivery.now, name.clone()));
        let temper = self.tempers.lock().get(&name).cloned();
        match temper {
            None => Outcome::Accepted { answer: None },
            Some(Temper::Fails(fault)) => Outcome::Failed(fault),
            Some(Temper::Hangs) => std::future::pending().await,
        }
    }
}

fn asks_for(wait: Duration) -> Temper {
    let fault = Fault { status: Some(429), retry_after: Some(wait), ..Fault::answer("429", "slow down") };
    Temper::Fails(fault)
}

fn shared(concurrency: usize) -> ProviderTerms {
    ProviderTerms { company_slots: CompanySlots::AsManyAsFree, ..ProviderTerms::plain(concurrency) }
}

fn hooks(far_ends: &Arc<FarEnds>) -> Route {
    Route {
        classifier: rules::named("http").unwrap(),
        timeout: Duration::from_secs(10),
        ..route("mail", Carrier::Transport(far_ends.clone()))
    }
}

fn hook(company: &str, id: &str, far_end: &str) -> Submission {
    let data = Payload::new(&format!("\"{far_end}\"")).unwrap();
    Submission { data, company_id: company.to_owned(), ..submission(id) }
}

const CENTURY: Duration = Duration::from_secs(3_000_000_000);
const HOUR: Duration = Duration::from_secs(3_600);

async fn lift_only_hold(engine: &Engine) {
    let holds = engine.gate.outside_holds();
    assert_eq!(holds.len(), 1, "{holds:?}");
    engine.gate.lift_hold(&holds[0].id, Some("mended"), Some("ana")).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_asks_for_quiet_is_left_alone_and_no_other_is() {
    let (given, far_ends) = (Given::new(), Arc::new(FarEnds::default()));
    far_ends.set("loud", asks_for(Duration::from_secs(60)));
    let engine = protected(&given, vec![hooks(&far_ends)], &[("mail", shared(8))]);
    submit(&engine, hook("acme", "loud-1", "loud")).await;
    sleep(1).await;
    far_ends.recover("loud");
    for n in 2..50 {
        submit(&engine, hook("acme", &format!("loud-{n}"), "loud")).await;
    }
    submit(&engine, hook("acme", "sibling", "good")).await;
    // The same far end, of another company: it was not asked for quiet.
    submit(&engine, hook("globex", "other", "loud")).await;
    sleep(1).await;
    for id in ["sibling", "other"] {
        assert_eq!(given.view(id).await.status, Status::Sent, "{id}");
    }
    sleep(57).await;
    assert_eq!(far_ends.asked("loud"), 2, "the first, and the other company's");
    sleep(5).await;
    for n in 1..50 {
        let job = given.view(&format!("loud-{n}")).await;
        assert_eq!(job.status, Status::Sent);
        assert_eq!(job.job.progress.deferrals, 1, "held once, however often it was looked at");
        assert_eq!(job.job.progress.attempts_spent, if n == 1 { 2 } else { 1 });
    }
    assert_eq!(engine.gate.outside_holds(), []);
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_after_an_hour_or_after_what_the_route_says() {
    for (hold_max, ends) in [(HOUR, HOUR), (Duration::from_secs(60), Duration::from_secs(60))] {
        let (given, far_ends) = (Given::new(), Arc::new(FarEnds::default()));
        far_ends.set("loud", asks_for(CENTURY));
        let mut hooks = hooks(&far_ends);
        hooks.classifier.hold_max = hold_max;
        let engine = protected(&given, vec![hooks], &[("mail", shared(8))]);
        submit(&engine, hook("acme", "a", "loud")).await;
        sleep(1).await;
        let hold = engine.gate.outside_holds().remove(0);
        assert_eq!(hold.until.since(hold.since.unwrap()), ends);
        far_ends.recover("loud");
        tokio::time::sleep(ends - Duration::from_secs(2)).await;
        assert_eq!(far_ends.asked("loud"), 1);
        sleep(2).await;
        assert_eq!(given.view("a").await.status, Status::Sent);
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_makes_no_hold_longer_than_its_bound() {
    let (given, far_ends) = (Given::new(), Arc::new(FarEnds::default()));
    far_ends.set("loud", asks_for(Duration::from_secs(60)));
    let engine = protected(&given, vec![hooks(&far_ends)], &[("mail", shared(8))]);
    submit(&engine, hook("acme", "first", "loud")).await;
    sleep(1).await;
    far_ends.recover("loud");
    given.clock.set_by(-24 * 3_600);
    submit(&engine, hook("acme", "second", "loud")).await;
    sleep(1).await;
    let held = engine.gate.outside_holds().remove(0);
    assert!(held.until.since(given.clock_now()) <= Duration::from_secs(60), "as long as was asked: {held:?}");
    sleep(70).await;
    assert_eq!(given.view("second").await.status, Status::Sent);
}

/// A second route to the provider of [`hooks`], which waits a minute at most.
fn hasty(far_ends: &Arc<FarEnds>) -> Route {
    let mut hasty = Route {
        provider: "mail".into(),
        classifier: rules::named("http").unwrap(),
        ..route("hasty", Carrier::Transport(far_ends.clone()))
    };
    hasty.classifier.hold_max = Duration::from_secs(60);
    hasty
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_no_longer_than_its_own_route_allows_for_a_hold_that_another_route_made() {
    let (given, far_ends) = (Given::new(), Arc::new(FarEnds::default()));
    far_ends.set("loud", asks_for(CENTURY));
    let routes = vec![hooks(&far_ends), hasty(&far_ends)];
    let engine = protected(&given, routes, &[("mail", shared(8))]);
    submit(&engine, hook("acme", "patient", "loud")).await;
    sleep(1).await;
    far_ends.recover("loud");
    submit(&engine, Submission { route: "hasty".to_owned(), ..hook("acme", "hasty", "loud") }).await;
    sleep(50).await;
    assert_eq!(far_ends.asked("loud"), 1, "it is held for a minute");
    sleep(15).await;
    assert_eq!(given.view("hasty").await.status, Status::Sent, "and no longer");
    assert_ne!(given.view("patient").await.status, Status::Sent, "the other route waits an hour");
    // After a step of the clock, too.
    given.clock.set_by(-24 * 3_600);
    submit(&engine, Submission { route: "hasty".to_owned(), ..hook("acme", "again", "loud") }).await;
    sleep(70).await;
    assert_eq!(given.view("again").await.status, Status::Sent);
}

#[tokio::test(start_paused = true)]
async fn a_route_waits_no_longer_than_it_allows_for_a_quiet_of_its_provider_that_another_route_was_asked_for()
{
    let (given, flaky) = (Given::new(), Arc::new(Flaky::default()));
    let mail = route("mail", Carrier::Transport(flaky.clone()));
    let mut hasty = Route { provider: "mail".into(), ..route("hasty", Carrier::Transport(flaky.clone())) };
    hasty.classifier.hold_max = Duration::from_secs(60);
    let words = "4.7.28 rate limit exceeded, slow down";
    *flaky.answer.lock() = Some(Fault { retry_after: Some(CENTURY), ..Fault::answer("421", words) });
    let engine = protected(&given, vec![mail, hasty], &[("mail", ProviderTerms::plain(8))]);
    submit(&engine, to("acme", "patient")).await;
    sleep(1).await;
    *flaky.answer.lock() = None;
    submit(&engine, Submission { route: "hasty".to_owned(), ..to("acme", "hasty") }).await;
    sleep(50).await;
    assert_eq!(given.view("hasty").await.job.progress.attempts_spent, 0);
    sleep(15).await;
    assert_eq!(given.view("hasty").await.status, Status::Sent);
    let hold = engine.gate.outside_holds().remove(0);
    assert_eq!(&*hold.reason, &format!("421, Retry-After 3000000000 s cut to 1h by hold_max: {words}"));
}

#[tokio::test(start_paused = true)]
async fn a_lifted_hold_lets_its_jobs_go_on_every_node_and_says_who_lifted_it() {
    let (given, far_ends) = (Given::new(), Arc::new(FarEnds::default()));
    let wakes = Arc::new(Wakes::default());
    let terms = [("mail", shared(8))];
    let (a, _) = node(&given, &wakes, "a", vec![hooks(&far_ends)], &terms).await;
    let (b, _) = node(&given, &wakes, "b", vec![hooks(&far_ends)], &terms).await;
    far_ends.set("loud", asks_for(CENTURY));
    submit(&a, hook("acme", "first", "loud")).await;
    sleep(2).await;
    far_ends.recover("loud");
    assert_eq!(b.gate.outside_holds(), a.gate.outside_holds(), "both nodes know");
    submit(&b, hook("acme", "second", "loud")).await;
    sleep(20).await;
    assert_eq!(far_ends.asked("loud"), 1);
    lift_only_hold(&b).await;
    sleep(6).await;
    for id in ["first", "second"] {
        assert_eq!(given.view(id).await.status, Status::Sent, "{id}");
    }
    assert_eq!((a.gate.outside_holds(), b.gate.outside_holds()), (vec![], vec![]));
    let span = AuditSpan { part: 0, after: 0, newest_first: true };
    let records = given.store.audit_records(span, 100).await.unwrap();
    let lifted: Vec<_> =
        records.into_iter().map(|one| one.event).filter(|one| one.kind == AuditKind::HoldLifted).collect();
    assert_eq!(lifted.len(), 1);
    assert_eq!((lifted[0].actor.as_deref(), lifted[0].company_id.as_deref()), (Some("ana"), Some("acme")));
    assert_eq!(lifted[0].decision.retry_reason.as_deref(), Some("company acme, endpoint loud: mended"));
}

#[tokio::test(start_paused = true)]
async fn a_hold_survives_a_restart_and_the_next_one_after_a_lift_holds_again() {
    let (given, far_ends) = (Given::new(), Arc::new(FarEnds::default()));
    let terms = [("mail", shared(8))];
    far_ends.set("loud", asks_for(CENTURY));
    let engine = protected(&given, vec![hooks(&far_ends)], &terms);
    submit(&engine, hook("acme", "a", "loud")).await;
    sleep(1).await;
    let before = engine.gate.outside_holds();
    engine.stop().await.unwrap();
    let engine = restarted(&given, vec![hooks(&far_ends)], &terms).await;
    assert_eq!(engine.gate.outside_holds(), before);
    lift_only_hold(&engine).await;
    far_ends.set("loud", asks_for(Duration::from_secs(30)));
    sleep(6).await;
    assert_eq!(far_ends.asked("loud"), 2);
    let hold = engine.gate.outside_holds().remove(0);
    assert_eq!(hold.until.since(hold.since.unwrap()), Duration::from_secs(30), "shorter than the first");
}

#[tokio::test(start_paused = true)]
async fn a_receivers_failures_do_not_move_the_breaker_that_all_receivers_share() {
    let (given, far_ends) = (Given::new(), Arc::new(FarEnds::default()));
    far_ends.set("broken", Temper::Fails(Fault { status: Some(500), ..Fault::answer("500", "broken") }));
    far_ends.set("hole", Temper::Hangs);
    let terms = ProviderTerms { breaker: Some(BREAKER), ..shared(8) };
    let engine = protected(&given, vec![hooks(&far_ends)], &[("mail", terms)]);
    for n in 0..10 {
        submit(&engine, hook("acme", &format!("broken-{n}"), "broken")).await;
        submit(&engine, hook("acme", &format!("hole-{n}"), "hole")).await;
    }
    sleep(60).await;
    assert!(far_ends.asked("broken") > 10 && far_ends.asked("hole") > 5, "{:?}", far_ends.asked.lock().len());
    let provider = engine.gate.provider_view("mail").unwrap();
    assert_eq!((provider.breaker.state, provider.failures_in_window), (BreakerState::Closed, 0));
}

#[tokio::test(start_paused = true)]
async fn black_holes_of_several_companies_leave_slots_for_the_next_one() {
    let (given, far_ends) = (Given::new(), Arc::new(FarEnds::default()));
    let engine = protected(&given, vec![hooks(&far_ends)], &[("mail", shared(16))]);
    for company in ["a", "b", "c"] {
        // Each has many, so that no bound of a single receiver helps.
        for n in 0..40 {
            far_ends.set(&format!("{company}-{n}"), Temper::Hangs);
            submit(&engine, hook(company, &format!("{company}-{n}"), &format!("{company}-{n}"))).await;
        }
        sleep(1).await;
    }
    let running = engine.gate.provider_view("mail").unwrap().running;
    assert!((12..=15).contains(&running), "{running} of 16");
    submit(&engine, hook("globex", "good", "good")).await;
    sleep(1).await;
    assert_eq!(given.view("good").await.status, Status::Sent, "long before a timeout gives a slot back");
}

#[tokio::test(start_paused = true)]
async fn a_black_hole_leaves_slots_for_other_receivers_of_its_company_and_its_jobs_do_not_spin() {
    let (given, far_ends) = (Given::new(), Arc::new(FarEnds::default()));
    far_ends.set("hole", Temper::Hangs);
    let engine = protected(&given, vec![hooks(&far_ends)], &[("mail", shared(16))]);
    for n in 0..500 {
        submit(&engine, hook("acme", &format!("hole-{n}"), "hole")).await;
    }
    sleep(1).await;
    assert_eq!(far_ends.asked("hole"), 4, "a quarter of the slots");
    submit(&engine, hook("acme", "sibling", "good")).await;
    sleep(2).await;
    assert_eq!(given.view("sibling").await.status, Status::Sent);
    assert_eq!(given.view("hole-499").await.job.progress.deferrals, 0, "waiting for a slot is no deferral");
    far_ends.recover("hole");
    given.until("hole-499", Status::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn a_long_queue_for_one_healthy_receiver_keeps_its_slots_busy() {
    let (given, far_ends) = (Given::new(), Arc::new(FarEnds::default()));
    let engine = protected(&given, vec![hooks(&far_ends)], &[("mail", shared(64))]);
    let began = given.clock_now();
    for n in 0..1_000 {
        submit(&engine, hook("acme", &format!("job-{n}"), "good")).await;
    }
    given.until("job-999", Status::Sent).await;
    while far_ends.asked("good") < 1_000 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = given.clock_now().since(began);
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_that_an_older_version_kept_for_a_century_is_bounded_when_it_is_read() {
    let (given, flaky) = (Given::new(), Arc::new(Flaky::default()));
    let until_us = given.clock_now().plus(CENTURY).as_millis() * 1_000;
    let quiet = format!(r#"{{"quietUntilUs":{until_us},"quietReason":"slow down"}}"#);
    let quiet = Payload::new(&quiet).unwrap();
    for key in ["mail/", "mail/acme"] {
        let (value, expires_at) = (Some(quiet.clone()), Some(given.clock_now().plus(CENTURY)));
        let namespace = Namespace::new("limits");
        let note =
            KvWrite { namespace, key: key.into(), value, expect: Some(0), audit: Vec::new(), expires_at };
        given.store.kv_write(vec![note], given.clock_now()).await.unwrap();
    }
    let routes = || vec![route("mail", Carrier::Transport(flaky.clone()))];
    let engine = restarted(&given, routes(), &[("mail", ProviderTerms::plain(8))]).await;
    submit(&engine, to("acme", "a")).await;
    sleep(1).await;
    let holds = engine.gate.outside_holds();
    let scopes: Vec<_> = holds.iter().map(|hold| &hold.scope).collect();
    assert!(matches!(scopes[..], [HeldScope::Provider, HeldScope::Company(_)]), "{scopes:?}");
    let now = given.clock_now();
    assert!(holds.iter().all(|hold| hold.until.since(now) <= HOUR), "{holds:?}");
    engine.stop().await.unwrap();

    // The bound is in the store: a restart does not begin another hour.
    tokio::time::sleep(HOUR / 2).await;
    let engine = restarted(&given, routes(), &[("mail", ProviderTerms::plain(8))]).await;
    assert_eq!(engine.gate.outside_holds(), holds);
    tokio::time::sleep(HOUR / 2).await;
    given.until("a", Status::Sent).await;
}

#[tokio::test(start_paused = true)]
async fn holds_on_a_provider_and_on_a_company_are_listed_and_lifted() {
    for (code, words, is_providers) in [
        ("421", "4.7.28 rate limit exceeded, slow down", true),
        ("454", "4.7.0 too many login attempts, please try again later", false),
    ] {
        let (given, flaky) = (Given::new(), Arc::new(Flaky::default()));
        let mut mail = route("mail", Carrier::Transport(flaky.clone()));
        if !is_providers {
            Arc::make_mut(&mut mail.classifier.rules).iter_mut().for_each(|rule| {
                (rule.class, rule.blame) = (recado_core::Class::RateLimit, recado_core::Blame::Credential);
            });
        }
        *flaky.answer.lock() = Some(Fault { retry_after: Some(CENTURY), ..Fault::answer(code, words) });
        let engine = protected(&given, vec![mail], &[("mail", ProviderTerms::plain(8))]);
        submit(&engine, to("acme", "a")).await;
        sleep(1).await;
        *flaky.answer.lock() = None;
        submit(&engine, to("acme", "b")).await;
        sleep(60).await;
        assert_eq!(given.view("b").await.job.progress.attempts_spent, 0);
        assert_eq!(engine.gate.outside_holds()[0].scope == HeldScope::Provider, is_providers);
        lift_only_hold(&engine).await;
        sleep(1).await;
        assert_eq!(given.view("b").await.status, Status::Sent);
    }
}
