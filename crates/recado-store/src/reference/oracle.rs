//! Questions of the property test to the reference, beside the contract's verbs.

use recado_core::{CompanyId, JobId, Timestamp};

use super::{ReferenceStore, StoredJob};
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
        let candidate = |(at, seq): (Timestamp, u64)| {
            let job = &state.records[&seq].job;
            Candidate { id: job.id.clone(), company: job.company.clone(), at }
        };
        state.index.due(pick, now).map(candidate).collect()
    }

    /// Leases exactly these jobs, in this order: where several come first, the store may choose.
    pub fn claim_exactly(&self, ids: &[JobId], claim: &Claim) -> Claimed {
        let mut state = self.state.lock();
        let mut claimed = Claimed::default();
        for id in ids {
            let Some(seq) = state.index.find(id) else { continue };
            claimed.leases.extend(state.lease(seq, claim));
        }
        claimed.next_at = state.index.next_at(&claim.pick, claim.now);
        claimed
    }

    /// The process ended and another one began: leases held inside it have run out, and the order of turns is
    /// forgotten.
    pub fn restart(&self) {
        let mut state = self.state.lock();
        state.lanes.clear();
        let waits_or_loses_its_lease = |record: &&StoredJob| {
            record.waits() || record.lease.as_ref().is_some_and(|held| !held.outlives_process)
        };
        let touched = state.records.values().filter(waits_or_loses_its_lease);
        for seq in touched.map(|record| record.seq).collect::<Vec<_>>() {
            state.change(seq, |record| {
                record.lease.iter_mut().for_each(|held| held.expires_at = Timestamp::from_millis(0));
            });
        }
    }
}
