//! Jobs whose route can no longer deliver.

use serde_json::json;

use super::given::{Place, eventually};

#[test]
fn jobs_of_a_route_that_is_gone_are_announced_and_say_what_they_wait_for() {
    let place = Place::with("[routes.gone]\ntransport = \"sandbox\"\n");
    let server = place.serve();
    let id = server.enqueue(json!({"route": "gone", "companyId": "acme", "delayMs": 300, "data": {}}));
    server.stop();

    place.write("recado.toml", "");
    let server = place.serve();
    let warned = server.logged(
        "Jobs wait for a route that cannot deliver; they go to the dead letter queue when they expire",
        1,
    );
    assert_eq!((&warned[0]["route"], &warned[0]["jobs"]), (&json!("gone"), &json!(1)));
    eventually(|| server.get(&format!("/v1/jobs/{id}"))["waitingFor"]["reason"] == "route");
    let shown = server.run(&place, &["jobs", "show", &id]).done();
    assert!(shown.contains("cannot be delivered: there is no route `gone`"), "{shown}");
    server.stop();
}
