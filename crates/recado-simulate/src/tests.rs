use std::sync::Arc;

use recado_core::breaker::BreakerTerms;
use recado_core::decide::Terms;
use recado_core::{RouteName, rules};
use recado_store::Inspect;
use recado_transport::Sandbox;
use recado_wire::simulations::{Outage, PolicySimulation, SimulationStep};

use super::*;

const MINUTE_MS: u64 = 60_000;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Five jobs a second for ten minutes; the provider is down from the second to the fifth minute.
fn request() -> SimulationRequest {
    SimulationRequest {
        route: "email".to_owned(),
        rate_per_second: Some(5.0),
        companies: Some(20),
        outages: Some(vec![Outage { from_ms: 2 * MINUTE_MS, to_ms: 5 * MINUTE_MS }]),
        for_ms: Some(10 * MINUTE_MS),
        ..SimulationRequest::default()
    }
}

fn scenario(request: &SimulationRequest) -> Scenario {
    let policy = Policy::exponential(seconds(1), seconds(60), 5);
    let terms = Terms { policy, dead_letter_ttl: seconds(86_400), crashes_max: 3, start_over_after: None };
    Scenario {
        route: Route {
            name: RouteName::new("email").unwrap(),
            carrier: Carrier::Workers,
            provider: "smtp-main".into(),
            others: Vec::new(),
            classifier: rules::named("smtp").unwrap(),
            terms,
            timeout: seconds(10),
            concurrency: 64,
            fallback: Fallback::default(),
        },
        providers: BTreeMap::from([("smtp-main".into(), ProviderTerms::plain(64))]),
        settings: Settings {
            node: "test".into(),
            lease: seconds(30),
            stop_grace: seconds(5),
            retention: Retention { ended_max_age: seconds(60), ended_max_count: 10 },
            job_ttl: seconds(86_400),
            dead_letter_ttl: seconds(86_400),
            crashes_max: 3,
            notices: Notices::default(),
            turn_jobs: recado_core::fairness::TURN_JOBS,
        },
        load: Load::from(request),
    }
}

fn run(scenario: &Scenario, request: &SimulationRequest, policies: &[Policy]) -> Simulation {
    simulate(scenario, request, policies, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn run_one(scenario: &Scenario, policy: Policy) -> PolicySimulation {
    run(scenario, &request(), &[policy]).policies.remove(0)
}

/// Retries for longer than the outage lasts.
fn patient() -> Policy {
    Policy::exponential(seconds(5), seconds(120), 8)
}

fn single_attempt() -> Policy {
    Policy::exponential(seconds(5), seconds(120), 1)
}

#[test]
fn an_outage_within_the_policys_reach_kills_no_job() {
    let result = run_one(&scenario(&request()), patient());
    assert_eq!((result.accepted, result.dead), (3_000, 0));
    assert!(result.attempts > result.sent + 900, "the outage was felt: {} attempts", result.attempts);
    let recovered_at_ms = result.recovered_at_ms.unwrap();
    assert!((5 * MINUTE_MS..10 * MINUTE_MS).contains(&recovered_at_ms), "{recovered_at_ms}");
    assert!(result.duplicates_possible > 100 && result.duplicates_possible < result.attempts - result.sent);
    assert!(result.peak_retries_per_second > 5);
}

#[test]
fn a_single_attempt_kills_what_arrives_in_the_outage() {
    let result = run_one(&scenario(&request()), single_attempt());
    assert_eq!(result.dead, 900, "five a second for three minutes");
    assert_eq!((result.duplicates_possible, result.peak_retries_per_second), (0, 0), "nothing is retried");
}

#[test]
fn a_breaker_parks_what_arrives_in_the_outage() {
    let mut guarded = scenario(&request());
    let breaker = BreakerTerms::new(5, seconds(60), seconds(30));
    guarded.providers.get_mut("smtp-main").unwrap().breaker = Some(breaker);
    let result = run_one(&guarded, single_attempt());
    assert!((5..50).contains(&result.dead), "{} died before it opened and as probes", result.dead);
    let during = |step: &&SimulationStep| (3 * MINUTE_MS..5 * MINUTE_MS).contains(&step.at_ms);
    let most = result.series.iter().filter(during).map(|step| step.waiting).max().unwrap();
    assert!(most > 500, "{most} waited");
}

#[test]
fn another_provider_takes_over_while_the_breaker_is_open() {
    let mut guarded = scenario(&request());
    let breaker = BreakerTerms::new(5, seconds(60), seconds(30));
    guarded.providers.get_mut("smtp-main").unwrap().breaker = Some(breaker);
    guarded.route.others = vec![("smtp-spare".into(), Arc::new(Sandbox))];
    let result = run_one(&guarded, patient());
    let during: Vec<_> =
        result.series.iter().filter(|step| (3 * MINUTE_MS..5 * MINUTE_MS).contains(&step.at_ms)).collect();
    let (accepted, sent): (u64, u64) =
        during.iter().fold((0, 0), |(accepted, sent), step| (accepted + step.accepted, sent + step.sent));
    assert!(sent * 10 > accepted * 9, "{sent} of {accepted} were sent in the outage");
    assert_eq!(result.dead, 0);
}

#[test]
fn every_job_is_accounted_for() {
    for policy in [patient(), single_attempt(), Policy::exponential(seconds(3_600), seconds(3_600), 3)] {
        let result = run_one(&scenario(&request()), policy);
        assert_eq!(result.accepted, result.sent + result.dead + result.waiting);
        let sum = |count: fn(&SimulationStep) -> u64| result.series.iter().map(count).sum::<u64>();
        assert_eq!(
            (sum(|step| step.accepted), sum(|step| step.sent), sum(|step| step.dead)),
            (result.accepted, result.sent, result.dead)
        );
        assert_eq!(result.series.last().unwrap().waiting, result.waiting);
    }
}

#[test]
fn jobs_that_wait_beyond_the_end_have_not_recovered() {
    let result = run_one(&scenario(&request()), Policy::exponential(seconds(3_600), seconds(3_600), 3));
    assert!(result.waiting > 800, "{} wait", result.waiting);
    assert_eq!(result.recovered_at_ms, None);
}

#[test]
fn the_same_seed_gives_the_same_result_and_another_one_differs() {
    let of_seed = |seed| {
        let request = SimulationRequest { seed: Some(seed), ..request() };
        let mut guarded = scenario(&request);
        guarded.providers.get_mut("smtp-main").unwrap().breaker =
            Some(BreakerTerms::new(5, seconds(60), seconds(30)));
        run(&guarded, &request, &[patient(), single_attempt()])
    };
    let first = of_seed(7);
    assert_eq!(first, of_seed(7));
    assert_ne!(first.policies, of_seed(8).policies);
}

#[test]
fn both_policies_meet_the_same_jobs() {
    let result = run(&scenario(&request()), &request(), &[patient(), single_attempt()]);
    let names: Vec<_> = result.policies.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["policy", "against"]);
    let accepted = |one: &PolicySimulation| one.series.iter().map(|step| step.accepted).collect::<Vec<_>>();
    assert_eq!(accepted(&result.policies[0]), accepted(&result.policies[1]));
}

#[test]
fn a_caller_can_end_it() {
    let mut heard = Vec::new();
    let stopped = simulate(&scenario(&request()), &request(), &[patient()], &mut |progress| {
        heard.push(progress.done);
        if heard.len() < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(Stopped::ByCaller) }
    });
    assert!(matches!(stopped, Err(Stopped::ByCaller)));
    assert_eq!(heard, [1.0 / 600.0, 2.0 / 600.0, 3.0 / 600.0]);
}

#[test]
fn attempts_that_end_by_the_timeout_may_be_duplicates_although_nothing_is_down() {
    let request = SimulationRequest { outages: Some(Vec::new()), latency_ms: Some(300_000), ..request() };
    let result = run(&scenario(&request), &request, &[patient()]).policies.remove(0);
    let retries: u64 = result.series.iter().map(|step| step.retries).sum();
    assert!(
        retries > 0 && result.duplicates_possible == retries,
        "{retries}, {}",
        result.duplicates_possible
    );
}

#[test]
fn the_caller_hears_how_many_jobs_wait() {
    let mut most = 0;
    let stopped = simulate(&scenario(&request()), &request(), &[patient()], &mut |progress| {
        most = most.max(progress.waiting);
        if most < 100 { ControlFlow::Continue(()) } else { ControlFlow::Break(Stopped::TooManyWait) }
    });
    assert!(matches!(stopped, Err(Stopped::TooManyWait)), "{most} waited");
}

#[test]
fn without_an_outage_every_job_is_sent_at_once() {
    let request = SimulationRequest { outages: Some(Vec::new()), ..request() };
    let result = run(&scenario(&request), &request, &[single_attempt()]).policies.remove(0);
    assert_eq!((result.dead, result.attempts, result.recovered_at_ms), (0, 3_000, None));
    assert!(result.waiting <= 5, "{} were on their way at the end", result.waiting);
}

#[test]
fn dead_letters_are_counted_and_not_kept() {
    let request = SimulationRequest {
        outages: Some(vec![Outage { from_ms: 0, to_ms: 9 * MINUTE_MS }]),
        for_ms: Some(10 * MINUTE_MS),
        ..request()
    };
    let scenario = scenario(&request);
    let tally = Arc::new(Tally::new(&scenario.load));
    let store = Arc::new(ReferenceStore::observed(tally.clone()));
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let kept = runtime.block_on(async {
        let mut listener = |_| ControlFlow::Continue(());
        scenario.play(&single_attempt(), &store, &tally, &mut listener).await.unwrap();
        store.oldest_dead_letters(10_000).await.unwrap()
    });
    assert!(tally.report("policy", &single_attempt()).dead > 2_000, "enough died");
    assert!(kept.is_empty(), "{} are kept", kept.len());
}
