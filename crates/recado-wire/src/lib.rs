//! The messages of the HTTP API, both ways: one type per message, a file per resource.
//!
//! The server writes with these types and the client reads with them, so the two cannot drift apart. JSON
//! is camelCase, times are RFC 3339 in UTC, durations are whole milliseconds in fields that end in `Ms`.
//! Names of fields are those of the requirements wherever these name a thing.
//!
//! Requests are [`read`] strictly, and on failure once more field by field, so that a caller hears of every
//! fault at once.
//!
//! Deliberately absent: HTTP. Neither a server nor a client library is known here.

pub mod accounts;
pub mod alerts;
pub mod audit;
pub mod bulk;
pub mod calls;
pub mod decisions;
pub mod dlq;
pub mod endpoints;
pub mod events;
pub mod format;
pub mod health;
pub mod holds;
pub mod jobs;
pub mod kpis;
pub mod leases;
pub mod nodes;
pub mod providers;
pub mod routes;
pub mod rules;
pub mod simulations;
pub mod tenants;

pub use format::components;
pub use format::problem::{Code, FieldFault, Problem};
pub use format::{problem, read};

/// The word for a choice, as JSON has it.
pub fn word_of(choice: impl serde::Serialize) -> String {
    let word = serde_json::to_value(choice).ok();
    word.and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Items at most on one page of a list.
pub const PAGE_ITEMS_MAX: u32 = 1_000;

/// Items on a page when the caller names no limit.
pub const PAGE_ITEMS_DEFAULT: u32 = 100;

/// Jobs at most in one batch.
pub const BATCH_JOBS_MAX: usize = 10_000;

/// Reports at most in one `POST /v1/leases/settle`.
pub const SETTLE_REPORTS_MAX: usize = 1_000;

/// Longest time that a duration in a request may be: 366 days.
pub const DURATION_MAX_MS: u64 = 366 * 24 * 60 * 60 * 1_000;

/// Largest number that a request may give where the document says `int32`.
pub const INT32_MAX: u32 = i32::MAX.unsigned_abs();

/// Names who acts, for the audit trail.
pub const ACTOR_HEADER: &str = "x-recado-actor";

/// Characters at most of an actor's name.
pub const ACTOR_LEN_MAX: usize = 128;

/// The content type of one JSON value a line.
pub const NDJSON: &str = "application/x-ndjson";
