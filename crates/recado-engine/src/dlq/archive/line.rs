//! A dead letter as one line of an archive or of an export: JSON that people can read with `less` and `jq`.
//!
//! The names are the entry's own, so that what finds something in one finds it in the other. Beside them stands
//! what the job needs to go on with its history: its progress, its body's hash. Its trail is there for people to
//! read, and does not come back: the file may have been edited, and what is on record is what happened here.
//!
//! A line is held to the same rules as a job on its way in. A message about one that cannot be read names the field and
//! never repeats what is in it: values are personal data.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use recado_core::name::NAME_LEN_MAX;
use recado_core::payload::digest_of;
use recado_core::reason::clip;
use recado_core::time::millis;
use recado_core::{
    AuditEvent, BodyHash, DeadLetter, DeadLetterState, Job, JobId, LastFailure, Payload, Priority, Progress,
    Timestamp,
};
use recado_store::{JobSnapshot, SnapshotState};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::accept::{is_reserved, wrong_length};

/// The `recado` member of every line.
const KIND: &str = "dead-letter";

/// Written today. A reader for each earlier version stays.
const VERSION: u32 = 2;

/// The first version whose lines have a checksum.
const VERSION_CHECKED: u32 = 2;

/// Every member that a line may have. The checksum is of all others, and the last of its line.
const MEMBERS: &str = "recado version exportedAt jobId outboxId companyId route originalData correctedData \
    failedAttempts lastFailureReason lastFailureCode lastFailureTimestamp enqueuedAt movedToDLQAt ttl userId \
    correlationId traceparent errorClassification stackTrace attempts fingerprint cause state priority dueAt \
    expiresAt attemptsStarted attemptsSpent crashes deferrals replays bodyHash audit damage checksum";

/// The line of a dead letter, without its end; `None` when the job is not one. Exported at this time, or archived.
pub fn write(transfer: &JobSnapshot, exported_at: Option<Timestamp>) -> Option<String> {
    let JobSnapshot { job, body_hash, dead_letter: Some(entry), audit, .. } = transfer else { return None };
    let mut line = LineWriter::default();
    line.add("recado", KIND)?;
    line.add("version", &VERSION)?;
    line.add_some("exportedAt", exported_at.as_ref())?;
    line.add("jobId", &job.id)?;
    // As readers of entries expect it.
    line.add_some("outboxId", exported_at.map(|_| &job.id))?;
    line.add("companyId", &job.company)?;
    line.add("route", &job.route)?;
    line.add("originalData", &entry.original_data)?;
    line.add_some("correctedData", entry.corrected_data.as_ref())?;
    line.add("failedAttempts", &entry.failed_attempts)?;
    line.add("lastFailureReason", &entry.failure.reason)?;
    line.add_some("lastFailureCode", entry.failure.code.as_ref())?;
    line.add("lastFailureTimestamp", &entry.failure.at)?;
    line.add("enqueuedAt", &job.enqueued_at)?;
    line.add("movedToDLQAt", &entry.moved_at)?;
    line.add("ttl", &millis(entry.ttl))?;
    line.add_some("userId", job.user_id.as_ref())?;
    line.add_some("correlationId", job.correlation_id.as_ref())?;
    line.add_some("traceparent", job.traceparent.as_ref())?;
    line.add("errorClassification", &entry.failure.class)?;
    line.add_some("stackTrace", entry.failure.stack_trace.as_ref())?;
    line.add("attempts", &entry.attempts)?;
    line.add("fingerprint", &entry.failure.fingerprint)?;
    line.add("cause", &entry.cause)?;
    // In exports; an entry that comes back is dead.
    line.add_some("state", exported_at.map(|_| &entry.state))?;
    line.add("priority", &job.priority.level())?;
    line.add("dueAt", &job.due_at)?;
    line.add("expiresAt", &job.expires_at)?;
    line.add("attemptsStarted", &job.progress.attempts_started)?;
    line.add("attemptsSpent", &job.progress.attempts_spent)?;
    line.add("crashes", &job.progress.crashes)?;
    line.add("deferrals", &job.progress.deferrals)?;
    line.add("replays", &job.progress.replays)?;
    line.add("bodyHash", &format!("{:032x}", body_hash.0))?;
    // For people: see the head of this file.
    line.add("audit", audit)?;
    // The part that was damaged in the store already.
    line.add_some("damage", entry.damage().as_ref())?;
    line.add("checksum", &format!("{:032x}", line.sum))?;
    Some(format!("{{{}}}", line.members.join(",")))
}

/// The members of a line that is written, and the sum of their hashes.
#[derive(Default)]
struct LineWriter {
    members: Vec<String>,
    sum: u128,
}

impl LineWriter {
    fn add<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Option<()> {
        // Data stands as its sender wrote it. Line ends in JSON are only ever layout: in texts they are escaped.
        let value = serde_json::to_string(value).ok()?.replace(['\n', '\r'], " ");
        self.members.push(format!("\"{name}\":{value}"));
        self.sum = self.sum.wrapping_add(member_hash(name, &Payload::trusted(value)));
        Some(())
    }

    fn add_some<T: Serialize + ?Sized>(&mut self, name: &str, value: Option<&T>) -> Option<()> {
        value.map_or(Some(()), |value| self.add(name, value))
    }
}

/// Hashes a member, independent of layout and order, because tools like `jq` may have rewritten the line.
fn member_hash(name: &str, value: &Payload) -> u128 {
    // A number out of range, which older versions took, is known by its text.
    let of_text = |_| BodyHash(digest_of(&[name, value.as_str()]));
    BodyHash::of(value, &[Some(name)]).unwrap_or_else(of_text).0
}

/// A line that was read back.
#[derive(Debug)]
pub struct Read {
    pub transfer: JobSnapshot,
    pub is_export: bool,
}

/// The members of a line that is read.
struct LineReader<'a> {
    line: &'a str,
    members: BTreeMap<Cow<'a, str>, &'a RawValue>,
}

impl LineReader<'_> {
    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, String> {
        let Some(value) = self.members.get(name) else { return Ok(None) };
        serde_json::from_str(value.get()).map(Some).map_err(|error| {
            let begin = value.get().as_ptr() as usize - self.line.as_ptr() as usize;
            incomplete(&format!("`{name}` is wrong, at column {}", begin + error.column()))
        })
    }

    fn optional<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, String> {
        Ok(self.read::<Option<T>>(name)?.flatten())
    }

    fn required<T: DeserializeOwned>(&self, name: &str) -> Result<T, String> {
        self.read(name)?.ok_or_else(|| incomplete(&format!("`{name}` is missing")))
    }

    fn checksum(&self) -> String {
        let others = self.members.iter().filter(|(name, _)| *name != "checksum");
        let hashes = others.map(|(name, value)| member_hash(name, &Payload::from_raw(value)));
        format!("{:032x}", hashes.fold(0_u128, u128::wrapping_add))
    }
}

/// Reads a line back, or says what is wrong with it.
pub fn read(line: &str) -> Result<Read, String> {
    let members = serde_json::from_str(line).map_err(|error: serde_json::Error| match error.is_data() {
        true => UNKNOWN_KIND.to_owned(),
        false => format!("is not JSON at column {}", error.column()),
    })?;
    let line = LineReader { line, members };
    let (kind, version) = (line.required::<Box<str>>("recado"), line.required::<u32>("version"));
    let version = match (kind, version) {
        (Ok(kind), Ok(version)) if &*kind == KIND => version,
        _ => return Err(UNKNOWN_KIND.to_owned()),
    };
    if !(1..=VERSION).contains(&version) {
        return Err(format!(
            "has version {version}, this program reads up to {VERSION}; use the recado that wrote it"
        ));
    }
    if let Some(name) = line.members.keys().find(|name| !MEMBERS.split(' ').any(|known| known == **name)) {
        return Err(wrong(&format!("`{}`, which no dead letter has", clip(name, NAME_LEN_MAX))));
    }
    let transfer = transfer(&line)?;
    if version >= VERSION_CHECKED && line.optional("checksum")? != Some(line.checksum()) {
        return Err(wrong("been changed since it was written: it does not match its `checksum`"));
    }
    Ok(Read { transfer, is_export: line.optional::<Timestamp>("exportedAt")?.is_some() })
}

/// The fault of a line that does not name its kind.
const UNKNOWN_KIND: &str = "is neither an archived nor an exported dead letter: it has no `recado` and `version` that \
    say so; import a file of the dlq-archive directory, or what `recado dlq export` wrote";

fn wrong(what: &str) -> String {
    format!("has {what}; take the line as it was written")
}

fn incomplete(what: &str) -> String {
    format!("is no whole dead letter: {what}; take the line as it was written")
}

/// Reads the dead letter and its job. A fault that no accepted job could have is told, too.
fn transfer(line: &LineReader<'_>) -> Result<JobSnapshot, String> {
    // These are for people, or are set anew; they must be what they say all the same.
    line.optional::<DeadLetterState>("state")?;
    line.required::<Vec<AuditEvent>>("audit")?;
    let entry = DeadLetter {
        job_id: line.required("jobId")?,
        company: line.required("companyId")?,
        route: line.required("route")?,
        original_data: line.required("originalData")?,
        corrected_data: line.optional("correctedData")?,
        failed_attempts: line.required("failedAttempts")?,
        failure: LastFailure {
            reason: line.required("lastFailureReason")?,
            code: line.optional("lastFailureCode")?,
            at: line.required("lastFailureTimestamp")?,
            class: line.required("errorClassification")?,
            stack_trace: line.optional("stackTrace")?,
            fingerprint: line.required("fingerprint")?,
        },
        enqueued_at: line.required("enqueuedAt")?,
        moved_at: line.required("movedToDLQAt")?,
        ttl: Duration::from_millis(line.required("ttl")?),
        user_id: line.optional("userId")?,
        correlation_id: line.optional("correlationId")?,
        attempts: line.required("attempts")?,
        cause: line.required("cause")?,
        state: DeadLetterState::Dead,
        checksum: None,
    };
    let damage = line.optional("damage")?;
    let checksum = damage.map(|damage| entry.matching_checksum().inverted(damage));
    let entry = DeadLetter { checksum, ..entry };
    let priority = line.required("priority")?;
    let body_hash: Box<str> = line.required("bodyHash")?;
    let job = Job {
        id: entry.job_id.clone(),
        route: entry.route.clone(),
        company: entry.company.clone(),
        data: entry.data().clone(),
        user_id: entry.user_id.clone(),
        correlation_id: entry.correlation_id.clone(),
        traceparent: line.optional("traceparent")?,
        priority: Priority::default(),
        enqueued_at: entry.enqueued_at,
        due_at: line.required("dueAt")?,
        expires_at: line.required("expiresAt")?,
        progress: Progress {
            attempts_started: line.required("attemptsStarted")?,
            attempts_spent: line.required("attemptsSpent")?,
            crashes: line.required("crashes")?,
            deferrals: line.required("deferrals")?,
            replays: line.required("replays")?,
        },
        attempts: entry.attempts.clone(),
        checksum,
    };
    if let Some(fault) = fault(&entry, line.optional("outboxId")?) {
        return Err(wrong(fault));
    }
    let hash = u128::from_str_radix(&body_hash, 16);
    let priority = Priority::new(priority).ok_or_else(|| wrong("a `priority` outside 1 to 9"))?;
    Ok(JobSnapshot {
        body_hash: BodyHash(hash.map_err(|_| wrong("a `bodyHash` that is not hexadecimal"))?),
        job: Job { priority, ..job },
        state: SnapshotState::Dead,
        dead_letter: Some(entry),
        queue_place: None,
        audit: Vec::new(),
        archived: 0,
    })
}

/// A fault that no accepted job could have.
fn fault(entry: &DeadLetter, outbox_id: Option<JobId>) -> Option<&'static str> {
    let is_odd = |id: &Option<Box<str>>| id.as_deref().is_some_and(|id| wrong_length(id).is_some());
    let is_unreadable = |data: &Payload| BodyHash::of(data, &[]).is_err();
    let mut data = [Some(&entry.original_data), entry.corrected_data.as_ref()].into_iter().flatten();
    let faults = [
        (is_reserved(entry.job_id.as_str()), "a `jobId` that is a word of the API's own paths"),
        (outbox_id.is_some_and(|id| id != entry.job_id), "an `outboxId` that is not its `jobId`"),
        (is_odd(&entry.user_id), "a `userId` that is empty or too long"),
        (is_odd(&entry.correlation_id), "a `correlationId` that is empty or too long"),
        (data.any(is_unreadable), "data that cannot be read"),
    ];
    faults.into_iter().find_map(|(there, what)| there.then_some(what))
}

#[cfg(test)]
mod tests {
    use recado_core::{
        Attempt, AttemptResult, AuditKind, Cause, Class, CompanyId, Damage, Reason, RouteName,
    };

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
