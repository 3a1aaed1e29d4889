//! A provider's `Retry-After` is obeyed, in whatever form it comes, and never shortened below the route's
//! `hold_max`.

use serde_json::{Value, json};

use super::far_ends::{FarEnd, graph, openai, page};
use super::given::between_ms;
use super::scene::Scene;

fn post(id: &str) -> Value {
    json!({ "path": "v1/posts", "body": { "caption": id } })
}

fn scene() -> (FarEnd, FarEnd, Scene) {
    let (instagram, openai) = (graph::start(), openai::start());
    let scene = Scene::with(&(graph::provider(&instagram) + &openai::provider(&openai)));
    (instagram, openai, scene)
}

/// Time from its first attempt to the next.
#[track_caller]
fn next_after_ms(scene: &Scene, id: &str) -> i64 {
    let job = scene.retrying(id, 1);
    assert_eq!(job["attempts"][0]["errorClassification"], "RATE_LIMIT", "{job:#}");
    between_ms(&job["attempts"][0]["endedAt"], &job["nextAttemptAt"])
}

#[test]
fn f8_seconds_are_obeyed_whether_longer_or_shorter_than_the_policy() {
    for (id, seconds) in [("longer", 600), ("shorter", 30)] {
        // The provider is left alone meanwhile, so each has its own.
        let (instagram, _, scene) = scene();
        instagram.always(id, page(429).with("retry-after", seconds));
        scene.send("instagram", "acme", id, &post(id));
        assert_eq!(next_after_ms(&scene, id), seconds * 1_000);
        instagram.was_asked(id, 1);
    }
}

#[test]
fn f8_zero_or_a_date_in_the_past_does_not_undercut_the_policy() {
    let (instagram, _, scene) = scene();
    for (id, wish) in [("nothing", "0"), ("past", "Sun, 06 Nov 1994 08:49:37 GMT")] {
        instagram.always(id, page(429).with("retry-after", wish));
        scene.send("instagram", "acme", id, &post(id));
        let wait = next_after_ms(&scene, id);
        assert!((60_000..=72_000).contains(&wait), "{id}: {wait} ms");
        instagram.was_asked(id, 1);
    }
}

#[test]
fn f8_a_date_is_obeyed() {
    let (instagram, _, scene) = scene();
    // What time it is, by the server's own clock.
    instagram.always("first", page(503));
    scene.send("instagram", "acme", "first", &post("first"));
    let now = scene.retrying("first", 1)["attempts"][0]["endedAt"].as_str().unwrap().to_owned();
    let date = now.parse::<jiff::Timestamp>().unwrap() + jiff::SignedDuration::from_mins(17);

    let written = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    instagram.always("dated", page(429).with("retry-after", written));
    scene.send("instagram", "acme", "dated", &post("dated"));
    let job = scene.retrying("dated", 1);
    let asked_ms = date.as_second() * 1_000;
    let next: jiff::Timestamp = job["nextAttemptAt"].as_str().unwrap().parse().unwrap();
    let late_ms = next.as_millisecond() - asked_ms;
    let took_ms = between_ms(&job["attempts"][0]["startedAt"], &job["attempts"][0]["endedAt"]);
    assert!((0..=took_ms).contains(&late_ms), "{late_ms} ms after the date, {took_ms} ms in the attempt");
}

#[test]
fn f8_milliseconds_of_openai_are_the_finer_wish() {
    let (_, far_end, scene) = scene();
    far_end.always("fine", openai::rate_limit().with("retry-after-ms", 90_500).with("retry-after", 91));
    scene.send("openai", "acme", "fine", &post("fine"));
    assert_eq!(next_after_ms(&scene, "fine"), 90_500);
}

#[test]
fn f8_garbage_leaves_the_policy_in_charge() {
    let (instagram, _, scene) = scene();
    instagram.always("odd", page(429).with("retry-after", "soon-ish"));
    scene.send("instagram", "acme", "odd", &post("odd"));
    let wait = next_after_ms(&scene, "odd");
    assert!((60_000..=72_000).contains(&wait), "{wait}");
}

#[test]
fn f8_a_wish_for_days_holds_for_an_hour_unless_the_route_says_otherwise() {
    // The provider is left alone meanwhile, so each has its own.
    for wish in ["259200", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        let (instagram, _, scene) = scene();
        instagram.always("days", page(429).with("retry-after", wish));
        scene.send("instagram", "acme", "days", &post("days"));
        assert_eq!(next_after_ms(&scene, "days"), 3_600_000, "{wish}");
    }
}

#[test]
fn f8_a_wish_beyond_the_jobs_life_brings_it_before_a_person_and_not_earlier_to_the_provider() {
    let instagram = graph::start();
    let patient = "[routes.instagram]\nhold_max = \"7d\"\n";
    let scene = Scene::with(&(graph::provider(&instagram) + patient));
    instagram.always("late", page(429).with("retry-after", 3 * 86_400));
    scene.send("instagram", "acme", "late", &post("late"));
    scene.buried("late", "EXPIRED");
    instagram.was_asked("late", 1);
}
