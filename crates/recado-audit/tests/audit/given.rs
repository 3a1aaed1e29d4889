//! Trails to work on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use recado_audit::{Appended, Entry, Evidence, Finding, Month, Options, Report, Trail, verify};
use recado_core::{AuditEvent, AuditKind, Class, Timestamp};
use tempfile::TempDir;

pub const SOURCE: &str = "embedded";

pub fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub fn month(text: &str) -> Month {
    text.parse().unwrap()
}

/// Event number `n`: job, claim, company and user are told by the number.
pub fn entry(n: u64) -> Entry {
    let claim = format!("guia-{}", n % 50);
    let happened = at("2026-09-01T08:00:00Z").plus(Duration::from_secs(n));
    let kind = match n % 4 {
        0 => AuditKind::Delivered,
        1 => AuditKind::ClaimRetry,
        2 => AuditKind::ClaimRefused,
        _ => AuditKind::Buried,
    };
    let mut event = AuditEvent::claim(&claim, "tiss-claims", kind, happened);
    event.job_id = Some(format!("job-{n}").into());
    event.company_id = Some(format!("company-{}", n % 3).into());
    event.decision.error_message = Some(format!("SERVICE_UNAVAILABLE for \"João\" {n}\n").into());
    event.decision.error_classification = Some(Class::Transient);
    event.decision.retry_count = Some(1);
    event.decision.backoff_minutes = Some(7);
    event.decision.next_retry_time = Some(happened.plus(Duration::from_secs(420)));
    event.decision.retry_reason = Some("TISS não respondeu".into());
    event.decision.rule = Some("tiss/service_unavailable".into());
    event.user_id = Some(format!("user-{}", n % 10).into());
    event.correlation_id = n.is_multiple_of(2).then(|| format!("order-{}", n % 20).into());
    Entry { source: SOURCE.into(), sequence: n, event }
}

pub fn entries(numbers: std::ops::RangeInclusive<u64>) -> Vec<Entry> {
    numbers.map(entry).collect()
}

/// A directory with a trail in it.
pub struct Place {
    dir: TempDir,
}

impl Place {
    /// In memory where there is a file system for that: some tests force thousands of writes to disk.
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        Place { dir: dir.unwrap() }
    }

    pub fn on_disk() -> Self {
        Place { dir: TempDir::new().unwrap() }
    }

    /// Records 1 to 60 over three months, in batches of ten; sequence and source number are the same.
    pub fn three_months() -> Self {
        let place = Place::new();
        let mut trail = place.open();
        for batch in 0..6_u64 {
            let now = at(["2026-09-15T12:00:00Z", "2026-10-15T12:00:00Z", "2026-11-15T12:00:00Z"]
                [usize::try_from(batch / 2).unwrap()]);
            trail.append(&entries(batch * 10 + 1..=batch * 10 + 10), now).unwrap();
        }
        drop(trail);
        place
    }

    /// The same in another directory, to be tampered with.
    pub fn copy(&self) -> Self {
        let copy = Place::new();
        for name in self.names() {
            std::fs::copy(self.path(&name), copy.path(&name)).unwrap();
        }
        copy
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn open(&self) -> Trail {
        Trail::open(self.dir(), &Options::default()).unwrap()
    }

    pub fn append(&self, numbers: std::ops::RangeInclusive<u64>, now: &str) -> Appended {
        self.open().append(&entries(numbers), at(now)).unwrap()
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub fn lines(&self, segment: &str) -> Vec<String> {
        let text = String::from_utf8(self.read(&format!("{segment}.jsonl"))).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    pub fn put_lines(&self, segment: &str, lines: &[String]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.write(&format!("{segment}.jsonl"), text);
    }

    pub fn verify(&self) -> Report {
        verify(self.dir(), &Evidence::default()).unwrap()
    }

    pub fn findings(&self) -> Vec<Finding> {
        self.verify().findings
    }

    pub fn assert_whole(&self) -> Report {
        let report = self.verify();
        assert!(report.is_whole(), "{:#?}", report.findings);
        report
    }

    /// The source numbers in the trail, in its order.
    pub fn source_numbers(&self) -> Vec<u64> {
        let mut numbers = Vec::new();
        for name in self.names().iter().filter_map(|name| name.strip_suffix(".jsonl")) {
            for line in self.lines(name) {
                let line: serde_json::Value = serde_json::from_str(&line).unwrap();
                numbers.extend(line["sourceSequence"].as_u64());
            }
        }
        numbers
    }
}
