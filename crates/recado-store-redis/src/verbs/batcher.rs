//! Batches calls: those that arrive while others run share the next script.
//!
//! A script costs a round trip, its start and the lanes that it reads and writes back, whether it does one thing or
//! two hundred. Deliveries end one by one and callers ask one by one, so one script carries out all that queued up
//! while the last scripts ran. No call waits for company: when nothing runs, it goes at once.
//!
//! A batch holds only calls that need the same partitions, so a shard that does not answer delays no call that the
//! others can serve. A call for several partitions waits in the queue of each; its items for one of them stay together,
//! in order.
//!
//! - Every call has its own answer. An error is the answer to the whole batch; the verbs are safe to repeat.
//! - A call ends within the link's timeout, its time in the queue included. A call that is given up while it is queued
//!   is not carried out.
//! - A batch does not depend on any one caller: a task of its own runs it.
//!
//! Calls that fill a script by themselves bypass the queue.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::future::Future;

use futures_util::future::join_all;
use parking_lot::Mutex;
use recado_store::{StoreError, StoreResult};
use tokio::sync::oneshot;

use crate::link::unexpected;
use crate::store::RedisStore;
use crate::verbs::partitions::by_partition;

/// Scripts of one verb in flight at once: while the server runs one, the answer of the last is read and the next is
/// written.
const IN_FLIGHT_MAX: usize = 2;

/// One item of a call: a job to enqueue, a lease to settle.
pub trait BatchItem: Sized + Debug + Send + Sync + 'static {
    type Answer: Debug + Send + 'static;

    /// Most items, and most bytes, of one batch.
    const COUNT_MAX: usize;
    const BYTES_MAX: usize;

    fn bytes(&self) -> usize;

    /// The partition that the item is for.
    fn partition(&self, store: &RedisStore) -> u16;

    /// The home partitions of the ids that the item brings.
    fn homes<'a>(&'a self, store: &'a RedisStore) -> impl Iterator<Item = u16> + 'a;

    fn batcher(store: &RedisStore) -> &Batcher<Self>;

    /// Runs the items, all for one partition, as one batch. Returns an answer to each, in order.
    fn run_batch(
        store: &RedisStore,
        partition: u16,
        items: &[Self],
    ) -> impl Future<Output = StoreResult<Vec<Self::Answer>>> + Send;
}

/// The partitions that all calls of a batch need: the one that they are for, and the home of the ids that they bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BatchKey {
    partition: u16,
    home: u16,
}

impl BatchKey {
    /// Returns nothing when the items need more than two partitions: such a call bypasses the queue.
    fn of<T: BatchItem>(store: &RedisStore, partition: u16, items: &[T]) -> Option<Self> {
        let mut homes = items.iter().flat_map(|item| item.homes(store));
        let home = homes.next().unwrap_or(partition);
        homes.all(|other| other == home).then_some(BatchKey { partition, home })
    }
}

/// The queues of calls, by the partitions that they need.
#[derive(Debug)]
pub struct Batcher<T: BatchItem>(Mutex<HashMap<BatchKey, CallQueue<T>>>);

#[derive(Debug)]
struct CallQueue<T: BatchItem> {
    calls: VecDeque<QueuedCall<T>>,
    in_flight: usize,
}

type ReplySender<A> = oneshot::Sender<StoreResult<Vec<A>>>;

#[derive(Debug)]
struct QueuedCall<T: BatchItem> {
    items: Vec<T>,
    bytes: usize,
    reply: ReplySender<T::Answer>,
}

impl<T: BatchItem> Default for Batcher<T> {
    fn default() -> Self {
        Batcher(Mutex::new(HashMap::new()))
    }
}

impl<T: BatchItem> Batcher<T> {
    /// Queues a call. Returns true when the caller has to start a task that runs batches of this queue.
    fn enqueue(&self, key: BatchKey, call: QueuedCall<T>) -> bool {
        let mut queues = self.0.lock();
        let queue = queues.entry(key).or_insert(CallQueue { calls: VecDeque::new(), in_flight: 0 });
        queue.calls.push_back(call);
        let is_free = queue.in_flight < IN_FLIGHT_MAX;
        queue.in_flight += usize::from(is_free);
        is_free
    }

    /// Takes the calls of the next batch. With none left, the task that asked counts as ended.
    fn next_batch(&self, key: BatchKey) -> Vec<QueuedCall<T>> {
        let mut queues = self.0.lock();
        let Some(queue) = queues.get_mut(&key) else { return Vec::new() };
        let (mut batch, mut count, mut bytes) = (Vec::new(), 0, 0);
        while let Some(call) = queue.calls.pop_front() {
            if call.reply.is_closed() {
                continue;
            }
            count += call.items.len();
            bytes += call.bytes;
            if !batch.is_empty() && (count > T::COUNT_MAX || bytes > T::BYTES_MAX) {
                queue.calls.push_front(call);
                break;
            }
            batch.push(call);
        }
        if batch.is_empty() {
            queue.in_flight -= 1;
            if queue.in_flight == 0 {
                queues.remove(&key);
            }
        }
        batch
    }
}

/// Runs the items of a call, batched with those of other calls.
pub async fn submit<T: BatchItem>(store: &RedisStore, items: Vec<T>) -> StoreResult<Vec<T::Answer>> {
    let count = items.len();
    let placed = items.into_iter().enumerate().map(|(at, item)| (item.partition(store), (at, item)));
    let submitted = by_partition(placed).into_iter().map(|(partition, own)| async move {
        let (order, own): (Vec<usize>, Vec<T>) = own.into_iter().unzip();
        let answers = submit_to(store, partition, own).await?;
        Ok::<_, StoreError>(order.into_iter().zip(answers).collect::<Vec<_>>())
    });
    let mut answers: Vec<(usize, T::Answer)> = Vec::with_capacity(count);
    for of_partition in join_all(submitted).await {
        answers.extend(of_partition?);
    }
    answers.sort_by_key(|(at, _)| *at);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

async fn submit_to<T: BatchItem>(
    store: &RedisStore,
    partition: u16,
    items: Vec<T>,
) -> StoreResult<Vec<T::Answer>> {
    let bytes = items.iter().map(T::bytes).sum();
    let is_large = items.len() >= T::COUNT_MAX || bytes >= T::BYTES_MAX;
    let Some(key) = BatchKey::of(store, partition, &items).filter(|_| !is_large) else {
        return T::run_batch(store, partition, &items).await;
    };
    let (reply, answered) = oneshot::channel();
    if T::batcher(store).enqueue(key, QueuedCall { items, bytes, reply }) {
        tokio::spawn(run_batches::<T>(store.clone(), key));
    }
    let limit = store.link.timeout();
    match tokio::time::timeout(limit, answered).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(StoreError::Unavailable("the call was given up; ask again".to_owned())),
        Err(_) => {
            Err(StoreError::Unavailable(format!("no answer from Redis within {} ms", limit.as_millis())))
        }
    }
}

/// Runs one batch after the other until the queue is empty.
async fn run_batches<T: BatchItem>(store: RedisStore, key: BatchKey) {
    loop {
        let calls = T::batcher(&store).next_batch(key);
        if calls.is_empty() {
            return;
        }
        let (mut batch, mut callers) = (Vec::new(), Vec::with_capacity(calls.len()));
        for QueuedCall { items, reply, .. } in calls {
            callers.push((items.len(), reply));
            batch.extend(items);
        }
        match T::run_batch(&store, key.partition, &batch).await {
            Ok(answers) => reply_to_all(answers, callers),
            Err(error) => callers.into_iter().for_each(|(_, reply)| drop(reply.send(Err(error.clone())))),
        }
    }
}

/// Gives every caller its answers; a caller that has gone is passed over.
fn reply_to_all<A>(answers: Vec<A>, callers: Vec<(usize, ReplySender<A>)>) {
    let mut answers = answers.into_iter();
    for (count, reply) in callers {
        let own: Vec<A> = answers.by_ref().take(count).collect();
        let own = if own.len() == count { Ok(own) } else { Err(unexpected()) };
        drop(reply.send(own));
    }
}
