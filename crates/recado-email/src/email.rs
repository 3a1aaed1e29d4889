//! The checked e-mail and what can be asked of it.

use std::collections::HashSet;

use recado_core::{Payload, Timestamp};
use recado_transport::DataFault;

use crate::mailbox::Mailbox;
use crate::{message, read};

/// An e-mail as a job's data describes it, every field checked.
///
/// Its `Debug` shows sizes only: what people write to each other does not belong in logs.
pub struct Email {
    pub(crate) from: Mailbox,
    pub(crate) to: Vec<Mailbox>,
    pub(crate) cc: Vec<Mailbox>,
    pub(crate) bcc: Vec<Mailbox>,
    pub(crate) reply_to: Vec<Mailbox>,
    pub(crate) subject: String,
    pub(crate) text: Option<String>,
    pub(crate) html: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) attachments: Vec<Attachment>,
}

/// A file that goes with an e-mail.
pub struct Attachment {
    pub(crate) filename: String,
    pub(crate) content_type: String,
    pub(crate) content: Vec<u8>,
}

impl Email {
    /// Reads a job's data, or says everything that is wrong with it.
    pub fn read(data: &Payload) -> Result<Email, Vec<DataFault>> {
        read::email(data)
    }

    pub fn sender(&self) -> &Mailbox {
        &self.from
    }

    pub fn to(&self) -> &[Mailbox] {
        &self.to
    }

    pub fn cc(&self) -> &[Mailbox] {
        &self.cc
    }

    pub fn bcc(&self) -> &[Mailbox] {
        &self.bcc
    }

    pub fn reply_to(&self) -> &[Mailbox] {
        &self.reply_to
    }

    pub fn subject(&self) -> &str {
        &self.subject
    }

    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    pub fn html(&self) -> Option<&str> {
        self.html.as_deref()
    }

    /// Names and values, in the order the job gave them.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    pub fn attachments(&self) -> &[Attachment] {
        &self.attachments
    }

    /// All recipients: to, cc, bcc; in order, each address once. Domains are in lower case
    /// by the time they get here, so that two spellings of one address are one.
    pub fn recipients(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        let all = self.to.iter().chain(&self.cc).chain(&self.bcc);
        all.map(Mailbox::address).filter(|address| seen.insert(*address)).collect()
    }

    /// No attachments and no headers of its own, so that a provider can build the message itself.
    pub fn is_simple(&self) -> bool {
        self.attachments.is_empty() && self.headers.is_empty()
    }

    /// The message on the wire: CRLF line ends, no Bcc, this Message-ID (with its angle brackets) and
    /// this Date. The same inputs give the same bytes.
    pub fn message(&self, message_id: &str, date: Timestamp) -> Vec<u8> {
        message::of(self, message_id, date)
    }
}

impl Attachment {
    pub fn filename(&self) -> &str {
        &self.filename
    }

    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    pub fn content(&self) -> &[u8] {
        &self.content
    }
}

impl std::fmt::Debug for Email {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Email")
            .field("recipients", &self.recipients().len())
            .field("attachments", &self.attachments)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Attachment({} bytes)", self.content.len())
    }
}
