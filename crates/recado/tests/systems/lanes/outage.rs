//! A provider that is down for a while with a long queue behind it, as its far end sees it.

use std::time::Duration;

use serde_json::json;

use super::super::given::eventually;
use super::super::scene::Scene;
use super::watched::{Watched, most_within};
use super::{answer, data, enqueue, far_end, jobs, lane, page, provider};

const FAILURES: usize = 5;
const CONCURRENCY: usize = 8;
const RESET: Duration = Duration::from_millis(500);
const MAX: usize = 500;
const PER: Duration = Duration::from_secs(2);

#[test]
fn f1_one_probe_a_reset_time_reaches_a_provider_that_is_down_and_its_queue_comes_back_under_its_rate() {
    let (down, up) = (Watched::start(), far_end());
    down.answers(|_| page(503));
    let terms = format!(
        "concurrency = {CONCURRENCY}\nrate = {{ max = {MAX}, per = \"2s\" }}\n\
         breaker = {{ failures = {FAILURES}, reset = \"500ms\", ramp = \"1s\" }}\n"
    );
    let scene = Scene::with(&(lane("down", &down, &terms) + &lane("up", &up, "")));
    let listener = scene.listen();
    enqueue(&scene, "down", "acme", 1_000);
    eventually(|| listener.count("CircuitBreakerOpened") >= 4);
    scene.send("up", "acme", "elsewhere", &data("elsewhere"));
    scene.sent("elsewhere");
    assert!(provider(&scene, "down")["parked"].as_u64().expect("a number") > 900);
    let refused = down.answers(|_| answer(200, json!({})));

    eventually(|| jobs(&scene, "down").iter().all(|job| job["status"] == "sent"));
    let arrivals = down.arrivals();
    eventually(|| listener.count("CircuitBreakerClosed") == 1);
    // Those that were on their way when it opened, and from then on one at a time: each opened it again.
    let probes = listener.count("CircuitBreakerOpened") - 1;
    let opening = refused - probes;
    assert!(probes >= 3 && (FAILURES..FAILURES + CONCURRENCY).contains(&opening), "{opening}, then {probes}");
    let opened_by = &arrivals[FAILURES - 1];
    for pair in [opened_by].into_iter().chain(&arrivals[opening..refused]).collect::<Vec<_>>().windows(2) {
        let quiet = pair[1].at.duration_since(pair[0].at);
        // The server's clock counts whole milliseconds.
        assert!(quiet >= RESET - Duration::from_millis(1), "a probe after {quiet:?}");
    }

    let ended = jobs(&scene, "down");
    let attempts: usize = ended.iter().map(|job| job["attempts"].as_array().map_or(0, Vec::len)).sum();
    assert_eq!((ended.len(), attempts), (1_000, 1_000 + refused), "only what reached out was spent");
    assert!(ended.iter().all(|job| job["attempts"].as_array().is_some_and(|all| all.len() <= 5)));
    // As in `rates`, a quarter of the window is for what is under way.
    let most = most_within(&arrivals[refused..], PER * 3 / 4);
    assert!(most <= MAX, "{most} in one window after it came back");
}
