//! Nodes that come and go: what a dead one leaves behind, a rolling restart, one more.

use std::time::{Duration, Instant};

use recado_testkit::redis::RedisServer;
use serde_json::{Value, json};

use super::far_end::FarEnd;
use super::given::{Place, eventually};
use super::ledger::{Account, Clients};
use super::nodes::{Nodes, enqueue, job};

#[test]
fn orphans_of_a_killed_node_run_again_within_their_lease_and_a_second() {
    const LEASE: Duration = Duration::from_secs(2);
    let (redis, far_end) = (RedisServer::durable(), FarEnd::start());
    let mut nodes =
        Nodes::start(&(far_end.lane("concurrency = 1\n") + "[engine]\nlease = \"2s\"\n"), &redis.url());
    // A busy machine makes things late, never early: the best of a few shows what it takes.
    let mut took = Vec::new();
    for round in 1..=3 {
        far_end.holds();
        let before = far_end.count();
        enqueue(nodes.at(0), &format!("round{round}"), 1);
        let orphan = far_end.once_come(before + 1)[before].clone();
        let at = orphan.node.split('.').next().and_then(|at| at.parse().ok()).expect("a node");
        nodes.kill(at);
        let killed = Instant::now();
        let again = far_end.once_come(before + 2)[before + 1].clone();
        assert_eq!(again.key, orphan.key);
        assert_ne!(again.node, orphan.node);
        took.push(again.came.duration_since(killed));
        far_end.recovers();
        nodes.start_again(at);
        nodes.at(at).job_once(&orphan.key, "sent");
    }
    println!("orphans of a killed node ran again after {took:?}; their lease was {LEASE:?}");
    let best = took.into_iter().min().unwrap_or_default();
    assert!(best > LEASE / 2, "no node takes a job over while its lease may be extended: {best:?}");
    assert!(best <= LEASE + Duration::from_secs(1), "{best:?}");
}

#[test]
fn the_default_lease_is_fifteen_seconds() {
    let defaults = Place::new().run(&["config", "show", "--default"]).done();
    assert!(defaults.lines().any(|line| line == "lease = \"15s\""), "{defaults}");
}

#[test]
fn a_rolling_restart_under_load_loses_and_repeats_nothing() {
    let (redis, far_end) = (RedisServer::durable(), FarEnd::slow(Duration::from_millis(100)));
    let mut nodes = Nodes::start(&far_end.lane("concurrency = 8\n"), &redis.url());
    let clients = Clients::start(6, &nodes.addresses);
    for at in 0..nodes.len() {
        let life = nodes.life(at);
        far_end.once_sending(&life);
        nodes.stop(at);
        assert!(!far_end.in_flight().contains(&life), "it waited for what it was sending");
        nodes.start_again(at);
    }
    let ledger = clients.stop();
    let account = Account::of(&ledger, &far_end, nodes.at(0));
    println!("a rolling restart of three nodes: {account}");
    assert!(account.moved_on > 0, "clients noticed");
    account.nothing_is_lost();
    account.nothing_is_repeated();
}

#[test]
fn a_fourth_node_takes_its_share() {
    let (redis, far_end) = (RedisServer::durable(), FarEnd::slow(Duration::from_millis(100)));
    let mut nodes = Nodes::start(&far_end.lane("concurrency = 2\n"), &redis.url());
    // Far more than three nodes can send in the meantime.
    enqueue(nodes.at(0), "acme", 1_000);
    far_end.once_come(30);
    let fourth = nodes.add(&redis.url());
    let life = nodes.life(fourth);
    far_end.once_sending(&life);
    let before = far_end.count();
    let later = far_end.once_come(before + 160).split_off(before);
    let own = later.iter().filter(|arrival| arrival.node == life).count();
    let fair = later.len() / nodes.len();
    println!("of {} deliveries the fourth node made {own}", later.len());
    assert!(own * 2 >= fair, "{own} of {}", later.len());

    // The others see it in its next report.
    let address = json!(nodes.at(fourth).address.to_string());
    let seen = |list: &Value| {
        let items = list["items"].as_array().expect("nodes").clone();
        let fourth = items.iter().find(|node| node["listen"] == address).cloned().unwrap_or_default();
        items.len() == 4
            && fourth["health"] == "ok"
            && fourth["sharePercent"].as_f64().is_some_and(|share| share > 0.0)
    };
    eventually(|| seen(&nodes.at(0).get("/v1/nodes")));
}

/// Every node forgets what is too old or too much every ten seconds; here nothing is.
#[test]
fn ids_of_jobs_that_ended_while_nodes_pruned_are_still_known() {
    const PRUNED_AT_LEAST_ONCE: Duration = Duration::from_secs(11);
    let (redis, far_end) = (RedisServer::start(), FarEnd::start());
    let nodes =
        Nodes::start(&(far_end.lane("concurrency = 8\n") + "[store]\npartitions = 3\n"), &redis.url());
    let started = Instant::now();
    let mut batches: Vec<Vec<Value>> = Vec::new();
    while started.elapsed() < PRUNED_AT_LEAST_ONCE {
        let nth = batches.len();
        let company = |at: usize| format!("company-{}", at % 12);
        let jobs: Vec<_> =
            (0..24).map(|at| job(&format!("job-{nth}-{at}"), &company(at), "deliver")).collect();
        let (status, told) = nodes.at(nth % 3).ask("POST", "/v1/jobs/batch", &json!(jobs));
        assert_eq!((status, &told["accepted"]), (200, &json!(24)), "{told}");
        batches.push(jobs);
        // They end as others come.
        far_end.once_come((nth * 24).saturating_sub(48));
    }
    let count = batches.len() * 24;
    far_end.once_come(count);
    for jobs in &batches {
        let (status, told) = nodes.at(0).ask("POST", "/v1/jobs/batch", &json!(jobs));
        assert_eq!((status, &told["accepted"]), (200, &json!(0)), "taken in again: {told}");
    }
    assert_eq!(far_end.count(), count, "delivered again");
}
