//! Fairness between companies, in numbers: the jobs of a turn, and the priority that is displayed for a
//! waiting tenant. The ring of the lane decides whose turn it is (`recado_store::turns`).

/// Consecutive jobs that one tenant gets before the next one's turn, times its weight.
pub const TURN_JOBS: u32 = 3;

/// Priority of a tenant that was just served; 1 is the most urgent.
pub const PRIORITY_BASE: u32 = 5;
pub const PRIORITY_STEP: u32 = 1;
pub const PRIORITY_BEST: u32 = 1;

/// A tenant's priority, for display, after it has waited this many rounds: it rises by one a round, and never above the best.
pub fn round_robin_priority(rounds_without_processing: u64) -> u32 {
    let risen = u32::try_from(rounds_without_processing).unwrap_or(u32::MAX).saturating_mul(PRIORITY_STEP);
    PRIORITY_BASE.saturating_sub(risen).max(PRIORITY_BEST)
}
