//! The trait [`Inspect`]: read queries over jobs and dead letters.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use async_trait::async_trait;
use recado_core::{AuditEvent, CompanyId, DeadLetter, JobId, Payload, RouteName, Timestamp};
use recado_store::{
    Counts, DeadLetterFilter, DeadLetterGroup, Durability, GroupBy, GroupCounts, Inspect, JobFilter, JobView,
    LeftOut, Page, PageRequest, StoreReport, StoreResult, TenantFilter, TenantView,
};
use redis::Value;

use crate::codec::record::{HeldState, decode_or_mark};
use crate::codec::token::read_fence;
use crate::link::{Data, read, unexpected};
use crate::store::RedisStore;
use crate::verbs::audit::audit_event;
use crate::verbs::claim::Holder;
use crate::verbs::dead_letters::DeadLetterRow;
use crate::verbs::merge::{ScannedRows, runs, seqs};
use crate::verbs::tenant_stats::add_stats;

/// Heads that are read at once for a list.
const LIST_HEADS: usize = 256;

/// Number and head of a job in a list, and whether it is leased.
type HeadRow = (u64, Vec<u8>, bool);

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
    /// Reads a job and its lease, if it has one, as `views.lua` gives them.
    fn read(partition: u16, answer: Value) -> StoreResult<Option<Found>> {
        let Some(mut job) = read::<Option<Vec<Value>>>(answer)? else { return Ok(None) };
        let lease = job.split_off(job.len().min(3));
        let (seq, head, Data(data)) = read(Value::Array(job))?;
        let held = if lease.is_empty() { None } else { Some(CurrentLease::read(lease)?) };
        Ok(Some(Found { partition, seq, head, data, held }))
    }

    fn view(self, now: Timestamp) -> Option<JobView> {
        let record = decode_or_mark(&self.head, self.partition, self.seq)?;
        let held_by = self.held.map(|held| (held.worker, held.expires_at));
        Some(record.view(self.data, held_by, now))
    }
}

impl CurrentLease {
    fn read(lease: Vec<Value>) -> StoreResult<Self> {
        let (fence, since, until, holder): (String, i64, i64, String) = read(Value::Array(lease))?;
        Ok(CurrentLease {
            fence: read_fence(&fence).ok_or_else(unexpected)?,
            claimed_at: Timestamp::from_millis(since),
            expires_at: Timestamp::from_millis(until),
            worker: Holder::of(&holder).worker,
        })
    }
}

impl RedisStore {
    pub(crate) async fn find(&self, id: &JobId) -> StoreResult<Option<Found>> {
        let (partition, answer) = self.run_where_job_is(id, &self.scripts.job).await?;
        Found::read(partition, answer)
    }

    /// Jobs by their numbers, each where it was asked for.
    pub(crate) async fn pick(&self, partition: u16, seqs: &[u64]) -> StoreResult<Vec<Option<Found>>> {
        let answers: Vec<Value> = self.run(self.call(&self.scripts.pick, partition).arg(seqs)).await?;
        answers.into_iter().map(|answer| Found::read(partition, answer)).collect()
    }

    /// Scans a partition's jobs below a number for those that a list wants.
    async fn scan_jobs_below(
        &self,
        partition: u16,
        number: u64,
        filter: &JobFilter,
        now: Timestamp,
    ) -> StoreResult<ScannedRows> {
        let mut call = self.call(&self.scripts.list, partition);
        let (next, heads): (Option<u64>, Vec<HeadRow>) = self.run(call.arg(number).arg(LIST_HEADS)).await?;
        let wanted = |(seq, head, is_held): HeadRow| {
            let record = decode_or_mark(&head, partition, seq)?;
            let has_status = |want| record.status(HeldState::of(is_held), now) == want;
            let is_wanted = filter.is_about(&record.job) && filter.status.is_none_or(has_status);
            is_wanted.then_some((seq, seq))
        };
        Ok((heads.into_iter().map(wanted).collect(), next))
    }
}

#[async_trait]
impl Inspect for RedisStore {
    fn durability(&self) -> Durability {
        self.link.checkup().durability()
    }

    async fn job(&self, id: &JobId, now: Timestamp) -> StoreResult<Option<JobView>> {
        Ok(self.find(id).await?.and_then(|found| found.view(now)))
    }

    async fn jobs(&self, filter: JobFilter, page: PageRequest, now: Timestamp) -> StoreResult<Page<JobView>> {
        let read = async |partition, seqs: Vec<u64>| {
            let found = self.pick(partition, &seqs).await?;
            Ok(found.into_iter().map(|found| found?.view(now)).collect())
        };
        let filter = &filter;
        self.list_page(page, |partition, below| self.scan_jobs_below(partition, below, filter, now), read)
            .await
    }

    async fn audit(&self, id: &JobId) -> StoreResult<Vec<AuditEvent>> {
        let (_, events) = self.run_where_job_is(id, &self.scripts.trail).await?;
        let events: Vec<Vec<u8>> = read(events)?;
        Ok(events.iter().filter_map(|event| audit_event(event)).collect())
    }

    async fn dead_letter(&self, id: &JobId) -> StoreResult<Option<DeadLetter>> {
        let Some(found) = self.find(id).await? else { return Ok(None) };
        Ok(self.read_dead_letters(found.partition, vec![found.seq]).await?.pop().flatten())
    }

    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> StoreResult<Page<DeadLetter>> {
        let filter = &filter;
        let scan_below = async |partition, below| {
            let (rows, next) = self.read_dead_letters_below(partition, below).await?;
            let is_wanted = |letter: Option<DeadLetter>| letter.is_some_and(|letter| filter.matches(&letter));
            let wanted = |row: DeadLetterRow| is_wanted(row.letter).then_some((row.order, row.seq));
            Ok((rows.into_iter().map(wanted).collect(), next))
        };
        self.list_page(page, scan_below, |partition, seqs| self.read_dead_letters(partition, seqs)).await
    }

    async fn oldest_dead_letters(&self, limit: usize) -> StoreResult<Vec<DeadLetter>> {
        let limit_arg = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut oldest = Vec::new();
        for partition in self.partitions() {
            let mut call = self.call(&self.scripts.oldest_dead_letters, partition);
            let found: Vec<(u64, u64)> = self.run(call.arg(limit_arg)).await?;
            let in_order = |(order, seq)| (self.order_of(partition, order), partition, seq);
            oldest.extend(found.into_iter().map(in_order));
        }
        oldest.sort_unstable();
        oldest.truncate(limit);
        let mut letters = Vec::with_capacity(oldest.len());
        for (partition, run) in runs(&oldest) {
            letters.extend(self.read_dead_letters(partition, seqs(run)).await?.into_iter().flatten());
        }
        Ok(letters)
    }

    async fn dead_letter_groups(
        &self,
        by: GroupBy,
        filter: DeadLetterFilter,
    ) -> StoreResult<Vec<DeadLetterGroup>> {
        let mut groups = GroupCounts::default();
        for partition in self.partitions() {
            self.count_groups(partition, by, &filter, &mut groups).await?;
        }
        Ok(groups.largest_first())
    }

    async fn counts(&self, now: Timestamp) -> StoreResult<Counts> {
        let mut counts = Counts::default();
        for partition in self.partitions() {
            let mut call = self.call(&self.scripts.counts, partition);
            let mut answers: Vec<Value> = self.run(call.arg(now.as_millis())).await?;
            let lanes: Vec<(String, u64, u64)> = read(Value::Array(answers.split_off(answers.len().min(3))))?;
            let (leased, dead_letters, ended): (u64, u64, u64) = read(Value::Array(answers))?;
            counts.leased += leased;
            counts.dead_letters += dead_letters;
            counts.ended += ended;
            for (route, ready, delayed) in lanes {
                counts.ready += ready;
                counts.delayed += delayed;
                if ready + delayed > 0 {
                    *counts.waiting_by_route.entry(RouteName::trusted(route)).or_default() += ready + delayed;
                }
            }
        }
        Ok(counts)
    }

    async fn oldest_due(
        &self,
        left_out: &LeftOut,
        now: Timestamp,
    ) -> StoreResult<BTreeMap<RouteName, Timestamp>> {
        let mut oldest: BTreeMap<RouteName, Timestamp> = BTreeMap::new();
        for partition in self.partitions() {
            let mut call = self.call(&self.scripts.due, partition);
            call.arg(now.as_millis());
            for (route, company) in left_out {
                call.arg(route.as_ref().map_or("", RouteName::as_str)).arg(company.as_str());
            }
            for (route, at) in self.run::<Vec<(String, i64)>>(&call).await? {
                let (route, at) = (RouteName::trusted(route), Timestamp::from_millis(at));
                oldest.entry(route).and_modify(|known| *known = at.min(*known)).or_insert(at);
            }
        }
        Ok(oldest)
    }

    async fn tenants(&self, filter: TenantFilter, now: Timestamp) -> StoreResult<Vec<TenantView>> {
        let mut stats: BTreeMap<(RouteName, CompanyId), TenantView> = BTreeMap::new();
        for partition in self.partitions() {
            for tenant in self.tenant_stats(partition, &filter, now).await? {
                match stats.entry((tenant.route.clone(), tenant.company.clone())) {
                    Entry::Vacant(entry) => drop(entry.insert(tenant)),
                    Entry::Occupied(mut entry) => add_stats(entry.get_mut(), tenant),
                }
            }
        }
        Ok(stats.into_values().collect())
    }

    async fn report(&self) -> StoreResult<StoreReport> {
        let unanswered = self.unanswered().await?;
        let report = StoreReport {
            kind: "redis",
            durability: self.durability(),
            unanswered,
            ..StoreReport::default()
        };
        let Some(memory) = self.link.memory().latest() else { return Ok(report) };
        Ok(StoreReport {
            size_bytes: memory.used_bytes,
            used_bytes: memory.used_bytes,
            free_bytes: memory.max_bytes.map(|max| max.saturating_sub(memory.used_bytes)),
            max_bytes: memory.max_bytes,
            refusing: memory.refusal(),
            ..report
        })
    }
}
