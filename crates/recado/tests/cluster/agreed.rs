//! Three nodes are one to a provider: one probe, one rate, one order of turns, one hand that stops it.

use std::collections::BTreeSet;
use std::time::Duration;

use recado_testkit::redis::RedisServer;
use serde_json::{Value, json};

use super::far_end::{Arrival, FarEnd};
use super::given::{Server, eventually};
use super::nodes::{Nodes, enqueue};

/// The far end and three nodes that know no other.
fn three_nodes(terms: &str) -> (RedisServer, FarEnd, Nodes) {
    let (redis, far_end) = (RedisServer::start(), FarEnd::start());
    let nodes = Nodes::start(&far_end.lane(terms), &redis.url());
    (redis, far_end, nodes)
}

fn provider(server: &Server) -> Value {
    server.get("/v1/providers/sink")
}

#[track_caller]
fn tell(server: &Server, act: &str, body: &Value) {
    let (status, told) = server.ask("POST", &format!("/v1/providers/sink/{act}"), body);
    assert_eq!(status, 200, "{act}: {told}");
}

/// Openings of the breaker, over all nodes together.
fn openings(nodes: &Nodes) -> usize {
    let told =
        |server: &Server| server.log().iter().filter(|line| line["event"] == "CircuitBreakerOpened").count();
    nodes.all().map(told).sum()
}

#[test]
fn f1_over_three_nodes_one_probe_a_reset_time_reaches_a_provider_that_is_down() {
    const FAILURES: usize = 3;
    const CONCURRENCY: usize = 4;
    const RESET: Duration = Duration::from_secs(1);
    let terms = "concurrency = 4\nbreaker = { failures = 3, reset = \"1s\", ramp = \"0s\" }\n";
    let (_redis, far_end, nodes) = three_nodes(terms);
    far_end.breaks();
    let ids = enqueue(nodes.at(0), "acme", 200);
    // It opens, and five probes find it still broken.
    eventually(|| openings(&nodes) > 5);
    far_end.recovers();
    for id in &ids {
        nodes.at(1).job_once(id, "sent");
    }
    let refused: Vec<_> = far_end.arrivals().into_iter().filter(|arrival| arrival.refused).collect();
    let probes = openings(&nodes) - 1;
    let opening = refused.len() - probes;
    // Until a node hears of it, it counts by itself.
    let most = nodes.len() * (FAILURES - 1 + CONCURRENCY);
    assert!(
        (FAILURES..=most).contains(&opening),
        "{opening} before it was open everywhere, then {probes} probes"
    );
    let alone = &refused[opening - 1..];
    for pair in alone.windows(2) {
        let quiet = pair[1].came.duration_since(pair[0].came);
        // Nodes go by the clock of Redis, to within what a request there takes.
        assert!(quiet >= RESET * 9 / 10, "a probe after {quiet:?}");
    }
}

#[test]
fn g16_a_rate_holds_over_three_nodes_in_every_window() {
    const MAX: usize = 40;
    const PER: Duration = Duration::from_secs(3);
    let (_redis, far_end, nodes) = three_nodes("concurrency = 4\nrate = { max = 40, per = \"3s\" }\n");
    far_end.holds();
    enqueue(nodes.at(0), "acme", 3 * MAX);
    // All slots of all nodes.
    assert_eq!(senders(&far_end.once_come(3 * 4)), 3);
    far_end.recovers();
    let arrivals = far_end.once_come(3 * MAX);
    // As with one node, a quarter of the window is for what is under way.
    let most = arrivals.iter().enumerate().map(|(at, first)| {
        arrivals[at..]
            .iter()
            .take_while(|arrival| arrival.came.duration_since(first.came) < PER * 3 / 4)
            .count()
    });
    let most = most.max().unwrap_or_default();
    assert!(most <= MAX, "{most} in one window");
}

#[test]
fn g10_over_three_nodes_ten_jobs_that_come_after_two_thousand_wait_for_fewer_than_sixty_of_them() {
    let (_redis, far_end, nodes) = three_nodes("concurrency = 5\n");
    tell(nodes.at(0), "pause", &Value::Null);
    eventually(|| nodes.all().all(|server| provider(server)["paused"].is_object()));
    enqueue(nodes.at(0), "loud", 2_000);
    let late = enqueue(nodes.at(1), "late", 10);
    assert_eq!(far_end.count(), 0);
    far_end.holds();
    tell(nodes.at(2), "resume", &Value::Null);
    // All slots of all nodes.
    assert_eq!(senders(&far_end.once_come(3 * 5)), 3);
    far_end.recovers();
    for id in &late {
        nodes.at(0).job_once(id, "sent");
    }
    let arrivals = far_end.arrivals();
    let last = arrivals.iter().rposition(|arrival| arrival.key.starts_with("late-")).expect("the tenth");
    let loud = arrivals[..last].iter().filter(|arrival| arrival.key.starts_with("loud-")).count();
    assert!((1..60).contains(&loud), "{loud} jobs of the other company went before the tenth");
}

fn senders(arrivals: &[Arrival]) -> usize {
    arrivals.iter().map(|arrival| &*arrival.node).collect::<BTreeSet<_>>().len()
}

#[test]
fn f1_a_breaker_opened_by_hand_at_one_node_holds_at_all_and_another_closes_it() {
    let (_redis, far_end, nodes) = three_nodes("breaker = { reset = \"1ms\" }\n");
    tell(nodes.at(0), "breaker", &json!({ "action": "open", "reason": "maintenance" }));
    eventually(|| nodes.all().all(|server| provider(server)["heldOpen"] == true));
    let ids = enqueue(nodes.at(1), "acme", 6);
    for server in nodes.all() {
        let job = server.get(&format!("/v1/jobs/{}", ids[0]));
        assert_eq!(
            (&job["status"], &job["waitingFor"]["reason"]),
            (&json!("parked"), &json!("breaker")),
            "{job:#}"
        );
        assert!(job["waitingFor"]["why"].as_str().is_some_and(|why| why.contains("maintenance")), "{job:#}");
    }
    assert_eq!(far_end.count(), 0);
    tell(nodes.at(2), "breaker", &json!({ "action": "close", "reason": "done" }));
    far_end.once_come(6);
    eventually(|| nodes.all().all(|server| provider(server)["state"] == "CLOSED"));
}

#[test]
fn a_pause_at_one_node_holds_at_all_and_over_the_restart_of_each() {
    let (_redis, far_end, mut nodes) = three_nodes("");
    tell(nodes.at(0), "pause", &json!({ "reason": "invoice day" }));
    eventually(|| nodes.all().all(|server| provider(server)["paused"].is_object()));
    let ids = enqueue(nodes.at(1), "acme", 6);
    for at in 0..nodes.len() {
        nodes.stop(at);
        nodes.start_again(at);
        let job = nodes.at(at).get(&format!("/v1/jobs/{}", ids[0]));
        assert_eq!(
            (&job["status"], &job["waitingFor"]["reason"]),
            (&json!("parked"), &json!("pause")),
            "{job:#}"
        );
    }
    assert_eq!(far_end.count(), 0);
    tell(nodes.at(2), "resume", &Value::Null);
    far_end.once_come(6);
}

/// A pause that Redis keeps, and everything said after it lost: as after a crash, or with a backup put back.
#[test]
fn after_redis_lost_what_was_said_last_all_nodes_agree_with_it_and_hear_what_is_said_next() {
    let (mut redis, far_end, nodes) = three_nodes("");
    let route = |server: &Server| {
        let routes = server.get("/v1/routes");
        let items = routes["items"].as_array().expect("routes").clone();
        items.into_iter().find(|route| route["name"] == "sink").expect("the route")
    };
    // Provider, route and company.
    let paused = |server: &Server| {
        // A company is unknown until something is said about it.
        let company = server.ask("GET", "/v1/tenants/acme", &Value::Null).1["paused"] == true;
        [provider(server)["paused"].is_object(), route(server)["paused"].is_object(), company]
    };
    let all_say = |wanted: [bool; 3]| eventually(|| nodes.all().all(|server| paused(server) == wanted));
    let say = |server: &Server, method: &str, path: &str, body: &Value| {
        let (status, told) = server.ask(method, path, body);
        assert_eq!(status, 200, "{path}: {told}");
    };
    tell(nodes.at(0), "pause", &Value::Null);
    all_say([true, false, false]);
    redis.ask::<()>(&["SAVE"]);
    tell(nodes.at(0), "resume", &Value::Null);
    say(nodes.at(1), "POST", "/v1/routes/sink/pause", &Value::Null);
    say(nodes.at(2), "PUT", "/v1/tenants/acme", &json!({ "paused": true }));
    all_say([false, true, true]);
    redis.kill();
    redis.restart();
    all_say([true, false, false]);
    for server in nodes.all() {
        server.logged("The store lost its latest value; all nodes use the older one that it has now", 3);
    }

    tell(nodes.at(0), "resume", &Value::Null);
    say(nodes.at(1), "PUT", "/v1/tenants/acme", &json!({ "paused": true }));
    all_say([false, false, true]);
    enqueue(nodes.at(2), "acme", 1);
    enqueue(nodes.at(2), "other", 6);
    assert!(far_end.once_come(6).iter().all(|arrival| arrival.key.starts_with("other-")));
}
