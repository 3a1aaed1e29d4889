//! Companies take turns: a loud one delays the others by a turn, not by a queue.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::given::eventually;
use super::super::scene::Scene;
use super::watched::{Arrival, Watched};
use super::{companies, count, enqueue, far_end, is_parked, lane, provider, take_in, tell};

#[test]
fn g10_a_company_that_arrives_waits_for_turns_and_not_for_queues() {
    let far_end = far_end();
    let scene = Scene::with(&lane("fair", &far_end, "concurrency = 5\n"));
    tell(&scene, "fair/pause", Value::Null);
    enqueue(&scene, "fair", "loud", 2_000);
    let late = enqueue(&scene, "fair", "late", 10);
    tell(&scene, "fair/resume", Value::Null);
    for id in &late {
        scene.sent(id);
    }
    let arrived = companies(&far_end);
    let last = arrived.iter().rposition(|company| company == "late").unwrap();
    let before = count(&arrived[..last], "loud");
    assert_eq!(count(&arrived, "late"), 10);
    assert!((1..60).contains(&before), "{before} jobs of the other company went before the tenth");
}

#[test]
fn g24_weights_share_a_lane() {
    let far_end = far_end();
    let scene = Scene::with(&(lane("tiers", &far_end, "concurrency = 1\n") + "[fairness]\nbatch = 2\n"));
    tell(&scene, "tiers/pause", Value::Null);
    for (company, weight) in [("gold", 3), ("silver", 2), ("bronze", 1)] {
        let (status, tenant) =
            scene.ask("PUT", &format!("/v1/tenants/{company}"), &json!({ "weight": weight }));
        assert_eq!((status, &tenant["weight"]), (200, &json!(weight)), "{tenant}");
        enqueue(&scene, "tiers", company, 60);
    }
    tell(&scene, "tiers/resume", Value::Null);
    far_end.once("", 180);
    // A round has twelve jobs: six, four and two.
    let arrived = companies(&far_end);
    for (at, round) in arrived[..96].chunks(12).enumerate() {
        assert_eq!(
            ["gold", "silver", "bronze"].map(|name| count(round, name)),
            [6, 4, 2],
            "round {at}: {round:?}"
        );
    }
}

#[test]
fn g22_a_company_that_is_paused_holds_up_no_other() {
    let far_end = far_end();
    let scene = Scene::with(&lane("fair", &far_end, ""));
    let set = |paused: bool| scene.ask("PUT", "/v1/tenants/idle", &json!({ "paused": paused }));
    assert_eq!(set(true).0, 200);
    let idle = enqueue(&scene, "fair", "idle", 1);
    let busy = enqueue(&scene, "fair", "busy", 3);
    for id in &busy {
        scene.sent(id);
    }
    is_parked(&scene, &idle[0], "pause");
    far_end.was_asked(&idle[0], 0);
    assert_eq!(set(false).0, 200);
    scene.sent(&idle[0]);
}

#[test]
fn g22_the_runbook_sees_bounds_and_stops_one_company() {
    let far_end = far_end();
    let scene = Scene::with(&lane("fair", &far_end, "concurrency = 1\n"));
    tell(&scene, "fair/pause", Value::Null);
    enqueue(&scene, "fair", "acme", 50);
    let tenant = |scene: &Scene| scene.get("/v1/tenants/acme");
    assert_eq!(tenant(&scene)["queued"], 50);

    // The commands of both pages, in their order.
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for page in ["lanes.md", "lanes.pt-BR.md"] {
        let page = std::fs::read_to_string(docs.join(page)).expect("a page");
        let steps: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("   recado ")).collect();
        let mut seen = Vec::new();
        for step in &steps {
            let words: Vec<_> = step.split(' ').collect();
            let said = scene.recado(&words).done();
            let tenant = tenant(&scene);
            seen.push((tenant["maxPerMinute"].as_u64(), tenant["paused"] == true));
            if *step == "tenants" {
                assert!(said.contains("acme") && said.contains("50"), "{said}");
            }
        }
        let (unbound, bound, stopped) = ((None, false), (Some(60), false), (Some(60), true));
        assert_eq!(seen, [unbound, unbound, bound, stopped, unbound], "{steps:?}");
    }
    tell(&scene, "fair/resume", Value::Null);
    far_end.once("", 50);
}

#[test]
fn g11_ten_jobs_that_come_after_twenty_thousand_wait_for_fewer_than_sixty_of_them() {
    let scene = Scene::with("[providers.fair]\nconcurrency = 5\n[routes.fair]\ntransport = \"sandbox\"\n");
    let jobs = |company: &str, count: usize| {
        let job = |_| json!({ "route": "fair", "companyId": company, "data": { "latencyMs": 1 } });
        take_in(&scene, (0..count).map(job).collect());
    };
    jobs("loud", 20_000);
    scene.logged("Job sent", 100);
    // Stopped while the ten come in, so that what is counted is turns and not how long a request takes.
    tell(&scene, "fair/pause", Value::Null);
    eventually(|| provider(&scene, "fair")["running"] == 0);
    let before = scene.logged("Job sent", 100).len();
    assert!(before < 19_000, "a long queue is left: {before} are done");
    jobs("late", 10);
    tell(&scene, "fair/resume", Value::Null);

    let mut ended = Vec::new();
    let is_late = |line: &Value| line["companyId"] == "late";
    eventually(|| {
        ended = scene.logged("Job sent", before).split_off(before);
        ended.iter().filter(|line| is_late(line)).count() == 10
    });
    let tenth = ended.iter().rposition(is_late).expect("the tenth");
    let loud = ended[..tenth].iter().filter(|line| !is_late(line)).count();
    assert!((1..60).contains(&loud), "{loud} jobs of the other company ended before the tenth");
}

#[test]
fn g11_of_a_thousand_companies_each_gets_its_share_within_a_batch_over_every_window() {
    const COMPANIES: usize = 1_000;
    const BATCH: usize = 3;
    // A turn, and the beginning of the next.
    const JOBS_EACH: usize = BATCH + 1;
    let far_end = Watched::start();
    let scene = Scene::with(&lane("fair", &far_end, "concurrency = 1\n"));
    tell(&scene, "fair/pause", Value::Null);
    let job = |company: usize| {
        let company = format!("c{company}");
        json!({ "route": "fair", "companyId": company, "data": super::data(&company) })
    };
    // One of them is loud, and comes first.
    let loud = std::iter::repeat_n(0, COMPANIES);
    let all = std::iter::repeat_n(0..COMPANIES, JOBS_EACH).flatten();
    take_in(&scene, loud.chain(all).map(job).collect());
    tell(&scene, "fair/resume", Value::Null);

    // One after another they take a while: each thousand has its own patience.
    let mut served = Vec::new();
    for round in 1..=JOBS_EACH {
        served = far_end.once_come(round * COMPANIES);
    }
    let served = &served[..JOBS_EACH * COMPANIES];
    let shares = shares(served);
    assert_eq!(shares.len(), COMPANIES);
    for (company, most_off) in shares {
        assert!(most_off <= BATCH as f64, "{company} is {most_off} jobs off its share over some window");
    }
}

/// Deviation of each company from its even share, over the window where it is most.
///
/// Ahead of its share by `lead` when a window begins and by another when it ends, it is off by the
/// difference: the widest range of leads is the worst window.
fn shares(served: &[Arrival]) -> BTreeMap<&str, f64> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, arrival) in served.iter().enumerate() {
        places.entry(&arrival.company).or_default().push(place);
    }
    let share = 1.0 / places.len() as f64;
    let range = |places: Vec<usize>| {
        let leads = places.iter().enumerate().flat_map(|(had, place)| {
            let due = *place as f64 * share;
            [had as f64 - due, (had + 1) as f64 - due - share]
        });
        let ends = [0.0, places.len() as f64 - served.len() as f64 * share];
        let (least, most) = leads
            .chain(ends)
            .fold((f64::MAX, f64::MIN), |(least, most), lead| (least.min(lead), most.max(lead)));
        most - least
    };
    places.into_iter().map(|(company, places)| (company, range(places))).collect()
}
