//! The bounds of bodies and connections.

use std::time::{Duration, Instant};

use recado_api::{ApiLimits, ServeLimits};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::given::{Server, Setup, ms, read_to_end};

fn small() -> ApiLimits {
    ApiLimits { body_max_bytes: 2_000, batch_body_max_bytes: 20_000, ..ApiLimits::default() }
}

fn padded(bytes: usize) -> String {
    let empty = json!({"route": "work", "companyId": "a", "data": ""}).to_string().len();
    json!({"route": "work", "companyId": "a", "data": "x".repeat(bytes - empty)}).to_string()
}

#[tokio::test]
async fn a_body_may_be_as_large_as_the_limit_and_no_larger() {
    let server = Server::start(Setup { limits: small(), ..Setup::default() }).await;
    assert_eq!(server.post("/v1/jobs", padded(2_000)).await.status, 202);
    let answer = server.post("/v1/jobs", padded(2_001)).await;
    answer.is_problem(413, "payload_too_large");
    assert!(answer.body["detail"].as_str().unwrap().contains("2000"));
    let many = format!("[{}]", vec![padded(1_900); 12].join(","));
    server.post("/v1/jobs/batch", many).await.is_problem(413, "payload_too_large");
    let some = format!("[{}]", vec![padded(1_900); 10].join(","));
    assert_eq!(server.post("/v1/jobs/batch", some).await.status, 200, "a batch has its own limit");
}

#[tokio::test]
async fn the_limits_are_a_mebibyte_for_a_job_and_thirty_two_for_a_batch_by_default() {
    let server = Server::plain().await;
    assert_eq!(server.post("/v1/jobs", padded(1 << 20)).await.status, 202);
    server.post("/v1/jobs", padded((1 << 20) + 1)).await.is_problem(413, "payload_too_large");
    server.post("/v1/jobs/batch", " ".repeat((32 << 20) + 1)).await.is_problem(413, "payload_too_large");
}

#[tokio::test]
async fn a_body_that_hides_its_size_is_cut_off_at_the_limit() {
    let server = Server::start(Setup { limits: small(), ..Setup::default() }).await;
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                transfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    let chunk = format!("3e8\r\n{}\r\n", " ".repeat(1_000));
    let answer = server.raw(format!("{head}{}0\r\n\r\n", chunk.repeat(3)).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("payload_too_large"), "{answer}");
    let job = padded(1_500);
    let (first, second) = job.split_at(700);
    let pieces = format!("{:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n", first.len(), second.len());
    let answer = server.raw(format!("{head}{pieces}").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 202 "), "pieces make a job: {answer}");
}

#[tokio::test]
async fn a_caller_that_asks_before_sending_is_told_at_once() {
    let server = Server::start(Setup { limits: small(), ..Setup::default() }).await;
    let mut stream = server.connect().await;
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 5000\r\nexpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    tokio::time::timeout(Duration::from_secs(2), stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn bodies_together_have_a_limit_too() {
    let limits = ApiLimits { bodies_in_flight_max_bytes: 300_000, ..ApiLimits::default() };
    let server = Server::start(Setup { limits, ..Setup::default() }).await;
    let answer = server.post_as("/v1/jobs/batch", "application/x-ndjson", "\n".repeat(500_000)).await;
    answer.is_problem(503, "overloaded");
    assert_eq!(answer.header("retry-after"), "1");
    for _ in 0..5 {
        let answer = server.post_as("/v1/jobs/batch", "application/x-ndjson", "\n".repeat(150_000)).await;
        assert_eq!(answer.status, 200, "what was taken is given back");
    }
}

#[tokio::test]
async fn a_slow_header_is_cut_off_and_a_slow_body_is_told_why() {
    let serve = ServeLimits { header_timeout: ms(300), ..ServeLimits::default() };
    let limits = ApiLimits { body_timeout: ms(300), ..ApiLimits::default() };
    let server = Server::start(Setup { serve, limits, ..Setup::default() }).await;

    let started = Instant::now();
    let mut dripping = server.connect().await;
    let drip = async {
        for byte in
            b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: aaaaaaaaaaaaaaaaaaaaaaaa".iter().cycle()
        {
            if dripping.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(ms(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), drip).await.expect("the header drips on and on");
    assert!(started.elapsed() >= ms(300));

    let silent_since = Instant::now();
    assert_eq!(
        read_to_end(&mut server.connect().await).await,
        "",
        "a connection that says nothing is closed"
    );
    assert!(
        (ms(250)..Duration::from_secs(3)).contains(&silent_since.elapsed()),
        "{:?}",
        silent_since.elapsed()
    );

    let body = b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{";
    let started = Instant::now();
    let answer = server.raw(body).await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("request_timeout"), "{answer}");
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn a_kept_connection_may_rest_longer_than_a_header_may_take() {
    let serve = ServeLimits { header_timeout: ms(200), idle_timeout: ms(1_000), ..ServeLimits::default() };
    let server = Server::start(Setup { serve, ..Setup::default() }).await;
    let mut stream = server.connect().await;
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut answer = [0; 4_096];
    for _ in 0..3 {
        stream.write_all(request).await.unwrap();
        assert!(stream.read(&mut answer).await.unwrap() > 0);
        tokio::time::sleep(ms(500)).await;
    }
    stream.write_all(request).await.unwrap();
    assert!(stream.read(&mut answer).await.unwrap() > 0);
    // At once: the idle time is all there still, so only the header's own time can end this.
    stream.write_all(b"GET /heal").await.unwrap();
    let begun = Instant::now();
    assert_eq!(read_to_end(&mut stream).await, "");
    assert!(
        begun.elapsed() < ms(700),
        "a header that stops half-way has its own time: {:?}",
        begun.elapsed()
    );

    let mut idle = server.connect().await;
    idle.write_all(request).await.unwrap();
    assert!(idle.read(&mut answer).await.unwrap() > 0);
    let rested = Instant::now();
    assert_eq!(read_to_end(&mut idle).await, "");
    assert!((ms(900)..ms(3_000)).contains(&rested.elapsed()), "{:?}", rested.elapsed());
}

#[tokio::test]
async fn a_handler_that_waits_is_not_taken_for_an_idle_connection() {
    let serve = ServeLimits { header_timeout: ms(100), idle_timeout: ms(150), ..ServeLimits::default() };
    let server = Server::start(Setup { serve, ..Setup::default() }).await;
    let body = json!({"routes": ["work"], "workerId": "w", "waitMs": 800}).to_string();
    let answer = server.post("/v1/leases", body).await;
    assert_eq!((answer.status, answer.body), (200, json!({"leases": []})));
}

#[tokio::test]
async fn a_header_that_is_too_large_is_refused() {
    let server = Server::plain().await;
    let request =
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-large: {}\r\n\r\n", "x".repeat(40_000));
    let answer = server.raw(request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let request = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "a: b\r\n".repeat(200));
    let answer = server.raw(request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn beyond_the_limit_of_connections_there_is_a_word_and_then_room_again() {
    let serve = ServeLimits { connections_max: 3, ..ServeLimits::default() };
    let server = Server::start(Setup { serve, ..Setup::default() }).await;
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut kept = Vec::new();
    for _ in 0..3 {
        let mut stream = server.connect().await;
        stream.write_all(request).await.unwrap();
        assert!(stream.read(&mut [0; 1_024]).await.unwrap() > 0);
        kept.push(stream);
    }
    let refused = server.raw(request).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("too_many_connections"), "{refused}");
    kept.pop();
    let started = Instant::now();
    loop {
        let mut stream = server.connect().await;
        stream.write_all(request).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        if &answer == b"HTTP/1.1 200" {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(5), "no room again");
        tokio::time::sleep(ms(10)).await;
    }
}

#[tokio::test]
async fn silent_sockets_keep_no_caller_with_a_token_out_who_comes_from_the_same_address() {
    let serve = ServeLimits::for_connections(64);
    let server = Server::start(Setup { serve, token: Some("secret"), ..Setup::default() }).await;
    let request = b"GET /v1/routes HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret\r\n\r\n";
    let asked = async |stream: &mut tokio::net::TcpStream| {
        stream.write_all(request).await.unwrap();
        let mut answer = [0; 4_096];
        let read = stream.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..read]).into_owned()
    };
    let mut kept = server.connect().await;
    assert!(asked(&mut kept).await.starts_with("HTTP/1.1 200 "));
    let mut silent = Vec::new();
    for _ in 0..10 {
        for _ in 0..40 {
            silent.push(server.connect().await);
        }
        let mut fresh = server.connect().await;
        let answer = asked(&mut fresh).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    assert!(asked(&mut kept).await.starts_with("HTTP/1.1 200 "), "who was let in stays");
    let oldest = &mut silent[0];
    assert_eq!(oldest.read(&mut [0; 16]).await.unwrap_or(0), 0, "the oldest silent one made room");
}
