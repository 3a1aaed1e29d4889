//! The message on the wire, read back by `mail-parser`.

use mail_parser::{MessageParser, MimeHeaders};
use recado_email::Email;
use serde_json::json;

use super::given::{DATE, ID, email, header_lines, wire};

#[test]
fn a_plain_message_is_written_as_people_expect_it() {
    let email = email(
        json!({ "from": "Acme <acme@acme.example>", "cc": ["b@example.com"], "bcc": ["c@example.com"] }),
    );
    let expected = "Date: Thu, 01 Jan 2026 00:00:00 +0000\r\n\
        From: Acme <acme@acme.example>\r\n\
        To: ana@example.com\r\n\
        Cc: b@example.com\r\n\
        Subject: Oi\r\n\
        Message-ID: <job-7f3a@acme.example>\r\n\
        MIME-Version: 1.0\r\n\
        Content-Type: text/plain; charset=utf-8\r\n\
        Content-Transfer-Encoding: quoted-printable\r\n\
        \r\n\
        Ol=C3=A1\r\n";
    assert_eq!(wire(&email), expected);
}

#[test]
fn text_html_and_files_are_read_back_whole() {
    let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let base64 = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, &bytes);
    let email = email(json!({
        "from": "Ação & Cia. <acme@acme.example>", "replyTo": ["Suporte <help@acme.example>"],
        "to": ["\"Souza, Ana\" <ana@example.com>", "José <jose@example.com>"],
        "subject": "Sua cobrança nº 7 está disponível 🎉", "text": "Olá\n.\n..ponto\n", "html": "<p>Olá</p>",
        "headers": { "X-Campaign": "março", "List-Unsubscribe": "<https://acme.example/u>" },
        "attachments": [
            { "filename": "relatório (1).pdf", "contentType": "application/pdf", "contentBase64": base64 },
            { "filename": "a \"b\".csv", "contentType": "text/csv", "contentBase64": "" },
        ],
    }));
    let wire = wire(&email);
    let read = MessageParser::default().parse(wire.as_bytes()).expect("a message");
    assert_eq!(read.subject(), Some("Sua cobrança nº 7 está disponível 🎉"));
    assert_eq!(read.message_id(), Some("job-7f3a@acme.example"));
    let from = read.from().and_then(|from| from.first()).expect("a sender");
    assert_eq!((from.name(), from.address()), (Some("Ação & Cia."), Some("acme@acme.example")));
    let names: Vec<_> = read.to().expect("to").iter().map(|one| one.name().unwrap_or_default()).collect();
    assert_eq!(names, ["Souza, Ana", "José"]);
    assert_eq!(read.body_text(0).as_deref(), Some("Olá\r\n.\r\n..ponto"));
    assert_eq!(read.body_html(0).as_deref(), Some("<p>Olá</p>"));
    let files: Vec<_> = read.attachments().collect();
    assert_eq!(files.len(), 2);
    assert_eq!(files[0].attachment_name(), Some("relatório (1).pdf"));
    assert!(files[0].contents() == bytes, "the file was changed on the way");
    assert_eq!((files[1].attachment_name(), files[1].contents()), (Some("a \"b\".csv"), &b""[..]));
}

#[test]
fn a_repetition_is_the_same_byte_for_byte() {
    let twice = || {
        let file = json!([{ "filename": "a.txt", "contentType": "text/plain", "contentBase64": "QQ==" }]);
        let email =
            email(json!({ "html": "<p>", "attachments": file, "headers": { "X-B": "1", "X-A": "2" } }));
        email.message(ID, DATE)
    };
    assert_eq!(twice(), twice());
}

#[test]
fn no_header_names_a_blind_copy_recipient() {
    let email = email(json!({ "to": null, "bcc": ["Secret <secret@example.com>"] }));
    assert_eq!(email.recipients(), ["secret@example.com"]);
    assert!(!wire(&email).to_lowercase().contains("secret"));
}

#[test]
fn lines_of_any_length_and_ending_are_carried_whole() {
    let long = "x".repeat(5_000);
    for (text, expected) in [
        (long.clone(), long.clone()),
        ("a\r\nb\nc".into(), "a\r\nb\r\nc".into()),
        ("trailing \t\nspace ".into(), "trailing \t\r\nspace ".into()),
        ("a=3D=\n=".into(), "a=3D=\r\n=".into()),
        (
            format!("{}\n--=_recado_mixed--", "é".repeat(500)),
            format!("{}\r\n--=_recado_mixed--", "é".repeat(500)),
        ),
    ] {
        let email = email(json!({ "text": text, "html": "<i>" }));
        let wire = wire(&email);
        let read = MessageParser::default().parse(wire.as_bytes()).expect("a message");
        assert!(read.body_text(0).is_some_and(|read| read == expected), "{expected:.40} was changed");
        no_long_lines(&email);
    }
}

#[test]
fn long_headers_are_folded_and_read_back() {
    let subjects = [
        "word ".repeat(150).trim().to_owned(),
        "x".repeat(1_999),
        "é".repeat(900),
        format!("a{}b", " ".repeat(1_500)),
    ];
    for subject in subjects {
        let many: Vec<_> = (0..500).map(|n| format!("Recipient Nº {n} <r{n}@example.com>")).collect();
        let email =
            email(json!({ "subject": subject, "to": many, "headers": { "X-Long": "word ".repeat(1_000) } }));
        no_long_lines(&email);
        let wire = wire(&email);
        let read = MessageParser::default().parse(wire.as_bytes()).expect("a message");
        assert_eq!(read.subject(), Some(&*subject));
        assert_eq!(read.to().map(|to| to.iter().count()), Some(500));
    }
}

#[test]
fn no_line_with_an_encoded_word_is_longer_than_76_bytes() {
    let name = "Çã".repeat(64);
    let mailbox = format!("{name} <{}@example.com>", "a".repeat(50));
    let long_name = "X".repeat(76);
    let headers = json!({ "X-Campaign": "março ".repeat(40).trim(), &*long_name: "é" });
    for subject in ["á".repeat(200), "🎉".repeat(60), "Olá".to_owned()] {
        let email = email(json!({
            "from": mailbox, "to": [mailbox, "Ana <ana@example.com>"], "replyTo": mailbox, "subject": subject,
            "headers": headers,
        }));
        let wire = wire(&email);
        let long: Vec<_> = wire.split("\r\n").filter(|line| line.contains("=?") && line.len() > 76).collect();
        assert!(long.is_empty(), "{long:#?}");
        let read = MessageParser::default().parse(wire.as_bytes()).expect("a message");
        assert_eq!(read.subject(), Some(&*subject));
        let names: Vec<_> = read.to().expect("to").iter().map(|one| one.name().unwrap_or_default()).collect();
        assert_eq!(names, [&*name, "Ana"]);
        assert_eq!(read.reply_to().and_then(|to| to.first()?.name()), Some(&*name));
        assert!(read.header(&*long_name).is_some(), "{wire}");
    }
}

#[test]
fn a_media_type_is_written_without_the_space_around_it() {
    let file =
        json!([{ "filename": "a", "contentType": " Text/CSV ;  header=present ", "contentBase64": "QQ==" }]);
    let wire = wire(&email(json!({ "attachments": file })));
    assert!(wire.contains("\r\nContent-Type: Text/CSV; header=present\r\n"), "{wire}");
}

#[test]
fn what_looks_like_an_encoded_word_is_not_taken_for_one() {
    let subject = "=?utf-8?B?T2k=?= is not decoded";
    let email = email(json!({ "subject": subject, "from": "=?utf-8?B?T2k=?= <acme@acme.example>" }));
    let wire = wire(&email);
    let read = MessageParser::default().parse(wire.as_bytes()).expect("a message");
    assert_eq!(read.subject(), Some(subject));
    assert_eq!(read.from().and_then(|from| from.first()?.name()), Some("=?utf-8?B?T2k=?="));
}

#[test]
fn only_an_e_mail_without_files_and_headers_is_simple() {
    let file = json!([{ "filename": "a.txt", "contentType": "text/plain", "contentBase64": "QQ==" }]);
    assert!(email(json!({ "html": "<p>", "replyTo": "r@example.com" })).is_simple());
    assert!(!email(json!({ "attachments": file })).is_simple());
    assert!(!email(json!({ "headers": { "X-A": "1" } })).is_simple());
}

#[test]
fn a_file_may_go_without_a_word() {
    let file = json!([{ "filename": "a.txt", "contentType": "text/plain", "contentBase64": "QQ==" }]);
    let email = email(json!({ "text": null, "attachments": file }));
    let wire = wire(&email);
    let read = MessageParser::default().parse(wire.as_bytes()).expect("a message");
    assert_eq!(read.attachment(0).map(|file| file.contents()), Some(&b"A"[..]));
    let names: Vec<_> = header_lines(&wire).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Date", "From", "To", "Subject", "Message-ID", "MIME-Version", "Content-Type"]);
}

fn no_long_lines(email: &Email) {
    let wire = wire(email);
    assert!(wire.is_ascii());
    let longest = wire.split("\r\n").map(str::len).max().unwrap_or_default();
    assert!(longest <= 998, "a line of {longest} bytes");
}
