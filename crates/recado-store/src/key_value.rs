//! Small durable values, the same on every node: webhook endpoints, marks on accounts, cached answers.
//!
//! There are no locks and no transactions over several notes. A writer reads a note, and writes it
//! back only if it still has the version that was read.

use recado_core::{AuditEvent, Payload, Timestamp};

/// Bytes at most in a namespace's name.
const SHELF_LEN_MAX: usize = 32;

/// The kind of a note. Each use has a namespace of its own, small enough to be read whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(&'static str);

impl Namespace {
    /// Made as a constant, so that a bad name does not compile:
    ///
    /// ```
    /// # use recado_store::Namespace;
    /// const ENDPOINTS: Namespace = Namespace::new("webhook-endpoints");
    /// ```
    ///
    /// # Panics
    ///
    /// When the name is not 1 to 32 lower-case letters and hyphens.
    pub const fn new(name: &'static str) -> Self {
        let bytes = name.as_bytes();
        assert!(
            !bytes.is_empty() && bytes.len() <= SHELF_LEN_MAX,
            "a namespace's name has 1 to 32 characters"
        );
        let mut at = 0;
        while at < bytes.len() {
            assert!(
                bytes[at].is_ascii_lowercase() || bytes[at] == b'-',
                "a namespace's name holds only lower-case letters and hyphens"
            );
            at += 1;
        }
        Namespace(name)
    }

    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// A small durable value, by namespace and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    pub key: Box<str>,
    pub value: Payload,
    /// Grows with every write, and is never given twice in a store's life: a note that was removed and
    /// written again never looks like the old one.
    pub version: u64,
    /// From then on it is not there any more.
    pub expires_at: Option<Timestamp>,
}

impl KvEntry {
    pub fn is_there(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }
}

#[derive(Debug, Clone)]
pub struct KvWrite {
    pub namespace: Namespace,
    pub key: Box<str>,
    /// Absent to remove the note.
    pub value: Option<Payload>,
    /// The version that it must have for the write to happen; 0: it must not be there; absent: whatever is
    /// there.
    pub expect: Option<u64>,
    pub expires_at: Option<Timestamp>,
    /// Records that the write puts on the audit trail, in the same atomic step: all of them when it is done, and none
    /// when it is refused. They name no job: a note may be kept where no job's trail can be reached.
    pub audit: Vec<AuditEvent>,
}

/// Answer to one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvWritten {
    /// It has this version now; 0 when it was removed.
    Done { version: u64 },
    /// It is not what was expected and nothing changed; 0 when it is not there.
    Conflict { version: u64 },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shelf_has_a_short_plain_name() {
        assert_eq!(Namespace::new("webhook-endpoints").as_str(), "webhook-endpoints");
        assert_eq!(Namespace::new("abcdefghijklmnopqrstuvwxyzabcdef").as_str().len(), SHELF_LEN_MAX);
        for bad in ["", "Accounts", "a_b", "conta-é", "a b", "abcdefghijklmnopqrstuvwxyzabcdefg"] {
            assert!(std::panic::catch_unwind(|| Namespace::new(bad)).is_err(), "{bad:?} was taken");
        }
    }
}
