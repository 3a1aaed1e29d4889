//! Questions of the property test to the reference, beside the contract's verbs.

use recado_core::{CompanyId, JobId, Timestamp};

use super::ReferenceStore;
use crate::{Claim, Claimed, Pick};

/// A job that a claim may take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    pub id: JobId,
    pub company: CompanyId,
    /// The time it is picked by: its due time, its end of life or the end of its lease.
    pub at: Timestamp,
}

impl ReferenceStore {
    /// Everything that this pick may take, first come first, whichever tenant's turn it is.
    pub fn candidates(&self, pick: &Pick, now: Timestamp) -> Vec<Candidate> {
        let state = self.state.lock();
        let due = state.list_by_time(pick).into_iter().filter(|(_, at)| *at <= now);
        let candidate = |(at, picked_by): (usize, Timestamp)| {
            let job = &state.records[at].job;
            Candidate { id: job.id.clone(), company: job.company.clone(), at: picked_by }
        };
        due.map(candidate).collect()
    }

    /// Leases exactly these jobs, in this order: where several come first, the store may choose.
    pub fn claim_exactly(&self, ids: &[JobId], claim: &Claim) -> Claimed {
        let mut state = self.state.lock();
        let mut claimed = Claimed::default();
        for id in ids {
            let Some(at) = state.position(id) else { continue };
            claimed.leases.extend(state.lease(at, claim));
        }
        claimed.next_at = state.next_at(&claim.pick, claim.now);
        claimed
    }

    /// The process ended and another one began: leases held inside it have run out, and the order of turns is
    /// forgotten.
    pub fn restart(&self) {
        let mut state = self.state.lock();
        state.lanes.clear();
        let held = state.records.iter_mut().filter_map(|record| record.lease.as_mut());
        held.filter(|held| !held.outlives_process)
            .for_each(|held| held.expires_at = Timestamp::from_millis(0));
    }
}
