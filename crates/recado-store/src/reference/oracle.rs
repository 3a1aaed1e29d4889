//! What the property test asks of the reference beside the contract's verbs.

use recado_core::{CompanyId, JobId, Timestamp};

use super::{Phase, ReferenceStore};
use crate::contract::{Claim, Claimed, Pick};

/// A job that a claim may take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    pub id: JobId,
    pub company: CompanyId,
    /// What it is picked by: due time, end of life or end of its lease.
    pub at: Timestamp,
}

impl ReferenceStore {
    /// Everything that this pick may take, first come first; of a route, in the order within each tenant.
    pub fn candidates(&self, pick: &Pick, now: Timestamp) -> Vec<Candidate> {
        let state = self.state.lock();
        let found: Vec<(usize, Timestamp)> = match pick {
            Pick::Ready(route) => {
                state.ready(route, now).into_iter().map(|at| (at, state.records[at].job.due_at)).collect()
            }
            Pick::Overdue => state.overdue().into_iter().filter(|(_, expires)| *expires <= now).collect(),
            Pick::Orphaned => state.held().into_iter().filter(|(_, expires)| *expires <= now).collect(),
        };
        let candidate = |(at, picked_by): (usize, Timestamp)| {
            let job = &state.records[at].job;
            Candidate { id: job.id.clone(), company: job.company.clone(), at: picked_by }
        };
        found.into_iter().map(candidate).collect()
    }

    /// Leases exactly these jobs, in this order, whatever the turns say.
    pub fn claim_exactly(&self, ids: &[JobId], claim: &Claim) -> Claimed {
        let mut state = self.state.lock();
        let mut claimed = Claimed::default();
        for id in ids {
            let Some(at) = state.records.iter().position(|record| record.job.id == *id) else { continue };
            let lease = state.lease(at, claim);
            claimed.leases.push(lease);
        }
        claimed.next_at = state.next_at(&claim.pick, claim.now);
        claimed
    }

    /// The process ended and another one began: leases held inside it have run out.
    pub fn restart(&self) {
        for record in &mut self.state.lock().records {
            if let Phase::Leased(held) = &mut record.phase
                && !held.outlives_process
            {
                held.expires_at = Timestamp::from_millis(0);
            }
        }
    }
}
