//! A dead letter as one line of an archive or of an export: JSON that people can read with `less` and `jq`.
//!
//! The names are the entry's own, so that what finds something in one finds it in the other. Beside them stands
//! what the job needs to go on with its history: its progress, its body's hash. Its trail is there for people to
//! read, and does not come back: anybody can write a file, and what is on record is what happened here.
//!
//! A line is held to the same rules as a job on its way in. A message about one that cannot be read names the field and
//! never repeats what is in it: values are personal data.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use recado_core::name::NAME_LEN_MAX;
use recado_core::payload::digest_of;
use recado_core::reason::clip;
use recado_core::{
    Attempt, AuditEvent, BodyHash, Cause, Class, CompanyId, Damage, DeadLetter, DeadLetterState, Job, JobId,
    LastFailure, Payload, Priority, Progress, Reason, RouteName, Timestamp, TraceParent,
};
use recado_store::{JobSnapshot, SnapshotState};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::accept::{is_reserved, wrong_length};

/// The `recado` field of every line.
const KIND: &str = "dead-letter";

/// Written today. A reader for each earlier version stays.
const VERSION: u32 = 2;

/// The first version whose lines have a checksum.
const VERSION_CHECKED: u32 = 2;

/// The member that is a checksum of all others, the last of its line.
const CHECKSUM: &str = "checksum";

#[derive(Deserialize)]
struct Label {
    recado: Box<str>,
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ArchiveLine {
    recado: Box<str>,
    version: u32,
    /// The time of the export; absent in an archive's line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exported_at: Option<Timestamp>,
    job_id: JobId,
    /// In exports, as readers of entries expect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outbox_id: Option<JobId>,
    company_id: CompanyId,
    route: RouteName,
    original_data: Payload,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    corrected_data: Option<Payload>,
    failed_attempts: u32,
    last_failure_reason: Reason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_failure_code: Option<Box<str>>,
    last_failure_timestamp: Timestamp,
    enqueued_at: Timestamp,
    #[serde(rename = "movedToDLQAt")]
    moved_to_dlq_at: Timestamp,
    ttl: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_id: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correlation_id: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<TraceParent>,
    error_classification: Class,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stack_trace: Option<Box<str>>,
    attempts: Vec<Attempt>,
    fingerprint: Box<str>,
    cause: Cause,
    /// In exports; what comes back is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<DeadLetterState>,
    priority: u8,
    due_at: Timestamp,
    expires_at: Timestamp,
    attempts_started: u32,
    attempts_spent: u32,
    crashes: u32,
    deferrals: u32,
    replays: u32,
    /// Hexadecimal.
    body_hash: Box<str>,
    /// For people: see the head of this file.
    audit: Vec<AuditEvent>,
    /// The part that was damaged in the store already when the line was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    damage: Option<Damage>,
    /// Hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checksum: Option<Box<str>>,
}

/// The line of a dead letter, without its end; `None` when the job is not one. Exported at this time, or archived.
pub fn write(transfer: &JobSnapshot, exported_at: Option<Timestamp>) -> Option<String> {
    let JobSnapshot { job, body_hash, dead_letter: Some(entry), audit, .. } = transfer else { return None };
    let line = ArchiveLine {
        recado: KIND.into(),
        version: VERSION,
        exported_at,
        job_id: job.id.clone(),
        outbox_id: exported_at.map(|_| job.id.clone()),
        company_id: job.company.clone(),
        route: job.route.clone(),
        original_data: entry.original_data.clone(),
        corrected_data: entry.corrected_data.clone(),
        failed_attempts: entry.failed_attempts,
        last_failure_reason: entry.failure.reason.clone(),
        last_failure_code: entry.failure.code.clone(),
        last_failure_timestamp: entry.failure.at,
        enqueued_at: job.enqueued_at,
        moved_to_dlq_at: entry.moved_at,
        ttl: u64::try_from(entry.ttl.as_millis()).unwrap_or(u64::MAX),
        user_id: job.user_id.clone(),
        correlation_id: job.correlation_id.clone(),
        traceparent: job.traceparent,
        error_classification: entry.failure.class,
        stack_trace: entry.failure.stack_trace.clone(),
        attempts: entry.attempts.clone(),
        fingerprint: entry.failure.fingerprint.clone(),
        cause: entry.cause,
        state: exported_at.map(|_| entry.state),
        priority: job.priority.level(),
        due_at: job.due_at,
        expires_at: job.expires_at,
        attempts_started: job.progress.attempts_started,
        attempts_spent: job.progress.attempts_spent,
        crashes: job.progress.crashes,
        deferrals: job.progress.deferrals,
        replays: job.progress.replays,
        body_hash: format!("{:032x}", body_hash.0).into(),
        audit: audit.clone(),
        damage: entry.damage(),
        checksum: None,
    };
    let mut written = serde_json::to_string(&line).ok()?;
    let checksum = checksum_of(&written).ok()?;
    written.pop();
    written.push_str(&format!(",\"{CHECKSUM}\":\"{checksum}\"}}"));
    // Data stands as its sender wrote it. Line ends in JSON are only ever layout: in texts they are escaped.
    Some(written.replace(['\n', '\r'], " "))
}

/// The checksum of all members of a line but its checksum, blind to layout and to order: tools like `jq` may have
/// taken the line through their hands.
fn checksum_of(line: &str) -> Result<String, serde_json::Error> {
    let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(line)?;
    let mut sum = 0_u128;
    for (name, value) in members.iter().filter(|(name, _)| *name != CHECKSUM) {
        // A number out of range, which older versions took, is known by its text.
        let of_text = |_| BodyHash(digest_of(&[name, value.get()]));
        let hash = BodyHash::of(&Payload::from_raw(value), &[Some(name)]).unwrap_or_else(of_text);
        sum = sum.wrapping_add(hash.0);
    }
    Ok(format!("{sum:032x}"))
}

/// A line that was read back.
#[derive(Debug)]
pub struct Read {
    pub transfer: JobSnapshot,
    pub is_export: bool,
}

/// Reads a line back, or says what is wrong with it.
pub fn read(line: &str) -> Result<Read, String> {
    let label: Label = serde_json::from_str(line).map_err(|error| match error.is_data() {
        true => STRANGER.to_owned(),
        false => unreadable(line, &error),
    })?;
    if &*label.recado != KIND {
        return Err(STRANGER.to_owned());
    }
    if !(1..=VERSION).contains(&label.version) {
        let version = label.version;
        return Err(format!(
            "has version {version}, this program reads up to {VERSION}; use the recado that wrote it"
        ));
    }
    let checksum: Option<Box<str>> = checksum_of(line).ok().map(Into::into);
    let line: ArchiveLine = serde_json::from_str(line).map_err(|error| unreadable(line, &error))?;
    let wrong = |what: &str| format!("has {what}; take the line as it was written");
    if let Some(what) = line.fault() {
        return Err(wrong(what));
    }
    let body_hash = u128::from_str_radix(&line.body_hash, 16)
        .map_err(|_| wrong("a `bodyHash` that is not hexadecimal"))?;
    let priority = Priority::new(line.priority).ok_or_else(|| wrong("a `priority` outside 1 to 9"))?;
    if line.version >= VERSION_CHECKED && line.checksum != checksum {
        return Err(wrong("been changed since it was written: it does not match its `checksum`"));
    }
    let is_export = line.exported_at.is_some();
    Ok(Read { transfer: transfer(line, BodyHash(body_hash), priority), is_export })
}

impl ArchiveLine {
    /// A fault that no accepted job could have.
    fn fault(&self) -> Option<&'static str> {
        let is_odd = |id: &Option<Box<str>>| id.as_deref().is_some_and(|id| wrong_length(id).is_some());
        let is_unreadable = |data: &Payload| BodyHash::of(data, &[]).is_err();
        let data = [Some(&self.original_data), self.corrected_data.as_ref()];
        let faults = [
            (is_reserved(self.job_id.as_str()), "a `jobId` that is a word of the API's own paths"),
            (
                self.outbox_id.as_ref().is_some_and(|id| *id != self.job_id),
                "an `outboxId` that is not its `jobId`",
            ),
            (is_odd(&self.user_id), "a `userId` that is empty or too long"),
            (is_odd(&self.correlation_id), "a `correlationId` that is empty or too long"),
            (data.into_iter().flatten().any(is_unreadable), "data that cannot be read"),
        ];
        faults.into_iter().find_map(|(there, what)| there.then_some(what))
    }
}

/// The fault of a line that does not name its kind.
const STRANGER: &str = "is neither an archived nor an exported dead letter: it has no `recado` and `version` that say \
    so; import a file of the dlq-archive directory, or what `recado dlq export` wrote";

fn unreadable(line: &str, error: &serde_json::Error) -> String {
    let column = error.column();
    if !error.is_data() {
        return format!("is not JSON at column {column}");
    }
    let said = error.to_string();
    let named = |words: &str| said.strip_prefix(words).and_then(|rest| rest.split('`').next());
    if let Some(name) = named("unknown field `") {
        return format!(
            "has `{}`, which no dead letter has; take the line as it was written",
            clip(name, NAME_LEN_MAX)
        );
    }
    let missing = named("missing field `");
    // A field in the middle of which the reader stopped.
    let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(line).unwrap_or_default();
    let begins = |value: &RawValue| value.get().as_ptr() as usize - line.as_ptr() as usize;
    let wrong =
        members.iter().filter(|(_, value)| begins(value) < column).max_by_key(|(_, value)| begins(value));
    let what = match (missing, wrong) {
        (Some(name), _) => format!("`{name}` is missing"),
        (None, Some((name, _))) => format!("`{name}` is wrong, at column {column}"),
        (None, None) => format!("a field is wrong, at column {column}"),
    };
    format!("is no whole dead letter: {what}; take the line as it was written")
}

fn transfer(line: ArchiveLine, body_hash: BodyHash, priority: Priority) -> JobSnapshot {
    let entry = DeadLetter {
        job_id: line.job_id.clone(),
        company: line.company_id.clone(),
        route: line.route.clone(),
        original_data: line.original_data.clone(),
        corrected_data: line.corrected_data.clone(),
        failed_attempts: line.failed_attempts,
        failure: LastFailure {
            reason: line.last_failure_reason,
            code: line.last_failure_code,
            at: line.last_failure_timestamp,
            class: line.error_classification,
            stack_trace: line.stack_trace,
            fingerprint: line.fingerprint,
        },
        enqueued_at: line.enqueued_at,
        moved_at: line.moved_to_dlq_at,
        ttl: Duration::from_millis(line.ttl),
        user_id: line.user_id.clone(),
        correlation_id: line.correlation_id.clone(),
        attempts: line.attempts.clone(),
        cause: line.cause,
        state: DeadLetterState::Dead,
        checksum: None,
    };
    let checksum = line.damage.map(|damage| entry.matching_checksum().inverted(damage));
    let entry = DeadLetter { checksum, ..entry };
    let job = Job {
        checksum,
        id: line.job_id,
        route: line.route,
        company: line.company_id,
        data: line.corrected_data.unwrap_or(line.original_data),
        user_id: line.user_id,
        correlation_id: line.correlation_id,
        traceparent: line.traceparent,
        priority,
        enqueued_at: line.enqueued_at,
        due_at: line.due_at,
        expires_at: line.expires_at,
        progress: Progress {
            attempts_started: line.attempts_started,
            attempts_spent: line.attempts_spent,
            crashes: line.crashes,
            deferrals: line.deferrals,
            replays: line.replays,
        },
        attempts: line.attempts,
    };
    JobSnapshot {
        job,
        body_hash,
        state: SnapshotState::Dead,
        dead_letter: Some(entry),
        queue_place: None,
        audit: Vec::new(),
        archived: 0,
    }
}

#[cfg(test)]
mod tests {
    use recado_core::{AttemptResult, AuditKind};

    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1_760_000_000_123);

    fn whole() -> JobSnapshot {
        let name = |text: &str| text.to_owned();
        let mut attempt = Attempt::ended(3, AT, AT, AttemptResult::Failed);
        attempt.error_code = Some("550".into());
        attempt.error_reason = Reason::new("no such user").ok();
        let job = Job {
            id: JobId::new("order-1").unwrap(),
            route: RouteName::new("email").unwrap(),
            company: CompanyId::new("acme").unwrap(),
            data: Payload::new("{\n  \"to\": [\"a@example.com\"],\n  \"text\": \"line\\nline\"\n}").unwrap(),
            user_id: Some(name("u-1").into()),
            correlation_id: Some(name("c-1").into()),
            traceparent: None,
            priority: Priority::new(2).unwrap(),
            enqueued_at: AT,
            due_at: AT.plus(Duration::from_secs(1)),
            expires_at: AT.plus(Duration::from_secs(60)),
            progress: Progress {
                attempts_started: 3,
                attempts_spent: 2,
                crashes: 1,
                deferrals: 4,
                replays: 1,
            },
            attempts: vec![attempt],
            checksum: None,
        };
        let entry = DeadLetter {
            job_id: job.id.clone(),
            company: job.company.clone(),
            route: job.route.clone(),
            original_data: job.data.clone(),
            corrected_data: None,
            failed_attempts: 3,
            failure: LastFailure {
                reason: Reason::new("no such user").unwrap(),
                code: Some("550".into()),
                at: AT,
                class: Class::Permanent,
                stack_trace: Some("at send (job.js:7)".into()),
                fingerprint: "0123456789abcdef".into(),
            },
            enqueued_at: job.enqueued_at,
            moved_at: AT.plus(Duration::from_secs(9)),
            ttl: Duration::from_secs(7 * 24 * 3_600),
            user_id: job.user_id.clone(),
            correlation_id: job.correlation_id.clone(),
            attempts: job.attempts.clone(),
            cause: Cause::Permanent,
            state: DeadLetterState::Dead,
            checksum: None,
        };
        let audit = vec![AuditEvent::about(&job, AuditKind::Buried, AT)];
        JobSnapshot {
            job,
            body_hash: BodyHash(7),
            state: SnapshotState::Dead,
            dead_letter: Some(entry),
            queue_place: None,
            archived: audit.len(),
            audit,
        }
    }

    #[test]
    fn a_line_holds_all_that_there_is_and_is_one_line() {
        let whole = whole();
        let line = write(&whole, None).unwrap();
        assert!(!line.contains('\n') && line.contains(r#"line\nline"#));
        let Read { transfer: back, is_export: false } = read(&line).unwrap() else { panic!("an archive's") };
        let same = |entry: DeadLetter| DeadLetter { original_data: back.job.data.clone(), ..entry };
        assert_eq!(back.dead_letter, whole.dead_letter.clone().map(same));
        assert!(
            line.contains("\"kind\":\"BURIED\"") && back.audit.is_empty(),
            "what a file tells is not on record"
        );
        assert_eq!((back.job.progress, back.job.attempts), (whole.job.progress, whole.job.attempts.clone()));
        assert_eq!((back.job.priority, back.body_hash), (whole.job.priority, whole.body_hash));
        assert_eq!((back.job.due_at, back.job.expires_at), (whole.job.due_at, whole.job.expires_at));
        let value = |data: &Payload| data.parse::<serde_json::Value>().unwrap();
        assert_eq!(value(&back.job.data), value(&whole.job.data));
    }

    fn with_data(line: &str, instead: &str) -> String {
        let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["originalData"] = "HERE".into();
        value.to_string().replace("\"HERE\"", instead)
    }

    #[test]
    fn a_line_that_cannot_be_read_is_told_without_a_piece_of_it() {
        let line = write(&whole(), None).unwrap();
        let rows = [
            (line[..line.len() / 2].to_owned(), "is not JSON at column"),
            (line.replace("\"550\"", "77"), "`lastFailureCode` is wrong, at column"),
            (line.replace("order-1", "order 1"), "`jobId` is wrong, at column"),
            (line.replace("no such user", " "), "`lastFailureReason` is wrong, at column"),
            (line.replace(&format!("\"bodyHash\":\"{:032x}\",", 7), ""), "`bodyHash` is missing"),
            (line.replace("\"version\":2", "\"version\":9"), "has version 9, this program reads up to 2"),
            (line.replace("dead-letter", "note"), "import a file of the dlq-archive directory"),
            (line.replace("\"priority\":2", "\"priority\":0"), "has a `priority` outside 1 to 9"),
            (line.replacen('{', "{\"orderly\":1,", 1), "`orderly`, which no dead letter has"),
            (line.replacen('{', "{\"outboxId\":\"other\",", 1), "an `outboxId` that is not its `jobId`"),
            (line.replace("order-1", "stats"), "a `jobId` that is a word of the API's own paths"),
            (line.replace("\"u-1\"", "\"\""), "a `userId` that is empty or too long"),
            (
                line.replace("\"c-1\"", &format!("{:?}", "c".repeat(257))),
                "a `correlationId` that is empty or",
            ),
            (with_data(&line, "1e999"), "has data that cannot be read"),
            ("{}".to_owned(), "has no `recado` and `version`"),
        ];
        for (wrong, words) in rows {
            let said = read(&wrong).expect_err(words);
            assert!(said.contains(words), "{said}");
            assert!(!said.contains("order-1") && !said.contains("acme"), "{said}");
        }
    }

    #[test]
    fn an_exported_line_says_so_and_has_the_entrys_own_names_and_the_correction() {
        let mut whole = whole();
        let corrected = Payload::new(r#"{"to":["b@example.com"]}"#).unwrap();
        whole.dead_letter.as_mut().unwrap().correct(corrected.clone());
        whole.job.data = corrected.clone();
        let line = write(&whole, Some(AT)).unwrap();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&value["outboxId"], &value["state"]), (&value["jobId"], &serde_json::json!("dead")));
        let Read { transfer: back, is_export: true } = read(&line).unwrap() else { panic!("an export's") };
        assert_eq!(
            (&back.job.data, back.dead_letter.unwrap().corrected_data),
            (&corrected, Some(corrected.clone()))
        );
    }

    #[test]
    fn a_line_that_changed_on_its_way_is_refused_and_one_in_another_layout_is_not() {
        let line = write(&whole(), None).unwrap();
        for (before, after) in
            [("line\\nline", "lime\\nline"), ("\"acme\"", "\"acmd\""), ("\"deferrals\":4", "\"deferrals\":5")]
        {
            let flipped = line.replace(before, after);
            assert_ne!(flipped, line, "nothing was changed");
            let said = read(&flipped).expect_err("a changed line came back");
            assert!(said.contains("does not match its `checksum`") && !said.contains("acm"), "{said}");
        }
        let without = line[..line.rfind(",\"checksum\"").unwrap()].to_owned() + "}";
        assert!(read(&without).is_err(), "a line of this version has one");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(read(&format!("{value:#}")).is_ok(), "layout is no change");
    }

    #[test]
    fn what_was_damaged_in_the_store_comes_back_as_damaged() {
        let mut whole = whole();
        let entry = whole.dead_letter.as_mut().unwrap();
        entry.checksum = Some(entry.matching_checksum());
        entry.original_data = Payload::trusted(r#"{"to":["a@example.cpm"]}"#);
        assert_eq!(entry.damage(), Some(Damage::Data));
        let back = read(&write(&whole, None).unwrap()).unwrap().transfer;
        assert_eq!(back.dead_letter.as_ref().unwrap().damage(), Some(Damage::Data));
        assert_eq!(back.job.damage(), Some(Damage::Data));
    }

    /// A line of version 1 as it was first written: every later program reads it.
    #[test]
    fn the_first_version_stays_readable() {
        let line = include_str!("line_v1.ndjson");
        assert_eq!(
            format!("{:?}", read(line.trim_end()).unwrap().transfer.job),
            format!("{:?}", whole().job)
        );
    }
}
