//! Read queries over jobs.

use recado_core::{AuditEvent, Job, JobId, Lease, LeaseToken, Payload, Timestamp};
use recado_store::{DataBytes, JobFilter, JobView, PAGE_MAX_BYTES, Page, PageRequest, StoreError};

use crate::codec::answer::{Answer, unexpected};
use crate::codec::record::{HeldState, Record, decode_or_mark};
use crate::codec::token::{Token, read_fence};
use crate::link::Arg;
use crate::store::RedisStore;
use crate::verbs::audit::audit_event;
use crate::verbs::claim::Holder;
use crate::verbs::merge::{Merge, runs, seqs};
use crate::verbs::partitions::BEYOND_ALL;

/// Heads that are read at once for a list.
const LIST_HEADS: i64 = 256;

/// Most heads that one page of a filtered list scans before it returns what it has.
const SCAN_HEADS_MAX: usize = 20_000;

/// A job as it lies in the store.
#[derive(Debug)]
pub struct Found {
    pub partition: u16,
    pub seq: u64,
    pub head: Vec<u8>,
    pub data: Payload,
    pub held: Option<CurrentLease>,
}

#[derive(Debug)]
pub struct CurrentLease {
    pub fence: u64,
    pub claimed_at: Timestamp,
    pub expires_at: Timestamp,
    pub worker: Box<str>,
}

impl Found {
    fn read(partition: u16, answer: Answer) -> Result<Option<Found>, StoreError> {
        let Some(answer) = answer.there() else { return Ok(None) };
        let mut parts = answer.list()?.into_iter();
        let mut part = || parts.next().ok_or_else(unexpected);
        let (seq, head, data) = (part()?.count()?, part()?.bytes()?, part()?.payload()?);
        let held = match part() {
            Err(_) => None,
            Ok(fence) => Some(CurrentLease {
                fence: read_fence(&fence.text()?).ok_or_else(unexpected)?,
                claimed_at: part()?.time()?,
                expires_at: part()?.time()?,
                worker: Holder::of(&part()?.text()?).worker,
            }),
        };
        Ok(Some(Found { partition, seq, head, data, held }))
    }

    fn view(self, now: Timestamp) -> Option<JobView> {
        let record = decode_or_mark(&self.head, self.partition, self.seq)?;
        let held_by = self.held.map(|held| (held.worker, held.expires_at));
        Some(record.view(self.data, held_by, now))
    }
}

impl RedisStore {
    pub(crate) async fn find(&self, id: &JobId) -> Result<Option<Found>, StoreError> {
        let (partition, answer) = self.run_where_job_is(id, &self.scripts.job).await?;
        Found::read(partition, answer)
    }

    /// Jobs by their numbers, each where it was asked for.
    pub(crate) async fn pick(&self, partition: u16, seqs: &[u64]) -> Result<Vec<Option<Found>>, StoreError> {
        let args: Vec<_> = seqs.iter().map(|seq| Arg::Int(seq.cast_signed())).collect();
        let answers = self.run(&self.scripts.pick, partition, &args).await?.list()?;
        answers.into_iter().map(|answer| Found::read(partition, answer)).collect()
    }

    pub(crate) async fn view(&self, id: &JobId, now: Timestamp) -> Result<Option<JobView>, StoreError> {
        Ok(self.find(id).await?.and_then(|found| found.view(now)))
    }

    pub(crate) async fn current_lease(&self, token: LeaseToken) -> Result<Option<Lease>, StoreError> {
        let Some(Token { partition, seq, fence }) = self.read_token(token) else { return Ok(None) };
        let Some(found) = self.pick(partition, &[seq]).await?.pop().flatten() else { return Ok(None) };
        let Some(held) = found.held.filter(|held| held.fence == fence) else { return Ok(None) };
        let record = Record::decode(&found.head)?;
        Ok(Some(Lease {
            token,
            attempt: record.job.progress.attempts_started + 1,
            claimed_at: held.claimed_at,
            expires_at: held.expires_at,
            job: Job { data: found.data, ..record.job },
            lost: None,
        }))
    }

    pub(crate) async fn list_jobs(
        &self,
        filter: &JobFilter,
        page: PageRequest,
        now: Timestamp,
    ) -> Result<Page<JobView>, StoreError> {
        let mut merge = Merge::new(page.limit);
        for partition in self.partitions() {
            self.scan_jobs(partition, filter, page, now, &mut merge).await?;
        }
        let (wanted, next) = merge.page();
        let (mut items, mut bytes) = (Vec::with_capacity(wanted.len()), 0);
        for (partition, run) in runs(&wanted) {
            for ((order, ..), found) in run.iter().zip(self.pick(partition, &seqs(run)).await?) {
                let Some(view) = found.and_then(|found| found.view(now)) else { continue };
                bytes += view.data_bytes();
                items.push(view);
                if bytes >= PAGE_MAX_BYTES {
                    return Ok(Page { items, next: Some(*order) });
                }
            }
        }
        Ok(Page { items, next })
    }

    /// Scans a partition's jobs, newest first, until the page is full or the scan reaches its bound.
    async fn scan_jobs(
        &self,
        partition: u16,
        filter: &JobFilter,
        page: PageRequest,
        now: Timestamp,
        merge: &mut Merge,
    ) -> Result<(), StoreError> {
        let before = page.before.unwrap_or(BEYOND_ALL).min(BEYOND_ALL);
        let mut below = Some(self.number_at(partition, before));
        let (mut wanted, mut scanned) = (0, 0);
        while let Some(number) = below.filter(|_| wanted <= page.limit && scanned < SCAN_HEADS_MAX) {
            let args = [Arg::Int(number.cast_signed()), Arg::Int(LIST_HEADS)];
            let [next, heads] = self.run(&self.scripts.list, partition, &args).await?.parts()?;
            below = next.there().map(Answer::count).transpose()?;
            for row in heads.list()? {
                let [seq, head, is_held] = row.parts()?;
                let seq = seq.count()?;
                scanned += 1;
                let Some(record) = decode_or_mark(&head.bytes()?, partition, seq) else { continue };
                if filter.is_about(&record.job)
                    && has_status(filter, &record, HeldState::of(is_held.yes()?), now)
                {
                    merge.found(self.order_of(partition, seq), partition, seq);
                    wanted += 1;
                }
            }
        }
        if let Some(number) = below {
            merge.stopped_at(self.order_of(partition, number));
        }
        Ok(())
    }

    pub(crate) async fn trail_of(&self, id: &JobId) -> Result<Vec<AuditEvent>, StoreError> {
        let (_, events) = self.run_where_job_is(id, &self.scripts.trail).await?;
        let mut trail = Vec::new();
        for event in events.list()? {
            trail.extend(audit_event(&event.bytes()?));
        }
        Ok(trail)
    }
}

fn has_status(filter: &JobFilter, record: &Record, held: HeldState, now: Timestamp) -> bool {
    filter.status.is_none_or(|want| record.status(held, now) == want)
}
