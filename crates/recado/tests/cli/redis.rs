//! Several nodes on one Redis, from outside. The connection's own troubles are tested with the store.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use recado_testkit::redis::{RedisCluster, RedisServer};
use serde_json::{Value, json};

use super::given::{Place, eventually};

fn sandbox(id: &str, latency_ms: u64) -> Value {
    json!({"jobId": id, "route": "sandbox", "companyId": "acme", "data": {"script": ["ok"], "latencyMs": latency_ms}})
}

#[test]
fn two_nodes_share_one_redis_and_know_of_each_other() {
    let redis = RedisServer::durable();
    let (one_place, other_place) = (Place::new(), Place::new());
    let one = one_place.serve_with(&["--store", &redis.url()], &[]);
    let other = other_place.serve_with(&[], &[("RECADO_STORE_URL", &redis.url())]);
    let (status, answer) = one.ask("POST", "/v1/jobs", &sandbox("shared", 0));
    assert_eq!((status, &answer["durability"]), (202, &json!("fsync")), "{answer}");
    other.job_once("shared", "sent");
    let ready = other.get("/readyz");
    assert_eq!((&ready["store"]["kind"], &ready["store"]["durability"]), (&json!("redis"), &json!("fsync")));

    for server in [&one, &other] {
        let mut seen = Value::Null;
        eventually(|| {
            seen = server.run(&one_place, &["nodes", "--json"]).json();
            let items = seen["items"].as_array().expect("a list");
            items.len() == 2 && items.iter().all(|node| node["health"] == "ok")
        });
        let addresses: Vec<_> =
            seen["items"].as_array().unwrap().iter().map(|node| node["listen"].clone()).collect();
        assert!(addresses.contains(&json!(one.address.to_string())), "{seen}");
        assert!(addresses.contains(&json!(other.address.to_string())), "{seen}");
    }
    other.stop();
    let left = one.get("/v1/nodes");
    assert_eq!(left["items"].as_array().unwrap().len(), 1, "it took no leave: {left}");
}

#[test]
fn g14_a_full_redis_refuses_jobs_with_503_and_loses_none() {
    let redis = RedisServer::with(&["maxmemory 100mb"]);
    let place = Place::new();
    let server = place.serve_with(&["--store", &redis.url()], &[]);
    server.enqueue(sandbox("running", 2_000));
    server.enqueue(json!({"jobId": "waiting", "route": "sandbox", "companyId": "acme", "data": {"script": ["ok"]}, "delayMs": 3_000}));
    server.job_when("running", |job| job["status"] == "delivering");
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let (status, problem) = server.ask("POST", "/v1/jobs", &sandbox("refused", 0));
    assert_eq!((status, &problem["code"]), (503, &json!("store_full")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("raise maxmemory"), "{problem}");
    let (status, batch) = server.ask("POST", "/v1/jobs/batch", &json!([sandbox("refused", 0)]));
    assert_eq!(status, 503, "{batch}");
    server.job_once("running", "sent");
    server.job_once("waiting", "sent");
    server.logged("Redis is full: new jobs are refused", 1);
    let reasons = server.ask("GET", "/readyz", &Value::Null).1["reasons"].to_string();
    assert!(reasons.contains("of 1048576 bytes (maxmemory)") && reasons.contains("[retention]"), "{reasons}");
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "100mb"]);
    server.logged("Redis has room again: new jobs are taken", 1);
    server.enqueue(sandbox("refused", 0));
    server.job_once("refused", "sent");
}

#[test]
fn a_redis_that_dies_costs_callers_a_503_and_what_it_had_acknowledged_is_there_when_it_is_back() {
    let mut redis = RedisServer::durable();
    let place = Place::new();
    let server = place.serve_with(&["--store", &redis.url()], &[]);
    server.enqueue(json!({"jobId": "before", "route": "sandbox", "companyId": "acme", "data": {"script": ["ok"]}, "delayMs": 1_000}));
    redis.kill();
    let (status, problem) = server.ask("POST", "/v1/jobs", &sandbox("meanwhile", 0));
    assert_eq!((status, &problem["code"]), (503, &json!("store_unavailable")), "{problem}");
    assert_eq!(server.ask("GET", "/readyz", &Value::Null).0, 503);
    redis.restart();
    server.job_once("before", "sent");
    eventually(|| server.ask("POST", "/v1/jobs", &sandbox("meanwhile", 0)).0 != 503);
    server.job_once("meanwhile", "sent");
}

#[test]
fn g13_an_evicting_redis_is_refused_and_the_doctor_says_how_to_mend_it() {
    let redis = RedisServer::with(&["maxmemory 100mb", "maxmemory-policy allkeys-lru", "appendonly yes"]);
    let place =
        Place::with(&format!("[server]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = \"{}\"\n", redis.url()));
    let refused = place.run(&["serve"]).failed_with(1);
    assert!(refused.contains("redis-cli CONFIG SET maxmemory-policy noeviction"), "{refused}");
    let unfit = place.run(&["doctor", "--url", "http://127.0.0.1:9"]);
    assert_eq!(unfit.code, 1);
    assert!(unfit.out.contains("✗ store eviction"), "{}", unfit.out);

    redis.ask::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    let fit = place.run(&["doctor", "--url", "http://127.0.0.1:9"]).done();
    for expected in [
        "✓ store:",
        "✓ store version",
        "✓ store eviction",
        "! store durability",
        "✓ store memory",
        "✓ store speed",
    ] {
        assert!(fit.contains(expected), "{expected:?} is missing from\n{fit}");
    }
    assert!(fit.contains("up to two seconds"), "{fit}");
}

#[test]
fn a_redis_that_is_not_there_is_told_by_serve_and_doctor_without_its_password() {
    let gone = { RedisServer::start().url() }.replace("redis://", "redis://ana:hunter2@");
    let place = Place::new();
    let refused = place.run(&["serve", "--listen", "127.0.0.1:0", "--store", &gone]).failed_with(1);
    assert!(refused.contains("cannot open the store: no connection to Redis at 127.0.0.1"), "{refused}");
    let unfit = place.run(&["doctor", "--url", "http://127.0.0.1:9", "--store", &gone]);
    assert_eq!(unfit.code, 1);
    assert!(unfit.out.contains("✗ store"), "{}", unfit.out);
    for said in [refused, unfit.out, unfit.err] {
        assert!(!said.contains("hunter"), "{said}");
    }
}

#[test]
fn a_node_that_is_measured_ends_with_the_process_that_started_it() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let asked = place.run(&["bench-node"]).failed_with(1);
    assert!(asked.contains("recado bench redis"), "{asked}");
    let manifest =
        json!({"name": "node-0", "url": redis.url(), "prefix": "bench", "partitions": 1, "leaseMs": 15_000});
    let mut command = place.command(&["bench-node"]);
    let mut node = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (node.stdin.take().unwrap(), node.stdout.take().unwrap());
    writeln!(input, "{manifest}").unwrap();
    let mut said = String::new();
    BufReader::new(output).read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    input.write_all(b"go\n").unwrap();
    drop(input);
    assert!(node.wait().unwrap().success());
}

#[test]
fn after_flushall_a_node_with_another_number_of_partitions_is_still_refused() {
    let redis = RedisServer::durable();
    let (place, other) = (Place::with("[store]\npartitions = 3\n"), Place::with("[store]\npartitions = 4\n"));
    let server = place.serve_with(&["--store", &redis.url()], &[]);
    redis.ask::<()>(&["FLUSHALL"]);
    eventually(|| redis.ask::<u64>(&["EXISTS", "recado:{2}:format", "recado:{notes}:format"]) == 2);
    let said = other.run(&["serve", "--store", &redis.url(), "--listen", "127.0.0.1:0"]).failed_with(1);
    assert!(said.contains("the store has 3 partitions and not 4"), "{said}");
    server.enqueue(sandbox("after", 0));
    server.job_once("after", "sent");
}

#[test]
fn a_node_whose_redis_was_emptied_and_given_other_partitions_says_what_happened() {
    let redis = RedisServer::durable();
    let (place, other) = (Place::with("[store]\npartitions = 3\n"), Place::with("[store]\npartitions = 4\n"));
    let server = place.serve_with(&["--store", &redis.url()], &[]);
    server.signal("STOP");
    redis.ask::<()>(&["FLUSHALL"]);
    let newer = other.serve_with(&["--store", &redis.url()], &[]);
    server.signal("CONT");
    let (status, said) = server.ended();
    assert!(!status.success());
    assert!(
        said.contains("Redis was emptied") && said.contains("Give all nodes the same settings"),
        "{said}"
    );
    assert!(!said.contains("it recovers"), "nothing is there to recover: {said}");
    newer.stop();
}

#[test]
fn a_probe_waits_once_for_a_redis_that_stands_still() {
    let redis = RedisServer::start();
    let place = Place::with("[store]\ntimeout = \"4s\"\n");
    let server = place.serve_with(&["--store", &redis.url()], &[]);
    redis.pause();
    let asked = Instant::now();
    let (status, ready) = server.ask("GET", "/readyz", &Value::Null);
    assert_eq!((status, ready["reasons"].as_array().map(Vec::len)), (503, Some(1)), "{ready}");
    assert!(asked.elapsed() < Duration::from_secs(8), "it waited twice: {:?}", asked.elapsed());
}

#[test]
fn a_node_stays_ready_while_a_shard_of_a_cluster_is_down_and_names_what_is_away() {
    // Slow to notice that a master is gone.
    let settings = ["cluster-require-full-coverage no", "cluster-node-timeout 15000"];
    let mut cluster = RedisCluster::with(3, &settings);
    let place = Place::with("[store]\npartitions = 6\ntimeout = \"1s\"\n");
    let server = place.serve_with(&["--store", &cluster.url()], &[]);
    assert_eq!(server.get("/readyz")["reasons"], Value::Null);
    cluster.masters[1].kill();
    let (status, ready) = server.ask("GET", "/readyz", &Value::Null);
    assert_eq!((status, &ready["status"]), (200, &json!("ready")), "{ready}");
    // The slots of these are the second master's.
    assert!(ready["reasons"][0].as_str().unwrap().contains("these do not answer: 1, 2, 5"), "{ready}");
    let of = |nth: usize| json!({"jobId": format!("job-{nth}"), "route": "sandbox", "companyId": format!("company-{nth}"), "data": {"script": ["ok"]}});
    let answers: Vec<u16> = (0..8).map(|nth| server.ask("POST", "/v1/jobs", &of(nth)).0).collect();
    assert!(answers.contains(&202) && answers.contains(&503), "{answers:?}");
    cluster.masters[0].kill();
    cluster.masters[2].kill();
    assert_eq!(server.ask("GET", "/readyz", &Value::Null).0, 503);
}
