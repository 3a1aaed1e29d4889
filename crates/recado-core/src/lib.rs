//! The rules of Recado, as values.
//!
//! Nothing in this crate waits, reads a clock or touches a socket or a file, and no rule draws a random number:
//! `now` and a [`Draw`] arrive as arguments. So the same code runs in production, in property tests
//! and in virtual time, and every answer can be reproduced. [`random`] is the generator that callers draw from.
//!
//! Reading order: [`job`] → [`outcome`] → [`classify`] → [`policy`] → [`decide`] → [`transition`]
//! → [`dead_letter`], [`event`] and [`audit`]. [`tiss_decision`] is the stateless rule for process engines;
//! [`breaker`], [`limit`] and [`fairness`] are what lanes are held back by; [`redact`] is what others may read of a
//! provider's words.

pub mod audit;
pub mod breaker;
pub mod checksum;
pub mod classify;
pub mod dead_letter;
pub mod decide;
pub mod event;
pub mod fairness;
pub mod job;
pub mod lease;
pub mod limit;
pub mod name;
pub mod outcome;
pub mod payload;
pub mod policy;
pub mod random;
pub mod reason;
pub mod redact;
pub mod retry_after;
pub mod rules;
pub mod time;
pub mod tiss_decision;
pub mod trace;
pub mod transition;
pub mod words;

pub use audit::{AuditEvent, AuditKind};
pub use checksum::{Checksum, Damage};
pub use classify::{Blame, Class, Classifier, Failure, Rule, Verdict};
pub use dead_letter::{Cause, DeadLetter, DeadLetterState};
pub use event::{Event, EventData, EventKind};
pub use job::{Attempt, AttemptResult, Job, NewJob, Pin, Priority, Progress, RecipientResult, Status};
pub use lease::{Lease, LeaseToken, LostLease};
pub use name::{CompanyId, JobId, RouteName};
pub use outcome::{Fault, FaultKind, NetworkKind, Outcome, Partly, Refused};
pub use payload::{BodyHash, Payload};
pub use policy::{Backoff, CapApplies, Draw, Jitter, Policy};
pub use random::{Random, UuidV7};
pub use reason::Reason;
pub use time::Timestamp;
pub use trace::TraceParent;
pub use transition::{Burial, Transition};
