//! Everything that a store will tell, as one value that can be compared.

use std::fmt;

use recado_core::{
    Attempt, AuditEvent, DeadLetter, JobId, Payload, Progress, Status, Timestamp, TraceParent,
};
use recado_store::{
    Counts, DeadLetterFilter, DeadLetterGroup, GroupBy, JobFilter, JobView, Page, PageRequest,
};

use crate::given::{ACCOUNTS, ENDPOINTS, TestStore};

/// Bound of a list that is meant to be whole.
pub const LIST_MAX: usize = 10_000;

/// One job as a store shows it, payloads included.
#[derive(Clone, PartialEq, Debug)]
pub struct ComparableJob {
    pub names: [String; 5],
    pub traceparent: Option<TraceParent>,
    pub priority: u8,
    pub enqueued_at: Timestamp,
    pub due_at: Timestamp,
    pub expires_at: Timestamp,
    pub progress: Progress,
    pub attempts: Vec<Attempt>,
    pub data: String,
    pub status: Status,
    pub ended_at: Option<Timestamp>,
    pub answer: Option<String>,
    pub held_by: Option<(Box<str>, Timestamp)>,
}

impl From<JobView> for ComparableJob {
    fn from(view: JobView) -> Self {
        let JobView { job, status, ended_at, answer, held_by } = view;
        let text = |text: Option<Box<str>>| text.map_or_else(|| "none".to_owned(), String::from);
        ComparableJob {
            names: [
                job.id.to_string(),
                job.route.to_string(),
                job.company.to_string(),
                text(job.user_id),
                text(job.correlation_id),
            ],
            traceparent: job.traceparent,
            priority: job.priority.level(),
            enqueued_at: job.enqueued_at,
            due_at: job.due_at,
            expires_at: job.expires_at,
            progress: job.progress,
            attempts: job.attempts,
            data: job.data.as_str().to_owned(),
            status,
            ended_at,
            answer: answer.as_ref().map(Payload::as_str).map(str::to_owned),
            held_by,
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// Newest first.
    pub jobs: Vec<ComparableJob>,
    /// Newest first, with what it would send beside, because an entry's `Debug` keeps payloads to itself.
    pub dead_letters: Vec<(DeadLetter, String)>,
    pub groups: Vec<DeadLetterGroup>,
    pub counts: [u64; 5],
    /// In the order of `jobs`.
    pub audit: Vec<Vec<AuditEvent>>,
    /// Namespace, key, value and end, without the version: stores may count differently.
    pub entries: Vec<(&'static str, String, String, Option<Timestamp>)>,
}

pub fn counts(counts: &Counts) -> [u64; 5] {
    [counts.delayed, counts.ready, counts.leased, counts.dead_letters, counts.ended]
}

impl Snapshot {
    pub async fn of(store: &TestStore, now: Timestamp) -> Snapshot {
        let store = &store.0;
        let whole = PageRequest { before: None, limit: LIST_MAX };
        let jobs = items(store.jobs(JobFilter::default(), whole, now).await.unwrap());
        let dead = items(store.dead_letters(DeadLetterFilter::default(), whole).await.unwrap());
        let mut audit = Vec::new();
        for view in &jobs {
            audit.push(store.audit(&view.job.id).await.unwrap());
        }
        let groups = store.dead_letter_groups(GroupBy::Company, DeadLetterFilter::default()).await.unwrap();
        let mut entries = Vec::new();
        for namespace in [ACCOUNTS, ENDPOINTS] {
            for entry in store.kv_list(namespace, now).await.unwrap() {
                let value = entry.value.as_str().to_owned();
                entries.push((namespace.as_str(), String::from(entry.key), value, entry.expires_at));
            }
        }
        Snapshot {
            jobs: jobs.into_iter().map(ComparableJob::from).collect(),
            dead_letters: dead
                .into_iter()
                .map(|entry| (entry.clone(), entry.data().as_str().to_owned()))
                .collect(),
            groups,
            counts: counts(&store.counts(now).await.unwrap()),
            audit,
            entries,
        }
    }

    /// Fails naming the first thing that differs, because whole snapshots are too long to read.
    #[track_caller]
    pub fn assert_same(&self, other: &Snapshot, what: impl fmt::Display) {
        let ids =
            |snapshot: &Snapshot| snapshot.jobs.iter().map(|seen| seen.names[0].clone()).collect::<Vec<_>>();
        assert_eq!(ids(self), ids(other), "{what}: other jobs, or in another order");
        for (at, (left, right)) in self.jobs.iter().zip(&other.jobs).enumerate() {
            assert_eq!(left, right, "{what}: job {} differs", left.names[0]);
            assert_eq!(
                self.audit[at], other.audit[at],
                "{what}: the audit trail of {} differs",
                left.names[0]
            );
        }
        assert_eq!(self.dead_letters, other.dead_letters, "{what}: the dead letters differ");
        assert_eq!(self.groups, other.groups, "{what}: the groups of dead letters differ");
        assert_eq!(self.entries, other.entries, "{what}: the entries differ");
        assert_eq!(
            self.counts, other.counts,
            "{what}: counts differ (delayed, ready, leased, dead letters, ended)"
        );
    }
}

fn items<T>(page: Page<T>) -> Vec<T> {
    assert!(page.next.is_none(), "the list is longer than {LIST_MAX}");
    page.items
}

/// Walks every page of the job list.
pub async fn walk_jobs(store: &TestStore, filter: &JobFilter, limit: usize, now: Timestamp) -> Vec<JobId> {
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = store.0.jobs(filter.clone(), PageRequest { before, limit }, now).await.unwrap();
        assert!(page.items.len() <= limit, "a page of {} where {limit} were asked for", page.items.len());
        seen.extend(page.items.into_iter().map(|view| view.job.id));
        match page.next {
            Some(next) => before = Some(next),
            None => return seen,
        }
    }
}
