//! E-mails that are refused.

use serde_json::{Value, json};

use super::given::{data, email, faults, payload, pointers};
use recado_email::{Email, RECIPIENTS_MAX};

#[test]
fn every_fault_is_named_at_once() {
    let data = json!({
        "from": "nobody", "to": ["ana@example.com", 7, "x"], "cc": "y", "replyTo": ["z"], "subject": "a\nb",
        "text": 1, "headers": { "Bcc": "eve@example.com", "X-A": "a\r\nb" },
        "attachments": [{ "filename": "a/b", "contentType": "pdf", "contentBase64": "!" }], "body": "x",
    });
    let mut pointers: Vec<_> = faults(&data).into_iter().map(|fault| fault.pointer).collect();
    pointers.sort_unstable();
    assert_eq!(
        pointers,
        [
            "/attachments/0/contentBase64",
            "/attachments/0/contentType",
            "/attachments/0/filename",
            "/body",
            "/cc",
            "/from",
            "/headers/Bcc",
            "/headers/X-A",
            "/replyTo/0",
            "/subject",
            "/text",
            "/to/1",
            "/to/2",
        ]
    );
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(pointers(json!({ "from": null })), ["/from"]);
    assert_eq!(pointers(json!({ "to": null })), ["/to"]);
    assert_eq!(pointers(json!({ "to": [] })), ["/to"]);
    assert_eq!(pointers(json!({ "subject": null })), ["/subject"]);
    assert_eq!(pointers(json!({ "text": null })), ["/text"]);
    assert_eq!(pointers(json!({ "text": null, "attachments": [] })), ["/attachments"]);
    assert_eq!(
        pointers(json!({ "attachments": [{}] })),
        ["/attachments/0/contentBase64", "/attachments/0/contentType", "/attachments/0/filename"]
    );
    assert_eq!(faults(&json!([])).len(), 1);
}

#[test]
fn one_recipient_may_stand_alone_and_in_any_of_the_three_fields() {
    assert_eq!(email(json!({ "to": "Ana <ana@example.com>" })).recipients(), ["ana@example.com"]);
    assert_eq!(email(json!({ "to": null, "bcc": ["b@example.com"] })).recipients(), ["b@example.com"]);
    assert_eq!(email(json!({ "to": [], "cc": "c@example.com" })).recipients(), ["c@example.com"]);
}

#[test]
fn each_address_is_a_recipient_once_whatever_the_case_of_its_domain() {
    let email = email(json!({
        "to": ["b@example.com", "Ana <a@Example.com>"],
        "cc": ["a@EXAMPLE.com", "A@example.com"], "bcc": ["b@example.com", "c@bücher.example"],
    }));
    assert_eq!(
        email.recipients(),
        ["b@example.com", "a@example.com", "A@example.com", "c@xn--bcher-kva.example"]
    );
}

#[test]
fn recipients_are_counted_over_all_three_fields() {
    let some = |count: usize| (0..count).map(|n| format!("r{n}@example.com")).collect::<Vec<_>>();
    let half = RECIPIENTS_MAX / 2;
    assert_eq!(pointers(json!({ "to": some(half), "bcc": some(half) })), [""; 0]);
    assert_eq!(pointers(json!({ "to": some(half), "bcc": some(half + 1) })), ["/to"]);
    assert!(faults(&data(json!({ "to": some(RECIPIENTS_MAX + 1) })))[0].message.contains("500"));
}

#[test]
fn headers_that_are_not_the_jobs_to_set_are_refused_in_any_case() {
    for name in [
        "From",
        "TO",
        "cc",
        "Bcc",
        "Reply-To",
        "subject",
        "Date",
        "message-ID",
        "MIME-Version",
        "Content-Type",
        "content-transfer-encoding",
        "Content-Anything",
        "Return-Path",
        "DKIM-Signature",
        "Received",
        "Sender",
        "Resent-To",
        "ARC-Seal",
        "Authentication-Results",
    ] {
        assert_eq!(pointers(json!({ "headers": { name: "x" } })), [format!("/headers/{name}")]);
    }
    assert_eq!(pointers(json!({ "headers": { "X-A": "1", "x-a": "2" } })), ["/headers/x-a"]);
    assert_eq!(pointers(json!({ "headers": { "X A": "1", "X:": "2", "": "3" } })).len(), 3);
}

#[test]
fn control_characters_are_refused_wherever_a_header_could_be_made_of_them() {
    for sting in ["\r\nBcc: eve@example.com", "\nX", "\rX", "\0", "\u{7f}", "\u{85}"] {
        let places: [(&str, Value); 11] = [
            ("/from", json!({ "from": format!("Acme{sting} <acme@acme.example>") })),
            ("/to/0", json!({ "to": [format!("ana@example.com{sting}x")] })),
            ("/cc/0", json!({ "cc": [format!("ana{sting}@example.com")] })),
            ("/replyTo", json!({ "replyTo": format!("\"{sting}\" <ana@example.com>") })),
            ("/subject", json!({ "subject": format!("Oi{sting}") })),
            ("/headers/X-A", json!({ "headers": { "X-A": format!("a{sting}") } })),
            ("/attachments/0/filename", attached(&format!("a{sting}"), "text/csv")),
            ("/attachments/0/contentType", attached("a", &format!("text/csv; x={sting}"))),
            ("/attachments/0/contentType", attached("a", &format!("text/html{sting}"))),
            ("/attachments/0/contentType", attached("a", &format!("{sting}text/html"))),
            ("/attachments/0/contentType", attached("a", &format!("text/html{sting}; charset=utf-8"))),
        ];
        for (pointer, changes) in places {
            assert_eq!(pointers(changes), [pointer], "{sting:?}");
        }
    }
}

#[test]
fn two_addresses_do_not_pass_for_one() {
    for sneaky in ["<a@b.c>,<eve@x.y>", "a@b.c, Eve <eve@x.y>", "\"A\" <a@b.c>, \"E\" <eve@x.y>"] {
        assert_eq!(pointers(json!({ "to": [sneaky] })), ["/to/0"], "{sneaky}");
        assert_eq!(pointers(json!({ "from": sneaky })), ["/from"], "{sneaky}");
    }
}

fn attached(filename: &str, content_type: &str) -> Value {
    json!({ "attachments": [{ "filename": filename, "contentType": content_type, "contentBase64": "" }] })
}

#[test]
fn an_attachment_is_not_a_message_within_the_message() {
    for content_type in ["multipart/mixed", "Message/RFC822", "pdf", "a/b/c", "/", "text/ü"] {
        assert_eq!(pointers(attached("a", content_type)), ["/attachments/0/contentType"], "{content_type}");
    }
    assert_eq!(pointers(attached("a", "text/csv; charset=utf-8")), [""; 0]);
}

#[test]
fn a_message_beyond_forty_megabytes_is_refused() {
    let file = |bytes: usize| {
        json!({ "attachments": [{
            "filename": "a.bin", "contentType": "application/octet-stream", "contentBase64": "A".repeat(bytes),
        }] })
    };
    assert_eq!(pointers(file(36_000_000)), [""; 0]);
    assert_eq!(pointers(file(40_000_000)), [""]);
}

#[test]
fn no_fault_and_no_debug_repeats_what_the_job_said() {
    let secret = "SECRET";
    let data = json!({
        "from": secret, "to": [secret, { "a": secret }], "subject": format!("{secret}\n"), "text": [secret],
        "headers": { "X-A": format!("{secret}\n") },
        "attachments": [{ "filename": format!("{secret}/"), "contentType": secret, "contentBase64": "SECRET!" }],
    });
    let faults = faults(&data);
    assert_eq!(faults.len(), 9, "{faults:?}");
    assert!(!format!("{faults:?}").contains(secret), "{faults:?}");
    let email = email(json!({
        "from": "SECRET <SECRET@acme.example>", "subject": secret, "text": secret, "html": secret,
        "headers": { "X-A": secret }, "attachments": attached(secret, "text/csv")["attachments"],
    }));
    assert!(!format!("{email:?} {:?}", email.from).contains(secret));
}

#[test]
fn a_broken_escape_is_a_fault_and_no_panic() {
    let data = r#"{"from":"a@b.example","to":["\ud800"],"subject":"s","text":"t"}"#;
    let faults = Email::read(&recado_core::Payload::new(data).unwrap()).unwrap_err();
    assert_eq!(faults[0].pointer, "/to/0");
    assert!(Email::read(&payload(&super::given::data(json!({})))).is_ok());
}
