//! Bad requests hurt only themselves: other callers are served as quickly as ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use crate::given::{Kind, Server, Setup, ms};

/// Requests of the abusers, over and over, each on connections of its own.
fn abuses() -> Vec<Vec<u8>> {
    let post = |path: &str, body: &[u8]| {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body].concat()
    };
    let many_fields: String = (0..20_000).map(|n| format!("\"f{n}\":1,")).collect();
    vec![
        post("/v1/jobs", b"{\"route\": "),
        post("/v1/jobs", "[".repeat(1_000_000).as_bytes()),
        post("/v1/jobs", format!("{{{many_fields}\"route\":5}}").as_bytes()),
        post("/v1/jobs", &vec![b' '; 3 << 20]),
        post("/v1/jobs/batch", format!("[{}1]", "1,".repeat(2_000_000)).as_bytes()),
        post("/v1/jobs/batch", format!("[{}]", vec!["{\"route\":1}"; 10_000].join(",")).as_bytes()),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{".to_vec(),
        b"GET / HT".to_vec(),
    ]
}

/// Far more than an answer takes on the slowest machine, and less than the server waits for a request that stalls.
const ANSWERED_WITHIN: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_oversized_and_stalled_requests_do_not_slow_the_others_down() {
    let server = Arc::new(Server::start(Setup { kind: Kind::Embedded, ..Setup::default() }).await);
    let done = Arc::new(AtomicBool::new(false));
    let mut abusers = JoinSet::new();
    let mut counts = Vec::new();
    for abuse in abuses() {
        let sent = Arc::new(AtomicU32::new(0));
        counts.push(sent.clone());
        let (server, done) = (server.clone(), done.clone());
        abusers.spawn(async move {
            let mut stalled = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let mut stream = server.connect().await;
                let _ = stream.write_all(&abuse).await;
                sent.fetch_add(1, Ordering::Relaxed);
                // Held open: the server waits for the rest in vain.
                stalled.push(stream);
                if stalled.len() > 20 {
                    stalled.clear();
                }
                tokio::time::sleep(ms(40)).await;
            }
        });
    }
    let mut took = Vec::new();
    let started = Instant::now();
    let mut n = 0;
    while started.elapsed() < Duration::from_secs(3) {
        let asked = Instant::now();
        let job =
            json!({"jobId": format!("good{n}"), "route": "work", "companyId": "acme", "data": {"n": n}});
        let answer = server.post("/v1/jobs", job.to_string()).await;
        took.push(asked.elapsed());
        assert_eq!(answer.status, 202, "{}", answer.body);
        n += 1;
        tokio::time::sleep(ms(5)).await;
    }
    done.store(true, Ordering::Relaxed);
    while abusers.join_next().await.is_some() {}
    assert!(
        counts.iter().all(|sent| sent.load(Ordering::Relaxed) >= 5),
        "the abuse did not happen: {counts:?}"
    );
    // A request that waits for a stalled one would wait for the server's time-out, which is longer than this.
    let worst = took.iter().max().expect("requests were made");
    assert!(*worst < ANSWERED_WITHIN, "worst {worst:?} of {} requests", took.len());
    assert_eq!(server.get("/readyz").await.status, 200);
}
