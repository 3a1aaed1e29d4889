//! Stopping, and a store that takes nothing.

use std::time::{Duration, Instant};

use recado_api::ServeLimits;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::given::{Kind, Server, Setup, ms, read_to_end};

#[tokio::test]
async fn a_full_store_refuses_new_jobs_with_a_time_to_come_back_and_keeps_the_rest_going() {
    let server =
        Server::start(Setup { kind: Kind::Embedded, store_max_bytes: Some(1), ..Setup::default() }).await;
    let job = json!({"route": "work", "companyId": "a", "data": 1});
    for (path, body) in [("/v1/jobs", job.to_string()), ("/v1/jobs/batch", json!([job]).to_string())] {
        let answer = server.post(path, body).await;
        answer.is_problem(503, "store_full");
        assert!(answer.header("retry-after").parse::<u32>().unwrap() > 0);
    }
    let ready = server.get("/readyz").await;
    assert_eq!((ready.status, &ready.body["status"]), (503, &json!("not_ready")));
    assert!(ready.body["reasons"][0].as_str().unwrap().contains("refuses new jobs"), "{}", ready.body);
    assert!(ready.body["store"]["refusing"].is_string());
    assert_eq!(server.get("/healthz").await.status, 200, "alive all the same");
    assert_eq!(server.get("/v1/jobs").await.status, 200);
}

#[tokio::test]
async fn a_ready_server_tells_what_it_holds() {
    let server = Server::start(Setup { kind: Kind::Embedded, ..Setup::default() }).await;
    server.enqueue(json!({"route": "work", "companyId": "a", "data": 1})).await;
    server.enqueue(json!({"route": "work", "companyId": "a", "data": 1, "delayMs": 60_000})).await;
    let ready = server.get("/readyz").await;
    assert_eq!((ready.status, &ready.body["status"]), (200, &json!("ready")));
    let counts = json!({"delayed": 1, "ready": 1, "leased": 0, "deadLetters": 0, "ended": 0});
    assert_eq!(ready.body["counts"], counts);
    assert_eq!(
        (&ready.body["store"]["kind"], &ready.body["store"]["durability"]),
        (&json!("embedded"), &json!("fsync"))
    );
    assert!(ready.body["store"]["sizeBytes"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn an_engine_that_stops_takes_nothing_in() {
    let server = Server::plain().await;
    server.engine.stop().await.unwrap();
    let job = json!({"route": "work", "companyId": "a", "data": 1}).to_string();
    let answer = server.post("/v1/jobs", job).await;
    answer.is_problem(503, "stopping");
    assert!(answer.header("retry-after").parse::<u32>().unwrap() > 0);
    let lease = json!({"routes": ["work"], "workerId": "w", "waitMs": 10_000}).to_string();
    server.post("/v1/leases", lease).await.is_problem(503, "stopping");
    let ready = server.get("/readyz").await;
    assert_eq!((ready.status, &ready.body["reasons"]), (503, &json!(["the server is stopping"])));
}

#[tokio::test]
async fn a_stop_answers_the_requests_at_hand_and_closes_the_rest() {
    let mut server = Server::plain().await;
    let mut idle = server.connect().await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(idle.read(&mut [0; 1_024]).await.unwrap() > 0);

    let body = json!({"route": "work", "companyId": "a", "data": 1}).to_string();
    let (first, second) = body.split_at(10);
    let mut half_way = server.connect().await;
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{first}",
        body.len()
    );
    half_way.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(ms(100)).await;

    let started = Instant::now();
    server.closing.cancel();
    assert_eq!(read_to_end(&mut idle).await, "", "an idle connection is closed");
    assert!(started.elapsed() < Duration::from_secs(1));
    tokio::time::sleep(ms(100)).await;
    assert!(TcpStream::connect(server.address).await.is_err(), "no new connection gets in");
    half_way.write_all(second.as_bytes()).await.unwrap();
    let answer = read_to_end(&mut half_way).await;
    assert!(answer.starts_with("HTTP/1.1 202 "), "what had begun is answered: {answer}");
    server.served().await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_long_polls() {
    let mut server = Server::plain().await;
    let url = server.url("/v1/leases");
    let poll = server.http.post(url).header("content-type", "application/json");
    let poll = poll.body(json!({"routes": ["work"], "workerId": "w", "waitMs": 60_000}).to_string());
    let poll = tokio::spawn(poll.send());
    tokio::time::sleep(ms(200)).await;
    let started = Instant::now();
    server.closing.cancel();
    let answer = poll.await.unwrap().unwrap();
    assert_eq!(
        (answer.status(), answer.text().await.unwrap()),
        (reqwest::StatusCode::OK, r#"{"leases":[]}"#.to_owned())
    );
    server.served().await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[tokio::test]
async fn what_is_not_done_after_the_grace_is_cut_off() {
    let serve = ServeLimits { stop_grace: ms(300), ..ServeLimits::default() };
    let mut server = Server::start(Setup { serve, ..Setup::default() }).await;
    let mut stalled = server.connect().await;
    let head = b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
    stalled.write_all(head).await.unwrap();
    tokio::time::sleep(ms(100)).await;
    let started = Instant::now();
    server.closing.cancel();
    server.served().await;
    assert!((ms(250)..Duration::from_secs(3)).contains(&started.elapsed()), "{:?}", started.elapsed());
    assert_eq!(read_to_end(&mut stalled).await, "");
}
