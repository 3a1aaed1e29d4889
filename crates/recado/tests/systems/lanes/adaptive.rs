//! Deliveries in flight at the same time: at a provider, for a company, as a provider bears it.

use serde_json::json;

use super::super::given::eventually;
use super::super::scene::Scene;
use super::watched::Watched;
use super::{answer, enqueue, lane, page, provider};

/// The provider's current bound on deliveries in flight, as the API says.
fn bound(scene: &Scene, name: &str) -> usize {
    let provider = provider(scene, name);
    provider["concurrency"].as_u64().and_then(|bound| usize::try_from(bound).ok()).expect("a number")
}

#[test]
fn g24_concurrency_rises_while_a_provider_answers_well_and_falls_when_it_throttles() {
    let far_end = Watched::start();
    let scene = Scene::with(&lane("moody", &far_end, "concurrency = 16\nadaptive = true\n"));
    far_end.holds();
    let first = enqueue(&scene, "moody", "first", 40);
    eventually(|| far_end.open() == 4);
    assert_eq!(bound(&scene, "moody"), 4, "a quarter of what it may be");

    far_end.lets_go();
    for id in &first {
        scene.sent(id);
    }
    let risen = bound(&scene, "moody");
    assert!((5..=16).contains(&risen), "{risen} after forty good answers");

    far_end.holds();
    let second = enqueue(&scene, "moody", "second", 40);
    eventually(|| far_end.open() == risen);
    assert_eq!(bound(&scene, "moody"), risen);
    far_end.answers(|_| page(429));
    far_end.lets_go();
    eventually(|| bound(&scene, "moody") == 1);

    // It comes back one by one.
    far_end.answers(|_| answer(200, json!({})));
    for id in &second {
        scene.sent(id);
    }
    assert!(bound(&scene, "moody") > 1);
    assert!(far_end.peak_of("second") <= 16);
}

#[test]
fn a_company_has_no_more_on_its_way_to_a_provider_than_it_may() {
    let far_end = Watched::start();
    let scene = Scene::with(&lane("shared", &far_end, "concurrency = 10\ntenant_concurrency = 2\n"));
    far_end.holds();
    let loud = enqueue(&scene, "shared", "loud", 20);
    far_end.once_come(2);
    let quiet = enqueue(&scene, "shared", "quiet", 1);
    far_end.once_come(3);
    assert_eq!((far_end.peak_of("loud"), far_end.peak_of("quiet")), (2, 1));

    far_end.lets_go();
    for id in loud.iter().chain(&quiet) {
        scene.sent(id);
        far_end.was_asked(id, 1);
    }
    assert_eq!(far_end.peak_of("loud"), 2, "until the end");
}
