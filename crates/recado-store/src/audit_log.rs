//! The audit trail: appending, reading for the archive, trimming.

use async_trait::async_trait;
use recado_core::{AuditEvent, Timestamp};

use crate::error::StoreResult;

/// The audit trail: appended to by every write, read and trimmed by the archiver.
#[async_trait]
pub trait AuditLog: Send + Sync + std::fmt::Debug + 'static {
    /// Appends to the audit trail.
    async fn record(&self, events: Vec<AuditEvent>) -> StoreResult<()>;

    /// Forgets records that were archived, a bounded number of the oldest, and says how many went. As long as some
    /// go there may be more.
    async fn trim_audit(&self, trim: AuditTrim) -> StoreResult<u64>;

    /// Parts that the trail is kept in; order holds within each.
    fn audit_parts(&self) -> u16 {
        1
    }

    /// The trail itself, records that belong to no job included, for the archiver: every record given here is
    /// durable. Records that came with an adopted job as archived are not given.
    async fn audit_records(&self, span: AuditSpan, limit: usize) -> StoreResult<Vec<AuditRecord>>;
}

/// A record of the trail under its number. Within a part of the trail numbers rise, and none is given twice in a
/// store's life, whatever was trimmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    pub number: u64,
    pub event: AuditEvent,
}

/// Range of records in one part of the trail, with its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditSpan {
    pub part: u16,
    /// Records after this number; 0 for the beginning.
    pub after: u64,
    pub newest_first: bool,
}

/// The records to remove from one part of the trail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditTrim {
    pub part: u16,
    /// The last one that is archived: nothing beyond it goes.
    pub up_to: u64,
    /// Records from before this go.
    pub before: Timestamp,
    /// Records from before this go if the store knows no job that they are about.
    pub forgotten_before: Timestamp,
}
