//! From a job's `data` to an [`Email`]: every fault at once, each with its place and what to write instead.

use recado_core::Payload;
use recado_transport::DataFault;
use recado_transport::data::{self, Object, Text};
use serde_json::value::RawValue;

use crate::email::{Attachment, Email};
use crate::mailbox::Mailbox;
use crate::{encode, message};

/// Addresses at most in to, cc and bcc together.
pub const RECIPIENTS_MAX: usize = 500;
/// Bytes at most of a message as it goes over the wire.
pub const MESSAGE_MAX_BYTES: usize = 40 * 1_000 * 1_000;

const ATTACHMENTS_MAX: usize = 100;
const HEADERS_MAX: usize = 50;
const HEADER_NAME_MAX_BYTES: usize = 76;
const HEADER_VALUE_MAX_BYTES: usize = 8 * 1_024;
const SUBJECT_MAX_BYTES: usize = 2_000;
/// Percent-encoded it still has to fit on one line.
const FILENAME_MAX_BYTES: usize = 255;
const CONTENT_TYPE_MAX_BYTES: usize = 255;

const FIELDS: [&str; 10] =
    ["from", "to", "cc", "bcc", "replyTo", "subject", "text", "html", "headers", "attachments"];

/// Headers that a field of `data` stands for.
const HEADERS_WITH_FIELDS: [(&str, &str); 6] = [
    ("from", "from"),
    ("to", "to"),
    ("cc", "cc"),
    ("bcc", "bcc"),
    ("reply-to", "replyTo"),
    ("subject", "subject"),
];

/// Headers that only we, or a server on the way, may write; with a dash at its end, all that begin so.
const HEADERS_OF_OURS: [&str; 11] = [
    "date",
    "message-id",
    "mime-version",
    "content-",
    "return-path",
    "dkim-signature",
    "received",
    "sender",
    "resent-",
    "arc-",
    "authentication-results",
];

impl Email {
    /// Reads a job's data, or says everything that is wrong with it.
    pub fn read(data: &Payload) -> Result<Email, Vec<DataFault>> {
        data::read(data, email)
    }
}

fn email(data: &Object<'_, '_>) -> Option<Email> {
    data.allow_only(&FIELDS);
    let from = from(data);
    let [to, cc, bcc] = ["to", "cc", "bcc"].map(|name| mailboxes(data, name));
    check_number(data, to.len() + cc.len() + bcc.len());
    let reply_to = mailboxes(data, "replyTo");
    let subject = subject(data);
    let [text, html] = ["text", "html"].map(|name| data.text(name).map(Into::into));
    let headers = headers(data);
    let attachments = attachments(data);
    if ["text", "html", "attachments"].iter().all(|name| !data.has(name)) {
        data.fault("text", "is missing; write `text`, `html` or both, or attach a file");
    }
    let email =
        Email { from: from?, to, cc, bcc, reply_to, subject: subject?, text, html, headers, attachments };
    if message::content_max(&email) > MESSAGE_MAX_BYTES {
        data.fault_here("makes too large a message; texts and files may have 40 MB in all, once encoded");
    }
    Some(email)
}

fn from(data: &Object<'_, '_>) -> Option<Mailbox> {
    let text = data.words("from", "Acme <no-reply@acme.example>")?;
    Mailbox::read(&text).map_err(|wrong| data.fault("from", wrong)).ok()
}

fn subject(data: &Object<'_, '_>) -> Option<String> {
    let subject = data.words("subject", "Your invoice")?;
    if subject.contains(char::is_control) {
        data.fault("subject", "holds a line break or another control character; write one line");
    }
    if subject.len() > SUBJECT_MAX_BYTES {
        data.fault("subject", format!("is too long; write at most {SUBJECT_MAX_BYTES} bytes"));
    }
    Some(subject.into_owned())
}

/// A list of addresses, or one address by itself.
fn mailboxes(data: &Object<'_, '_>, name: &str) -> Vec<Mailbox> {
    let single = data.get(name).filter(|raw| raw.get().starts_with('"'));
    if let Some(raw) = single {
        return mailbox(data, name, raw).into_iter().collect();
    }
    let list = data.list(name, r#"["ana@example.com"]"#).unwrap_or_default();
    if list.len() > RECIPIENTS_MAX {
        data.fault(name, format!("is too long a list; write at most {RECIPIENTS_MAX} addresses"));
        return Vec::new();
    }
    let entries = list.into_iter().enumerate();
    entries.filter_map(|(index, raw)| mailbox(data, &format!("{name}/{index}"), raw)).collect()
}

fn mailbox(data: &Object<'_, '_>, place: &str, raw: &RawValue) -> Option<Mailbox> {
    let read = match serde_json::from_str::<Text<'_>>(raw.get()) {
        Ok(Text(text)) => Mailbox::read(&text).map_err(str::to_owned),
        Err(_) => {
            Err(format!("{}, such as \"ana@example.com\"", data::describe_instead(raw.get(), "a string")))
        }
    };
    read.map_err(|wrong| data.fault_at(place, wrong)).ok()
}

fn check_number(data: &Object<'_, '_>, recipients: usize) {
    let given = |name| data.get(name).is_some_and(|raw| !matches!(raw.get(), "[]"));
    if !["to", "cc", "bcc"].into_iter().any(given) {
        data.fault("to", "is empty; write at least one address, such as [\"ana@example.com\"]");
    }
    if recipients > RECIPIENTS_MAX {
        data.fault(
            "to",
            format!("makes too many recipients with cc and bcc; write at most {RECIPIENTS_MAX} in all"),
        );
    }
}

fn headers(data: &Object<'_, '_>) -> Vec<(String, String)> {
    let Some(object) = data.object("headers") else { return Vec::new() };
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, _) in object.members() {
        let Some(value) = object.text(name) else { continue };
        let wrong = wrong_name(name).or_else(|| wrong_value(&value).map(Into::into));
        if let Some(wrong) = wrong {
            object.fault(name, wrong);
        } else if headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            object.fault(name, "is given more than once; keep one of them");
        } else {
            headers.push((name.to_owned(), value.into_owned()));
        }
        if headers.len() > HEADERS_MAX {
            object.fault_here(format!("holds too many; write at most {HEADERS_MAX} headers"));
            break;
        }
    }
    headers
}

fn wrong_name(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if name.is_empty() || name.len() > HEADER_NAME_MAX_BYTES || !name.bytes().all(word) {
        return Some(
            "is not a header's name; use 1 to 76 letters, digits and dashes, such as X-Campaign".into(),
        );
    }
    if let Some((_, field)) = HEADERS_WITH_FIELDS.iter().find(|(header, _)| *header == lower) {
        return Some(format!("is not set here; use the field `{field}` of data"));
    }
    let ours = HEADERS_OF_OURS.iter().any(|ours| match ours.ends_with('-') {
        true => lower.starts_with(ours),
        false => lower == *ours,
    });
    ours.then(|| "is set by Recado or by the servers on the way; leave it out".into())
}

fn wrong_value(value: &str) -> Option<&'static str> {
    if value.trim().is_empty() {
        Some("is empty; write a value or leave the header out")
    } else if value.contains(char::is_control) {
        Some("holds a line break or another control character; write one line, it is folded for you")
    } else if value.len() > HEADER_VALUE_MAX_BYTES {
        Some("is too long; write at most 8192 bytes")
    } else if value.is_ascii() && !encode::is_foldable(value) {
        Some("holds a word that fits on no line; put a space in at least every 900 bytes")
    } else {
        None
    }
}

fn attachments(data: &Object<'_, '_>) -> Vec<Attachment> {
    let such_as = r#"[{"filename": "invoice.pdf", "contentType": "application/pdf", "contentBase64": "…"}]"#;
    let list = data.list("attachments", such_as).unwrap_or_default();
    if data.has("attachments") && list.is_empty() && !data.has("text") && !data.has("html") {
        data.fault("attachments", "is empty; attach a file, or write `text` or `html`");
    }
    if list.len() > ATTACHMENTS_MAX {
        data.fault("attachments", format!("is too long a list; attach at most {ATTACHMENTS_MAX} files"));
        return Vec::new();
    }
    let mut attachments = Vec::with_capacity(list.len());
    for (index, raw) in list.into_iter().enumerate() {
        match data::read(&Payload::from_raw(raw), attachment) {
            Ok(attachment) => attachments.push(attachment),
            Err(faults) => faults.into_iter().for_each(|fault| {
                data.fault_at(&format!("attachments/{index}{}", fault.pointer), fault.message)
            }),
        }
    }
    attachments
}

fn attachment(data: &Object<'_, '_>) -> Option<Attachment> {
    data.allow_only(&["filename", "contentType", "contentBase64"]);
    let filename = data.words("filename", "invoice.pdf");
    if let Some(wrong) = filename.as_deref().and_then(wrong_filename) {
        data.fault("filename", wrong);
    }
    let content_type = data
        .words("contentType", "application/pdf")
        .and_then(|text| media_type(&text).map_err(|wrong| data.fault("contentType", wrong)).ok());
    if !data.has("contentBase64") {
        data.fault("contentBase64", "is missing; write the file's bytes in base64");
    }
    let content = data.base64("contentBase64");
    Some(Attachment { filename: filename?.into_owned(), content_type: content_type?, content: content? })
}

fn wrong_filename(filename: &str) -> Option<&'static str> {
    if filename.contains(|c: char| c.is_control() || c == '/' || c == '\\') {
        Some("holds a slash, a backslash or a control character; write the file's plain name")
    } else if filename.len() > FILENAME_MAX_BYTES {
        Some("is too long; write at most 255 bytes")
    } else {
        None
    }
}

/// Reads a media type and returns the text that goes into the header: built from the parts that were checked,
/// without the white space around them.
fn media_type(text: &str) -> Result<String, &'static str> {
    const WRONG: &str = "is not a media type; write one such as \"application/pdf\"";
    let printable = text.bytes().all(|b| (b' '..=b'~').contains(&b));
    if !printable || text.len() > CONTENT_TYPE_MAX_BYTES {
        return Err(WRONG);
    }
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    let (kind, subtype) = essence.trim().split_once('/').ok_or(WRONG)?;
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b))
    };
    if !token(kind) || !token(subtype) {
        return Err(WRONG);
    }
    if ["multipart", "message"].iter().any(|nested| kind.eq_ignore_ascii_case(nested)) {
        return Err("is a message within the message; send it as \"application/octet-stream\"");
    }
    Ok(match parameters.trim() {
        "" => format!("{kind}/{subtype}"),
        parameters => format!("{kind}/{subtype}; {parameters}"),
    })
}
