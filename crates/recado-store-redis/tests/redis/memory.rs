//! Memory of a waiting job, and of jobs that are gone.

use recado_store::prelude::*;
use std::time::Duration;

use recado_core::{JobId, NewJob, Payload, Random, Timestamp};
use recado_store::{Retention, Settlement};
use recado_store_redis::{RedisOptions, RedisStore};
use recado_testkit::redis::RedisServer;

use crate::given::{T0, claim, delivered, job, jobs, random};

/// Bound on the memory of a pending job with a payload of 300 bytes: eleven lie in a node of the stream.
const PENDING_JOB_BYTES_MAX: u64 = 420;

const JOBS: usize = 100_000;

/// Memory of the server without the buffers of its connections, which keep the size of the largest call for a while.
fn used_bytes(server: &RedisServer) -> u64 {
    let info: String = server.ask(&["INFO", "memory"]);
    let figure = |name: &str| -> u64 {
        info.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().parse().unwrap()
    };
    figure("used_memory:") - figure("mem_clients_normal:")
}

/// A random UUID, as an outbox makes them.
fn uuid(random: &Random) -> JobId {
    let hex = format!("{:016x}{:016x}", random.next_u64(), random.next_u64());
    JobId::new(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
        .unwrap()
}

/// Memory of a job that callers enqueue, each with a clock that is some milliseconds off.
async fn cost_of_a_job(clocks_ms: &[i64]) -> u64 {
    let server = RedisServer::start();
    let store = RedisStore::open(&RedisOptions::new(server.url()), random()).await.unwrap();
    let text = format!(r#"{{"to":["ana@example.com"],"subject":"Olá","text":"{}"}}"#, "x".repeat(247));
    let data = Payload::new(&text).unwrap();
    assert_eq!(data.as_str().len(), 300);
    let ids = Random::from_seed(5);
    // What does not grow with the jobs is there before they are counted.
    store.enqueue(jobs(0..64)).await.unwrap();
    let before = used_bytes(&server);
    for (nth, clock_ms) in (0..JOBS as i64 / 1_000).zip(clocks_ms.iter().cycle()) {
        let at = Timestamp::from_millis(T0.as_millis() + nth + clock_ms);
        let new = (0..1_000).map(|_| NewJob {
            id: uuid(&ids),
            data: data.clone(),
            enqueued_at: at,
            due_at: at,
            ..job("any")
        });
        store.enqueue(new.collect()).await.unwrap();
    }
    (used_bytes(&server) - before) / JOBS as u64
}

#[tokio::test]
async fn a_pending_job_costs_less_than_the_bound() {
    let each = cost_of_a_job(&[0]).await;
    assert!(each <= PENDING_JOB_BYTES_MAX, "a pending job costs {each} bytes");
}

#[tokio::test]
async fn callers_that_arrive_in_another_order_than_they_asked_cost_no_more() {
    let each = cost_of_a_job(&[20, 0, 10]).await;
    assert!(each <= PENDING_JOB_BYTES_MAX, "a pending job costs {each} bytes");
}

#[tokio::test]
async fn jobs_that_are_pruned_leave_next_to_nothing() {
    let server = RedisServer::start();
    let store = RedisStore::open(&RedisOptions::new(server.url()), random()).await.unwrap();
    let mut after_first = 0;
    for round in 0..4 {
        store.enqueue(jobs(round * 2_000..(round + 1) * 2_000)).await.unwrap();
        let leases = store.claim(claim(2_000)).await.unwrap().leases;
        let settled = leases.iter().map(|lease| Settlement { audit: None, ..delivered(lease) });
        store.settle(settled.collect()).await.unwrap();
        let nothing = Retention { ended_max_age: Duration::ZERO, ended_max_count: 0 };
        while store.prune(nothing.clone(), T0).await.unwrap().more {}
        // Claims are remembered for ten seconds.
        let keys: Vec<String> = server.ask(&["KEYS", "*"]);
        for claim in keys.iter().filter(|key| key.contains(":claim:")) {
            assert!(server.ask::<i64>(&["PTTL", claim]) > 0, "{claim} stays for ever");
            server.ask::<()>(&["DEL", claim]);
        }
        if round == 0 {
            after_first = used_bytes(&server);
        }
    }
    let keys: Vec<String> = server.ask(&["KEYS", "*"]);
    assert!(keys.len() < 20, "{} keys are left: {:?}", keys.len(), &keys[..20]);
    let grown = used_bytes(&server).saturating_sub(after_first);
    assert!(grown < 6_000 * 8, "6,000 jobs came and went, and {grown} bytes stayed");
}
