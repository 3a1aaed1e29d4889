//! Network failures before, during and instead of an answer.

use std::time::Duration;

use recado_core::{Class, Fault, FaultKind, NetworkKind};
use recado_testkit::far_end::FarEnd;
use recado_testkit::free_port;
use recado_testkit::http::Act;
use recado_transport::{Transport, Url};
use recado_transport_ses::Ses;
use tokio::net::TcpListener;

use super::far_end::yes;
use super::given::{answer, config, delivery, fault, job, judged, plain, ses};

fn is(fault: &Fault, kind: NetworkKind, uncertain: bool) {
    assert_eq!((fault.kind, fault.uncertain), (FaultKind::Network(kind), uncertain), "{}", fault.text);
    assert_eq!((fault.status, &fault.code), (None, &None), "no server answered");
    assert!(!fault.text.trim().is_empty());
    assert_eq!(judged(fault).0, Class::Transient);
}

async fn misbehaving(act: Act) -> Fault {
    let far_end = FarEnd::scripted([act]);
    let fault = fault(&ses(far_end.url_of("")), &plain()).await;
    assert!(far_end.only("").json()["Content"].is_object(), "the request has to have arrived");
    fault
}

async fn listening() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

#[tokio::test]
async fn f8_an_unknown_host_name_is_a_dns_failure() {
    let ses = ses("http://ses.invalid/".parse().unwrap());
    is(&fault(&ses, &plain()).await, NetworkKind::Dns, false);
}

#[tokio::test]
async fn f8_a_refused_port_is_a_connect_failure() {
    let fault = fault(&ses(format!("http://127.0.0.1:{}", free_port()).parse().unwrap()), &plain()).await;
    is(&fault, NetworkKind::Connect, false);
    assert!(fault.text.to_lowercase().contains("refused"), "{}", fault.text);
}

#[tokio::test]
async fn tls_against_a_plain_port_is_a_tls_failure() {
    let far_end = FarEnd::scripted([]);
    let fault = fault(&ses(far_end.url_with("https", "")), &plain()).await;
    is(&fault, NetworkKind::Tls, false);
    assert_eq!((far_end.tls_hellos(), far_end.ledger().len()), (1, 0));
}

#[tokio::test]
async fn a_connection_closed_or_reset_during_the_tls_handshake_is_a_tls_failure() {
    for reset in [false, true] {
        let (listener, address) = listening().await;
        let ses = ses(format!("https://{address}").parse().unwrap());
        let closing = async {
            let (stream, _) = listener.accept().await.unwrap();
            stream.readable().await.unwrap();
            if reset {
                stream.set_zero_linger().unwrap();
            } else {
                let _ = stream.try_read(&mut [0; 16 * 1_024]);
            }
        };
        let data = plain();
        let (fault, ()) = tokio::join!(fault(&ses, &data), closing);
        is(&fault, NetworkKind::Tls, false);
    }
}

#[tokio::test]
async fn f8_a_handshake_that_gets_no_answer_is_a_timeout_and_certainly_unsent() {
    let (listener, address) = listening().await;
    let mut config = config(format!("https://{address}").parse().unwrap());
    config.connect_timeout = Duration::from_millis(100);
    let (ses, data) = (Ses::new(config).unwrap(), plain());
    let (fault, (_held, _)) = tokio::join!(fault(&ses, &data), async { listener.accept().await.unwrap() });
    is(&fault, NetworkKind::Timeout, false);
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

#[tokio::test]
async fn an_answer_that_is_not_http_is_a_protocol_failure_and_uncertain() {
    for garbage in ["220 smtp.example.com ESMTP\r\n\r\n", "HTTP/1.1 abc Hm\r\n\r\n"] {
        is(&misbehaving(Act::Hang(garbage.into())).await, NetworkKind::Protocol, true);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_closed_at_once_is_uncertain_only_if_the_request_went_out() {
    let (listener, address) = listening().await;
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let ses = ses(format!("http://{address}").parse().unwrap());
    for _ in 0..50 {
        let fault = fault(&ses, &plain()).await;
        let kind = if fault.uncertain { NetworkKind::Dropped } else { NetworkKind::Connect };
        is(&fault, kind, fault.uncertain);
        assert!(
            !fault.uncertain || !fault.text.contains("not ready"),
            "hyper gave it back unsent: {fault:?}"
        );
    }
}

#[tokio::test]
async fn a_delivery_dropped_midway_leaves_the_next_one_alone() {
    let far_end = FarEnd::scripted([Act::Hang(String::new()), yes()]);
    let ses = ses(far_end.url_of(""));
    let job = job(&plain());
    let arrived = async {
        while far_end.ledger().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        outcome = ses.send(delivery(&job)) => panic!("{outcome:?} from an end that says nothing"),
        () = arrived => {}
    }
    assert!(answer(&ses, &plain()).await.is_some());
    assert_eq!(far_end.ledger().len(), 2);
}

#[tokio::test]
async fn an_endpoint_may_have_a_path() {
    let far_end = FarEnd::scripted([yes()]);
    let url: Url = far_end.url_of("/aws");
    answer(&ses(url), &plain()).await;
    assert_eq!(far_end.only("").line, "POST /aws/v2/email/outbound-emails HTTP/1.1");
}
