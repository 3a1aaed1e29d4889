//! Network failures before, during and instead of an answer, at every step of the conversation.

use recado_core::{Fault, NetworkKind, Outcome};
use recado_testkit::free_port;
use recado_transport::Transport;
use recado_transport_smtp::{Security, SmtpConfig};
use serde_json::json;

use super::given::{ANA, SHORT, accepted, config, delivery, failed, is, job, mail, plain, send, smtp};
use super::server::{Server, SmtpAct, cut, say};

const BEFORE_THE_DOT: [(&str, &str); 5] = [
    ("(greeting)", "at the greeting: "),
    ("EHLO", "at EHLO: "),
    ("MAIL", "at MAIL: "),
    ("RCPT", "at RCPT: "),
    ("DATA", "at DATA: "),
];
const DOT: (&str, &str) = ("(dot)", "at the end of the message: ");

async fn misbehaving(place: &str, act: SmtpAct, change: impl FnOnce(&mut SmtpConfig)) -> Fault {
    let server = Server::start();
    server.once(place, act);
    let mut config = config(&server, Security::None);
    change(&mut config);
    let fault = failed(send(&smtp(config), &mail(&[ANA])).await);
    assert_eq!((server.fired(), server.taken().len()), (1, 0), "at {place}");
    server.is_alone().await;
    fault
}

fn says(fault: &Fault, words: &str) {
    assert!(fault.text.starts_with(words), "{} does not begin with {words}", fault.text);
}

#[tokio::test]
async fn a_connection_lost_before_the_final_dot_is_certainly_undelivered() {
    for (place, words) in BEFORE_THE_DOT {
        for act in [cut(""), SmtpAct::Reset] {
            let fault = misbehaving(place, act, |_| {}).await;
            is(&fault, NetworkKind::Connect, false);
            // A reset right after the connection was accepted may come before the client takes it for open.
            if place != "(greeting)" || !fault.text.starts_with("at connecting: ") {
                says(&fault, words);
            }
        }
    }
}

#[tokio::test]
async fn a_connection_lost_after_the_final_dot_is_uncertain() {
    for act in [cut(""), SmtpAct::Reset, SmtpAct::Cut("250 2.0".into())] {
        let fault = misbehaving(DOT.0, act, |_| {}).await;
        is(&fault, NetworkKind::Dropped, true);
        says(&fault, DOT.1);
    }
}

#[tokio::test]
async fn silence_ends_each_step_in_its_own_time() {
    for (place, words) in BEFORE_THE_DOT {
        let fault = misbehaving(place, SmtpAct::Hang, |config| match place {
            "DATA" => config.timeouts.data = SHORT,
            "MAIL" | "RCPT" => config.timeouts.envelope = SHORT,
            _ => config.timeouts.opening = SHORT,
        })
        .await;
        is(&fault, NetworkKind::Timeout, false);
        says(&fault, words);
    }
}

#[tokio::test]
async fn silence_after_the_final_dot_lasts_as_long_as_the_delivery_may_and_is_uncertain() {
    let server = Server::start();
    server.once("(dot)", SmtpAct::Hang);
    let (smtp, job) = (plain(&server), job(&mail(&[ANA])));
    let mut delivery = delivery(&job);
    delivery.timeout = SHORT * 2;
    // As the engine does it: what is not back by then is dropped, and nothing is known of it.
    let outcome =
        tokio::time::timeout(delivery.timeout, smtp.send(delivery)).await.expect("ours is the better word");
    let fault = failed(outcome);
    is(&fault, NetworkKind::Timeout, true);
    says(&fault, DOT.1);
    assert_eq!(server.fired(), 1);
}

#[tokio::test]
async fn garbage_is_a_protocol_failure_and_uncertain_only_after_the_final_dot() {
    for garbage in ["HTTP/1.1 400 Bad Request", "25", "250ok", "250-a\r\n550 b", "\u{fffd}"] {
        for (place, words) in BEFORE_THE_DOT.into_iter().chain([DOT]) {
            let fault = misbehaving(place, say(garbage), |_| {}).await;
            is(&fault, NetworkKind::Protocol, place == DOT.0);
            says(&fault, words);
        }
    }
}

#[tokio::test]
async fn answers_without_end_are_not_read_to_their_end() {
    for flood in ["x", "250-and more\r\n"] {
        let fault = misbehaving("EHLO", SmtpAct::Flood(flood), |_| {}).await;
        assert!(matches!(fault.kind, recado_core::FaultKind::Network(NetworkKind::Protocol)), "{fault:?}");
    }
}

#[tokio::test]
async fn answers_in_tiny_pieces_and_many_lines_are_read_whole() {
    let server = Server::start();
    server.once(
        "(greeting)",
        SmtpAct::Dribble("220-hello\r\n220-and welcome\r\n220 to this server\r\n".into()),
    );
    server.once("EHLO", SmtpAct::Dribble("250-localhost\r\n250-PIPELINING\r\n250 SIZE\r\n".into()));
    server.once("RCPT", SmtpAct::Dribble("250-2.1.5 fine\r\n250 2.1.5 really\r\n".into()));
    server.once("(dot)", SmtpAct::Dribble("250-2.0.0 queued\r\n250 2.0.0 as 4711\r\n".into()));
    let answer = accepted(send(&plain(&server), &mail(&[ANA])).await);
    assert_eq!(answer["response"], "250 2.0.0 queued as 4711");
    assert_eq!(server.fired(), 4);
}

#[tokio::test]
async fn a_server_that_says_more_than_it_was_asked_is_not_followed() {
    let fault = misbehaving("EHLO", SmtpAct::SayMore("250 and this too\r\n".into()), |_| {}).await;
    is(&fault, NetworkKind::Protocol, false);
    let fault = misbehaving("DATA", SmtpAct::SayMore("250 queued already\r\n".into()), |_| {}).await;
    is(&fault, NetworkKind::Protocol, false);
    let fault = misbehaving("DATA", say("250 strange"), |_| {}).await;
    is(&fault, NetworkKind::Protocol, false);
}

#[tokio::test]
async fn a_server_that_refuses_in_the_midst_of_a_long_text_is_heard() {
    let server = Server::start();
    server.once("(text)", say("552 5.3.4 too big for us"));
    let mut data = mail(&[ANA]);
    data["text"] = json!("long lines of text\n".repeat(1_000_000));
    let fault = failed(send(&plain(&server), &data).await);
    assert_eq!((fault.code.as_deref(), fault.enhanced.as_deref()), (Some("552"), Some("5.3.4")));
    assert!(!fault.uncertain);
    assert_eq!(server.fired(), 1);
}

#[tokio::test]
async fn a_connection_lost_in_the_midst_of_a_long_text_is_certainly_undelivered() {
    let server = Server::start();
    server.once("(text)", cut(""));
    let mut data = mail(&[ANA]);
    data["text"] = json!("long lines of text\n".repeat(1_000_000));
    let fault = failed(send(&plain(&server), &data).await);
    is(&fault, NetworkKind::Connect, false);
    says(&fault, "at the message's text: ");
    assert_eq!(server.fired(), 1);
}

#[tokio::test]
async fn an_unknown_host_name_is_a_dns_failure() {
    let fault = failed(send(&smtp(SmtpConfig::new("mail.invalid", Security::None)), &mail(&[ANA])).await);
    is(&fault, NetworkKind::Dns, false);
}

#[tokio::test]
async fn a_refused_port_is_a_connect_failure() {
    let mut config = SmtpConfig::new("127.0.0.1", Security::None);
    config.port = free_port();
    let fault = failed(send(&smtp(config), &mail(&[ANA])).await);
    is(&fault, NetworkKind::Connect, false);
    says(&fault, "at connecting: ");
}

#[tokio::test]
async fn data_that_makes_no_message_opens_no_connection() {
    let server = Server::start();
    let mut data = mail(&[ANA]);
    data["subject"] = json!("Oi\r\nBcc: eva@example.com");
    let smtp = plain(&server);
    assert_eq!(smtp.check(&job(&data).data).unwrap_err()[0].pointer, "/subject");
    let Outcome::Failed(fault) = send(&smtp, &data).await else { panic!("it was sent") };
    assert_eq!((fault.kind, server.connections()), (recado_core::FaultKind::InvalidPayload, 0));
}

#[tokio::test]
async fn the_size_is_told_only_to_servers_that_ask_for_it() {
    for (offers, told) in [(&["SIZE 1000000"][..], true), (&[], false)] {
        let server = Server::offering(offers);
        accepted(send(&plain(&server), &mail(&[ANA])).await);
        let size = format!(" SIZE={}", server.taken()[0].text.len());
        assert_eq!(server.lines("MAIL FROM:<acme@acme.example>")[0].ends_with(&size), told);
    }
}

#[tokio::test]
async fn we_introduce_ourselves_by_name_or_by_address() {
    let server = Server::start();
    accepted(send(&plain(&server), &mail(&[ANA])).await);
    let mut named = config(&server, Security::None);
    named.hello_name = Some("mx.acme.example".to_owned());
    accepted(send(&smtp(named), &mail(&[ANA])).await);
    assert_eq!(server.lines("EHLO"), ["EHLO [127.0.0.1]", "EHLO mx.acme.example"]);
}
