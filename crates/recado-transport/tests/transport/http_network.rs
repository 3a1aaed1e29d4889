//! Network failures before, during and instead of an answer.

use std::time::Duration;

use recado_core::{Fault, FaultKind, NetworkKind, Outcome};
use recado_testkit::far_end::FarEnd;
use recado_testkit::free_port;
use recado_testkit::http::{Act, raw as answering};
use recado_transport::{Delivery, Http, HttpConfig, Transport, Url};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{NOW, answer, fault, job, payload};

/// Sends data that is full of secrets, and holds the fault to not repeating any of them.
async fn failing(base_url: Url) -> Fault {
    let mut config = HttpConfig::new(base_url).with_header("apikey", "SECRET-key");
    config.connect_timeout = Duration::from_secs(3);
    let data = json!({
        "path": "SECRET-path", "query": { "token": "SECRET-query" },
        "headers": { "X-Trace": "SECRET-header" }, "body": { "cpf": "SECRET-body" },
    });
    let fault = fault(&Http::new(config).expect("an Http"), &data).await;
    assert!(!format!("{fault:?}").contains("SECRET"), "{fault:?}");
    assert!(!fault.text.trim().is_empty());
    assert_eq!((fault.status, &fault.code), (None, &None), "no server answered");
    fault
}

fn is(fault: &Fault, kind: NetworkKind, uncertain: bool) {
    assert_eq!((fault.kind, fault.uncertain), (FaultKind::Network(kind), uncertain), "{}", fault.text);
}

async fn misbehaving(act: Act) -> Fault {
    let far_end = FarEnd::scripted([act]);
    let fault = failing(far_end.url_of("/")).await;
    assert_eq!(far_end.only("").text(), r#"{"cpf":"SECRET-body"}"#, "the request has to have arrived");
    fault
}

#[tokio::test]
async fn f8_an_unknown_host_name_is_a_dns_failure() {
    let fault = failing("http://provider.invalid/".parse().unwrap()).await;
    is(&fault, NetworkKind::Dns, false);
}

#[tokio::test]
async fn f8_a_refused_port_is_a_connect_failure() {
    let fault = failing(format!("http://127.0.0.1:{}/", free_port()).parse().unwrap()).await;
    is(&fault, NetworkKind::Connect, false);
    assert!(fault.text.to_lowercase().contains("refused"), "{}", fault.text);
}

#[tokio::test]
async fn tls_against_a_plain_port_is_a_tls_failure() {
    let far_end = FarEnd::scripted([]);
    let fault = failing(far_end.url_with("https", "/")).await;
    is(&fault, NetworkKind::Tls, false);
    assert_eq!((far_end.tls_hellos(), far_end.ledger().len()), (1, 0));
}

#[tokio::test]
async fn a_connection_closed_or_reset_during_the_tls_handshake_is_a_tls_failure() {
    for reset in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let closing = async {
            let (stream, _) = listener.accept().await.unwrap();
            stream.readable().await.unwrap();
            if reset {
                stream.set_zero_linger().unwrap();
            } else {
                let _ = stream.try_read(&mut [0; 16 * 1_024]);
            }
        };
        let (fault, ()) = tokio::join!(failing(url), closing);
        is(&fault, NetworkKind::Tls, false);
    }
}

#[tokio::test]
async fn f8_a_handshake_that_gets_no_answer_is_a_timeout_and_certainly_unsent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let mut config = HttpConfig::new(url);
    config.connect_timeout = Duration::from_millis(100);
    let http = Http::new(config).unwrap();
    let data = json!({});
    let (fault, (_held, _)) = tokio::join!(fault(&http, &data), async { listener.accept().await.unwrap() });
    is(&fault, NetworkKind::Timeout, false);
}

#[tokio::test]
async fn f8_a_connection_that_does_not_come_about_in_the_routes_time_is_certainly_unsent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let (http, job) = (Http::new(HttpConfig::new(url)).unwrap(), job(payload(&json!({}))));
    let timeout = Duration::from_millis(400);
    let wanted = recado_transport::Wanted::Receipt;
    let sending = http.send(Delivery { job: &job, attempt: 1, now: NOW, timeout, answer: wanted });
    match tokio::time::timeout(timeout, sending).await.expect("ours is the better word") {
        Outcome::Failed(fault) => is(&fault, NetworkKind::Timeout, false),
        other => panic!("{other:?}, where a failure was due"),
    }
}

#[tokio::test]
async fn a_connection_closed_before_any_answer_is_dropped_and_uncertain() {
    is(&misbehaving(Act::Cut(String::new())).await, NetworkKind::Dropped, true);
}

#[tokio::test]
async fn a_connection_reset_before_any_answer_is_dropped_and_uncertain() {
    is(&misbehaving(Act::Reset).await, NetworkKind::Dropped, true);
}

#[tokio::test]
async fn a_connection_closed_in_the_midst_of_the_headers_is_dropped_and_uncertain() {
    let fault = misbehaving(Act::Cut("HTTP/1.1 200 OK\r\nContent-Ty".into())).await;
    is(&fault, NetworkKind::Dropped, true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_by_the_head_alone_is_heard_although_the_body_cannot_be_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            assert_ne!(stream.read(&mut [0; 512]).await.unwrap(), 0);
            // The end of the connection is a reset, for there is more that was not read.
            stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 7\r\n\r\ntoo big").await.unwrap();
        }
    });
    let http = Http::new(HttpConfig::new(url)).unwrap();
    // More than the buffers of a socket hold.
    let data = json!({ "body": "x".repeat(16 << 20) });
    for _ in 0..3 {
        let fault = fault(&http, &data).await;
        assert_eq!((fault.status, fault.uncertain, &*fault.text), (Some(413), false, "too big"));
    }
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_a_protocol_failure_and_uncertain() {
    for garbage in [
        "220 smtp.example.com ESMTP\r\n\r\n",
        "HTTP/1.1 abc Hm\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    ] {
        is(&misbehaving(Act::Hang(garbage.into())).await, NetworkKind::Protocol, true);
    }
}

#[tokio::test]
async fn headers_without_end_are_a_protocol_failure() {
    let headers = format!("HTTP/1.1 200 OK\r\n{}", "X-More: and more\r\n".repeat(100_000));
    is(&misbehaving(Act::Hang(headers)).await, NetworkKind::Protocol, true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_closed_at_once_is_uncertain_only_if_the_request_went_out() {
    for reset in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if reset {
                    stream.set_zero_linger().unwrap();
                }
            }
        });
        for _ in 0..100 {
            let fault = failing(url.clone()).await;
            assert!(
                !fault.uncertain || !fault.text.contains("not ready"),
                "hyper gave it back unsent: {fault:?}"
            );
            let kind = if fault.uncertain { NetworkKind::Dropped } else { NetworkKind::Connect };
            is(&fault, kind, fault.uncertain);
        }
    }
}

#[tokio::test]
async fn a_busy_receiver_keeps_as_many_connections_as_it_had_deliveries_at_once() {
    let far_end = FarEnd::start(|_| answering("200 OK", "", "").after(Duration::from_millis(20)));
    let http = Http::new(HttpConfig::new(far_end.url_of("/"))).unwrap();
    let data = json!({});
    for _ in 0..4 {
        futures_util::future::join_all((0..40).map(|_| answer(&http, &data))).await;
    }
    assert_eq!((far_end.ledger().len(), far_end.connections()), (160, 40));
}

#[tokio::test]
async fn a_pooled_connection_that_died_meanwhile_is_replaced_and_the_request_sent_once() {
    let closing = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let far_end = FarEnd::scripted([Act::Cut(closing.into()), answering("200 OK", "", "")]);
    let http = Http::new(HttpConfig::new(far_end.url_of("/"))).unwrap();
    answer(&http, &json!({})).await;
    // Lets the client read the end of the first connection, as it would between two jobs.
    tokio::time::sleep(Duration::from_millis(50)).await;
    answer(&http, &json!({})).await;
    assert_eq!((far_end.ledger().len(), far_end.connections()), (2, 2));
}

#[tokio::test]
async fn the_caller_may_give_up_on_a_slow_provider_and_the_next_job_is_served() {
    let far_end = FarEnd::scripted([Act::Hang(String::new()), answering("200 OK", "", "")]);
    let http = Http::new(HttpConfig::new(far_end.url_of("/"))).unwrap();
    let job = job(payload(&json!({})));
    let sending = http.send(Delivery {
        job: &job,
        attempt: 1,
        now: NOW,
        timeout: std::time::Duration::from_secs(30),
        answer: recado_transport::Wanted::Receipt,
    });
    let gave_up = tokio::time::timeout(Duration::from_millis(200), sending).await;
    assert!(gave_up.is_err(), "the slow provider answered: {gave_up:?}");
    assert_eq!(far_end.ledger().len(), 1, "the slow provider has to have been asked");
    answer(&http, &json!({})).await;
    assert_eq!((far_end.ledger().len(), far_end.connections()), (2, 2));
}

#[tokio::test]
async fn an_answer_given_before_the_whole_request_was_read_is_heard() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http =
        Http::new(HttpConfig::new(format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap()))
            .unwrap();
    let refusing = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let read = stream.read(&mut [0; 512]).await.unwrap();
        stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig").await.unwrap();
        (read, stream)
    };
    let data = json!({ "body": "x".repeat(16 * 1_024 * 1_024) });
    let (fault, (read, _held)) = tokio::join!(fault(&http, &data), refusing);
    assert_eq!((read, fault.status, &*fault.text), (512, Some(413), "big"));
}
