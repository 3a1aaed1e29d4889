//! Relays that take only so many recipients at once: each recipient gets the message in one attempt all the same.

use recado_core::NetworkKind;
use recado_transport_smtp::Security;
use serde_json::json;

use super::given::{
    ANA, BOB, EVA, accepted, config, is, mail, mail_to, partly, people, plain, refusals, send, smtp,
};
use super::server::{Mail, Server, SmtpAct, cut, say};

const TOO_MANY: &str = "452 4.5.3 Too many recipients";

/// A relay that takes one recipient at a time.
async fn one_at_a_time() -> Server {
    let server = Server::start();
    server.limits(1, TOO_MANY);
    server
}

/// The recipients of a copy, over all messages.
fn reached(taken: &[Mail]) -> Vec<String> {
    taken.iter().flat_map(|taken| taken.recipients.clone()).collect()
}

#[tokio::test]
async fn each_recipient_gets_one_copy_in_one_attempt_however_few_the_relay_takes_at_once() {
    for words in [TOO_MANY, "552 too many recipients", "452 4.5.3 enough", "552 5.5.3 enough"] {
        for offers in [&["PIPELINING"][..], &[]] {
            let server = Server::offering(offers);
            server.limits(50, words);
            let many = people(300);
            let answer = accepted(send(&plain(&server), &mail_to(&many)).await);
            assert_eq!(answer["recipients"], 300);
            let taken = server.taken();
            assert_eq!(reached(&taken), many, "{words}");
            assert!(taken.iter().all(|one| one.recipients.len() <= 50 && one.text == taken[0].text));
            assert!(server.fired() > 0, "no recipient was put off");
            assert_eq!((server.connections(), server.lines("RSET").len()), (1, 0));
        }
    }
}

#[tokio::test]
async fn the_relay_is_not_asked_again_for_more_than_it_takes() {
    let server = Server::start();
    server.limits(20, TOO_MANY);
    accepted(send(&plain(&server), &mail_to(&people(300))).await);
    assert_eq!((server.taken().len(), server.lines("MAIL").len()), (15, 15));
    assert!((1..50).contains(&server.fired()), "only the first batch was too large");
}

#[tokio::test]
async fn a_relay_that_takes_one_at_a_time_gets_a_message_for_each_over_as_many_connections_as_it_takes() {
    let server = one_at_a_time().await;
    let mut config = config(&server, Security::None);
    config.messages_per_connection_max = 100;
    config.connections_max = 1;
    let many = people(300);
    let answer = accepted(send(&smtp(config), &mail_to(&many)).await);
    assert_eq!(answer["recipients"], 300);
    assert_eq!(reached(&server.taken()), many);
    assert_eq!((server.taken().len(), server.connections()), (300, 3));
    let response = answer["response"].as_str().expect("words");
    assert!(response.starts_with("250 2.0.0 queued as 4711; 250 ") && response.len() <= 1_024, "{response}");
}

#[tokio::test]
async fn a_limit_that_lets_no_recipient_through_refuses_them_all() {
    let server = Server::start();
    server.limits(0, TOO_MANY);
    let partly = partly(send(&plain(&server), &mail(&[ANA, BOB])).await);
    assert_eq!((partly.accepted.len(), refusals(&partly)), (0, vec![(ANA, "452"), (BOB, "452")]));
    assert_eq!((server.lines("MAIL").len(), server.taken().len(), server.fired()), (1, 0, 2));
}

#[tokio::test]
async fn a_recipient_put_off_again_and_again_is_reported_and_holds_up_no_other() {
    let server = Server::start();
    server.always("RCPT TO:<r1", say(TOO_MANY));
    let many = people(200);
    let partly = partly(send(&plain(&server), &mail_to(&many)).await);
    let (stuck, others): (Vec<_>, Vec<_>) = many.into_iter().partition(|one| one.starts_with("r1"));
    let mut refused: Vec<_> = refusals(&partly);
    refused.sort_unstable();
    let mut expected: Vec<_> = stuck.iter().map(|one| (&**one, "452")).collect();
    expected.sort_unstable();
    assert_eq!(refused, expected);
    assert_eq!(partly.accepted.iter().map(|one| &**one).collect::<Vec<_>>(), others);
    assert_eq!(reached(&server.taken()), others);
    assert!(server.lines("RCPT").len() < 2 * 200, "it went on asking");
}

#[tokio::test]
async fn a_bad_address_among_those_who_were_put_off_does_not_end_it_for_the_rest() {
    let server = one_at_a_time().await;
    server.once(&format!("RCPT TO:<{BOB}>"), say("550 5.1.1 no such user"));
    let partly = partly(send(&plain(&server), &mail(&[ANA, BOB, EVA])).await);
    assert_eq!(partly.accepted, [ANA, EVA].map(Box::from));
    assert_eq!(refusals(&partly), [(BOB, "550")]);
    assert_eq!(reached(&server.taken()), [ANA, EVA]);
    assert_eq!(server.fired(), 3, "two were put off, and one of them refused");
}

#[tokio::test]
async fn an_answer_lost_in_the_second_transaction_leaves_its_own_recipients_uncertain_and_no_other() {
    for act in [cut(""), SmtpAct::Reset, say("not SMTP")] {
        let server = one_at_a_time().await;
        server.once("(dot)", say("250 2.0.0 queued"));
        server.once("(dot)", act);
        let partly = partly(send(&plain(&server), &mail(&[ANA, BOB, EVA])).await);
        assert_eq!(partly.accepted, [ANA].map(Box::from));
        assert_eq!(refusals(&partly), [(BOB, "none"), (EVA, "452")]);
        let uncertain: Vec<_> = partly.refused.iter().map(|one| one.fault.uncertain).collect();
        assert_eq!(uncertain, [true, false]);
        assert_eq!((server.fired(), server.lines("DATA").len()), (4, 2), "it went on");
    }
}

#[tokio::test]
async fn a_no_to_the_second_message_is_that_of_its_recipients_and_the_rest_stays_put_off() {
    let server = one_at_a_time().await;
    server.once("(dot)", say("250 2.0.0 queued"));
    server.once("(dot)", say("451 4.3.0 try later"));
    let partly = partly(send(&plain(&server), &mail(&[ANA, BOB, EVA])).await);
    assert_eq!(partly.accepted, [ANA].map(Box::from));
    assert_eq!(refusals(&partly), [(BOB, "451"), (EVA, "452")]);
    assert_eq!((server.fired(), server.lines("DATA").len()), (4, 2), "it went on");
}

#[tokio::test]
async fn a_first_message_that_is_lost_is_not_followed_by_another() {
    let server = one_at_a_time().await;
    server.once("(dot)", cut(""));
    let partly = partly(send(&plain(&server), &mail(&[ANA, BOB])).await);
    assert_eq!((partly.accepted.len(), refusals(&partly)), (0, vec![(ANA, "none"), (BOB, "452")]));
    is(&partly.refused[0].fault, NetworkKind::Dropped, true);
    assert_eq!((server.fired(), server.lines("MAIL").len()), (2, 1));
}

#[tokio::test]
async fn a_relay_that_closes_after_each_message_is_reached_again_for_the_rest() {
    for farewell in [cut("421 4.7.0 one message each"), cut(""), say("503 5.5.1 one message each")] {
        let server = one_at_a_time().await;
        server.once("MAIL", say("250 2.1.0 fine"));
        server.once("MAIL", farewell);
        let answer = accepted(send(&plain(&server), &mail(&[ANA, BOB])).await);
        assert_eq!(answer["recipients"], 2);
        assert_eq!(reached(&server.taken()), [ANA, BOB]);
        assert_eq!((server.fired(), server.connections()), (3, 2));
    }
}

#[tokio::test]
async fn where_no_further_connection_can_be_had_the_rest_stays_put_off() {
    for place in ["(greeting)", "EHLO"] {
        let server = one_at_a_time().await;
        let right = if place == "EHLO" { "250 localhost" } else { "220 localhost" };
        server.once(place, say(right));
        server.once(place, say("554 5.7.1 not you again"));
        let mut config = config(&server, Security::None);
        config.messages_per_connection_max = 1;
        let partly = partly(send(&smtp(config), &mail(&[ANA, BOB, EVA])).await);
        assert_eq!(partly.accepted, [ANA].map(Box::from));
        assert_eq!(refusals(&partly), [(EVA, "452"), (BOB, "452")]);
        assert_eq!((server.connections(), server.lines("MAIL").len()), (2, 1));
        assert!(server.fired() >= 3, "it was let in");
    }
}

#[tokio::test]
async fn no_other_jobs_message_comes_between_those_of_one_delivery() {
    let server = one_at_a_time().await;
    let mut config = config(&server, Security::None);
    config.connections_max = 1;
    let smtp = smtp(config);
    let (many, one) = (mail(&[ANA, BOB]), mail(&[EVA]));
    let (many, one) = tokio::join!(send(&smtp, &many), send(&smtp, &one));
    assert_eq!((&accepted(many)["recipients"], &accepted(one)["recipients"]), (&json!(2), &json!(1)));
    assert_eq!((reached(&server.taken()), server.fired()), ([ANA, BOB, EVA].map(String::from).to_vec(), 1));
}
