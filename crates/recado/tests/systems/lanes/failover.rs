//! The second provider of a route.

use super::super::far_ends::Act;
use super::super::scene::Scene;
use super::{OPENS_AT_ONCE, broken, data, enqueue, far_end};

#[test]
fn g24_the_second_provider_takes_over_and_the_attempt_says_so() {
    let (main, spare) = (broken(), far_end());
    let config = format!(
        "[providers.main]\nurl = \"{}\"\n{OPENS_AT_ONCE}[providers.spare]\nurl = \"{}\"\n\
         [routes.both]\nproviders = [\"main\", \"spare\"]\npolicy = {{ base = \"20ms\" }}\n",
        main.url(),
        spare.url()
    );
    let scene = Scene::with(&config);
    scene.send("both", "acme", "first", &data("first"));
    let job = scene.sent("first");
    let served: Vec<_> = job["attempts"].as_array().unwrap().iter().map(|it| &it["provider"]).collect();
    assert_eq!(served, ["main", "spare"], "{job:#}");
    for id in enqueue(&scene, "both", "acme", 10) {
        scene.sent(&id);
        spare.was_asked(&id, 1);
    }
    assert_eq!(main.ledger().len(), 1, "closed off, it is asked no more");
    assert_eq!(spare.only("first").header("idempotency-key"), "first");
}

#[test]
fn g24_a_job_whose_answer_was_lost_goes_back_to_whoever_may_have_it() {
    let (main, spare) = (far_end(), far_end());
    main.orders("", [Act::Drop]);
    let config = format!(
        "[providers.main]\nurl = \"{}\"\nbreaker = {{ failures = 1, reset = \"500ms\" }}\n[providers.spare]\nurl = \"{}\"\n\
         [routes.both]\nproviders = [\"main\", \"spare\"]\npolicy = {{ base = \"20ms\" }}\n",
        main.url(),
        spare.url()
    );
    let scene = Scene::with(&config);
    scene.send("both", "acme", "maybe", &data("maybe"));
    let job = scene.sent("maybe");
    assert_eq!(job["attempts"][0]["result"], "uncertain", "{job:#}");
    main.was_asked("maybe", 2);
    spare.was_asked("maybe", 0);
}
