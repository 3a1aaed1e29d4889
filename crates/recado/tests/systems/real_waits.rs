//! Waits at their required length: the providers' timeouts and WhatsApp's schedule.
//!
//! These tests cost time and next to no work, so `cargo xtask nightly` runs them. Absent are the timeouts of the
//! database and of Redis, which are no providers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::far_ends::{Act, evolution, graph, openai, page, receiver, tiktok, youtube};
use super::given::between_ms;
use super::scene::{Scene, tries};

/// Lateness that an attempt may have after its timeout on a machine that is busy with other tests.
const LATE_MAX_MS: i64 = 3_000;

#[test]
#[ignore = "it waits for minutes: `cargo xtask nightly` runs it"]
fn f13_each_route_gives_up_on_a_silent_provider_at_its_required_time() {
    let (instagram, tiktok) = (graph::start(), tiktok::start());
    let (youtube, openai, customer) = (youtube::start(), openai::start(), receiver::start());
    let scene = Scene::with(
        &[
            graph::provider(&instagram),
            tiktok::provider(&tiktok),
            youtube::provider(&youtube),
            openai::provider(&openai),
            receiver::provider(),
        ]
        .concat(),
    );
    let (endpoint, _) = scene.endpoint("acme", &customer.url(), &["JobFailed"]);
    let post = json!({ "path": "v1/posts", "body": {} });
    let hook = json!({ "endpointId": endpoint, "event": "post.published", "payload": { "post": 7 } });
    let table = [
        ("instagram", &instagram, &post, 30, "social/network"),
        ("tiktok", &tiktok, &post, 30, "social/network"),
        ("youtube", &youtube, &post, 60, "social/network"),
        ("openai", &openai, &post, 30, "openai/network"),
        ("webhook", &customer, &hook, 10, "http/network"),
    ];
    for (route, far_end, data, _, _) in &table {
        far_end.always("", Act::silence());
        scene.send(route, "acme", route, data);
    }
    for (route, far_end, _, seconds, rule) in &table {
        let job = ended(&scene, route, Duration::from_secs(90));
        assert_eq!(tries(&job), [format!("uncertain TIMEOUT TRANSIENT {rule}")]);
        let attempt = &job["attempts"][0];
        let took = between_ms(&attempt["startedAt"], &attempt["endedAt"]);
        let due = seconds * 1_000;
        assert!((due..=due + LATE_MAX_MS).contains(&took), "{route} took {took} ms");
        far_end.was_asked(route, 1);
    }
}

/// The job, once its first attempt is over.
#[track_caller]
fn ended(scene: &Scene, id: &str, patience: Duration) -> Value {
    let started = Instant::now();
    loop {
        let job = scene.job(id);
        if !tries(&job).is_empty() {
            return job;
        }
        assert!(started.elapsed() < patience, "the attempt does not end: {job:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
#[ignore = "it waits for minutes: `cargo xtask nightly` runs it"]
fn w2_untouched_the_schedule_is_at_once_then_5_seconds_30_seconds_and_5_minutes() {
    let far_end = evolution::start();
    let scene = Scene::with(&evolution::provider(&far_end));
    far_end.always("5511900000002", page(503));
    scene.send("whatsapp", "acme", "slow", &json!({ "number": "5511900000002", "text": "Oi" }));
    for (after, expected_ms) in [(1, 5_000), (2, 30_000), (3, 300_000)] {
        let job = scene.retrying_within("slow", after, Duration::from_secs(60));
        let last = &job["attempts"][after - 1];
        assert_eq!(last["nextRetryDelayMs"], expected_ms, "{job:#}");
        assert_eq!(between_ms(&last["endedAt"], &job["nextAttemptAt"]), expected_ms, "{job:#}");
        far_end.was_asked("slow", after);
    }
    scene.is_not_buried("slow");
}
