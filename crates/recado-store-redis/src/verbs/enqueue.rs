//! Enqueues jobs.

use recado_core::{NewJob, Progress, Status};
use recado_store::{Enqueued, StoreResult};
use redis::Value;

use crate::codec::keys::IdKey;
use crate::codec::record::{HeldState, Record, pack_entry};
use crate::link::{ScriptCall, read, unexpected};
use crate::store::RedisStore;
use crate::verbs::batcher::{BatchItem, Batcher};

/// Jobs, and bytes of data, at most in one call: no other client is served while a script runs.
const CALL_JOBS_MAX: usize = 500;
const CALL_BYTES_MAX: usize = 1 << 20;

/// Data up to this size lies packed with that of others; larger data gains nothing by it.
const PACKED_BYTES_MAX: usize = 1_024;

/// A job on its way in.
#[derive(Debug)]
pub struct Intake {
    pub new: NewJob,
    /// Its place in its call, by which jobs in several partitions are in order.
    pub nth: usize,
}

impl BatchItem for Intake {
    type Answer = Enqueued;
    const COUNT_MAX: usize = CALL_JOBS_MAX;
    const BYTES_MAX: usize = CALL_BYTES_MAX;

    fn bytes(&self) -> usize {
        self.new.data.as_str().len()
    }

    fn partition(&self, store: &RedisStore) -> u16 {
        store.partition_of(&self.new.company)
    }

    fn homes<'a>(&'a self, store: &'a RedisStore) -> impl Iterator<Item = u16> + 'a {
        std::iter::once(store.home_of(&IdKey::of(&self.new.id)))
    }

    fn batcher(store: &RedisStore) -> &Batcher<Self> {
        &store.enqueues
    }

    async fn run_batch(store: &RedisStore, partition: u16, jobs: &[Self]) -> StoreResult<Vec<Enqueued>> {
        let (mut answers, mut rest) = (Vec::with_capacity(jobs.len()), jobs);
        while !rest.is_empty() {
            let (call, after) = rest.split_at(one_call(rest));
            answers.extend(store.enqueue_call(partition, call).await?);
            rest = after;
        }
        let is_accepted = |(_, answer): &(_, &Enqueued)| matches!(answer, Enqueued::Accepted { .. });
        let accepted = jobs.iter().zip(&answers).filter(is_accepted);
        store.wakeups.announce(&store.link, accepted.map(|(job, _)| &job.new.route));
        Ok(answers)
    }
}

impl RedisStore {
    async fn enqueue_call(&self, partition: u16, jobs: &[Intake]) -> StoreResult<Vec<Enqueued>> {
        let away = self.reserve(partition, jobs.iter().map(|job| &job.new.id)).await?;
        let mut call = self.call(&self.scripts.enqueue, partition);
        let mut count = 0;
        for Intake { new, nth } in jobs.iter().filter(|job| !away.contains(&job.new.id)) {
            call.arg(self.floor(new.enqueued_at, *nth));
            push_new_job(new, &mut call)?;
            count += 1;
        }
        let here = if count > 0 { self.run::<Vec<Value>>(&call).await? } else { Vec::new() };
        if here.len() != count {
            return Err(unexpected());
        }
        let mut here = here.into_iter();
        let mut answers = Vec::with_capacity(jobs.len());
        for Intake { new, .. } in jobs {
            let found = if away.contains(&new.id) { None } else { here.next() };
            answers.push(match found {
                None | Some(Value::BulkString(_)) => self.answer_for_taken_id(new).await?,
                Some(Value::Int(1)) => {
                    let status = Status::waiting(&Progress::default(), new.due_at, new.enqueued_at);
                    Enqueued::Accepted { status }
                }
                Some(known) => {
                    let (head, is_held): (Vec<u8>, bool) = read(known)?;
                    answer_for_known(new, &head, HeldState::of(is_held))?
                }
            });
        }
        Ok(answers)
    }

    /// The id is taken by a job of another partition, or reserved for one.
    async fn answer_for_taken_id(&self, new: &NewJob) -> StoreResult<Enqueued> {
        match self.find(&new.id).await? {
            Some(found) => answer_for_known(new, &found.head, HeldState::of(found.held.is_some())),
            None => Ok(Enqueued::Conflict),
        }
    }
}

/// Counts the jobs that fit into one call.
fn one_call(jobs: &[Intake]) -> usize {
    let mut bytes = 0;
    let fits = |job: &&Intake| {
        bytes += job.bytes();
        bytes <= CALL_BYTES_MAX
    };
    jobs.iter().take(CALL_JOBS_MAX).take_while(fits).count().max(1)
}

/// Pushes the arguments of one new job, as `enqueue.lua` reads them.
pub fn push_new_job(new: &NewJob, call: &mut ScriptCall<'_>) -> StoreResult<()> {
    let (head, data) = (Record::new(new).encode()?, new.data.as_str());
    let is_small_and_due = new.due_at <= new.enqueued_at && data.len() <= PACKED_BYTES_MAX;
    let packed = if is_small_and_due { pack_entry(&head, data) } else { None };
    call.arg(IdKey::of(&new.id));
    match packed {
        Some(packed) => call.arg(packed).arg("").arg(true),
        None => call.arg(head).arg(data).arg(false),
    };
    Ok(())
}

/// The answer when a job with this head has the id.
fn answer_for_known(new: &NewJob, head: &[u8], held: HeldState) -> StoreResult<Enqueued> {
    let known = Record::decode(head)?;
    if known.body_hash != new.body_hash {
        return Ok(Enqueued::Conflict);
    }
    Ok(Enqueued::Duplicate { status: known.status(held, new.enqueued_at) })
}
