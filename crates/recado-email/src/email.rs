//! The checked e-mail and what can be asked of it.

use std::collections::HashSet;
use std::fmt;

use crate::mailbox::Mailbox;

/// An e-mail as a job's data describes it, every field checked: [`Email::read`] makes it.
///
/// Its `Debug` shows sizes only: what people write to each other does not belong in logs.
#[non_exhaustive]
pub struct Email {
    pub from: Mailbox,
    pub to: Vec<Mailbox>,
    pub cc: Vec<Mailbox>,
    pub bcc: Vec<Mailbox>,
    pub reply_to: Vec<Mailbox>,
    pub subject: String,
    pub text: Option<String>,
    pub html: Option<String>,
    /// Names and values, in the order the job gave them.
    pub headers: Vec<(String, String)>,
    pub(crate) attachments: Vec<Attachment>,
}

/// A file that goes with an e-mail.
pub(crate) struct Attachment {
    pub filename: String,
    pub content_type: String,
    pub content: Vec<u8>,
}

impl Email {
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
}

impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Email")
            .field("recipients", &self.recipients().len())
            .field("attachments", &self.attachments.len())
            .finish_non_exhaustive()
    }
}
