//! The contract between the engine and whatever keeps its jobs.
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
//! What every implementation promises, and [`conformance`] checks:
//!
//! - **Durability.** When `enqueue`, `settle`, `cancel`, `redrive`, `discard`, `adopt`, `record` or
//!   `kv_write` answer, a crash of the process, or of the machine where the store says so, does not undo them.
//! - **Atomicity.** A settlement changes job, attempts, dead letter and audit trail, and takes its follow-ups
//!   in, together or not at all. So do a redrive and a discard. A note is written together with its audit records.
//! - **Fencing.** A lease has one holder. Whoever settles with an older token changes nothing. A store whose answers
//!   can be lost on the way answers a settlement that is repeated word for word as done.
//! - **Order.** Within a route tenants take turns, see [`Turns`]; within a tenant lower priority numbers go
//!   first and equal ones in the order they became ready, but every tenth job is the one due longest.
//! - **Notes.** A note is written only if it has the version that the writer expects. Versions grow and are
//!   never given twice, and a note whose time is over is not there, whoever asks.
//! - **Trail.** Every record has a number that rises and is never given again. None goes that was not archived.
//! - **Moving.** What `transfers` gives, `adopt` takes in elsewhere without a difference that can be read.
//! - **No opinion.** A store executes transitions; it never chooses one, and it reads no clock.

mod contract;
mod inspect;
mod key_value;
pub mod reference;
mod turns;
mod wake;

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "conformance")]
pub mod faulty;

pub use contract::{
    Adopted, AuditLog, AuditRecord, AuditSpan, AuditTrim, Cancelled, Claim, Claimed, Discard, Discarded,
    Enqueued, Extended, Fence, FencedWrite, Inspect, JobSnapshot, JobStore, KeyValue, Pick, Pruned, Redrive,
    Redriven, Retention, Settled, Settlement, Standing, Store, StoreError, Transfer, Watcher,
};
pub use inspect::{
    Counts, DataBytes, DeadLetterFilter, DeadLetterGroup, Durability, GroupBy, JobFilter, JobView, LeftOut,
    PAGE_MAX_BYTES, Page, PageRequest, StoreReport, TenantFilter, TenantView,
};
pub use key_value::{KvEntry, KvWrite, KvWritten, Namespace};
pub use turns::{OLDEST_EVERY_JOBS, Turns};
pub use wake::{Waker, Wakes};

/// The five traits, for code that calls a store by its own type.
pub mod prelude {
    pub use crate::{AuditLog, Inspect, JobStore, KeyValue, Transfer};
}
