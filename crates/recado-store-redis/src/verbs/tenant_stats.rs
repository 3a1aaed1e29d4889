//! Counts of jobs by state and route, and statistics of each tenant.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use recado_core::fairness::round_robin_priority;
use recado_core::{CompanyId, RouteName, Timestamp};
use recado_store::{Counts, LeftOut, StoreError, TenantFilter, TenantView};

use crate::codec::answer::{Answer, unexpected};
use crate::link::Arg;
use crate::store::RedisStore;

/// Most calls of the script until every lane was read to its end.
const PASSES_MAX: usize = 100;

impl RedisStore {
    pub(crate) async fn count_jobs(&self, now: Timestamp) -> Result<Counts, StoreError> {
        let mut counts = Counts::default();
        for partition in self.partitions() {
            let answers =
                self.run(&self.scripts.counts, partition, &[Arg::Int(now.as_millis())]).await?.list()?;
            let mut answers = answers.into_iter();
            let mut next = || answers.next().ok_or_else(unexpected);
            counts.leased += next()?.count()?;
            counts.dead_letters += next()?.count()?;
            counts.ended += next()?.count()?;
            while let (Some(route), Some(ready), Some(delayed)) =
                (answers.next(), answers.next(), answers.next())
            {
                let (ready, delayed) = (ready.count()?, delayed.count()?);
                counts.ready += ready;
                counts.delayed += delayed;
                if ready + delayed > 0 {
                    let route = RouteName::trusted(route.text()?);
                    *counts.waiting_by_route.entry(route).or_default() += ready + delayed;
                }
            }
        }
        Ok(counts)
    }

    /// Finds the due time of the oldest due job of each route.
    pub(crate) async fn due_since(
        &self,
        left_out: &LeftOut,
        now: Timestamp,
    ) -> Result<BTreeMap<RouteName, Timestamp>, StoreError> {
        let mut args = vec![Arg::Int(now.as_millis())];
        for (route, company) in left_out {
            args.extend([
                Arg::from(route.as_ref().map_or("", RouteName::as_str)),
                Arg::from(company.as_str()),
            ]);
        }
        let mut since: BTreeMap<RouteName, Timestamp> = BTreeMap::new();
        for partition in self.partitions() {
            let answers = self.run(&self.scripts.due, partition, &args).await?.list()?;
            let mut answers = answers.into_iter();
            while let (Some(route), Some(at)) = (answers.next(), answers.next()) {
                let (route, at) = (RouteName::trusted(route.text()?), at.time()?);
                since.entry(route).and_modify(|known| *known = at.min(*known)).or_insert(at);
            }
        }
        Ok(since)
    }

    pub(crate) async fn tenant_stats(
        &self,
        filter: &TenantFilter,
        now: Timestamp,
    ) -> Result<Vec<TenantView>, StoreError> {
        let route = filter.route.as_ref().map_or("", RouteName::as_str);
        let company = filter.company.as_ref().map_or("", CompanyId::as_str);
        let args = [Arg::Int(now.as_millis()), Arg::from(route), Arg::from(company)];
        let mut stats: BTreeMap<(RouteName, CompanyId), TenantView> = BTreeMap::new();
        for partition in self.partitions() {
            for one in self.tenant_stats_in(partition, &args).await? {
                let tenant = tenant_view(one)?;
                match stats.entry((tenant.route.clone(), tenant.company.clone())) {
                    Entry::Vacant(entry) => drop(entry.insert(tenant)),
                    Entry::Occupied(mut entry) => add(entry.get_mut(), tenant),
                }
            }
        }
        Ok(stats.into_values().collect())
    }

    async fn tenant_stats_in(&self, partition: u16, args: &[Arg<'_>]) -> Result<Vec<Answer>, StoreError> {
        for _ in 1..PASSES_MAX {
            let [more, found] = self.run(&self.scripts.tenant_stats, partition, args).await?.parts()?;
            if !more.yes()? {
                return found.list();
            }
        }
        let [_, found] = self.run(&self.scripts.tenant_stats, partition, args).await?.parts()?;
        found.list()
    }
}

/// A tenant has jobs in several partitions when what followed a job of another one stayed there.
fn add(sum: &mut TenantView, other: TenantView) {
    sum.queued += other.queued;
    sum.delayed += other.delayed;
    sum.leased += other.leased;
    sum.last_processed_at = sum.last_processed_at.max(other.last_processed_at);
    sum.rounds_without_processing = sum.rounds_without_processing.max(other.rounds_without_processing);
    sum.current_priority = sum.current_priority.min(other.current_priority);
    sum.total_processed += other.total_processed;
    sum.consecutive_batch_count = sum.consecutive_batch_count.max(other.consecutive_batch_count);
}

fn tenant_view(answer: Answer) -> Result<TenantView, StoreError> {
    let [route, company, queued, delayed, leased, last, rounds, processed, in_a_row] = answer.parts()?;
    let rounds = rounds.count()?;
    Ok(TenantView {
        company: CompanyId::trusted(company.text()?),
        route: RouteName::trusted(route.text()?),
        queued: queued.count()?,
        delayed: delayed.count()?,
        leased: leased.count()?,
        last_processed_at: last.there().map(Answer::time).transpose()?,
        rounds_without_processing: rounds,
        current_priority: round_robin_priority(rounds),
        total_processed: processed.count()?,
        consecutive_batch_count: u32::try_from(in_a_row.count()?).unwrap_or(u32::MAX),
    })
}
