//! Reading jobs and dead letters, for the API, the command line and the dashboard.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use recado_core::dead_letter::GroupBy;
use recado_core::{
    AuditEvent, CompanyId, DeadLetter, Job, JobId, Payload, RouteName, Status, Timestamp, named_enum,
};
use serde::{Deserialize, Serialize};

use crate::error::StoreResult;

/// Read queries over jobs and dead letters. None of them counts by scanning the jobs that wait.
#[async_trait]
pub trait Inspect: Send + Sync + std::fmt::Debug + 'static {
    /// Returns the durability of its answers right now. Known without a request, so that every answer can say it.
    fn durability(&self) -> Durability;

    async fn job(&self, id: &JobId, now: Timestamp) -> StoreResult<Option<JobView>>;

    /// Lists jobs, newest first.
    async fn jobs(&self, filter: JobFilter, page: PageRequest, now: Timestamp) -> StoreResult<Page<JobView>>;

    async fn audit(&self, id: &JobId) -> StoreResult<Vec<AuditEvent>>;

    async fn dead_letter(&self, id: &JobId) -> StoreResult<Option<DeadLetter>>;

    /// Lists dead letters, newest first by the time each entered the queue: a replay that fails again has never left
    /// it.
    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> StoreResult<Page<DeadLetter>>;

    /// Lists the dead letters that have been in the queue longest; none that is replaying.
    async fn oldest_dead_letters(&self, limit: usize) -> StoreResult<Vec<DeadLetter>>;

    /// Counts dead letters by group, largest first.
    async fn dead_letter_groups(
        &self,
        by: GroupBy,
        filter: DeadLetterFilter,
    ) -> StoreResult<Vec<DeadLetterGroup>>;

    async fn counts(&self, now: Timestamp) -> StoreResult<Counts>;

    /// The time since when the oldest unclaimed job has been due, for each route that has one; the companies
    /// in `left_out` do not count. Where very many tenants wait, a store may ask only those that have waited
    /// longest for a turn.
    async fn oldest_due(
        &self,
        left_out: &LeftOut,
        now: Timestamp,
    ) -> StoreResult<BTreeMap<RouteName, Timestamp>>;

    /// Statistics of each tenant on each route, by route and company: those with a job that waits or is leased, and
    /// those served lately.
    async fn tenants(&self, filter: TenantFilter, now: Timestamp) -> StoreResult<Vec<TenantView>>;

    async fn report(&self) -> StoreResult<StoreReport>;
}

/// A job and where it stands.
#[derive(Debug, Clone)]
pub struct JobView {
    pub job: Job,
    pub status: Status,
    /// The time when it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// The provider's answer when it took the job.
    pub answer: Option<Payload>,
    /// The holder of its lease, and the lease's end.
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
    /// Returns true if a job matches everything but the status; the same for all stores.
    pub fn is_about(&self, job: &Job) -> bool {
        self.company.as_ref().is_none_or(|want| job.company == *want)
            && self.route.as_ref().is_none_or(|want| job.route == *want)
            && self.correlation_id.as_ref().is_none_or(|want| job.correlation_id.as_ref() == Some(want))
            && self.user_id.as_ref().is_none_or(|want| job.user_id.as_ref() == Some(want))
    }
}

/// Filter for dead letters; all given fields must match. A bulk act keeps it in its entry, so names and form are a stored
/// format.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeadLetterFilter {
    #[serde(rename = "companyId", skip_serializing_if = "Option::is_none")]
    pub company: Option<CompanyId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure_code: Option<Box<str>>,
    /// The reason contains this, without regard to case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Box<str>>,
    /// Moved to the queue at or after this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Moved to the queue before this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl DeadLetterFilter {
    /// Returns true if an entry matches; the same for all stores.
    pub fn matches(&self, entry: &DeadLetter) -> bool {
        self.company.as_ref().is_none_or(|want| entry.company == *want)
            && self.route.as_ref().is_none_or(|want| entry.route == *want)
            && (self.last_failure_code.is_none() || self.last_failure_code == entry.failure.code)
            && self.fingerprint.as_ref().is_none_or(|want| entry.failure.fingerprint == *want)
            && self.since.is_none_or(|since| entry.moved_at >= since)
            && self.until.is_none_or(|until| entry.moved_at < until)
            && self.reason.as_ref().is_none_or(|want| {
                entry.failure.reason.as_str().to_lowercase().contains(&want.to_lowercase())
            })
    }
}

/// A place in a list: the store's own order number, below which to go on.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest {
    pub before: Option<u64>,
    pub limit: usize,
}

/// Bytes of data after which a store ends a page, however few items it holds by then.
pub const PAGE_MAX_BYTES: usize = 4 << 20;

#[derive(Debug, Clone)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// The start of the next page. A page may be short and still have a next one.
    pub next: Option<u64>,
}

impl<T: DataBytes> Page<T> {
    /// Takes numbered items, in order, until `limit` or [`PAGE_MAX_BYTES`] is reached. The rest is not read.
    pub fn gather<E>(items: impl IntoIterator<Item = Result<(u64, T), E>>, limit: usize) -> Result<Self, E> {
        let mut page = Page { items: Vec::new(), next: None };
        let (mut bytes, mut last) = (0, None);
        for item in items {
            let (number, item) = item?;
            if page.items.len() == limit || bytes >= PAGE_MAX_BYTES {
                page.next = last;
                break;
            }
            bytes += item.data_bytes();
            last = Some(number);
            page.items.push(item);
        }
        Ok(page)
    }
}

/// Items that carry data of callers.
pub trait DataBytes {
    fn data_bytes(&self) -> usize;
}

impl DataBytes for JobView {
    fn data_bytes(&self) -> usize {
        self.job.data.as_str().len() + self.answer.as_ref().map_or(0, |answer| answer.as_str().len())
    }
}

impl DataBytes for DeadLetter {
    fn data_bytes(&self) -> usize {
        let corrected = self.corrected_data.as_ref().map_or(0, |data| data.as_str().len());
        self.original_data.as_str().len() + corrected
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterGroup {
    /// Absent for entries that have no such value (a failure without a code).
    pub key: Option<Box<str>>,
    pub count: u64,
    /// One entry's reason, so that a group can be read.
    pub example_reason: Box<str>,
}

/// Counts dead letters by group, each with the reason of the first.
#[derive(Debug, Default)]
pub struct GroupCounts(BTreeMap<Option<Box<str>>, (u64, Box<str>)>);

impl GroupCounts {
    pub fn add(&mut self, key: Option<Box<str>>, count: u64, reason: &str) {
        self.0.entry(key).or_insert_with(|| (0, reason.into())).0 += count;
    }

    pub fn largest_first(self) -> Vec<DeadLetterGroup> {
        let group = |(key, (count, example_reason))| DeadLetterGroup { key, count, example_reason };
        let mut groups: Vec<_> = self.0.into_iter().map(group).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        groups
    }
}

/// Jobs by state. Kept as jobs move, never counted.
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

/// Statistics of one tenant on one route. Kept as jobs move, never counted, and not durable: its past begins
/// when the store was opened, or had to read itself back after a full disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantView {
    pub company: CompanyId,
    pub route: RouteName,
    /// Due, waiting for their turn.
    pub queued: u64,
    /// Waiting to be due.
    pub delayed: u64,
    pub leased: u64,
    /// The time when a job of it was last claimed in its turn.
    pub last_processed_at: Option<Timestamp>,
    /// Turns that others got while it had a job that was due.
    pub rounds_without_processing: u64,
    /// Priority by rounds waited: 5 for the company just served, 1 for the one that waits longest.
    pub current_priority: u32,
    /// Jobs claimed in its turn.
    pub total_processed: u64,
    /// Jobs it has had of its turn, while no other tenant has been served since.
    pub consecutive_batch_count: u32,
}

named_enum! {
    /// The loss of acknowledged writes that a crash of the machine can cause.
    #[derive(Default)]
    pub enum Durability {
        /// Nothing: it was forced to disk.
        Fsync = "fsync",
        /// Up to two seconds: it is forced to disk every second.
        EverySecond = "aof-everysec",
        /// Up to half a minute: it goes to disk when the kernel pleases.
        Eventually = "aof-no",
        /// Everything: it lives in memory.
        Memory = "memory",
        /// The store does not tell.
        #[default]
        Unknown = "unknown",
    }
}

#[derive(Debug, Clone, Default)]
pub struct StoreReport {
    pub kind: &'static str,
    pub durability: Durability,
    pub size_bytes: u64,
    /// Bytes in use: files that have grown are not given back, but filled again.
    pub used_bytes: u64,
    pub free_bytes: Option<u64>,
    /// The size it may grow to, as far as it is known: a bound that was set, or the room that there is.
    pub max_bytes: Option<u64>,
    /// The reason why enqueues are refused right now, if they are.
    pub refusing: Option<String>,
    /// Partitions that do not answer, if there are some while others do.
    pub unanswered: Option<String>,
}
