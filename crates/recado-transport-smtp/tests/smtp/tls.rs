//! TLS in each of its modes, and attackers on the path.

use recado_core::{Blame, Class, Fault, NetworkKind, Outcome};
use recado_transport_smtp::{ConfigError, Security, Smtp, SmtpConfig};

use super::given::{ANA, accepted, config, failed, is, judged, mail, send, smtp};
use super::server::{Server, SmtpAct, cut, say};

async fn refused(server: &Server, config: SmtpConfig) -> Fault {
    let fault = failed(send(&smtp(config), &mail(&[ANA])).await);
    assert_eq!((server.lines("MAIL").len(), server.taken().len()), (0, 0), "mail went out");
    fault
}

#[tokio::test]
async fn mail_goes_out_under_tls_from_the_first_byte() {
    let server = Server::with_tls(&["PIPELINING"]);
    accepted(send(&smtp(config(&server, Security::ImplicitTls)), &mail(&[ANA])).await);
    assert_eq!((server.taken().len(), server.lines("STARTTLS").len()), (1, 0));
}

#[tokio::test]
async fn mail_goes_out_after_starttls_and_the_server_is_asked_again_what_it_can_do() {
    for security in [Security::StartTls, Security::Opportunistic] {
        let server = Server::with_start_tls(&["PIPELINING"]);
        accepted(send(&smtp(config(&server, security)), &mail(&[ANA])).await);
        assert_eq!(
            (server.taken().len(), server.lines("STARTTLS").len(), server.lines("EHLO").len()),
            (1, 1, 2)
        );
    }
}

#[tokio::test]
async fn a_stripped_offer_of_starttls_is_a_tls_failure_and_nothing_goes_out_plain() {
    let server = Server::with_start_tls(&["AUTH PLAIN"]);
    server.always("EHLO", say("250-localhost\r\n250-XXXXXXXX\r\n250 AUTH PLAIN"));
    let fault = refused(&server, config(&server, Security::StartTls)).await;
    is(&fault, NetworkKind::Tls, false);
    assert!(fault.text.contains("does not offer STARTTLS"), "{}", fault.text);
    assert_eq!((server.fired(), server.lines("AUTH").len()), (1, 0));
}

#[tokio::test]
async fn a_refused_starttls_is_no_reason_to_go_on_without() {
    for security in [Security::StartTls, Security::Opportunistic] {
        for (words, rule) in
            [("454 4.7.0 TLS not available", "smtp/4xx"), ("502 not implemented", "smtp/5xx-before-mail")]
        {
            let server = Server::with_start_tls(&[]);
            server.once("STARTTLS", say(words));
            let fault = refused(&server, config(&server, security)).await;
            assert!(fault.text.starts_with("at STARTTLS: "), "{}", fault.text);
            let failure = judged(Outcome::Failed(fault));
            assert_eq!((failure.class, failure.blame), (Class::Transient, Blame::Provider), "{words}");
            assert_eq!((&*failure.rule, failure.code.as_deref()), (rule, Some(&words[..3])));
            assert_eq!(server.fired(), 1);
        }
    }
}

#[tokio::test]
async fn words_put_into_the_servers_mouth_before_tls_are_not_believed_after_it() {
    for injected in ["250-localhost\r\n250 AUTH PLAIN\r\n", "250 OK\r\n", "x"] {
        let server = Server::with_start_tls(&["PIPELINING"]);
        server.once("STARTTLS", SmtpAct::SayMore(injected.into()));
        let fault = refused(&server, config(&server, Security::StartTls)).await;
        is(&fault, NetworkKind::Tls, false);
        assert_eq!((server.fired(), server.lines("EHLO").len()), (1, 1));
    }
}

#[tokio::test]
async fn a_certificate_from_a_stranger_is_refused() {
    let server = Server::with_tls(&[]);
    let mut trusting = config(&server, Security::ImplicitTls);
    trusting.trusted_roots_pem = Some(Server::with_tls(&[]).certificate_pem);
    let fault = refused(&server, trusting).await;
    is(&fault, NetworkKind::Tls, false);
    assert!(fault.text.contains("certificate") && !fault.text.contains("Other("), "{}", fault.text);

    let server = Server::with_start_tls(&[]);
    let mut opportunistic = config(&server, Security::Opportunistic);
    opportunistic.trusted_roots_pem = None;
    is(&refused(&server, opportunistic).await, NetworkKind::Tls, false);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let server = Server::with_tls_for("mail.example.com");
    let fault = refused(&server, config(&server, Security::ImplicitTls)).await;
    is(&fault, NetworkKind::Tls, false);
    assert!(fault.text.starts_with("at the TLS handshake: "), "{}", fault.text);
}

#[tokio::test]
async fn tls_against_a_plain_port_is_a_tls_failure() {
    let server = Server::start();
    is(&refused(&server, config(&server, Security::ImplicitTls)).await, NetworkKind::Tls, false);
}

#[tokio::test]
async fn a_connection_closed_instead_of_a_handshake_is_lost_before_mail() {
    let server = Server::with_start_tls(&[]);
    server.once("STARTTLS", cut("220 go ahead"));
    is(&refused(&server, config(&server, Security::StartTls)).await, NetworkKind::Tls, false);
    assert_eq!(server.fired(), 1);
}

#[tokio::test]
async fn opportunistic_goes_on_plain_where_no_tls_is_offered() {
    let server = Server::start();
    let mut opportunistic = config(&server, Security::Opportunistic);
    opportunistic.host = "127.0.0.1".to_owned();
    accepted(send(&smtp(opportunistic), &mail(&[ANA])).await);
    assert_eq!(server.taken().len(), 1);
}

#[tokio::test]
async fn certificates_that_are_none_are_refused_at_once() {
    let server = Server::start();
    for pem in ["", "not PEM", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"] {
        let mut config = config(&server, Security::StartTls);
        config.trusted_roots_pem = Some(pem.to_owned());
        assert_eq!(Smtp::new(config).unwrap_err(), ConfigError::TrustedRoots, "{pem}");
    }
}
