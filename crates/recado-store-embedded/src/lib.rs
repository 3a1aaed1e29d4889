//! The default store: one SQLite file, one writer, group commit.
//!
//! ```text
//!   enqueue ┐                      ┌─ Index (memory): who is due, whose turn, who holds what
//!   claim   ├─▶ channel ─▶ writer ─┤
//!   settle  ┘    (bounded) thread  └─ SQLite (WAL): everything
//!                            │
//!                            └─ one commit for all that queued up during the last one
//!                               └─▶ forcer thread: one fsync, then the answers
//! ```
//!
//! The file is the truth; the index is derived from it at start and after a failed commit. Payloads stay
//! in the file until their job is claimed, so memory grows by about a hundred bytes per waiting job.
//!
//! Reading order: [`schema`] (the tables), [`index`] (the schedule), [`lane`] and [`tenant`] (whose turn it
//! is), [`apply`] (each verb, on both), [`writer`] (group commit), [`forcer`] (fsync, answers), [`inspect`] (the
//! read side), [`notes`] and [`trail`] (both sides of the notes and of the audit trail).
//!
//! Deliberately absent: a second process. A lock on the data directory keeps it out.

mod apply;
mod disk;
mod endings;
mod forcer;
mod heap;
mod index;
mod inspect;
mod key_value;
mod lane;
mod load;
mod moving;
mod owners;
mod rows;
mod schema;
mod store;
mod tenant;
mod trail;
mod writer;

pub use disk::{LockError, lock_holder};
pub use schema::{FILE_NAME, FORMAT_VERSION};
pub use store::{EmbeddedOptions, EmbeddedStore, OpenError};
