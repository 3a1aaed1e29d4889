//! The audit trail as files: append-only, chained, signed, searchable, and erasable where the law requires it.
//!
//! ```text
//!   store ──▶ archiver ──▶ Trail::append ──▶ audit/2026-11.jsonl   one record a line, each with the hash of the last
//!                                  │         audit/2026-11.index   where to find what; derived
//!                                  └────────▶ audit/head.json      the newest signed record
//! ```
//!
//! Stores keep audit events until they are archived here ([`Trail::append`]: durable when it returns, safe to
//! repeat). From then on people read them ([`search`]), auditors prove them whole ([`verify`]),
//! data subjects have theirs removed ([`Trail::erase`]), and months that are old enough go
//! ([`Trail::drop_older_than`]).
//!
//! Reading order: [`line`] (the format), [`record`] (what is personal), [`trail`] (the writer), [`tail`] (after a
//! crash), [`verify`], [`erase`], [`retention`], [`index`] and [`search`].
//!
//! Deliberately absent: a clock, async, and any store. One process writes; a lock keeps others out. Readers need
//! no permission, and take none of the writer's time.

mod digest;
mod erase;
mod erasure;
mod error;
mod files;
mod index;
mod key;
mod line;
mod month;
mod record;
mod retention;
mod search;
mod snapshot;
mod statement;
mod tail;
mod trail;
mod verify;

pub use digest::{Hash, Hex};
pub use erase::Erased;
pub use erasure::{Erasure, Identity, IdentityKind, Subject, SubjectHash};
pub use error::Error;
pub use key::{NotAPublicKey, PublicKey, Signature};
pub use line::Checkpoint;
pub use month::{Month, NotAMonth};
pub use record::{Content, Entry, Record};
pub use retention::{KindCount, MONTHS_KEPT, Summary};
pub use search::{Order, Page, Query, search, walk};
pub use tail::Recovered;
pub use trail::{Appended, Options, Trail};
pub use verify::{Evidence, Fault, Finding, Report, verify};
