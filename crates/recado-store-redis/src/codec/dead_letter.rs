//! The stored value of a dead letter. The first fields are for the scripts (`dead_letters.lua`, `indexed_fields`).
//!
//! The data is the job's own and is kept beside it, and so is what a person corrected it to. The job's head says whether
//! the dead letter is being replayed.

use std::time::Duration;

use recado_core::{
    Attempt, Cause, Class, Damage, DeadLetter, DeadLetterState, LastFailure, Payload, Reason, Timestamp,
};
use recado_store::StoreResult;
use serde::{Deserialize, Serialize};

use crate::codec::bytes::{Reader, Writer};
use crate::codec::record::{Phase, Record, json};

/// The key of dead letters without a code, and the mark that begins every other key.
const NO_CODE: &str = "-";
const CODE_MARK: char = '=';

/// Fields that only Rust reads.
#[derive(Serialize, Deserialize)]
struct RustFields {
    #[serde(rename = "n")]
    failed_attempts: u32,
    #[serde(rename = "f")]
    last_failure_at: Timestamp,
    #[serde(rename = "m")]
    moved_at: Timestamp,
    #[serde(rename = "t")]
    ttl_ms: u64,
    #[serde(rename = "k")]
    class: Class,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    stack_trace: Option<Box<str>>,
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    attempts: Vec<Attempt>,
    #[serde(rename = "c")]
    cause: Cause,
}

/// The key that a code is counted under.
pub fn code_key(code: Option<&str>) -> String {
    code.map_or_else(|| NO_CODE.to_owned(), |code| format!("{CODE_MARK}{code}"))
}

/// The code that is counted under this key.
pub fn code_of(key: &str) -> Option<&str> {
    key.strip_prefix(CODE_MARK)
}

pub fn encode(letter: &DeadLetter) -> StoreResult<Vec<u8>> {
    let mut written = Writer::default();
    written.time(letter.expires_at());
    written.text(&code_key(letter.failure.code.as_deref()));
    written.text(letter.company.as_str());
    written.text(letter.route.as_str());
    written.text(&letter.failure.fingerprint);
    written.text(letter.failure.reason.as_str());
    let rest = RustFields {
        failed_attempts: letter.failed_attempts,
        last_failure_at: letter.failure.at,
        moved_at: letter.moved_at,
        ttl_ms: u64::try_from(letter.ttl.as_millis()).unwrap_or(u64::MAX),
        class: letter.failure.class,
        stack_trace: letter.failure.stack_trace.clone(),
        attempts: letter.attempts.clone(),
        cause: letter.cause,
    };
    written.fixed(&json(&rest)?);
    Ok(written.0)
}

/// Reads the dead letter of this job. One that cannot be read is marked as damaged, with what its job says.
pub fn decode(letter: &[u8], record: Record, data: Payload, corrected: Option<Payload>) -> DeadLetter {
    let mut entry = from_job(record, data);
    let is_read = fill(&mut entry, Reader(letter)).is_some();
    if let Some(data) = corrected {
        entry.correct(data);
    }
    if !is_read {
        tracing::error!(jobId = %entry.job_id, "A stored dead letter is damaged; it is shown as such");
        entry.checksum = Some(entry.matching_checksum().inverted(Damage::Identity));
    }
    entry
}

/// Fills in what the stored value has and the job does not; nothing if it cannot be read.
fn fill(entry: &mut DeadLetter, mut letter: Reader<'_>) -> Option<()> {
    let expires_at = letter.time()?;
    let code = code_of(letter.text()?);
    // The company and the route are the job's.
    letter.text()?;
    letter.text()?;
    let fingerprint = letter.text()?;
    let reason = Reason::new(letter.text()?).ok()?;
    let rest: RustFields = serde_json::from_slice(letter.0).ok()?;
    entry.failure.code = code.map(Into::into);
    entry.failure.fingerprint = fingerprint.into();
    entry.failure.reason = reason;
    entry.failed_attempts = rest.failed_attempts;
    entry.failure.at = rest.last_failure_at;
    entry.moved_at = rest.moved_at;
    // A replay that was cancelled moved the end alone.
    entry.ttl = Duration::from_millis(rest.ttl_ms).max(expires_at.since(rest.moved_at));
    entry.failure.class = rest.class;
    entry.failure.stack_trace = rest.stack_trace;
    entry.attempts = rest.attempts;
    entry.cause = rest.cause;
    Some(())
}

/// The dead letter of a job as far as the job tells.
fn from_job(Record { job, phase, .. }: Record, data: Payload) -> DeadLetter {
    let last_failure_at = job.attempts.last().map_or(job.due_at, |attempt| attempt.ended_at);
    DeadLetter {
        job_id: job.id,
        company: job.company,
        route: job.route,
        original_data: data,
        corrected_data: None,
        failed_attempts: job.progress.attempts_spent,
        failure: LastFailure {
            reason: Reason::or("", format_args!("the stored dead letter cannot be read")),
            code: None,
            at: last_failure_at,
            class: Class::Unknown,
            stack_trace: None,
            fingerprint: "".into(),
        },
        enqueued_at: job.enqueued_at,
        moved_at: last_failure_at,
        ttl: Duration::ZERO,
        user_id: job.user_id,
        correlation_id: job.correlation_id,
        attempts: job.attempts,
        cause: Cause::Permanent,
        state: if phase == Phase::Dead { DeadLetterState::Dead } else { DeadLetterState::Replaying },
        checksum: job.checksum,
    }
}
