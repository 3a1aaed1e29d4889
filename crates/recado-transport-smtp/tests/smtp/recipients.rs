//! Several recipients, each with an answer of its own, over one attempt and over many.

use mail_parser::MessageParser;
use recado_core::job::remember;
use recado_core::{Attempt, AttemptResult, Job, NetworkKind, Outcome, RecipientResult, Verdict, rules};
use serde_json::json;

use super::given::{
    ANA, BOB, EVA, NOW, accepted, failed, is, job, mail, mail_to, partly, people, plain, refusals, send,
    send_job,
};
use super::server::{Server, SmtpAct, cut, say};

#[tokio::test]
async fn a_message_is_handed_over_once_to_all_recipients() {
    let server = Server::start();
    let mut data = mail(&[ANA, BOB]);
    data["bcc"] = json!([EVA, "ana@EXAMPLE.com"]);
    let answer = accepted(send(&plain(&server), &data).await);
    assert_eq!(
        answer,
        json!({
            "messageId": "<job-7f3a@acme.example>", "response": "250 2.0.0 queued as 4711", "recipients": 3,
        })
    );
    let taken = server.taken();
    assert_eq!(taken.len(), 1);
    assert_eq!(
        (&*taken[0].sender, &taken[0].recipients[..]),
        ("acme@acme.example", &[ANA, BOB, EVA].map(String::from)[..])
    );
    let read = MessageParser::default().parse(&taken[0].text).expect("a message");
    assert_eq!(read.body_text(0).as_deref(), Some("Olá\r\n.\r\n"));
    assert_eq!(read.message_id(), Some("job-7f3a@acme.example"));
    assert!(!String::from_utf8_lossy(&taken[0].text).contains(EVA), "a blind copy was seen");
}

#[tokio::test]
async fn a_refused_recipient_neither_fails_nor_repeats_the_others() {
    let server = Server::start();
    server.always(&format!("RCPT TO:<{BOB}>"), say("550 5.1.1 no such user"));
    let smtp = plain(&server);
    let mut job = job(&mail(&[ANA, BOB, EVA]));
    let partly = partly(send_job(&smtp, &job).await);
    assert_eq!(partly.accepted, [ANA, EVA].map(Box::from));
    assert_eq!(refusals(&partly), [(BOB, "550")]);
    assert_eq!(partly.refused[0].fault.enhanced.as_deref(), Some("5.1.1"));
    assert_eq!(server.taken()[0].recipients, [ANA, EVA]);

    settle(&mut job, Outcome::Partial(partly));
    let again = super::given::partly(send_job(&smtp, &job).await);
    assert_eq!((again.accepted.len(), refusals(&again)), (0, vec![(BOB, "550")]));
    assert_eq!(again.refused[0].fault.enhanced.as_deref(), Some("5.1.1"));
    assert_eq!((server.connections(), server.taken().len()), (1, 1), "no recipient was left");
}

#[tokio::test]
async fn only_who_may_take_it_later_is_asked_again_and_the_final_no_is_not_forgotten() {
    let server = Server::start();
    server.always(&format!("RCPT TO:<{BOB}>"), say("550 no such user"));
    server.once(&format!("RCPT TO:<{EVA}>"), say("450 mailbox busy"));
    let smtp = plain(&server);
    let mut job = job(&mail(&[ANA, BOB, EVA]));
    let first = send_job(&smtp, &job).await;
    settle(&mut job, first);
    let second = partly(send_job(&smtp, &job).await);
    assert_eq!((&second.accepted[..], refusals(&second)), (&[EVA.into()][..], vec![(BOB, "550")]));
    let recipients: Vec<_> = server.taken().into_iter().map(|taken| taken.recipients).collect();
    assert_eq!(recipients, [[ANA], [EVA]]);
    assert_eq!(server.lines(&format!("RCPT TO:<{BOB}>")).len(), 1);
    let [first, second] = &server.taken()[..] else { panic!("two messages were due") };
    assert!(first.text == second.text, "a repetition has to be the same byte for byte");
}

#[tokio::test]
async fn a_job_that_reached_every_recipient_is_done_without_a_connection() {
    let server = Server::start();
    let mut job = job(&mail(&[ANA]));
    let reached = recado_core::PartialDelivery { accepted: vec![ANA.into()], refused: Vec::new() };
    remember_all(&mut job, &reached, &[]);
    let outcome = send_job(&plain(&server), &job).await;
    assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn when_all_refuse_no_text_is_sent_and_each_keeps_its_reason() {
    // Where commands go out together, DATA is among them.
    for (offers, asked) in [(&["PIPELINING"][..], 1), (&[], 0)] {
        let server = Server::offering(offers);
        server.always(&format!("RCPT TO:<{ANA}>"), say("550 5.1.1 no such user"));
        server.always(&format!("RCPT TO:<{BOB}>"), say("450 4.2.1 busy"));
        let smtp = plain(&server);
        let partly = partly(send(&smtp, &mail(&[ANA, BOB])).await);
        assert_eq!((partly.accepted.len(), refusals(&partly)), (0, vec![(ANA, "550"), (BOB, "450")]));
        assert_eq!((server.lines("DATA").len(), server.taken().len()), (asked, 0));
        accepted(send(&smtp, &mail(&[EVA])).await);
        assert_eq!((server.connections(), server.taken().len()), (1, 1), "the connection was not kept");
    }
}

#[tokio::test]
async fn a_server_that_wants_a_text_for_no_recipient_gets_none() {
    for refusing in ["MAIL", "RCPT"] {
        let server = Server::offering(&["PIPELINING"]);
        server.once(refusing, say("550 no"));
        server.once("DATA", say("354 go ahead"));
        let smtp = plain(&server);
        let refused = send(&smtp, &mail(&[ANA])).await;
        assert_eq!(failed(refused).code.as_deref(), Some("550"));
        accepted(send(&smtp, &mail(&[BOB])).await);
        let recipients: Vec<_> = server.taken().into_iter().map(|taken| taken.recipients).collect();
        assert_eq!((server.connections(), recipients), (2, vec![vec![BOB.to_owned()]]), "after {refusing}");
    }
}

#[tokio::test]
async fn an_answer_too_many_refuses_no_recipient() {
    // Each no is read as the next recipient's, and at the end DATA has the answer of the last one.
    for (twice, refused, answers, all) in [
        (format!("RCPT TO:<{ANA}>"), ANA, "550 5.1.1 no such user\r\n", &[ANA, BOB][..]),
        (format!("RCPT TO:<{ANA}>"), ANA, "550 5.1.1 no such user\r\n", &[ANA, BOB, EVA]),
        ("MAIL".to_owned(), BOB, "250 2.1.0 fine\r\n", &[ANA, BOB, EVA]),
    ] {
        let server = Server::offering(&["PIPELINING"]);
        server.once(&twice, SmtpAct::Say(answers.repeat(2)));
        server.always(&format!("RCPT TO:<{refused}>"), say("550 5.1.1 no such user"));
        let smtp = plain(&server);
        let fault = failed(send(&smtp, &mail(all)).await);
        is(&fault, NetworkKind::Protocol, false);
        let again = partly(send(&smtp, &mail(all)).await);
        assert_eq!((refusals(&again), again.accepted.len()), (vec![(refused, "550")], all.len() - 1));
        assert_eq!((server.connections(), server.taken().len()), (2, 1));
    }
}

#[tokio::test]
async fn an_answer_too_many_among_many_recipients_refuses_none() {
    for offers in [&["PIPELINING"][..], &[]] {
        let server = Server::offering(offers);
        let people = people(60);
        let twice = "550 5.1.1 no such user\r\n".repeat(2);
        server.once(&format!("RCPT TO:<{}>", people[7]), SmtpAct::Say(twice));
        let smtp = plain(&server);
        let fault = failed(send(&smtp, &mail_to(&people)).await);
        is(&fault, NetworkKind::Protocol, false);
        accepted(send(&smtp, &mail_to(&people)).await);
        assert_eq!((server.connections(), server.fired()), (2, 1));
    }
}

#[tokio::test]
async fn a_no_after_the_text_refuses_every_recipient_that_had_been_taken() {
    let server = Server::start();
    server.once(&format!("RCPT TO:<{BOB}>"), say("550 no such user"));
    server.once("(dot)", say("451 4.3.0 try later"));
    let partly = partly(send(&plain(&server), &mail(&[ANA, BOB, EVA])).await);
    assert_eq!(partly.accepted.len(), 0);
    assert_eq!(refusals(&partly), [(BOB, "550"), (ANA, "451"), (EVA, "451")]);
    assert_eq!(server.fired(), 2);
}

#[tokio::test]
async fn a_server_that_takes_recipients_and_refuses_the_text_is_believed_at_the_end() {
    let server = Server::start();
    server.once("(dot)", say("550 5.7.1 looks like spam"));
    let fault = failed(send(&plain(&server), &mail(&[ANA, BOB])).await);
    assert_eq!((fault.code.as_deref(), fault.uncertain), (Some("550"), false));
    assert_eq!(server.lines("RCPT").len(), 2);
}

#[tokio::test]
async fn an_answer_lost_after_the_final_dot_leaves_only_those_uncertain_whom_it_concerns() {
    let server = Server::start();
    server.once(&format!("RCPT TO:<{BOB}>"), say("550 no such user"));
    server.once("(dot)", cut(""));
    let partly = partly(send(&plain(&server), &mail(&[ANA, BOB])).await);
    let certain: Vec<_> = partly.refused.iter().map(|one| (&*one.recipient, one.fault.uncertain)).collect();
    assert_eq!(certain, [(BOB, false), (ANA, true)]);
    is(&partly.refused[1].fault, NetworkKind::Dropped, true);
    assert_eq!(server.fired(), 2);
}

#[tokio::test]
async fn a_farewell_among_the_recipients_ends_the_transaction_for_the_rest() {
    for offers in [&["PIPELINING"][..], &[]] {
        let server = Server::offering(offers);
        server.once(&format!("RCPT TO:<{ANA}>"), say("550 no such user"));
        server.once(&format!("RCPT TO:<{EVA}>"), cut("421 4.7.0 too many errors"));
        let partly = partly(send(&plain(&server), &mail(&[ANA, BOB, EVA])).await);
        assert_eq!(refusals(&partly), [(ANA, "550"), (BOB, "421"), (EVA, "421")]);
        assert_eq!((server.fired(), server.taken().len()), (2, 0));
    }
}

#[tokio::test]
async fn hundreds_of_recipients_take_a_few_round_trips() {
    let server = Server::start();
    // These answers come only if the next command is already there.
    server.always("MAIL", SmtpAct::SayWhenMoreCame("250 fine\r\n".into()));
    server.always("RCPT TO:<r0@", SmtpAct::SayWhenMoreCame("250 fine\r\n".into()));
    let many = people(300);
    let answer = accepted(send(&plain(&server), &mail_to(&many)).await);
    assert_eq!((answer["recipients"].as_u64(), server.fired()), (Some(300), 2));
    assert_eq!(server.taken()[0].recipients, many);
}

/// Notes an attempt on the job as the engine would.
fn settle(job: &mut Job, outcome: Outcome) {
    match rules::named("smtp").expect("a rule set").verdict(outcome) {
        Verdict::Partial { accepted, refused } => {
            let partly = recado_core::PartialDelivery { accepted, refused: Vec::new() };
            remember_all(job, &partly, &refused);
        }
        other => panic!("{other:?}, where recipients were to differ"),
    }
}

fn remember_all(
    job: &mut Job,
    partly: &recado_core::PartialDelivery,
    refused: &[(Box<str>, recado_core::Failure)],
) {
    job.progress.attempts_spent += 1;
    let mut attempt = Attempt::ended(job.progress.attempts_spent, NOW, NOW, AttemptResult::Partial);
    let sent = |recipient: &str| RecipientResult {
        recipient: recipient.into(),
        result: AttemptResult::Sent,
        error_code: None,
        error_reason: None,
        error_classification: None,
        rule: None,
    };
    attempt.recipients.extend(partly.accepted.iter().map(|recipient| sent(recipient)));
    attempt.recipients.extend(refused.iter().map(|(recipient, failure)| RecipientResult {
        result: AttemptResult::Failed,
        error_code: failure.code.clone(),
        error_reason: Some(failure.reason.clone()),
        error_classification: Some(failure.class),
        rule: Some(failure.rule.clone()),
        ..sent(recipient)
    }));
    remember(&mut job.attempts, attempt);
}
