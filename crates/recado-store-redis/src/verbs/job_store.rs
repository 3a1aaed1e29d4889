//! The trait [`JobStore`]: writes jobs.

use async_trait::async_trait;
use recado_core::{AuditEvent, Job, JobId, Lease, LeaseToken, NewJob, RouteName, Status, Timestamp};
use recado_store::{
    Cancelled, Claim, Claimed, Discard, Discarded, Enqueued, Extended, JobStore, Pruned, Redrive, Redriven,
    Retention, Settled, Settlement, StoreResult, Waker,
};
use std::collections::BTreeMap;

use crate::codec::record::{Phase, Record, decode_or_report};
use crate::codec::token::Token;
use crate::store::RedisStore;
use crate::verbs::batcher;
use crate::verbs::enqueue::Intake;
use crate::verbs::operator::{ActionTerms, give_up};
use crate::verbs::partitions::by_partition;
use crate::verbs::prune::PRUNE_MAX;

/// Extensions at most in one call.
const CALL_TOKENS_MAX: usize = 1_000;

#[async_trait]
impl JobStore for RedisStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        let jobs = jobs.into_iter().enumerate().map(|(nth, new)| Intake { new, nth });
        batcher::submit(self, jobs.collect()).await
    }

    async fn claim(&self, claim: Claim) -> StoreResult<Claimed> {
        self.claim_jobs(claim).await
    }

    async fn extend(&self, tokens: Vec<LeaseToken>, until: Timestamp) -> StoreResult<Vec<Extended>> {
        let mut answers = vec![Extended::Stale; tokens.len()];
        let known = tokens.iter().enumerate().filter_map(|(at, token)| Some((at, self.read_token(*token)?)));
        for (partition, known) in by_partition(known.map(|(at, token)| (token.partition, (at, token)))) {
            for some in known.chunks(CALL_TOKENS_MAX) {
                let mut call = self.call(&self.scripts.extend, partition);
                call.arg(until.as_millis());
                for (_, token) in some {
                    call.arg(token);
                }
                let extended: Vec<bool> = self.run(&call).await?;
                for ((at, _), _) in some.iter().zip(extended).filter(|(_, is_done)| *is_done) {
                    answers[*at] = Extended::Until(until);
                }
            }
        }
        Ok(answers)
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        batcher::submit(self, settlements).await
    }

    async fn cancel(&self, id: &JobId, audit: AuditEvent) -> StoreResult<Cancelled> {
        let now = audit.timestamp;
        let decide = |mut record: Record, held| match record.status(held, now) {
            Status::Cancelled => Err(Cancelled::Already),
            status @ (Status::Delivering | Status::Sent | Status::Failed | Status::Discarded) => {
                Err(Cancelled::Refused(status))
            }
            // A replay that is called off leaves the dead letter where it was.
            _ if record.job.progress.replays > 0 => {
                record.phase = Phase::Dead;
                Ok(("recall", record))
            }
            Status::Scheduled | Status::Queued | Status::Retrying | Status::Parked => {
                record.end(Phase::Cancelled, now, None);
                Ok(("cancel", record))
            }
        };
        let terms = ActionTerms { audit: &audit, corrected: None, follow_ups: &[] };
        let done = self.act(id, terms, Cancelled::Unknown, decide).await?;
        Ok(done.err().unwrap_or(Cancelled::Done))
    }

    async fn redrive(&self, redrive: Redrive) -> StoreResult<Redriven> {
        let decide = |mut record: Record, _| {
            let job = &mut record.job;
            match record.phase {
                Phase::Dead => {}
                Phase::Live if job.progress.replays > 0 => return Err(Redriven::AlreadyReplaying),
                _ => return Err(Redriven::Unknown),
            }
            record.phase = Phase::Live;
            job.due_at = redrive.due_at;
            job.expires_at = redrive.expires_at;
            job.progress.attempts_spent = 0;
            job.progress.crashes = 0;
            job.progress.replays += 1;
            if let (Some(checksum), Some(data)) = (job.checksum, &redrive.data) {
                job.checksum = Some(checksum.with_data(data));
            }
            Ok(("redrive", record))
        };
        let Redrive { id, data, audit, follow_ups, .. } = &redrive;
        let terms = ActionTerms { audit, corrected: data.as_ref(), follow_ups };
        let done = self.act(id, terms, Redriven::Unknown, decide).await?;
        Ok(done.err().unwrap_or(Redriven::Done))
    }

    async fn discard(&self, discard: Discard) -> StoreResult<Discarded> {
        let Discard { id, replays, audit, follow_ups } = &discard;
        let decide = |record: Record, _| match record.phase {
            Phase::Dead if replays.is_some_and(|expected| record.job.progress.replays != expected) => {
                Err(Discarded::DiedAgain)
            }
            Phase::Dead => Ok(give_up(record, audit.timestamp)),
            Phase::Live if record.job.progress.replays > 0 => Err(Discarded::Replaying),
            _ => Err(Discarded::Unknown),
        };
        let terms = ActionTerms { audit, corrected: None, follow_ups };
        let done = self.act(id, terms, Discarded::Unknown, decide).await?;
        Ok(done.err().unwrap_or(Discarded::Done))
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> StoreResult<Pruned> {
        let mut pruned = Pruned::default();
        for partition in self.partitions() {
            self.expire_dead_letters(partition, now, &mut pruned).await?;
        }
        let cut = self.excess(retention.ended_max_count).await?;
        for (partition, kept_at_edge) in self.partitions().zip(cut.kept_at_edge) {
            let age = i64::try_from(retention.ended_max_age.as_millis()).unwrap_or(i64::MAX);
            let before = now.as_millis().saturating_sub(age).max(cut.before);
            self.forget_ended(partition, before, (cut.edge, kept_at_edge), &mut pruned).await?;
        }
        pruned.kv_entries = self.prune_kv(PRUNE_MAX, now).await?;
        pruned.more |= pruned.kv_entries == PRUNE_MAX.cast_unsigned();
        Ok(pruned)
    }

    fn waker(&self, route: &RouteName) -> Waker {
        self.wakeups.waker(route)
    }

    async fn leases(&self, tokens: &[LeaseToken]) -> StoreResult<Vec<Option<Lease>>> {
        let mut leases = vec![None; tokens.len()];
        let mut by_partition: BTreeMap<u16, Vec<(usize, Token)>> = BTreeMap::new();
        for (at, token) in tokens.iter().enumerate() {
            if let Some(read) = self.read_token(*token) {
                by_partition.entry(read.partition).or_default().push((at, read));
            }
        }
        for (partition, wanted) in by_partition {
            let seqs: Vec<_> = wanted.iter().map(|(_, token)| token.seq).collect();
            for ((at, token), found) in wanted.into_iter().zip(self.pick(partition, &seqs).await?) {
                let Some(found) = found else { continue };
                let Some(held) = found.held.filter(|held| held.fence == token.fence) else { continue };
                let Some(record) = decode_or_report(&found.head, partition, token.seq) else { continue };
                leases[at] = Some(Lease {
                    token: tokens[at],
                    attempt: record.job.progress.attempts_started + 1,
                    claimed_at: held.claimed_at,
                    expires_at: held.expires_at,
                    job: Job { data: found.data, ..record.job },
                    lost: None,
                });
            }
        }
        Ok(leases)
    }

    async fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}
