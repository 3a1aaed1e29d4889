//! Stops: graceful, at once, and what is there after the restart.

use std::time::{Duration, Instant};

use recado_testkit::redis::RedisServer;
use serde_json::{Value, json};

use super::given::{Place, Server, eventually};

const FIVE_AT_A_TIME: &str = "[routes.slow]\ntransport = \"sandbox\"\n[providers.slow]\nconcurrency = 5\n";

fn enqueue_slow(server: &Server, count: usize, latency_ms: u64) -> Vec<String> {
    let one = |number: usize| {
        server.enqueue(json!({"jobId": format!("slow-{number}"), "route": "slow", "companyId": "acme", "data": {"latencyMs": latency_ms}}))
    };
    (0..count).map(one).collect()
}

fn in_flight(server: &Server) -> usize {
    server.get("/v1/jobs?status=delivering")["items"].as_array().expect("a list").len()
}

#[test]
fn a_graceful_stop_with_slow_jobs_in_flight_loses_nothing_and_repeats_nothing() {
    let place = Place::with(FIVE_AT_A_TIME);
    let server = place.serve();
    let ids = enqueue_slow(&server, 12, 600);
    eventually(|| in_flight(&server) == 5);
    server.signal("TERM");
    let (status, err) = server.ended();
    assert!(status.success(), "{err}");

    let server = place.serve();
    let sent_before: Vec<_> =
        ids.iter().filter(|id| server.get(&format!("/v1/jobs/{id}"))["status"] == "sent").collect();
    assert!(sent_before.len() >= 5, "those in flight ended first: {sent_before:?}");
    for id in &ids {
        let job = server.job_once(id, "sent");
        assert_eq!(job["attempts"].as_array().unwrap().len(), 1, "{id} was sent more than once: {job:#}");
    }
    server.stop();
}

#[test]
fn a_second_signal_stops_at_once_and_the_jobs_come_back_after_the_restart() {
    let place = Place::with(FIVE_AT_A_TIME);
    let server = place.serve();
    let ids = enqueue_slow(&server, 2, 60_000);
    eventually(|| in_flight(&server) == 2);
    let asked = Instant::now();
    server.signal("TERM");
    server.logged("Stopping: running deliveries end first; a second signal stops at once", 1);
    server.signal("INT");
    let (status, err) = server.ended();
    assert_eq!(status.code(), Some(1));
    assert!(err.contains("they are repeated after the restart"), "{err}");
    assert!(asked.elapsed() < Duration::from_secs(10));

    let server = place.serve();
    for id in &ids {
        let again = |job: &Value| {
            job["status"] == "delivering" && job["attempts"].as_array().is_some_and(|it| it.len() == 1)
        };
        let job = server.job_when(id, again);
        assert_eq!(job["attempts"][0]["result"], "lost", "{job:#}");
    }
}

#[test]
fn a_stop_ends_long_polls_and_refuses_what_comes_after() {
    let place = Place::new();
    let server = place.serve();
    let address = server.address;
    let body =
        json!({"routes": ["tiss-claims"], "max": 1, "waitMs": 30000, "leaseMs": 30000, "workerId": "w"});
    std::thread::scope(|scope| {
        let poll = scope.spawn(|| server.ask("POST", "/v1/leases", &body));
        std::thread::sleep(Duration::from_millis(200)); // nothing tells from outside that a poll has begun
        server.signal("TERM");
        let (status, answer) = poll.join().unwrap();
        assert!(status == 503 || answer["leases"].as_array().is_some_and(Vec::is_empty), "{status} {answer}");
    });
    let (status, err) = server.ended();
    assert!(status.success(), "{err}");
    assert!(std::net::TcpStream::connect(address).is_err());
}

const STOP_GRACE: Duration = Duration::from_secs(2);

/// More than the last steps of a stop take, also where other tests run.
const SLACK: Duration = Duration::from_secs(8);

/// With a Redis of its own and a short grace.
fn on_redis(config: &str) -> (RedisServer, Place) {
    (RedisServer::start(), Place::with(&format!("{config}[engine]\nstop_grace = \"2s\"\n")))
}

/// SIGTERM, and what it said at its end.
#[track_caller]
fn ends_in_time(server: Server) -> (Option<i32>, String) {
    let asked = Instant::now();
    server.signal("TERM");
    let (status, err) = server.ended();
    assert!(asked.elapsed() < STOP_GRACE + SLACK, "it took {:?}", asked.elapsed());
    (status.code(), err)
}

#[test]
fn a_stop_ends_within_its_grace_while_redis_stands_still_and_says_what_was_not_written() {
    let (redis, place) = on_redis(FIVE_AT_A_TIME);
    let server = place.serve_with(&["--store", &redis.url()], &[]);
    enqueue_slow(&server, 3, 1_000);
    eventually(|| in_flight(&server) == 3);
    redis.pause();
    server.logged("Cannot write an outcome down yet; trying again", 3);
    let (code, err) = ends_in_time(server);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("3 outcomes could not be written down"), "{err}");
}

#[test]
fn a_stop_ends_within_its_grace_while_redis_is_gone_in_the_middle_of_a_sweep() {
    const JOBS: u64 = 3_000;
    let (mut redis, place) = on_redis("[routes.slow]\ntransport = \"sandbox\"\n");
    let server = place.serve_with(&["--store", &redis.url()], &[]);
    let (status, told) = server.ask("POST", "/v1/routes/slow/pause", &Value::Null);
    assert_eq!(status, 200, "{told}");
    let one = |nth: u64| json!({"jobId": format!("late-{nth}"), "route": "slow", "companyId": "acme", "ttlMs": 1_000, "data": {}});
    for from in (0..JOBS).step_by(500) {
        let jobs: Vec<_> = (from..from + 500).map(one).collect();
        assert_eq!(server.ask("POST", "/v1/jobs/batch", &json!(jobs)).0, 200);
    }
    // Their time runs out: many of them are taken over, and not yet dead.
    eventually(|| server.get("/readyz")["counts"]["leased"].as_u64().is_some_and(|leased| leased > 100));
    redis.kill();
    server.logged("Cannot write an outcome down yet; trying again", 1);
    let (code, err) = ends_in_time(server);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("outcomes could not be written down"), "{err}");
}

#[test]
fn a_stop_that_abandons_deliveries_says_how_many_and_exits_with_1() {
    let (mut redis, place) = on_redis(FIVE_AT_A_TIME);
    let server = place.serve_with(&["--store", &redis.url()], &[]);
    enqueue_slow(&server, 3, 60_000);
    eventually(|| in_flight(&server) == 3);
    redis.kill();
    let (code, err) = ends_in_time(server);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("3 deliveries had not ended within the grace"), "{err}");
}

#[test]
fn a_stop_without_work_ends_well_while_redis_is_gone() {
    let (mut redis, place) = on_redis("");
    let server = place.serve_with(&["--store", &redis.url()], &[]);
    redis.kill();
    let (code, err) = ends_in_time(server);
    assert_eq!(code, Some(0), "{err}");
}
