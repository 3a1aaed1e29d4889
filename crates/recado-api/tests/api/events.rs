//! The stream of events.

use recado_api::{ApiLimits, ServeLimits};
use recado_client::wire::events::{EventKind, EventQuery};
use recado_client::{Client, ClientError, StreamItem};
use recado_core::{CompanyId, Event, EventData, Timestamp};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::ear::Ear;
use crate::given::{PATIENCE, Server, Setup, ms, on_each_store};

fn job(company: &str, script: &[&str]) -> serde_json::Value {
    json!({"route": "sandbox", "companyId": company, "data": {"script": script}, "userId": "u1", "correlationId": "order-7"})
}

fn told(server: &Server, n: i64) {
    let company = Some(CompanyId::new("acme").unwrap());
    let at = Timestamp::from_millis(n);
    server.engine.notifier.events.publish(Event::new(
        EventKind::JobSent,
        company,
        &["x"],
        at,
        EventData::default(),
    ));
}

#[tokio::test]
async fn t20_the_stream_tells_each_event_with_its_fields_as_it_happens() {
    on_each_store(async |server: &Server| {
        let mut ear = Ear::open(server, "").await;
        assert_eq!(
            (ear.header("content-type"), ear.header("cache-control"), ear.header("x-accel-buffering")),
            ("text/event-stream", "no-store", "no")
        );
        let id = server.enqueue(job("acme", &["503 busy", "503 busy", "503 busy"])).await;
        let mut events = Vec::new();
        for _ in 0..4 {
            events.push(ear.next().await);
        }
        let kinds: Vec<_> = events.iter().map(|said| said.event.as_str()).collect();
        assert_eq!(kinds, ["JobRetryScheduled", "JobRetryScheduled", "JobRetryExhausted", "JobFailed"]);
        for said in &events {
            assert_eq!(said.id.as_deref(), said.data["id"].as_str());
            assert_eq!(said.data["type"], said.event.as_str());
            assert_eq!((&said.data["companyId"], &said.data["data"]["jobId"]), (&json!("acme"), &json!(id)));
            assert_eq!(said.data["data"]["correlationId"], "order-7");
        }
        let scheduled = &events[0].data["data"];
        assert_eq!(
            (&scheduled["claimId"], &scheduled["retryCount"], &scheduled["errorClassification"]),
            (&json!(id), &json!(1), &json!("TRANSIENT"))
        );
        assert!(
            scheduled["nextRetryTime"].is_string() && scheduled["backoffMinutes"].is_u64(),
            "{scheduled}"
        );
    })
    .await;
}

#[tokio::test]
async fn f10_a_job_that_failed_is_told_with_its_full_context() {
    let server = Server::plain().await;
    let mut ear = Ear::open(&server, "?event=JobFailed").await;
    let id = server.enqueue(job("acme", &["550 no such user"])).await;
    let told = ear.next().await.data["data"].clone();
    let expected = json!({
        "jobId": id, "claimId": id, "route": "sandbox", "userId": "u1", "correlationId": "order-7", "status": "failed",
        "attempt": 1, "retryCount": 0, "errorCode": "550", "lastError": "no such user", "errorClassification": "PERMANENT",
        "rule": told["rule"], "blame": "message", "cause": "PERMANENT",
    });
    assert_eq!(told, expected);
    assert!(!told["rule"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn a_listener_hears_what_it_asked_for_and_nothing_else() {
    let server = Server::plain().await;
    let mut ears = Vec::new();
    for query in [
        "?event=JobFailed,JobSent&companyId=acme",
        "?jobId=last",
        "?route=sandbox&companyId=acme",
        "?correlationId=order-7",
    ] {
        ears.push(Ear::open(&server, query).await);
    }
    let other = server.enqueue(job("other", &["ok"])).await;
    let retried = server.enqueue(job("acme", &["503", "ok"])).await;
    server.until(&other, "sent").await;
    server.until(&retried, "sent").await;
    server.enqueue(json!({"route": "sandbox", "companyId": "acme", "jobId": "last", "data": {}})).await;
    let mut heard = Vec::new();
    for (ear, count) in ears.iter_mut().zip([2, 1, 3, 3]) {
        let mut of_ear = Vec::new();
        for _ in 0..count {
            let said = ear.next().await;
            of_ear.push((said.event, said.data["data"]["jobId"].as_str().unwrap().to_owned()));
        }
        heard.push(of_ear);
    }
    let of = |event: &str, id: &str| (event.to_owned(), id.to_owned());
    assert_eq!(heard[0], [of("JobSent", &retried), of("JobSent", "last")]);
    assert_eq!(heard[1], [of("JobSent", "last")]);
    assert_eq!(heard[2], [of("JobRetryScheduled", &retried), of("JobSent", &retried), of("JobSent", "last")]);
    assert!(heard[3].contains(&of("JobSent", &other)), "{:?}", heard[3]);
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_refused_with_every_fault() {
    let server = Server::plain().await;
    let answer = server.get("/v1/events?event=JobSend&companyId=a%20b&company=x").await;
    answer.faults_at(&["/company", "/companyId", "/event"]);
    assert!(answer.fault("/event").contains("`JobSent`"), "{}", answer.body);
}

#[tokio::test]
async fn a_listener_that_comes_back_goes_on_where_it_stopped() {
    on_each_store(async |server: &Server| {
        let mut ear = Ear::open(server, "?event=JobSent").await;
        let first = server.enqueue(job("acme", &["ok"])).await;
        let heard = ear.next().await;
        assert_eq!(heard.data["data"]["jobId"], json!(first));
        drop(ear);
        let second = server.enqueue(job("acme", &["ok"])).await;
        server.until(&second, "sent").await;
        let last = heard.id.unwrap();
        let mut again = Ear::after(server, "?event=JobSent", Some(&last)).await;
        assert_eq!(again.next().await.data["data"]["jobId"], json!(second));
        let mut by_query = Ear::open(server, &format!("?event=JobSent&lastEventId={last}")).await;
        assert_eq!(by_query.next().await.data["data"]["jobId"], json!(second));
        let third = server.enqueue(job("acme", &["ok"])).await;
        assert_eq!(again.next().await.data["data"]["jobId"], json!(third), "nothing is told twice");
    })
    .await;
}

#[tokio::test]
async fn a_listener_that_was_away_for_too_long_is_told_of_the_gap_first() {
    let server = Server::plain().await;
    let mut ear = Ear::after(&server, "", Some("evt_of_another_time")).await;
    told(&server, 1);
    let gap = ear.next().await;
    assert_eq!((gap.event.as_str(), gap.id), ("gap", None));
    assert!(gap.data["reason"].as_str().unwrap().contains("no longer kept"), "{}", gap.data);
    assert_eq!(ear.next().await.event, "JobSent", "and then it goes on");
}

#[tokio::test]
async fn a_listener_that_was_away_for_too_long_hears_the_events_that_are_kept() {
    let server = Server::plain().await;
    let mut ear = Ear::open(&server, "").await;
    told(&server, 0);
    let last = ear.next().await.id.unwrap();
    drop(ear);
    let kept = 1_024;
    (1..=kept + 5).for_each(|n| told(&server, n));
    let mut ear = Ear::after(&server, "", Some(&last)).await;
    assert_eq!(ear.next().await.event, "gap");
    for n in 6..=kept + 5 {
        let said = ear.next().await;
        assert_eq!(said.data["timestamp"], json!(Timestamp::from_millis(n)), "the oldest that is kept first");
    }
    told(&server, 9_999);
    assert_eq!(ear.next().await.data["timestamp"], json!(Timestamp::from_millis(9_999)));
}

#[tokio::test]
async fn a_listener_that_lags_is_told_how_much_it_missed_and_goes_on() {
    let server = Server::plain().await;
    let mut ear = Ear::open(&server, "").await;
    // One thread, and nothing is awaited: the stream gets no chance to keep up.
    (0..5_000).for_each(|n| told(&server, n));
    let gap = ear.next().await;
    assert_eq!((gap.event.as_str(), &gap.data["missed"]), ("gap", &json!(5_000 - 4_096)));
    let next: Timestamp = ear.next().await.data["timestamp"].as_str().unwrap().parse().unwrap();
    assert_eq!(next.as_millis(), 5_000 - 4_096);
}

#[tokio::test]
async fn there_are_only_so_many_places_and_each_is_given_back() {
    let limits = ApiLimits { listeners_max: 2, keep_alive: ms(20), ..ApiLimits::default() };
    let server = Server::start(Setup { limits, ..Setup::default() }).await;
    let (first, _second) = (Ear::open(&server, "").await, Ear::open(&server, "").await);
    let refused = server.get("/v1/events").await;
    refused.is_problem(503, "overloaded");
    assert!(refused.header("retry-after").parse::<u32>().unwrap() > 0);
    drop(first);
    let let_in = async {
        while server.http.get(server.url("/v1/events")).send().await.unwrap().status() != 200 {
            tokio::time::sleep(ms(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, let_in).await.expect("the place is not given back");
}

#[tokio::test]
async fn a_quiet_stream_outlives_the_idle_time_of_connections() {
    let serve = ServeLimits { idle_timeout: ms(200), ..ServeLimits::default() };
    let limits = ApiLimits { keep_alive: ms(50), ..ApiLimits::default() };
    let server = Server::start(Setup { limits, serve, ..Setup::default() }).await;
    let mut ear = Ear::open(&server, "").await;
    // Each comes after at least 50 ms of silence: five times the idle time in all.
    for _ in 0..20 {
        assert_eq!(ear.block().await.as_deref(), Some(": keep-alive"));
    }
    told(&server, 1);
    assert_eq!(ear.until("JobSent").await.event, "JobSent");
}

#[tokio::test]
async fn a_stop_ends_the_streams_and_does_not_wait_for_them() {
    let mut server = Server::plain().await;
    let mut ear = Ear::open(&server, "").await;
    server.closing.cancel();
    assert_eq!(ear.block().await, None);
    server.served().await;
}

#[tokio::test]
async fn the_client_hears_events_typed() {
    let server = Server::plain().await;
    let query =
        EventQuery { events: vec![EventKind::JobSent, EventKind::JobFailed], ..EventQuery::default() };
    let mut stream = server.client().events(query).await.unwrap();
    let id = server.enqueue(job("acme", &["503", "ok"])).await;
    let heard = tokio::time::timeout(PATIENCE, stream.next()).await.unwrap().unwrap();
    let StreamItem::Event(event) = heard else { panic!("{heard:?}") };
    assert_eq!((event.kind, event.data.job.job_id.as_deref()), (EventKind::JobSent, Some(id.as_str())));
    assert_eq!(stream.last_event_id(), Some(&*event.id));
    let answer = server.client().events(EventQuery { events: vec![], ..EventQuery::default() }).await;
    assert!(answer.is_ok());
}

/// A server that says each of these on a connection of its own and then hangs up; shows what it was asked.
async fn hangs_up_after(words: Vec<String>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let mut asked = Vec::new();
        for words in words {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            asked.push(String::from_utf8(head).unwrap());
            stream.write_all(words.as_bytes()).await.unwrap();
        }
        asked
    });
    (url, asked)
}

fn stream_of(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}")
}

fn said(n: i64) -> String {
    let company = Some(CompanyId::new("acme").unwrap());
    let at = Timestamp::from_millis(n);
    let event = Event::new(EventKind::JobSent, company, &["x"], at, EventData::default());
    format!("id: {n}\nevent: JobSent\ndata: {}\n\n", serde_json::to_string(&event).unwrap())
}

#[tokio::test]
async fn the_client_comes_back_after_a_lost_connection_and_names_the_last_event_it_heard() {
    let busy =
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned();
    let cut = stream_of(&format!("{}id: 2\nevent: JobSent\nda", said(1)));
    let newer = stream_of(&format!("event: JobTeleported\ndata: {{}}\n\n{}", said(2)));
    let (url, asked) = hangs_up_after(vec![cut, busy, newer]).await;
    let mut stream = Client::new(&url, None).unwrap().events(EventQuery::default()).await.unwrap();
    let mut heard = Vec::new();
    for _ in 0..2 {
        match tokio::time::timeout(PATIENCE, stream.next()).await.unwrap().unwrap() {
            StreamItem::Event(event) => heard.push(event.timestamp.as_millis()),
            gap @ StreamItem::Gap(_) => panic!("{gap:?}"),
        }
    }
    assert_eq!(heard, [1, 2], "half an event is none, and what is not known here is passed over");
    let asked = asked.await.unwrap();
    assert!(!asked[0].contains("last-event-id"), "{}", asked[0]);
    assert!(
        asked[1].contains("last-event-id: 1\r\n") && asked[2].contains("last-event-id: 1\r\n"),
        "{asked:?}"
    );
}

#[tokio::test]
async fn the_client_says_what_it_cannot_make_up_for_and_gives_up_where_it_must() {
    let no = r#"{"type":"urn:recado:error:unauthorized","title":"t","status":401,"detail":"d","code":"unauthorized"}"#;
    let refusal =
        format!("HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{no}", no.len());
    let words = vec![stream_of(": keep-alive\n\n"), stream_of(""), refusal];
    let (url, _asked) = hangs_up_after(words).await;
    let mut stream = Client::new(&url, None).unwrap().events(EventQuery::default()).await.unwrap();
    let heard = tokio::time::timeout(PATIENCE, stream.next()).await.unwrap().unwrap();
    assert!(matches!(&heard, StreamItem::Gap(gap) if gap.reason.contains("lost before")), "{heard:?}");
    let error = tokio::time::timeout(PATIENCE, stream.next()).await.unwrap().unwrap_err();
    assert!(matches!(&error, ClientError::Problem(problem) if problem.status == 401), "{error}");

    let missing = Client::new("http://127.0.0.1:9", None).unwrap().events(EventQuery::default()).await;
    assert!(matches!(missing, Err(ClientError::Connect { .. })), "{missing:?}");
}
