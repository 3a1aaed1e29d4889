//! Statistics of each tenant.

use recado_core::fairness::round_robin_priority;
use recado_core::{CompanyId, RouteName, Timestamp};
use recado_store::{StoreResult, TenantFilter, TenantView};

use crate::store::RedisStore;

/// Most calls of the script until every lane was read to its end.
const PASSES_MAX: usize = 100;

/// Route, company, queued, delayed, leased, last served, rounds, processed, jobs in a row.
type StatsRow = (String, String, u64, u64, u64, Option<i64>, u64, u64, u64);

impl RedisStore {
    /// Reads the statistics of a partition's tenants.
    pub(crate) async fn tenant_stats(
        &self,
        partition: u16,
        filter: &TenantFilter,
        now: Timestamp,
    ) -> StoreResult<Vec<TenantView>> {
        let mut call = self.call(&self.scripts.tenant_stats, partition);
        call.arg(now.as_millis());
        call.arg(filter.route.as_ref().map_or("", RouteName::as_str));
        call.arg(filter.company.as_ref().map_or("", CompanyId::as_str));
        let mut passes = 0;
        loop {
            let (more, found): (bool, Vec<StatsRow>) = self.run(&call).await?;
            passes += 1;
            if !more || passes == PASSES_MAX {
                return Ok(found.into_iter().map(tenant_view).collect());
            }
        }
    }
}

/// A tenant has jobs in several partitions when what followed a job of another one stayed there.
pub(crate) fn add_stats(sum: &mut TenantView, other: TenantView) {
    sum.queued += other.queued;
    sum.delayed += other.delayed;
    sum.leased += other.leased;
    sum.last_processed_at = sum.last_processed_at.max(other.last_processed_at);
    sum.rounds_without_processing = sum.rounds_without_processing.max(other.rounds_without_processing);
    sum.current_priority = sum.current_priority.min(other.current_priority);
    sum.total_processed += other.total_processed;
    sum.consecutive_batch_count = sum.consecutive_batch_count.max(other.consecutive_batch_count);
}

fn tenant_view(
    (route, company, queued, delayed, leased, last, rounds, processed, in_a_row): StatsRow,
) -> TenantView {
    TenantView {
        company: CompanyId::trusted(company),
        route: RouteName::trusted(route),
        queued,
        delayed,
        leased,
        last_processed_at: last.map(Timestamp::from_millis),
        rounds_without_processing: rounds,
        current_priority: round_robin_priority(rounds),
        total_processed: processed,
        consecutive_batch_count: u32::try_from(in_a_row).unwrap_or(u32::MAX),
    }
}
