//! The contract between the engine and the store that keeps its jobs.
//!
//! ```text
//!            enqueue                    claim(Ready)                 settle(Deliver) ─▶ sent
//!   caller ──────────▶ waiting ───────────────────────▶ leased ─────settle(RetryAt)──▶ waiting
//!                         ▲   ▲       claim(Overdue)       │  └──────settle(Bury)─────▶ dead letter
//!                         │   └──── settle(Release/Postpone)┤                               │
//!                         │           claim(Orphaned) takes over a lease that ran out       │
//!                         └────────────────────────────── redrive ◀────────────────────────┘
//! ```
//!
//! Every implementation keeps these promises, and the crate `recado-store-conformance` checks them:
//!
//! - **Durability.** When `enqueue`, `settle`, `cancel`, `redrive`, `discard`, `adopt`, `record` or
//!   `kv_write` answer, a crash of the process, or of the machine where the store says so, does not undo them.
//! - **Atomicity.** A settlement changes job, attempts, dead letter and audit trail, and takes its follow-ups
//!   in, together or not at all. So do a redrive and a discard. A key-value entry is written together
//!   with its audit records.
//! - **Fencing.** A lease has one holder. A settlement with an older token changes nothing. A store whose answers
//!   can be lost on the way answers a settlement that is repeated word for word as done.
//! - **Order.** Within a route tenants take turns, see [`Turns`]; within a tenant lower priority numbers go
//!   first and equal ones in the order they became ready, but every tenth job is the one due longest.
//! - **Key-value entries.** An entry is written only if it has the version that the writer expects. Versions grow and
//!   are never given twice, and no call finds an entry whose time is over.
//! - **Trail.** Every record has a number that rises and is never given again. None goes that was not archived.
//! - **Moving.** What `snapshots` gives, `adopt` takes in elsewhere without a difference that can be read.
//! - **No opinion.** A store executes transitions; it never chooses one, and it decides nothing about jobs by a clock of its own.

mod audit_log;
mod delegation;
mod error;
mod inspect;
mod job_store;
mod key_value;
pub mod reference;
mod transfer;
mod turns;
mod wake;

pub use audit_log::{AuditLog, AuditRecord, AuditSpan, AuditTrim};
pub use error::{StoreError, StoreResult};
pub use inspect::{
    Counts, DataBytes, DeadLetterFilter, DeadLetterGroup, Durability, GroupCounts, Inspect, JobFilter,
    JobView, LeftOut, PAGE_MAX_BYTES, Page, PageRequest, StoreReport, TenantFilter, TenantView,
};
pub use job_store::{
    Cancelled, Claim, Claimed, Discard, Discarded, Enqueued, Extended, JobStore, Pick, Pruned, Redrive,
    Redriven, Retention, Settled, Settlement, Watcher,
};
pub use key_value::{KeyValue, KvEntry, KvWrite, KvWritten, Namespace};
pub use recado_core::dead_letter::GroupBy;
pub use transfer::{Adopted, Fence, FencedWrite, JobSnapshot, SnapshotState, Transfer};
pub use turns::{OLDEST_EVERY_JOBS, Turns};
pub use wake::{Waker, Wakes};

/// A whole store. The crate's documentation has the promises of every implementation.
///
/// Code takes the narrowest trait that it needs; a `dyn Store` becomes any of the five.
pub trait Store: JobStore + Inspect + KeyValue + AuditLog + Transfer {}

impl<T: JobStore + Inspect + KeyValue + AuditLog + Transfer> Store for T {}

/// The five traits, for code that calls a store by its own type.
pub mod prelude {
    pub use crate::{AuditLog, Inspect, JobStore, KeyValue, Transfer};
}
