//! The default store: one SQLite file, one writer, group commit.
//!
//! ```text
//!   enqueue ┐                      ┌─ Index (memory): due times, turns, leases
//!   claim   ├─▶ channel ─▶ writer ─┤
//!   settle  ┘    (bounded) thread  └─ SQLite (WAL): everything
//!                            │
//!                            └─ one commit for all that queued up during the last one
//!                               └─▶ fsync thread: one fsync, then the answers
//! ```
//!
//! The file is the truth; the index is derived from it at start and after a failed commit. Payloads stay
//! in the file until their job is claimed, so memory grows by about a hundred bytes per waiting job.
//!
//! Reading order: [`schema`] (the tables), [`index`] (the schedule), [`lane`] and [`tenant`] (the order of turns),
//! [`writer::apply`] (each change, to file and index), [`writer`] (group commit), [`writer::fsync_thread`] (fsync, answers),
//! [`store::inspect`] (read queries), [`store::key_value`] and [`store::audit_log`] (key-value entries and the audit trail, read and
//! written).
//!
//! Deliberately absent: a second process. A lock on the data directory keeps it out.

mod disk;
mod index;
mod lane;
mod lazy_heap;
mod load;
mod owner_index;
mod rows;
mod scan;
mod schema;
mod store;
mod tenant;
mod writer;

pub use disk::{LockError, lock_holder};
pub use schema::{FILE_NAME, FORMAT_VERSION};
pub use store::key_value::peek_entries;
pub use store::{EmbeddedOptions, EmbeddedStore, OpenError};
