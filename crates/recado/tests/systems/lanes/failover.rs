//! The second provider of a route.

use super::super::far_ends::{Act, page};
use super::super::scene::{Scene, tries};
use super::{OPENS_AT_ONCE, broken, data, enqueue, far_end, killed};

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
    assert_eq!(main.ledger().len(), 1, "while its breaker is open it is not asked");
    assert_eq!(spare.only("first").header("idempotency-key"), "first");
}

#[test]
fn g24_a_job_whose_answer_was_lost_goes_back_to_the_provider_that_may_have_it() {
    let (main, spare) = (far_end(), far_end());
    main.orders("", [Act::hang_up()]);
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

#[test]
fn a_certain_failure_after_a_lost_answer_does_not_send_a_job_through_a_second_provider() {
    let (main, spare) = (far_end(), far_end());
    main.orders("", [Act::hang_up(), page(503), page(503)]);
    let config = format!(
        "[providers.main]\nurl = \"{}\"\nbreaker = {{ failures = 1, reset = \"1s\" }}\n[providers.spare]\nurl = \"{}\"\n\
         [routes.both]\nproviders = [\"main\", \"spare\"]\npolicy = {{ base = \"20ms\" }}\n",
        main.url(),
        spare.url()
    );
    let scene = Scene::with(&config);
    scene.send("both", "acme", "maybe", &data("maybe"));
    let job = scene.sent("maybe");
    let results: Vec<_> = job["attempts"].as_array().unwrap().iter().map(|it| &it["result"]).collect();
    assert_eq!(results, ["uncertain", "failed", "failed", "sent"], "{job:#}");
    main.was_asked("maybe", 4);
    spare.was_asked("maybe", 0);
}

#[test]
fn a_job_lost_in_a_crash_goes_back_to_its_provider_and_is_buried_when_that_left_the_route() {
    let (main, spare) = (far_end(), far_end());
    main.always("", Act::silence());
    let providers = format!(
        "[engine]\nlease = \"2s\"\n[providers.main]\nurl = \"{}\"\n{OPENS_AT_ONCE}[providers.spare]\nurl = \"{}\"\n",
        main.url(),
        spare.url()
    );
    let both = "[routes.both]\nproviders = [\"main\", \"spare\"]\npolicy = { base = \"20ms\" }\n";
    let scene = Scene::with(&format!("{providers}{both}"));
    scene.send("both", "acme", "lost", &data("lost"));
    main.once("", 1);
    let only_spare = "[routes.both]\nproviders = [\"spare\"]\npolicy = { base = \"20ms\" }\n";
    scene.place.write("recado.toml", &format!("{providers}{only_spare}"));
    let server = killed(&scene);
    let job = server.job_once("lost", "failed");
    assert_eq!(tries(&job), ["lost LEASE_LOST UNKNOWN recado/lease-lost"], "{job:#}");
    assert_eq!(job["attempts"][0]["provider"], "main", "{job:#}");
    let entry = server.get("/v1/dlq/lost");
    assert_eq!(entry["lastFailureCode"], "PROVIDER_GONE", "{entry:#}");
    spare.was_asked("lost", 0);

    // A person finds out that the first provider does not have it.
    let (status, body) = server.ask("POST", "/v1/dlq/lost/replay", &serde_json::json!({}));
    assert_eq!(status, 202, "{body}");
    server.job_once("lost", "sent");
    spare.was_asked("lost", 1);
}
