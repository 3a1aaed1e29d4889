//! The message itself: headers, then the texts and files as MIME parts.

use recado_core::Timestamp;

use crate::email::{Attachment, Email};
use crate::encode;
use crate::mailbox::Mailbox;

/// No content can hold these: in quoted-printable a `=` is followed by digits or a line end, and base64
/// has neither `=_` nor dashes. So they need not be drawn at random, and a repetition has the same.
const MIXED: &str = "=_recado_mixed";
const ALTERNATIVE: &str = "=_recado_alternative";

impl Email {
    /// The message on the wire: CRLF line ends, no Bcc, this Message-ID (with its angle brackets) and
    /// this Date. The same inputs give the same bytes.
    pub fn message(&self, message_id: &str, date: Timestamp) -> Vec<u8> {
        let mut out = Vec::with_capacity(1_024 + content_max(self));
        let mut line = |text: &str| out.extend_from_slice(text.as_bytes());
        line(&format!("Date: {}\r\n", rfc5322(date)));
        line(&addresses("From", std::slice::from_ref(&self.from)));
        line(&addresses("Reply-To", &self.reply_to));
        line(&addresses("To", &self.to));
        line(&addresses("Cc", &self.cc));
        line(&encode::unstructured("Subject", &self.subject));
        line(&format!("Message-ID: {message_id}\r\n"));
        for (name, value) in &self.headers {
            line(&encode::unstructured(name, value));
        }
        line("MIME-Version: 1.0\r\n");
        if self.attachments.is_empty() {
            texts(self, &mut out);
        } else {
            mixed(self, &mut out);
        }
        out
    }
}

/// Bytes at most of all parts as they will be written.
pub(crate) fn content_max(email: &Email) -> usize {
    const FRAME: usize = 1_024;
    let texts = [&email.text, &email.html].into_iter().flatten();
    let texts = texts.map(|text| encode::quoted_printable_max(text) + FRAME);
    let files = email.attachments.iter().map(|file| encode::base64_max(file.content.len()) + FRAME);
    texts.chain(files).fold(0, usize::saturating_add)
}

fn mixed(email: &Email, out: &mut Vec<u8>) {
    multipart("mixed", MIXED, out);
    if email.text.is_some() || email.html.is_some() {
        open(MIXED, out);
        texts(email, out);
    }
    for attachment in &email.attachments {
        open(MIXED, out);
        file(attachment, out);
    }
    close(MIXED, out);
}

fn texts(email: &Email, out: &mut Vec<u8>) {
    match (&email.text, &email.html) {
        (Some(plain), Some(html)) => {
            multipart("alternative", ALTERNATIVE, out);
            open(ALTERNATIVE, out);
            text("plain", plain, out);
            open(ALTERNATIVE, out);
            text("html", html, out);
            close(ALTERNATIVE, out);
        }
        (None, Some(html)) => text("html", html, out),
        (plain, None) => text("plain", plain.as_deref().unwrap_or_default(), out),
    }
}

fn text(subtype: &str, content: &str, out: &mut Vec<u8>) {
    let head = format!(
        "Content-Type: text/{subtype}; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
    );
    out.extend_from_slice(head.as_bytes());
    encode::quoted_printable(content, out);
}

fn file(attachment: &Attachment, out: &mut Vec<u8>) {
    let head = format!(
        "Content-Type: {}\r\nContent-Disposition: attachment{}\r\nContent-Transfer-Encoding: base64\r\n\r\n",
        attachment.content_type,
        encode::parameter("filename", &attachment.filename)
    );
    out.extend_from_slice(head.as_bytes());
    encode::base64_lines(&attachment.content, out);
}

fn multipart(subtype: &str, boundary: &str, out: &mut Vec<u8>) {
    let head = format!("Content-Type: multipart/{subtype};\r\n boundary=\"{boundary}\"\r\n\r\n");
    out.extend_from_slice(head.as_bytes());
}

fn open(boundary: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
}

fn close(boundary: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
}

/// One address on a line of its own or on several, so that no line grows with their number.
fn addresses(name: &str, mailboxes: &[Mailbox]) -> String {
    if mailboxes.is_empty() {
        return String::new();
    }
    let mut header = format!("{name}: ");
    for (index, mailbox) in mailboxes.iter().enumerate() {
        let column = match index {
            0 => header.len(),
            _ => {
                header.push_str(",\r\n ");
                1
            }
        };
        encode::fold(&mailbox.in_header(), column, &mut header);
    }
    header.push_str("\r\n");
    header
}

fn rfc5322(date: Timestamp) -> String {
    let millis = date.as_millis().clamp(0, Timestamp::MAX.as_millis());
    let instant = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    instant.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
}
