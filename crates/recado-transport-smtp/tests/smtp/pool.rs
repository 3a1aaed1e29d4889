//! Connections that are kept, shared, replaced and closed.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{NetworkKind, Outcome};
use recado_transport::Transport;
use recado_transport_smtp::{ConfigError, Security, Smtp};

use super::given::{ANA, BOB, SHORT, accepted, config, delivery, failed, is, job, mail, plain, send, smtp};
use super::server::{Server, SmtpAct, cut, say};

#[tokio::test]
async fn one_connection_serves_one_message_after_the_other() {
    let server = Server::start();
    let smtp = plain(&server);
    for _ in 0..3 {
        accepted(send(&smtp, &mail(&[ANA])).await);
    }
    assert_eq!((server.connections(), server.taken().len()), (1, 3));
    assert_eq!((server.lines("EHLO").len(), server.lines("RSET").len()), (1, 0), "a round trip was wasted");
}

#[tokio::test]
async fn a_connection_is_kept_after_a_refusal_and_reset_where_that_left_it_open() {
    for (place, resets) in [("MAIL", 1), ("RCPT", 1), ("DATA", 1), ("(dot)", 0)] {
        for offers in [&["PIPELINING"][..], &[]] {
            let server = Server::offering(offers);
            let smtp = plain(&server);
            server.once(place, say("550 no"));
            let refused = send(&smtp, &mail(&[ANA])).await;
            assert_eq!(failed(refused).code.as_deref(), Some("550"));
            accepted(send(&smtp, &mail(&[BOB])).await);
            assert_eq!((server.fired(), server.connections()), (1, 1), "at {place}");
            assert_eq!(server.lines("RSET").len(), resets, "at {place}");
            assert_eq!(server.taken()[0].recipients, [BOB], "at {place}");
        }
    }
}

#[tokio::test]
async fn a_farewell_costs_the_connection_wherever_it_comes() {
    for place in ["MAIL", "RCPT", "DATA", "(dot)"] {
        let server = Server::start();
        let smtp = plain(&server);
        server.once(place, say("421 4.3.2 closing"));
        assert_eq!(failed(send(&smtp, &mail(&[ANA])).await).code.as_deref(), Some("421"));
        accepted(send(&smtp, &mail(&[ANA])).await);
        assert_eq!((server.fired(), server.connections()), (1, 2), "at {place}");
    }
}

#[tokio::test]
async fn a_kept_connection_that_died_is_replaced_within_the_attempt() {
    for act in [
        cut(""),
        SmtpAct::Reset,
        cut("421 4.4.2 idle for too long"),
        say("421 bye"),
        say("503 5.5.1 nested MAIL"),
    ] {
        let server = Server::start();
        let smtp = plain(&server);
        accepted(send(&smtp, &mail(&[ANA])).await);
        server.once("MAIL", act);
        accepted(send(&smtp, &mail(&[BOB])).await);
        assert_eq!((server.fired(), server.connections(), server.taken().len()), (1, 2, 2));
    }
}

#[tokio::test]
async fn a_kept_connection_that_swallows_everything_is_replaced_within_the_attempt() {
    let server = Server::start();
    let mut config = config(&server, Security::None);
    config.timeouts.envelope = SHORT;
    let smtp = smtp(config);
    accepted(send(&smtp, &mail(&[ANA])).await);
    server.once("MAIL", SmtpAct::Hang);
    accepted(send(&smtp, &mail(&[BOB])).await);
    assert_eq!((server.fired(), server.connections(), server.taken().len()), (1, 2, 2));
}

#[tokio::test]
async fn a_connection_that_ended_while_it_was_kept_is_replaced_within_the_attempt() {
    let server = Server::start();
    let smtp = plain(&server);
    server.once("(dot)", cut("250 2.0.0 queued, and bye"));
    accepted(send(&smtp, &mail(&[ANA])).await);
    server.is_alone().await;
    accepted(send(&smtp, &mail(&[BOB])).await);
    assert_eq!((server.fired(), server.connections()), (1, 2));
}

#[tokio::test]
async fn a_kept_connection_that_lost_its_place_is_dropped_and_blamed_on_no_job() {
    for place in ["RCPT", "DATA"] {
        let server = Server::start();
        let smtp = plain(&server);
        accepted(send(&smtp, &mail(&[ANA])).await);
        server.once(place, say("503 5.5.1 need MAIL first"));
        is(&failed(send(&smtp, &mail(&[BOB])).await), NetworkKind::Protocol, false);
        accepted(send(&smtp, &mail(&[BOB])).await);
        assert_eq!((server.fired(), server.connections()), (1, 2), "at {place}");
    }
}

#[tokio::test]
async fn a_delivery_that_is_dropped_takes_its_connection_with_it() {
    for place in ["EHLO", "MAIL", "RCPT", "DATA", "(dot)"] {
        let server = Server::start();
        let mut config = config(&server, Security::None);
        config.connections_max = 1;
        let smtp = smtp(config);
        server.once(place, SmtpAct::Hang);
        let job = job(&mail(&[ANA]));
        let heard = if place == "(dot)" { "DATA" } else { place };
        tokio::select! {
            outcome = smtp.send(delivery(&job)) => panic!("{outcome:?}, where nothing was due"),
            () = async { server.hears(heard).await; server.has_fired().await } => {}
        }
        server.is_alone().await;
        accepted(send(&smtp, &mail(&[BOB])).await);
        let recipients: Vec<_> = server.taken().into_iter().flat_map(|taken| taken.recipients).collect();
        assert_eq!((server.connections(), recipients), (2, vec![BOB.to_owned()]), "at {place}");
    }
}

#[tokio::test]
async fn no_more_connections_are_opened_than_allowed_and_late_jobs_wait() {
    let server = Server::start();
    let mut config = config(&server, Security::None);
    config.connections_max = 2;
    let smtp = Arc::new(smtp(config));
    let sends: Vec<_> = (0..20)
        .map(|_| {
            let smtp = Arc::clone(&smtp);
            tokio::spawn(async move { accepted(send(&smtp, &mail(&[ANA])).await) })
        })
        .collect();
    for send in sends {
        send.await.expect("a yes");
    }
    assert_eq!((server.taken().len(), server.connections()), (20, 2));
}

#[tokio::test]
async fn a_job_that_waits_for_a_connection_in_vain_is_told_so() {
    let server = Server::start();
    server.once("MAIL", SmtpAct::Hang);
    let mut config = config(&server, Security::None);
    config.connections_max = 1;
    let smtp = smtp(config);
    let (first, second) = (job(&mail(&[ANA])), job(&mail(&[BOB])));
    let mut short = delivery(&second);
    short.timeout = Duration::from_millis(200);
    let waiting = async {
        server.hears("MAIL").await;
        smtp.send(short).await
    };
    let outcome: Outcome = tokio::select! {
        outcome = smtp.send(delivery(&first)) => panic!("{outcome:?}, where nothing was due"),
        outcome = waiting => outcome,
    };
    let fault = failed(outcome);
    is(&fault, NetworkKind::Timeout, false);
    assert_eq!((server.connections(), server.fired()), (1, 1), "{}", fault.text);
}

#[tokio::test]
async fn a_connection_is_closed_after_its_share_of_messages() {
    let server = Server::start();
    let mut config = config(&server, Security::None);
    config.messages_per_connection_max = 2;
    let smtp = smtp(config);
    for _ in 0..4 {
        accepted(send(&smtp, &mail(&[ANA])).await);
    }
    assert_eq!(server.connections_with("MAIL"), [1, 1, 2, 2]);
    server.is_alone().await;
    assert_eq!(server.lines("QUIT").len(), 2);
}

#[tokio::test]
async fn an_unused_connection_is_closed_in_time_without_another_delivery() {
    let server = Server::start();
    let mut config = config(&server, Security::None);
    config.idle_timeout = Duration::from_millis(50);
    let smtp = smtp(config);
    for round in 1..=2 {
        accepted(send(&smtp, &mail(&[ANA])).await);
        server.is_alone().await;
        assert_eq!((server.connections(), server.lines("QUIT").len()), (round, round));
    }
}

#[tokio::test]
async fn a_pool_that_allows_nothing_is_refused() {
    let server = Server::start();
    let mut config = config(&server, Security::None);
    config.connections_max = 0;
    assert_eq!(Smtp::new(config).unwrap_err(), ConfigError::NoConnections);
}
