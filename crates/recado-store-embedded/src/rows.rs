//! Converts table rows to values and back.

use std::borrow::Cow;
use std::time::Duration;

use recado_core::{
    Attempt, Cause, Checksum, Class, CompanyId, Damage, DeadLetter, DeadLetterState, Job, JobId, LastFailure,
    Payload, Priority, Progress, Reason, RouteName, Timestamp,
};
use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row};

pub type Result<T, E = rusqlite::Error> = std::result::Result<T, E>;

/// The columns of `jobs` that [`job`] reads, in its order. While a job is dead its payload is with its dead
/// letter, and `jobs.data` is what a person corrected it to, if one did.
pub const JOB_COLUMNS: &str = "jobs.jobId, jobs.route, jobs.companyId, jobs.priority, jobs.enqueuedAt, jobs.dueAt, \
    jobs.expiresAt, jobs.attemptsStarted, jobs.attemptsSpent, jobs.crashes, jobs.deferrals, jobs.replays, \
    jobs.userId, jobs.correlationId, jobs.attempts, \
    coalesce(jobs.data, (SELECT originalData FROM dlq WHERE dlq.seq = jobs.seq)), jobs.traceparent, jobs.checksum";

/// Number of columns in [`JOB_COLUMNS`].
pub const JOB_COLUMN_COUNT: usize = 18;

/// Position of the history in [`JOB_COLUMNS`].
pub const ATTEMPTS_COLUMN: usize = 14;

/// Reads a row whose values may be damaged, so that one bad row stops neither a list nor the writer.
///
/// A value that cannot be read becomes the nearest thing that can, and the row is remembered as damaged.
struct RowReader<'r> {
    row: &'r Row<'r>,
    damage: Option<Damage>,
}

impl<'r> RowReader<'r> {
    fn new(row: &'r Row<'r>) -> Self {
        RowReader { row, damage: None }
    }

    fn note_damage<T>(&mut self, read: Option<T>, damage: Damage) -> Option<T> {
        if read.is_none() {
            // The identity is the worse of the two: no correction can mend it.
            self.damage = Some(if self.damage == Some(Damage::Identity) { Damage::Identity } else { damage });
        }
        read
    }

    /// Text as it is stored, with a mark in the place of each byte that is no text.
    fn text_or_null(&mut self, at: usize, damage: Damage) -> Option<Cow<'r, str>> {
        match self.row.get_ref(at).ok()? {
            ValueRef::Null => None,
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                // Almost every text is whole, and finding that out is faster than the search for what is not.
                if let Ok(text) = std::str::from_utf8(bytes) {
                    return Some(Cow::Borrowed(text));
                }
                self.note_damage(None::<()>, damage);
                Some(String::from_utf8_lossy(bytes))
            }
            ValueRef::Integer(number) => {
                self.note_damage(None::<()>, damage);
                Some(number.to_string().into())
            }
            ValueRef::Real(number) => {
                self.note_damage(None::<()>, damage);
                Some(number.to_string().into())
            }
        }
    }

    fn text(&mut self, at: usize) -> Cow<'r, str> {
        let text = self.text_or_null(at, Damage::Identity);
        self.note_damage(text, Damage::Identity).unwrap_or_default()
    }

    fn optional(&mut self, at: usize) -> Option<Box<str>> {
        self.text_or_null(at, Damage::Identity).map(Into::into)
    }

    fn payload_or_null(&mut self, at: usize) -> Option<Payload> {
        self.text_or_null(at, Damage::Data).map(Payload::trusted)
    }

    fn value<T: FromSql + Default>(&mut self, at: usize) -> T {
        let value = self.row.get(at).ok();
        self.note_damage(value, Damage::Identity).unwrap_or_default()
    }

    fn time(&mut self, at: usize) -> Timestamp {
        Timestamp::from_millis(self.value(at))
    }

    fn written_time(&mut self, at: usize) -> Timestamp {
        let parsed = self.text(at).parse().ok();
        self.note_damage(parsed, Damage::Identity).unwrap_or(Timestamp::from_millis(0))
    }

    fn progress(&mut self, at: usize) -> Progress {
        Progress {
            attempts_started: self.value(at),
            attempts_spent: self.value(at + 1),
            crashes: self.value(at + 2),
            deferrals: self.value(at + 3),
            replays: self.value(at + 4),
        }
    }

    fn attempts(&mut self, at: usize) -> Vec<Attempt> {
        let Some(json) = self.text_or_null(at, Damage::Identity) else { return Vec::new() };
        let attempts = serde_json::from_str(&json).ok();
        self.note_damage(attempts, Damage::Identity).unwrap_or_default()
    }

    fn checksum(&mut self, at: usize) -> Option<Checksum> {
        let Ok(ValueRef::Blob(bytes)) = self.row.get_ref(at) else { return None };
        let checksum = Checksum::from_bytes(bytes);
        self.note_damage(checksum, Damage::Identity)
    }
}

pub fn job(row: &Row<'_>) -> Result<Job> {
    let mut read = RowReader::new(row);
    let mut job = Job {
        id: JobId::trusted(read.text(0)),
        route: RouteName::trusted(read.text(1)),
        company: CompanyId::trusted(read.text(2)),
        priority: Priority::new(read.value(3)).unwrap_or_default(),
        enqueued_at: read.time(4),
        due_at: read.time(5),
        expires_at: read.time(6),
        progress: read.progress(7),
        user_id: read.optional(12),
        correlation_id: read.optional(13),
        attempts: read.attempts(ATTEMPTS_COLUMN),
        data: read.payload_or_null(15).unwrap_or_else(|| Payload::trusted("null")),
        // What cannot be read costs a trace, not a job.
        traceparent: read.text_or_null(16, Damage::Data).and_then(|text| text.parse().ok()),
        checksum: read.checksum(17),
    };
    if let Some(damage) = read.damage {
        job.checksum = Some(Checksum::of_job(&job).inverted(damage));
    }
    Ok(job)
}

/// The first column of the row that a statement about one job gives back, if it does.
pub fn find<T: FromSql>(file: &Connection, sql: &str, seq: u64) -> Result<Option<T>> {
    file.prepare_cached(sql)?.query_row([seq], |row| row.get(0)).optional()
}

pub fn dead_letter_state(stored: &str) -> DeadLetterState {
    DeadLetterState::parse(stored).unwrap_or(DeadLetterState::Dead)
}

pub fn progress(row: &Row<'_>, at: usize) -> Progress {
    RowReader::new(row).progress(at)
}

pub fn attempts(json: Option<&str>) -> Result<Vec<Attempt>> {
    json.map_or(Ok(Vec::new()), |json| serde_json::from_str(json).map_err(unreadable))
}

/// Text of a row that may be damaged.
pub fn text<'r>(row: &'r Row<'_>, at: usize) -> Cow<'r, str> {
    RowReader::new(row).text(at)
}

/// A number of a row that may be damaged: 0 where there is none.
pub fn number<T: FromSql + Default>(row: &Row<'_>, at: usize) -> T {
    RowReader::new(row).value(at)
}

/// The columns of `dlq` that [`dead_letter`] reads; the first is its order number.
pub const DEAD_LETTER_COLUMNS: &str = "entry, jobId, companyId, route, originalData, failedAttempts, lastFailureReason, \
    lastFailureCode, lastFailureTimestamp, enqueuedAt, movedToDLQAt, ttl, userId, correlationId, errorClassification, \
    stackTrace, attempts, fingerprint, cause, state, \
    (SELECT nullif(jobs.data, dlq.originalData) FROM jobs WHERE jobs.seq = dlq.seq), \
    (SELECT jobs.checksum FROM jobs WHERE jobs.seq = dlq.seq)";

pub fn dead_letter(row: &Row<'_>) -> Result<(u64, DeadLetter)> {
    let mut read = RowReader::new(row);
    let reason = Reason::new(&read.text(6)).ok();
    let mut entry = DeadLetter {
        job_id: JobId::trusted(read.text(1)),
        company: CompanyId::trusted(read.text(2)),
        route: RouteName::trusted(read.text(3)),
        original_data: read.payload_or_null(4).unwrap_or_else(|| Payload::trusted("null")),
        corrected_data: read.payload_or_null(20),
        failed_attempts: read.value(5),
        failure: LastFailure {
            reason: read
                .note_damage(reason, Damage::Identity)
                .unwrap_or_else(|| Reason::of("the stored reason cannot be read")),
            code: read.optional(7),
            at: read.written_time(8),
            class: Class::parse(&read.text(14)).unwrap_or(Class::Unknown),
            stack_trace: read.optional(15),
            fingerprint: read.text(17).into(),
        },
        enqueued_at: read.written_time(9),
        moved_at: read.written_time(10),
        ttl: Duration::from_millis(read.value(11)),
        user_id: read.optional(12),
        correlation_id: read.optional(13),
        attempts: read.attempts(16),
        cause: Cause::parse(&read.text(18)).unwrap_or(Cause::Permanent),
        state: dead_letter_state(&read.text(19)),
        checksum: read.checksum(21),
    };
    if let Some(damage) = read.damage {
        entry.checksum = Some(entry.matching_checksum().inverted(damage));
    }
    Ok((row.get(0)?, entry))
}

pub fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// The history as it is stored, with one more attempt at its end.
pub fn append_attempt(json_before: &str, attempt: &Attempt) -> Result<String> {
    let mut history = attempts(Some(json_before))?;
    recado_core::job::remember(&mut history, attempt.clone());
    json(&history)
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
}
