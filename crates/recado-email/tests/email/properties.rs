//! Whatever a job says: the headers are ours, the lines are short, and the content is read back.

use mail_parser::{MessageParser, MimeHeaders};
use proptest::prelude::*;
use recado_email::Email;
use serde_json::json;

use super::given::{DATE, ID, header_lines, payload};

/// Text that is after trouble: line ends, dots, dashes, encoded words, boundaries, any Unicode.
fn nasty(max: usize) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => any::<char>().prop_map(String::from),
        2 => "[ -~]{0,12}",
        1 => prop::sample::select(vec![
            "\r\n", "\n", "\r", "\r\n.\r\n", "\0", "\t", "--", "=?utf-8?B?", "?=", "=_recado_mixed", " ", "  ",
            "\"", "\\", "<", ">", "@", ",", ";", ":", "Bcc: eve@example.com", "é", "🎉", "\u{2028}", "\u{85}",
        ]).prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..max).prop_map(|pieces| pieces.concat())
}

/// The same without what the door refuses, so that messages get made.
fn line(max: usize) -> impl Strategy<Value = String> {
    nasty(max).prop_map(|text| text.replace(char::is_control, "")).prop_map(|text| text.trim().to_owned())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_input_yields_a_header_line_that_is_not_ours(
        from in nasty(10), to in nasty(10), subject in nasty(20), value in nasty(20), name in nasty(4),
        filename in nasty(8), content_type in nasty(6).prop_map(|end| format!("text/html{end}")), text in nasty(40),
    ) {
        let data = json!({
            "from": format!("{from} <acme@acme.example>"), "to": [to, "ana@example.com"], "subject": subject,
            "text": text, "headers": { name.as_str(): value, "X-B": value },
            "attachments": [{ "filename": filename, "contentType": content_type, "contentBase64": "" }],
        });
        // Most of these are refused; what is not must be harmless.
        if let Ok(email) = Email::read(&payload(&data)) {
            check_shape(&email, &[&name, "X-B"])?;
        }
    }

    #[test]
    fn what_is_taken_is_written_safely_and_read_back(
        name in line(20), subject in line(40), header in line(40), filename in line(20),
        text in nasty(200), html in nasty(200), content in prop::collection::vec(any::<u8>(), 0..500),
    ) {
        let filename = filename.replace(['/', '\\'], "");
        let quoted_name = name.replace('\\', r"\\").replace('"', "\\\"");
        prop_assume!(!subject.is_empty() && !header.is_empty() && !filename.is_empty());
        prop_assume!(name.len() <= 256 && filename.len() <= 255);
        let base64 = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, &content);
        let data = json!({
            "from": format!("\"{quoted_name}\" <acme@acme.example>"), "to": ["ana@example.com"], "subject": subject,
            "text": text, "html": html, "headers": { "X-B": header },
            "attachments": [{ "filename": filename, "contentType": "application/pdf", "contentBase64": base64 }],
        });
        let email = Email::read(&payload(&data)).map_err(|faults| TestCaseError::fail(format!("{faults:?}")))?;
        check_shape(&email, &["X-B"])?;

        let wire = email.message(ID, DATE);
        let read = MessageParser::default().parse(&wire).expect("a message");
        prop_assert_eq!(read.subject(), Some(&*subject));
        let from = read.from().and_then(|from| from.first()).expect("a sender");
        prop_assert_eq!(from.name().unwrap_or_default(), name.trim());
        prop_assert_eq!(from.address(), Some("acme@acme.example"));
        prop_assert_eq!(body(read.body_text(0)), canonical(&text));
        prop_assert_eq!(body(read.body_html(0)), canonical(&html));
        let file = read.attachment(0).expect("an attachment");
        prop_assert_eq!(file.attachment_name(), Some(&*filename));
        prop_assert_eq!(file.contents(), &content[..]);
    }
}

fn body(read: Option<std::borrow::Cow<'_, str>>) -> String {
    read.unwrap_or_default().into_owned()
}

/// Every line ends in CRLF on the way, and a part's last line end belongs to the boundary.
fn canonical(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let text = lines.join("\r\n");
    text.strip_suffix("\r\n").unwrap_or(&text).to_owned()
}

fn check_shape(email: &Email, own: &[&str]) -> Result<(), TestCaseError> {
    let wire = String::from_utf8(email.message(ID, DATE)).expect("ASCII");
    prop_assert!(wire.is_ascii() && wire.ends_with("\r\n"));
    let bare = wire.replace("\r\n", "");
    prop_assert!(!bare.contains(|c: char| c.is_ascii_control() && c != '\t'), "a bare control character");
    prop_assert!(wire.split("\r\n").all(|line| line.len() <= 998));
    let ours =
        ["Date", "From", "Reply-To", "To", "Cc", "Subject", "Message-ID", "MIME-Version", "Content-Type"];
    let mut seen: Vec<_> = header_lines(&wire).into_iter().map(|(name, _)| name).collect();
    for name in &seen {
        prop_assert!(ours.contains(&name.as_str()) || own.contains(&name.as_str()), "{name} is not ours");
    }
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    prop_assert_eq!(seen.len(), count, "a header stands twice");
    Ok(())
}
