//! E-mail by SMTP.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use mail_parser::MimeHeaders;
use serde_json::{Value, json};

use super::far_ends::mail::{Relay, parse};
use super::given::eventually;
use super::scene::{Scene, tries};

/// Development's three attempts, in haste.
const HASTY: &str = "[routes.email]\npolicy = { base = \"20ms\" }\n";

fn scene(relay: &Relay) -> Scene {
    Scene::with(&format!("{}{HASTY}", relay.provider()))
}

fn mail(to: &[&str]) -> Value {
    json!({ "from": "acme@acme.example", "to": to, "subject": "Pedido", "text": "Seu pedido saiu." })
}

#[test]
fn e7_a_message_in_utf8_with_an_attachment_arrives_whole() {
    let relay = Relay::start();
    let scene = scene(&relay);
    let invoice = [0_u8, 1, 2, 13, 10, 46, 13, 10, 255];
    let data = json!({
        "from": "Ação Ltda <acme@acme.example>", "to": ["ana@example.com"],
        "subject": "Confirmação do pedido nº 7", "text": "Olá, José!\n.\nAté amanhã.",
        "html": "<p>Olá, José!</p>",
        "attachments": [{
            "filename": "nota-fiscal.pdf", "contentType": "application/pdf",
            "contentBase64": BASE64_STANDARD.encode(invoice),
        }],
    });
    scene.send("email", "acme", "order-7", &data);
    let job = scene.sent("order-7");
    assert_eq!(tries(&job), ["sent"]);
    assert_eq!(job["answer"]["messageId"], "<order-7@acme.example>", "{job:#}");

    let taken = relay.taken();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].recipients, ["ana@example.com"]);
    let message = parse(&taken[0]);
    assert_eq!(message.subject(), Some("Confirmação do pedido nº 7"));
    assert_eq!(message.message_id(), Some("order-7@acme.example"));
    assert_eq!(message.from().unwrap().first().unwrap().name(), Some("Ação Ltda"));
    assert_eq!(message.body_text(0).unwrap().replace("\r\n", "\n").trim_end(), "Olá, José!\n.\nAté amanhã.");
    assert_eq!(message.body_html(0).unwrap().trim_end(), "<p>Olá, José!</p>");
    let attachment = message.attachment(0).unwrap();
    assert_eq!(attachment.attachment_name(), Some("nota-fiscal.pdf"));
    assert_eq!(attachment.contents(), invoice);
}

#[test]
fn e4_421_450_451_and_452_are_sent_again_under_the_same_message_id() {
    let relay = Relay::start();
    let scene = scene(&relay);
    for (code, reply) in [
        ("421", "421 4.3.2 service not available"),
        ("450", "450 4.2.1 mailbox busy"),
        ("451", "451 4.3.0 local error"),
        ("452", "452 4.3.1 no space left"),
    ] {
        let (id, address) = (format!("try-{code}"), format!("ana+{code}@example.com"));
        relay.orders(&format!("RCPT TO:<{address}>"), &[reply]);
        scene.send("email", "acme", &id, &mail(&[&address]));
        assert_eq!(tries(&scene.sent(&id)), [format!("failed {code} TRANSIENT smtp/{code}"), "sent".into()]);
        let mine: Vec<_> =
            relay.taken().into_iter().filter(|taken| taken.recipients == [&*address]).collect();
        assert_eq!(mine.len(), 1);
        assert_eq!(parse(&mine[0]).message_id(), Some(&*format!("{id}@acme.example")));
    }
    assert_eq!(relay.fired(), 4);
}

#[test]
fn e4_a_421_that_hangs_up_at_mail_costs_one_attempt() {
    let relay = Relay::start();
    relay.orders("MAIL", &["421 4.7.0 too many connections"]);
    let scene = scene(&relay);
    scene.send("email", "acme", "again", &mail(&["ana@example.com"]));
    let job = scene.sent("again");
    assert_eq!(tries(&job).len(), 2, "{job:#}");
    assert_eq!((job["attempts"][0]["errorCode"].as_str(), relay.fired()), (Some("421"), 1));
    assert_eq!(relay.taken().len(), 1);
}

#[test]
fn e5_e6_e7_permanent_codes_are_buried_after_one_attempt() {
    let relay = Relay::start();
    let scene = scene(&relay);
    for code in ["500", "501", "502", "550", "551", "552", "553", "554"] {
        let (id, address) = (format!("no-{code}"), format!("ana+{code}@example.com"));
        relay.always(&format!("RCPT TO:<{address}>"), &format!("{code} 5.0.0 no"));
        scene.send("email", "acme", &id, &mail(&[&address]));
        let entry = scene.buried(&id, "PERMANENT");
        assert_eq!(tries(&entry), [format!("failed {code} PERMANENT smtp/{code}")]);
        assert_eq!(
            (entry["failedAttempts"].as_u64(), entry["lastFailureCode"].as_str()),
            (Some(1), Some(code))
        );
    }
    assert_eq!((relay.taken().len(), relay.fired()), (0, 8));
}

#[test]
fn e5_503_is_permanent_on_a_fresh_connection_and_a_kept_one_may_only_be_out_of_step() {
    let relay = Relay::start();
    let scene = scene(&relay);
    relay.orders("RCPT TO:<ana@example.com>", &["503 5.5.1 bad sequence"]);
    scene.send("email", "acme", "fresh", &mail(&["ana@example.com"]));
    assert_eq!(tries(&scene.buried("fresh", "PERMANENT")), ["failed 503 PERMANENT smtp/503"]);

    scene.send("email", "acme", "keeper", &mail(&["eva@example.com"]));
    scene.sent("keeper");
    relay.orders("RCPT TO:<bob@example.com>", &["503 5.5.1 bad sequence"]);
    scene.send("email", "acme", "kept", &mail(&["bob@example.com"]));
    assert_eq!(tries(&scene.sent("kept")), ["failed PROTOCOL_ERROR TRANSIENT smtp/network", "sent"]);
    assert_eq!((relay.fired(), relay.taken().len()), (2, 2));
}

#[test]
fn e7_what_fails_three_times_in_development_is_exhausted() {
    let relay = Relay::start();
    relay.always("(dot)", "451 4.3.0 disk trouble");
    let scene = scene(&relay);
    scene.send("email", "acme", "never", &mail(&["ana@example.com"]));
    let entry = scene.buried("never", "EXHAUSTED");
    assert_eq!(tries(&entry), ["failed 451 TRANSIENT smtp/451"; 3]);
    assert_eq!((relay.fired(), relay.taken().len()), (3, 0));
}

#[test]
fn e7_the_administrator_hears_of_a_dead_letter_by_e_mail_and_of_his_own_undeliverable_notice_nothing() {
    let relay = Relay::start();
    let admin = "[notify.admin]\nfrom = \"recado@acme.example\"\nto = [\"admin@acme.example\"]\n\
                 [dlq]\nnotify = \"admin\"\n";
    let scene = Scene::with(&format!("{}{admin}{HASTY}", relay.provider()));
    relay.always("RCPT TO:<ana@example.com>", "550 5.1.1 no such user");
    scene.send("email", "acme", "dead", &mail(&["ana@example.com"]));
    scene.buried("dead", "PERMANENT");
    eventually(|| !relay.taken().is_empty());
    let notices = relay.taken();
    assert_eq!(notices[0].recipients, ["admin@acme.example"]);
    let notice = parse(&notices[0]);
    assert_eq!(notice.subject(), Some("Recado: JobFailed (route email, company acme)"));
    let text = notice.body_text(0).unwrap();
    for words in ["jobId: dead", "errorCode: 550", "rule: smtp/550", "recado dlq show dead"] {
        assert!(text.contains(words), "{words:?} is missing from\n{text}");
    }
    assert!(!text.contains("Seu pedido saiu."), "a notice repeats the message:\n{text}");

    relay.always("RCPT TO:<admin@acme.example>", "550 5.1.1 no such user");
    scene.send("email", "acme", "dead-too", &mail(&["ana@example.com"]));
    scene.buried("dead-too", "PERMANENT");
    eventually(|| scene.get("/v1/dlq?companyId=recado")["items"] != json!([]));
    scene.send("email", "acme", "after", &mail(&["eva@example.com"]));
    scene.sent("after");
    assert_eq!(scene.get("/v1/dlq")["items"].as_array().unwrap().len(), 3);
    assert_eq!(scene.get("/v1/jobs?companyId=recado")["items"].as_array().unwrap().len(), 2);
}

#[test]
fn a_refused_recipient_neither_fails_nor_repeats_the_other_and_a_corrected_replay_reaches_only_him() {
    let relay = Relay::start();
    relay.always("RCPT TO:<bob@example.com>", "550 5.1.1 no such user");
    let scene = scene(&relay);
    scene.send("email", "acme", "both", &mail(&["ana@example.com", "bob@example.com"]));
    let entry = scene.buried("both", "PERMANENT");
    assert_eq!(tries(&entry), ["partial 550 PERMANENT smtp/550"]);
    let recipients = entry["attempts"][0]["recipients"].as_array().unwrap();
    let told: Vec<_> = recipients
        .iter()
        .map(|one| ["recipient", "result", "rule"].map(|name| one[name].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(told, [["ana@example.com", "sent", ""], ["bob@example.com", "failed", "smtp/550"]]);
    assert_eq!(relay.taken().len(), 1);

    let corrected = mail(&["ana@example.com", "roberto@example.com"]).to_string();
    scene.recado(&["dlq", "replay", "both", "--data", &corrected, "--note", "a typing error"]).done();
    scene.sent("both");
    scene.is_not_buried("both");
    let recipients: Vec<_> = relay.taken().into_iter().map(|taken| taken.recipients).collect();
    assert_eq!(recipients, [["ana@example.com"], ["roberto@example.com"]]);
}

#[test]
fn a_recipient_that_was_refused_gets_it_when_a_replay_finds_his_mailbox_mended() {
    let relay = Relay::start();
    relay.always("RCPT TO:<bob@example.com>", "552 5.2.2 mailbox full");
    let scene = scene(&relay);
    scene.send("email", "acme", "full", &mail(&["ana@example.com", "bob@example.com"]));
    scene.buried("full", "PERMANENT");
    relay.recovers();
    scene.recado(&["dlq", "replay", "full"]).done();
    scene.sent("full");
    let recipients: Vec<_> = relay.taken().into_iter().map(|taken| taken.recipients).collect();
    assert_eq!(recipients, [["ana@example.com"], ["bob@example.com"]]);
}

/// Each life has as many attempts as a policy may have, so that the history of 200 is full in the third.
#[test]
fn a_recipient_who_has_the_message_does_not_get_it_again_when_the_history_is_full() {
    let relay = Relay::start();
    relay.always("RCPT TO:<bob@example.com>", "450 4.2.1 mailbox busy");
    let terms = "[routes.email]\npolicy = { base = \"1ms\", cap = \"1ms\", max_attempts = 100 }\n\
                 classify = [{ code = \"450\", as = \"transient\", blame = \"message\" }]\n";
    let scene = Scene::with(&format!("{}{terms}", relay.provider()));
    scene.send("email", "acme", "long", &mail(&["ana@example.com", "bob@example.com"]));
    for _ in 0..2 {
        scene.buried("long", "EXHAUSTED");
        scene.recado(&["dlq", "replay", "long"]).done();
    }
    let entry = scene.buried("long", "EXHAUSTED");
    let oldest = &entry["attempts"][0];
    assert_eq!(oldest["attempt"], 101, "the first attempt is still kept: nothing was tested");
    relay.recovers();
    scene.recado(&["dlq", "replay", "long"]).done();
    scene.sent("long");
    let recipients: Vec<_> = relay.taken().into_iter().map(|taken| taken.recipients).collect();
    assert_eq!(recipients, [["ana@example.com"], ["bob@example.com"]]);
    assert_eq!(oldest["earlierRecipients"][0]["recipient"], "ana@example.com");
}

#[test]
fn e6_an_operators_rule_makes_550_worth_a_retry_and_jobs_show_names_it() {
    let relay = Relay::start();
    relay.orders("RCPT TO:<ana@example.com>", &["550 5.7.1 mailbox busy"]);
    let rule =
        "classify = [{ code = \"550\", text = \"mailbox busy\", as = \"transient\", blame = \"message\" }]\n";
    let scene = Scene::with(&format!("{}{HASTY}{rule}", relay.provider()));
    scene.send("email", "acme", "ruled", &mail(&["ana@example.com"]));
    assert_eq!(tries(&scene.sent("ruled")), ["failed 550 TRANSIENT config/email/1", "sent"]);
    let shown = scene.recado(&["jobs", "show", "ruled"]).done();
    assert!(shown.contains("TRANSIENT  rule config/email/1  blames the message"), "{shown}");
    assert_eq!((relay.fired(), relay.taken().len()), (1, 1));

    relay.always("RCPT TO:<eva@example.com>", "550 5.1.1 no such user");
    scene.send("email", "acme", "not-ruled", &mail(&["eva@example.com"]));
    assert_eq!(tries(&scene.buried("not-ruled", "PERMANENT")), ["failed 550 PERMANENT smtp/550"]);
}

#[test]
fn e6_a_550_that_says_temporary_is_sent_again_without_any_rule_of_the_operators() {
    let relay = Relay::start();
    relay.orders("RCPT TO:<ana@example.com>", &["550 4.2.1 busy", "550 5.2.0 try again later"]);
    let scene = scene(&relay);
    scene.send("email", "acme", "soon", &mail(&["ana@example.com"]));
    assert_eq!(
        tries(&scene.sent("soon")),
        ["failed 550 TRANSIENT smtp/55x-4.x.x", "failed 550 TRANSIENT smtp/55x-temporary", "sent"]
    );
}
