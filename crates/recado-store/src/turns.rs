//! Turns: the shares of a route's tenants in each claim.
//!
//! Tenants with a ready job stand in a ring. The tenant served longest ago is first; one that gets its first
//! ready job joins at the back. A turn is a run of jobs of one tenant, and a tenant whose turn is over goes
//! to the back when the next job is claimed. So a tenant that arrives waits for one turn of each other one at
//! most. A tenant that is held back is passed over and keeps its place, and the rest of its turn.
//!
//! Weights and quotas come with each claim: a store keeps neither, and applies them.

use std::collections::HashMap;
use std::sync::Arc;

use recado_core::CompanyId;
use recado_core::fairness::TURN_JOBS;

/// One in this many of a tenant's jobs on a route is the one due longest, whatever its priority, so that
/// urgent jobs never starve the others.
pub const OLDEST_EVERY_JOBS: u64 = 10;

/// The rules of turns for one claim. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// Consecutive jobs of one tenant before the next one's turn (0 means [`TURN_JOBS`]).
    pub batch: u32,
    /// A tenant's turn is `batch` times its weight; 1 for a tenant that is not here, and never less.
    pub weights: Arc<HashMap<CompanyId, u32>>,
    /// Jobs at most of a tenant in this claim; 0 holds it back. A tenant that is not here is not bounded.
    pub quota: Arc<HashMap<CompanyId, u32>>,
}

impl Turns {
    /// Jobs of this tenant in one turn.
    pub fn jobs_of(&self, company: &CompanyId) -> u32 {
        let batch = if self.batch == 0 { TURN_JOBS } else { self.batch };
        batch.saturating_mul(self.weights.get(company).map_or(1, |weight| (*weight).max(1)))
    }

    /// Jobs of this tenant in one claim.
    pub fn quota_of(&self, company: &CompanyId) -> u32 {
        self.quota.get(company).copied().unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g10_a_turn_is_the_batch_times_the_weight_and_never_empty() {
        let company = |name| CompanyId::new(name).unwrap();
        let weights =
            HashMap::from([(company("gold"), 3), (company("none"), 0), (company("vast"), u32::MAX)]);
        let turns = Turns { weights: Arc::new(weights), ..Turns::default() };
        assert_eq!(turns.jobs_of(&company("anyone")), TURN_JOBS, "without a batch, the default");
        assert_eq!(turns.jobs_of(&company("gold")), 3 * TURN_JOBS);
        assert_eq!(turns.jobs_of(&company("none")), TURN_JOBS, "a turn of nothing would hold back for ever");
        assert_eq!(turns.jobs_of(&company("vast")), u32::MAX);
        let turns = Turns { batch: 2, ..turns };
        assert_eq!((turns.jobs_of(&company("anyone")), turns.jobs_of(&company("gold"))), (2, 6));
    }
}
