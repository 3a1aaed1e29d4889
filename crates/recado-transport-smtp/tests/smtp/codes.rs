//! Every required code, at every command that it may answer, as the route judges it.

use recado_core::{Blame, Class, FaultKind};

use super::given::{ANA, failed, is_final, is_retried, judged, mail, plain, send};
use super::server::{Server, say};

/// The commands at which a server can refuse a message.
const PLACES: [&str; 4] = ["MAIL", "RCPT", "DATA", "(dot)"];

async fn outcomes(words: &str) -> Vec<recado_core::Outcome> {
    let mut outcomes = Vec::new();
    for place in PLACES {
        let server = Server::start();
        server.once(place, say(words));
        let outcome = send(&plain(&server), &mail(&[ANA])).await;
        assert_eq!((server.fired(), server.taken().len()), (1, 0), "at {place}");
        outcomes.push(outcome);
    }
    outcomes
}

async fn retried(words: &str) {
    outcomes(words).await.into_iter().for_each(is_retried);
}

async fn not_retried(words: &str) {
    outcomes(words).await.into_iter().for_each(is_final);
}

#[tokio::test]
async fn e4_421_is_retried() {
    retried("421 4.3.2 service not available").await;
}

#[tokio::test]
async fn e4_450_is_retried() {
    retried("450 4.2.1 mailbox busy").await;
}

#[tokio::test]
async fn e4_451_is_retried() {
    retried("451 local error in processing").await;
}

#[tokio::test]
async fn e4_452_is_retried() {
    retried("452 4.3.1 insufficient system storage").await;
}

#[tokio::test]
async fn e5_500_is_not_retried() {
    not_retried("500 5.5.2 syntax error").await;
}

#[tokio::test]
async fn e5_501_is_not_retried() {
    not_retried("501 5.5.4 syntax error in parameters").await;
}

#[tokio::test]
async fn e5_502_is_not_retried() {
    not_retried("502 command not implemented").await;
}

#[tokio::test]
async fn e5_503_is_not_retried() {
    not_retried("503 5.5.1 bad sequence of commands").await;
}

#[tokio::test]
async fn e5_551_is_not_retried() {
    not_retried("551 user not local").await;
}

#[tokio::test]
async fn e5_552_is_not_retried() {
    not_retried("552 5.2.2 mailbox full").await;
}

#[tokio::test]
async fn e5_553_is_not_retried() {
    not_retried("553 5.1.3 mailbox name not allowed").await;
}

#[tokio::test]
async fn e5_554_is_not_retried() {
    not_retried("554 5.7.1 transaction failed").await;
}

#[tokio::test]
async fn e6_550_is_not_retried() {
    not_retried("550 5.1.1 no such user").await;
}

#[tokio::test]
async fn e6_550_is_retried_when_its_enhanced_code_or_its_words_take_it_back() {
    retried("550 4.2.1 mailbox unavailable").await;
    retried("550 mailbox temporarily unavailable").await;
    retried("550 Caixa temporariamente indisponível").await;
}

#[tokio::test]
async fn g9_the_words_and_both_codes_of_a_refusal_are_kept() {
    let server = Server::start();
    server.once("RCPT", say("550-5.1.1 The account\r\n550-5.1.1 does not\r\n550 5.1.1 exist."));
    let failure = judged(send(&plain(&server), &mail(&[ANA])).await);
    assert_eq!(failure.code.as_deref(), Some("550"));
    assert_eq!(failure.reason.as_str(), "5.1.1 The account does not exist.");
    assert_eq!(
        (failure.class, failure.blame, &*failure.rule),
        (Class::Permanent, Blame::Message, "smtp/550")
    );
}

#[tokio::test]
async fn g9_a_code_without_a_word_has_a_reason_all_the_same() {
    let server = Server::start();
    server.once("(dot)", say("554"));
    let failure = judged(send(&plain(&server), &mail(&[ANA])).await);
    assert_eq!(
        (failure.code.as_deref(), failure.reason.as_str()),
        (Some("554"), "the server gave no reason")
    );
}

#[tokio::test]
async fn a_no_before_mail_never_ends_the_message() {
    for place in ["(greeting)", "EHLO"] {
        for words in [
            "554 5.7.1 go away",
            "550 no",
            "503 what?",
            "500 no",
            "421 busy",
            "450 4.7.1 slow down",
            "450 5.7.1 no",
        ] {
            let server = Server::start();
            server.once(place, say(words));
            let failure = judged(send(&plain(&server), &mail(&[ANA])).await);
            assert_eq!((server.fired(), server.lines("MAIL").len()), (1, 0), "{words} at {place}");
            let rule = match &words[..3] {
                "421" => "smtp/421",
                "450" => "smtp/450",
                _ => "smtp/5xx-before-mail",
            };
            assert_eq!((failure.class, &*failure.rule), (Class::Transient, rule), "{words} at {place}");
            assert_eq!(failure.code.as_deref(), Some(&words[..3]), "{words} at {place}");
            let step = if place == "EHLO" { "at EHLO: " } else { "at the greeting: " };
            assert!(failure.reason.as_str().starts_with(step), "{failure:?}");
        }
    }
}

#[tokio::test]
async fn a_refusal_before_mail_keeps_its_codes_and_its_words() {
    let server = Server::start();
    server.once("(greeting)", say("554 5.7.1 go away"));
    let outcome = send(&plain(&server), &mail(&[ANA])).await;
    let fault = failed(outcome.clone());
    assert_eq!((fault.kind, fault.uncertain, server.fired()), (FaultKind::Answer, false, 1));
    assert_eq!((fault.code.as_deref(), fault.enhanced.as_deref()), (Some("554"), Some("5.7.1")));
    assert_eq!(&*fault.text, "at the greeting: 5.7.1 go away");
    assert_eq!(judged(outcome).blame, Blame::Provider);

    let server = Server::start();
    server.once("EHLO", say("554"));
    let fault = failed(send(&plain(&server), &mail(&[ANA])).await);
    assert_eq!((&*fault.text, server.fired()), ("at EHLO: the server gave no reason", 1));
}

#[tokio::test]
async fn too_many_recipients_is_retried_whatever_its_code() {
    for words in ["452 4.5.3 too many recipients", "552 too many recipients", "552 5.5.3 no more"] {
        let server = Server::start();
        server.once("RCPT", say(words));
        is_retried(send(&plain(&server), &mail(&[ANA])).await);
        assert_eq!(server.fired(), 1);
    }
}
