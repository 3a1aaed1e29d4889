//! Enqueues jobs.

use std::collections::BTreeMap;

use recado_core::{NewJob, Progress, Status};
use recado_store::{Enqueued, StoreError};

use crate::codec::answer::{Answer, unexpected};
use crate::codec::keys::IdKey;
use crate::codec::record::{HeldState, Record};
use crate::link::Arg;
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

    async fn run_batch(store: &RedisStore, jobs: &[Self]) -> Result<Vec<Enqueued>, StoreError> {
        store.enqueue_jobs(jobs).await
    }
}

impl RedisStore {
    async fn enqueue_jobs(&self, jobs: &[Intake]) -> Result<Vec<Enqueued>, StoreError> {
        let mut by_partition: BTreeMap<u16, Vec<(usize, &Intake)>> = BTreeMap::new();
        for (at, job) in jobs.iter().enumerate() {
            by_partition.entry(job.partition(self)).or_default().push((at, job));
        }
        let mut answers = vec![Enqueued::Conflict; jobs.len()];
        for (partition, own) in by_partition {
            let mut rest = own.as_slice();
            while !rest.is_empty() {
                let (call, after) = rest.split_at(one_call(rest));
                self.enqueue_call(partition, call, &mut answers).await?;
                rest = after;
            }
        }
        let accepted =
            jobs.iter().zip(&answers).filter(|(_, answer)| matches!(answer, Enqueued::Accepted { .. }));
        self.wakeups.announce(&self.link, accepted.map(|(job, _)| &job.new.route));
        Ok(answers)
    }

    async fn enqueue_call(
        &self,
        partition: u16,
        jobs: &[(usize, &Intake)],
        answers: &mut [Enqueued],
    ) -> Result<(), StoreError> {
        let taken = if self.has_one_partition() {
            BTreeMap::new()
        } else {
            self.reserve(partition, jobs.iter().map(|(_, job)| &job.new.id)).await?
        };
        let (away, here): (Vec<_>, Vec<_>) =
            jobs.iter().partition(|(_, job)| taken.contains_key(&job.new.id));
        let mut args = Vec::with_capacity(here.len() * 6);
        for (_, Intake { new, nth }) in &here {
            args.push(Arg::Int(self.floor(new.enqueued_at, *nth)));
            push_new_job(new, &mut args)?;
        }
        let found = match here.is_empty() {
            true => Vec::new(),
            false => self.run(&self.scripts.enqueue, partition, &args).await?.list()?,
        };
        if found.len() != here.len() {
            return Err(unexpected());
        }
        for ((at, Intake { new, .. }), answer) in here.into_iter().zip(found) {
            answers[at] = match answer.0 {
                redis::Value::BulkString(_) => self.answer_for_taken_id(new).await?,
                _ => enqueued(new, answer)?,
            };
        }
        for (at, Intake { new, .. }) in away {
            answers[at] = self.answer_for_taken_id(new).await?;
        }
        Ok(())
    }

    /// The id is taken by a job of another partition, or reserved for one.
    async fn answer_for_taken_id(&self, new: &NewJob) -> Result<Enqueued, StoreError> {
        match self.find(&new.id).await? {
            Some(found) => answer_for_known(new, &found.head, HeldState::of(found.held.is_some())),
            None => Ok(Enqueued::Conflict),
        }
    }
}

/// Counts the jobs that fit into one call.
fn one_call(jobs: &[(usize, &Intake)]) -> usize {
    let mut bytes = 0;
    let fits = |(_, job): &&(usize, &Intake)| {
        bytes += job.bytes();
        bytes <= CALL_BYTES_MAX
    };
    jobs.iter().take(CALL_JOBS_MAX).take_while(fits).count().max(1)
}

/// Pushes the arguments of one new job, as `enqueue.lua` reads them.
pub fn push_new_job<'a>(new: &'a NewJob, args: &mut Vec<Arg<'a>>) -> Result<(), StoreError> {
    let key = IdKey::of(&new.id);
    let data = new.data.as_str();
    let lies_packed = new.due_at <= new.enqueued_at && data.len() <= PACKED_BYTES_MAX;
    args.push(Arg::Int(i64::from(key.bucket)));
    args.push(Arg::from(Vec::from(key.bytes)));
    args.push(Arg::from(Record::new(new).encode()?));
    args.push(Arg::from(data));
    args.push(Arg::Int(i64::from(lies_packed)));
    Ok(())
}

fn enqueued(new: &NewJob, answer: Answer) -> Result<Enqueued, StoreError> {
    if let redis::Value::Int(1) = answer.0 {
        let status = Status::waiting(&Progress::default(), new.due_at, new.enqueued_at);
        return Ok(Enqueued::Accepted { status });
    }
    let [head, is_held] = answer.parts()?;
    answer_for_known(new, &head.bytes()?, HeldState::of(is_held.yes()?))
}

/// The answer when a job with this head has the id.
fn answer_for_known(new: &NewJob, head: &[u8], held: HeldState) -> Result<Enqueued, StoreError> {
    let known = Record::decode(head)?;
    if known.body_hash != new.body_hash {
        return Ok(Enqueued::Conflict);
    }
    Ok(Enqueued::Duplicate { status: known.status(held, new.enqueued_at) })
}
