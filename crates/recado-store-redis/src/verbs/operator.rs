//! Operator actions on jobs that are not leased: cancel, redrive, discard.
//!
//! Each is decided here by the head that was read, and done by a script if the head is still that one. If it is not,
//! another caller was faster, and it is decided anew.

use recado_core::{AuditEvent, JobId, NewJob, Payload, Timestamp};
use recado_store::{StoreError, StoreResult};

use crate::codec::record::{HeldState, Phase, Record, json};
use crate::store::RedisStore;
use crate::verbs::enqueue::push_new_job;
use crate::verbs::inspect::Found;

/// Most tries while other callers are faster.
const TRIES_MAX: usize = 16;

/// A job as an action found it.
pub(crate) struct JobBefore {
    pub partition: u16,
    pub seq: u64,
    pub head: Vec<u8>,
}

/// Parts of an action beside the job's new head.
#[derive(Clone, Copy)]
pub(crate) struct ActionTerms<'a> {
    pub audit: &'a AuditEvent,
    pub corrected: Option<&'a Payload>,
    pub follow_ups: &'a [NewJob],
}

/// The change that was decided: its name in `operator.lua`, and the job's record from now on.
type JobChange = (&'static str, Record);

impl RedisStore {
    /// Applies a change. Returns false when the head is another one by now.
    pub(crate) async fn apply_action(
        &self,
        before: &JobBefore,
        (verb, after): JobChange,
        ActionTerms { audit, corrected, follow_ups }: ActionTerms<'_>,
    ) -> StoreResult<bool> {
        let now = audit.timestamp;
        let refused = self.reserve(before.partition, follow_ups.iter().map(|new| &new.id)).await?;
        let follow_ups = || follow_ups.iter().filter(|new| !refused.contains(&new.id));
        let mut call = self.call(&self.scripts.operator, before.partition);
        call.arg(self.floor(now, 0)).arg(before.seq).arg(&before.head).arg(verb).arg(after.encode()?);
        call.arg(now.as_millis()).arg(json(audit)?);
        call.arg(corrected.is_some()).arg(corrected.map_or("", Payload::as_str));
        follow_ups().try_for_each(|new| push_new_job(new, &mut call))?;
        let is_done = self.run(&call).await?;
        if is_done {
            let own = Some(&after.job.route).filter(|_| verb == "redrive");
            self.wakeups.announce(&self.link, own.into_iter().chain(follow_ups().map(|new| &new.route)));
        }
        Ok(is_done)
    }

    /// Decides by the job as it is found, and applies the change; decides anew while other callers are faster. Returns
    /// the answer without a change where that was decided.
    pub(crate) async fn act<A>(
        &self,
        id: &JobId,
        terms: ActionTerms<'_>,
        unknown: A,
        decide: impl Fn(Record, HeldState) -> Result<JobChange, A> + Send + Sync,
    ) -> StoreResult<Result<(), A>> {
        for _ in 0..TRIES_MAX {
            let Some(Found { partition, seq, head, held, .. }) = self.find(id).await? else {
                return Ok(Err(unknown));
            };
            let change = match decide(Record::decode(&head)?, HeldState::of(held.is_some())) {
                Ok(change) => change,
                Err(answer) => return Ok(Err(answer)),
            };
            if self.apply_action(&JobBefore { partition, seq, head }, change, terms).await? {
                return Ok(Ok(()));
            }
        }
        Err(StoreError::Unavailable(format!(
            "the job changed {TRIES_MAX} times while this was tried; ask again"
        )))
    }
}

/// Ends a dead letter as discarded.
pub(crate) fn give_up(mut record: Record, now: Timestamp) -> JobChange {
    record.end(Phase::Discarded, now, None);
    ("give-up", record)
}
