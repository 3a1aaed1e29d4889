//! Rows and values, both ways.

use recado_core::{
    Attempt, Cause, Class, CompanyId, DeadLetter, DeadLetterState, Job, JobId, Payload, Priority, Progress,
    Reason, RouteName, Timestamp,
};
use rusqlite::Row;

/// The columns of `jobs` that [`job`] reads, in its order. While a job is dead its payload is with its dead
/// letter, and `jobs.data` is what a person corrected it to, if one did.
pub const JOB_COLUMNS: &str = "jobs.jobId, jobs.route, jobs.companyId, jobs.priority, jobs.enqueuedAt, jobs.dueAt, \
    jobs.expiresAt, jobs.attemptsStarted, jobs.attemptsSpent, jobs.crashes, jobs.deferrals, jobs.replays, \
    jobs.userId, jobs.correlationId, jobs.attempts, \
    coalesce(jobs.data, (SELECT originalData FROM dlq WHERE dlq.seq = jobs.seq)), jobs.traceparent";

/// How many columns [`JOB_COLUMNS`] names.
pub const JOB_COLUMN_COUNT: usize = 17;

pub fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    Ok(Job {
        id: JobId::trusted(row.get_ref(0)?.as_str()?),
        route: RouteName::trusted(row.get_ref(1)?.as_str()?),
        company: CompanyId::trusted(row.get_ref(2)?.as_str()?),
        priority: Priority::new(row.get(3)?).unwrap_or_default(),
        enqueued_at: time(row, 4)?,
        due_at: time(row, 5)?,
        expires_at: time(row, 6)?,
        progress: progress(row, 7)?,
        user_id: row.get(12)?,
        correlation_id: row.get(13)?,
        attempts: attempts(row.get_ref(14)?.as_str_or_null()?)?,
        data: Payload::trusted(row.get_ref(15)?.as_str_or_null()?.unwrap_or("null")),
        // What cannot be read costs a trace, not a job.
        traceparent: row.get_ref(16)?.as_str_or_null()?.and_then(|text| text.parse().ok()),
    })
}

pub fn progress(row: &Row<'_>, at: usize) -> rusqlite::Result<Progress> {
    Ok(Progress {
        attempts_started: row.get(at)?,
        attempts_spent: row.get(at + 1)?,
        crashes: row.get(at + 2)?,
        deferrals: row.get(at + 3)?,
        replays: row.get(at + 4)?,
    })
}

pub fn attempts(json: Option<&str>) -> rusqlite::Result<Vec<Attempt>> {
    json.map_or(Ok(Vec::new()), |json| serde_json::from_str(json).map_err(unreadable))
}

pub fn time(row: &Row<'_>, at: usize) -> rusqlite::Result<Timestamp> {
    Ok(Timestamp::from_millis(row.get(at)?))
}

fn written_time(row: &Row<'_>, at: usize) -> rusqlite::Result<Timestamp> {
    row.get_ref(at)?.as_str()?.parse().map_err(unreadable)
}

/// The columns of `dlq` that [`dead_letter`] reads; the first is its order number.
pub const DEAD_LETTER_COLUMNS: &str = "entry, jobId, companyId, route, originalData, failedAttempts, lastFailureReason, \
    lastFailureCode, lastFailureTimestamp, enqueuedAt, movedToDLQAt, ttl, userId, correlationId, errorClassification, \
    stackTrace, attempts, fingerprint, cause, state, \
    (SELECT nullif(jobs.data, dlq.originalData) FROM jobs WHERE jobs.seq = dlq.seq)";

pub fn dead_letter(row: &Row<'_>) -> rusqlite::Result<(u64, DeadLetter)> {
    let class: String = row.get(14)?;
    let state: String = row.get(19)?;
    let entry = DeadLetter {
        job_id: JobId::trusted(row.get_ref(1)?.as_str()?),
        company: CompanyId::trusted(row.get_ref(2)?.as_str()?),
        route: RouteName::trusted(row.get_ref(3)?.as_str()?),
        original_data: Payload::trusted(row.get_ref(4)?.as_str()?),
        corrected_data: row.get_ref(20)?.as_str_or_null()?.map(Payload::trusted),
        failed_attempts: row.get(5)?,
        last_failure_reason: Reason::new(row.get_ref(6)?.as_str()?).map_err(unreadable)?,
        last_failure_code: row.get(7)?,
        last_failure_at: written_time(row, 8)?,
        enqueued_at: written_time(row, 9)?,
        moved_at: written_time(row, 10)?,
        ttl: std::time::Duration::from_millis(row.get(11)?),
        user_id: row.get(12)?,
        correlation_id: row.get(13)?,
        class: match class.as_str() {
            "TRANSIENT" => Class::Transient,
            "PERMANENT" => Class::Permanent,
            "RATE_LIMIT" => Class::RateLimit,
            _ => Class::Unknown,
        },
        stack_trace: row.get(15)?,
        attempts: attempts(Some(row.get_ref(16)?.as_str()?))?,
        fingerprint: row.get(17)?,
        cause: Cause::parse(row.get_ref(18)?.as_str()?).unwrap_or(Cause::Permanent),
        state: if state == "replaying" { DeadLetterState::Replaying } else { DeadLetterState::Dead },
    };
    Ok((row.get(0)?, entry))
}

pub fn from_json<'j, T: serde::Deserialize<'j>>(json: &'j str) -> rusqlite::Result<T> {
    serde_json::from_str(json).map_err(unreadable)
}

pub fn json<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// The history as it is stored, with one more attempt at its end.
pub fn attempts_with(json_before: Option<&str>, attempt: &Attempt) -> rusqlite::Result<String> {
    let mut history = attempts(json_before)?;
    recado_core::job::remember(&mut history, attempt.clone());
    json(&history)
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
}
