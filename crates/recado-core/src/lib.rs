//! The rules of Recado, as values.
//!
//! Nothing in this crate waits, reads a clock or touches a socket or a file, and no rule draws a random number:
//! `now` and a [`Draw`] arrive as arguments. So the same code runs in production, in property tests
//! and in virtual time, and every answer can be reproduced. [`random`] is the generator that callers draw from.
//!
//! Reading order: [`job`] → [`outcome`] → [`classify`] → [`policy`] → [`decide`] → [`transition`] → [`dead_letter`],
//! [`event`] and [`audit`]. [`tiss_decision`] is the stateless rule for process engines; [`breaker`], [`limit`] and
//! [`fairness`] hold lanes back; [`redact`] masks a provider's words for readers who may not see the payload.

pub mod audit;
pub mod breaker;
pub mod checksum;
pub mod classify;
pub mod dead_letter;
pub mod decide;
pub mod engine_code;
pub mod event;
pub mod fairness;
pub mod job;
pub mod lease;
pub mod limit;
pub mod outcome;
pub mod policy;
pub mod redact;
pub mod retry_after;
pub mod rules;
pub mod tiss_decision;
pub mod transition;
pub mod values;
pub mod words;

pub use audit::{AuditEvent, AuditKind, RetryDecision};
pub use checksum::{Checksum, Damage};
pub use classify::{Blame, Class, Classifier, Failure, Rule, Verdict};
pub use dead_letter::{Cause, DeadLetter, DeadLetterState, LastFailure};
pub use engine_code::EngineCode;
pub use event::{Event, EventAlert, EventData, EventJob, EventKind, EventOutcome};
pub use job::{Attempt, AttemptResult, Job, NewJob, Pin, Priority, Progress, RecipientResult, Status};
pub use lease::{Lease, LeaseToken, LostLease};
pub use outcome::{Fault, FaultKind, NetworkKind, Outcome, PartialDelivery, RefusedRecipient};
pub use policy::{Backoff, CapApplies, Draw, Jitter, Policy};
pub use transition::{Burial, Transition};
pub use values::name::{CompanyId, JobId, RouteName};
pub use values::payload::{BodyHash, Payload};
pub use values::random::{Random, UuidV7};
pub use values::reason::Reason;
pub use values::time::Timestamp;
pub use values::trace::TraceParent;
pub use values::{alert, json, name, payload, random, reason, time, trace};
