//! Logging in, and being refused.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use recado_core::{Blame, Class, Fault, NetworkKind};
use recado_transport_smtp::{Credentials, Mechanism, Security, Smtp};

use super::given::{ANA, accepted, config, failed, is, judged, mail, send, smtp};
use super::server::{Server, say};

const SECRET: &str = "hunter2";

fn logging_in(server: &Server, mechanism: Option<Mechanism>) -> Smtp {
    let mut config = config(server, Security::StartTls);
    config.credentials = Some(Credentials { user: "ana".to_owned(), secret: SECRET.to_owned(), mechanism });
    smtp(config)
}

async fn refused(words: &str) -> recado_core::Outcome {
    let server = Server::with_start_tls(&["AUTH PLAIN LOGIN"]);
    server.once("AUTH", say(words));
    let outcome = send(&logging_in(&server, None), &mail(&[ANA])).await;
    assert_eq!((server.fired(), server.lines("MAIL").len()), (1, 0));
    outcome
}

#[tokio::test]
async fn plain_is_preferred_and_goes_in_one_line() {
    let server = Server::with_start_tls(&["AUTH LOGIN PLAIN XOAUTH2"]);
    accepted(send(&logging_in(&server, None), &mail(&[ANA])).await);
    assert_eq!(server.lines("AUTH"), [format!("AUTH PLAIN {}", BASE64_STANDARD.encode("\0ana\0hunter2"))]);
}

#[tokio::test]
async fn login_answers_both_questions() {
    let server = Server::with_start_tls(&["AUTH=LOGIN"]);
    let [user, secret] = ["ana", SECRET].map(|word| BASE64_STANDARD.encode(word));
    server.once("AUTH LOGIN", say("334 VXNlcm5hbWU6"));
    server.once(&user, say("334 UGFzc3dvcmQ6"));
    server.once(&secret, say("235 welcome"));
    accepted(send(&logging_in(&server, None), &mail(&[ANA])).await);
    assert_eq!((server.fired(), server.taken().len()), (3, 1));
}

#[tokio::test]
async fn a_token_goes_by_xoauth2_and_its_refusal_is_asked_for() {
    let server = Server::with_start_tls(&["AUTH PLAIN XOAUTH2"]);
    let token = BASE64_STANDARD.encode("user=ana\x01auth=Bearer hunter2\x01\x01");
    accepted(send(&logging_in(&server, Some(Mechanism::XOAuth2)), &mail(&[ANA])).await);
    assert_eq!(server.lines("AUTH"), [format!("AUTH XOAUTH2 {token}")]);

    let server = Server::with_start_tls(&["AUTH PLAIN XOAUTH2"]);
    server.once("AUTH", say("334 eyJzdGF0dXMiOiI0MDEifQ=="));
    server.once("(empty)", say("535 5.7.8 token expired"));
    let fault = failed(send(&logging_in(&server, Some(Mechanism::XOAuth2)), &mail(&[ANA])).await);
    assert_eq!((fault.code.as_deref(), server.fired()), (Some("535"), 2));
}

#[tokio::test]
async fn a_refused_login_blames_the_credential_and_no_message() {
    for words in ["535 5.7.8 bad credentials", "534 5.7.9 too weak", "530 5.7.0 must log in"] {
        let failure = judged(refused(words).await);
        assert_eq!((failure.class, failure.blame), (Class::Permanent, Blame::Credential), "{words}");
        assert_eq!(failure.code.as_deref(), Some(&words[..3]));
        assert!(failure.reason.as_str().starts_with("at AUTH: 5.7."), "{failure:?}");
    }
}

#[tokio::test]
async fn a_login_that_cannot_be_checked_now_is_tried_again() {
    let failure = judged(refused("454 4.7.0 temporary authentication failure").await);
    assert_eq!((failure.class, failure.code.as_deref()), (Class::Transient, Some("454")));
    let failure = judged(refused("454 5.7.0 the directory does not answer").await);
    assert_eq!((failure.class, &*failure.rule), (Class::Transient, "smtp/4xx"));
    is(&failed(refused("334 more").await), NetworkKind::Protocol, false);
}

#[tokio::test]
async fn any_other_final_no_to_a_login_blames_the_credential_too() {
    for words in ["550 no", "504 5.5.4 unknown mechanism", "501 malformed", "503 not now"] {
        let failure = judged(refused(words).await);
        assert_eq!((failure.class, failure.blame), (Class::Permanent, Blame::Credential), "{words}");
        assert_eq!((&*failure.rule, failure.code.as_deref()), ("smtp/5xx-at-auth", Some(&words[..3])));
        assert!(failure.reason.as_str().starts_with("at AUTH: "), "{failure:?}");
    }
}

#[tokio::test]
async fn a_server_that_wants_a_login_at_mail_blames_the_credential() {
    let server = Server::start();
    server.once("MAIL", say("530 5.7.0 authentication required"));
    let failure = judged(send(&super::given::plain(&server), &mail(&[ANA])).await);
    assert_eq!((failure.class, failure.blame, server.fired()), (Class::Permanent, Blame::Credential, 1));
}

#[tokio::test]
async fn a_server_that_offers_no_login_of_ours_is_told_nothing() {
    for (offers, mechanism) in
        [(&[][..], None), (&["AUTH CRAM-MD5"], None), (&["AUTH PLAIN"], Some(Mechanism::XOAuth2))]
    {
        let server = Server::with_start_tls(offers);
        let fault: Fault = failed(send(&logging_in(&server, mechanism), &mail(&[ANA])).await);
        is(&fault, NetworkKind::Protocol, false);
        assert_eq!((server.lines("AUTH").len(), server.lines("MAIL").len()), (0, 0));
    }
}
