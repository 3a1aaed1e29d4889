//! The read side: what API, command line and dashboard may ask.

use std::collections::{BTreeMap, BTreeSet};

use recado_core::{CompanyId, DeadLetter, Job, Payload, RouteName, Status, Timestamp};

/// A job and where it stands.
#[derive(Debug, Clone)]
pub struct JobView {
    pub job: Job,
    pub status: Status,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// What the provider answered when it took the job.
    pub answer: Option<Payload>,
    /// Who is delivering it, if somebody is, and until when.
    pub held_by: Option<(Box<str>, Timestamp)>,
}

#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    pub status: Option<Status>,
    pub company: Option<CompanyId>,
    pub route: Option<RouteName>,
    pub correlation_id: Option<Box<str>>,
    pub user_id: Option<Box<str>>,
}

impl JobFilter {
    /// What every store means by all of it but the status.
    pub fn is_about(&self, job: &Job) -> bool {
        self.company.as_ref().is_none_or(|want| job.company == *want)
            && self.route.as_ref().is_none_or(|want| job.route == *want)
            && self.correlation_id.as_ref().is_none_or(|want| job.correlation_id.as_ref() == Some(want))
            && self.user_id.as_ref().is_none_or(|want| job.user_id.as_ref() == Some(want))
    }
}

#[derive(Debug, Clone, Default)]
pub struct DeadLetterFilter {
    pub company: Option<CompanyId>,
    pub route: Option<RouteName>,
    pub last_failure_code: Option<Box<str>>,
    /// The reason contains this, without regard to case.
    pub reason: Option<Box<str>>,
    pub fingerprint: Option<Box<str>>,
    /// Moved to the queue at or after this.
    pub since: Option<Timestamp>,
    /// Moved to the queue before this.
    pub until: Option<Timestamp>,
}

impl DeadLetterFilter {
    /// What every store means by it.
    pub fn matches(&self, entry: &DeadLetter) -> bool {
        self.company.as_ref().is_none_or(|want| entry.company == *want)
            && self.route.as_ref().is_none_or(|want| entry.route == *want)
            && self
                .last_failure_code
                .as_ref()
                .is_none_or(|want| entry.last_failure_code.as_ref() == Some(want))
            && self.fingerprint.as_ref().is_none_or(|want| entry.fingerprint == *want)
            && self.since.is_none_or(|since| entry.moved_at >= since)
            && self.until.is_none_or(|until| entry.moved_at < until)
            && self.reason.as_ref().is_none_or(|want| {
                entry.last_failure_reason.as_str().to_lowercase().contains(&want.to_lowercase())
            })
    }
}

/// A place in a list: the store's own order number, below which to go on.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest {
    pub before: Option<u64>,
    pub limit: usize,
}

#[derive(Debug, Clone)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the next page begins. A page may be short and still have a next one.
    pub next: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    LastFailureCode,
    Company,
    Route,
    Fingerprint,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterGroup {
    /// Absent for entries that have no such value (a failure without a code).
    pub key: Option<Box<str>>,
    pub count: u64,
    /// One entry's reason, so that a group can be read.
    pub example_reason: Box<str>,
}

/// How many jobs are where. Kept as jobs move, never counted.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Waiting to be due.
    pub delayed: u64,
    /// Due, waiting for their turn.
    pub ready: u64,
    pub leased: u64,
    pub dead_letters: u64,
    pub ended: u64,
    /// Waiting jobs, due or not, of each route that has any.
    pub waiting_by_route: BTreeMap<RouteName, u64>,
}

/// Companies whose jobs a question leaves out, each on one route or on all.
pub type LeftOut = BTreeSet<(Option<RouteName>, CompanyId)>;

#[derive(Debug, Clone, Default)]
pub struct TenantFilter {
    pub company: Option<CompanyId>,
    pub route: Option<RouteName>,
}

/// How one tenant fares on one route. Kept as jobs move, never counted, and not durable: what it tells of the past
/// begins when the store was opened, or had to read itself back after a full disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantView {
    pub company: CompanyId,
    pub route: RouteName,
    /// Due, waiting for their turn.
    pub queued: u64,
    /// Waiting to be due.
    pub delayed: u64,
    pub leased: u64,
    /// When a job of it was last claimed in its turn.
    pub last_processed_at: Option<Timestamp>,
    /// Turns that others got while it had a job that was due.
    pub rounds_without_processing: u64,
    /// What seed 001 makes of those rounds: 5 for whoever was just served, 1 for whoever waits longest.
    pub current_priority: u32,
    /// Jobs claimed in its turn.
    pub total_processed: u64,
    /// Jobs it has had of its turn, while no other tenant has been served since.
    pub consecutive_batch_count: u32,
}

/// What a crash of the machine can take from an acknowledged write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: it was forced to disk.
    Fsync,
    /// Up to two seconds: it is forced to disk every second.
    EverySecond,
    /// Up to half a minute: it goes to disk when the kernel pleases.
    Eventually,
    /// Everything: it lives in memory.
    Memory,
    /// The store does not tell.
    Unknown,
}

impl Durability {
    pub fn as_str(self) -> &'static str {
        match self {
            Durability::Fsync => "fsync",
            Durability::EverySecond => "aof-everysec",
            Durability::Eventually => "aof-no",
            Durability::Memory => "memory",
            Durability::Unknown => "unknown",
        }
    }
}

#[derive(Debug, Clone)]
pub struct StoreReport {
    pub kind: &'static str,
    pub durability: Durability,
    pub size_bytes: u64,
    /// What of that is in use: files that have grown are not given back, but filled again.
    pub used_bytes: u64,
    pub free_bytes: Option<u64>,
    /// What it may grow to, as far as it is known: a bound that was set, or the room that there is.
    pub max_bytes: Option<u64>,
    /// Why enqueues are refused right now, if they are.
    pub refusing: Option<String>,
    /// Which parts of it do not answer while the others do, if any.
    pub unanswered: Option<String>,
}
