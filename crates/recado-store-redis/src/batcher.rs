//! Calls that come while others are on their way go together in the next one.
//!
//! A script costs a round trip, its start and the lanes that it reads and writes back, whether it does one thing or
//! two hundred. Deliveries end one by one and callers ask one by one, so what has queued up while the last scripts
//! ran is carried out by one. Nobody waits for company: when nothing is on its way, a call goes at once.
//!
//! Only what needs the same partitions goes together, so a shard that does not answer holds up nothing that the others
//! can do. A call for several partitions waits in the line of each; what it asks of one of them stays together, in order.
//!
//! - Every call has its own answer. An error is the answer to all that went together; the verbs are safe to repeat.
//! - A call ends within the link's timeout, its time in line included. Whoever gives up in line is not carried out.
//! - What goes together does not depend on any one caller staying: a task of its own carries it out.
//!
//! Calls that fill a script by themselves go by themselves.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::future::Future;

use futures_util::future::join_all;
use parking_lot::Mutex;
use recado_store::StoreError;
use tokio::sync::oneshot;

use crate::answer::unexpected;
use crate::store::RedisStore;

/// Scripts of one verb that are on their way at once: while the server runs one, the answer of the last is read
/// and the next is written.
const UNDER_WAY_MAX: usize = 2;

/// One of the things that a call may ask for several of.
pub trait Asked: Sized + Send + Sync + 'static {
    type Answer: Send + 'static;

    /// Things, and their bytes, that go together at most.
    const COUNT_MAX: usize;
    const BYTES_MAX: usize;

    fn bytes(&self) -> usize;

    /// The partition that it is for.
    fn partition(&self, store: &RedisStore) -> u16;

    /// The partitions that know the ids that come with it.
    fn homes<'a>(&'a self, store: &'a RedisStore) -> impl Iterator<Item = u16> + 'a;

    fn line(store: &RedisStore) -> &Line<Self>;

    /// An answer to each, in order.
    fn carry_out(
        store: &RedisStore,
        asked: &[Self],
    ) -> impl Future<Output = Result<Vec<Self::Answer>, StoreError>> + Send;
}

/// The partition that calls are for, and the one that knows the ids that come with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    partition: u16,
    home: u16,
}

impl Place {
    /// Absent when they need more than two partitions: they go by themselves.
    fn of<T: Asked>(store: &RedisStore, partition: u16, asked: &[T]) -> Option<Self> {
        let mut homes = asked.iter().flat_map(|one| one.homes(store));
        let home = homes.next().unwrap_or(partition);
        homes.all(|other| other == home).then_some(Place { partition, home })
    }
}

/// Calls that wait for their turn, by the place that they are for.
pub struct Line<T: Asked>(Mutex<HashMap<Place, Waiting<T>>>);

struct Waiting<T: Asked> {
    calls: VecDeque<Call<T>>,
    under_way: usize,
}

type Caller<A> = oneshot::Sender<Result<Vec<A>, StoreError>>;

struct Call<T: Asked> {
    asked: Vec<T>,
    bytes: usize,
    answer: Caller<T::Answer>,
}

impl<T: Asked> Default for Line<T> {
    fn default() -> Self {
        Line(Mutex::new(HashMap::new()))
    }
}

impl<T: Asked> fmt::Debug for Line<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls: usize = self.0.lock().values().map(|waiting| waiting.calls.len()).sum();
        f.debug_struct("Line").field("calls", &calls).finish_non_exhaustive()
    }
}

impl<T: Asked> Line<T> {
    /// Puts a call in line. Says whether somebody has to see to it.
    fn join(&self, place: Place, call: Call<T>) -> bool {
        let mut lines = self.0.lock();
        let waiting = lines.entry(place).or_insert(Waiting { calls: VecDeque::new(), under_way: 0 });
        waiting.calls.push_back(call);
        let is_free = waiting.under_way < UNDER_WAY_MAX;
        waiting.under_way += usize::from(is_free);
        is_free
    }

    /// The calls that go next, none when nobody waits: then whoever asks has nothing more to see to.
    fn next(&self, place: Place) -> Vec<Call<T>> {
        let mut lines = self.0.lock();
        let Some(waiting) = lines.get_mut(&place) else { return Vec::new() };
        let (mut next, mut count, mut bytes) = (Vec::new(), 0, 0);
        while let Some(call) = waiting.calls.pop_front() {
            if call.answer.is_closed() {
                continue;
            }
            count += call.asked.len();
            bytes += call.bytes;
            if !next.is_empty() && (count > T::COUNT_MAX || bytes > T::BYTES_MAX) {
                waiting.calls.push_front(call);
                break;
            }
            next.push(call);
        }
        if next.is_empty() {
            waiting.under_way -= 1;
            if waiting.under_way == 0 {
                lines.remove(&place);
            }
        }
        next
    }
}

/// Has it carried out, with what others ask for at the same time.
pub async fn ask<T: Asked>(store: &RedisStore, asked: Vec<T>) -> Result<Vec<T::Answer>, StoreError> {
    let mut by_partition: BTreeMap<u16, (Vec<usize>, Vec<T>)> = BTreeMap::new();
    let count = asked.len();
    for (at, one) in asked.into_iter().enumerate() {
        let (order, own) = by_partition.entry(one.partition(store)).or_default();
        order.push(at);
        own.push(one);
    }
    let parts = by_partition.into_iter().map(|(partition, (order, own))| async move {
        let answers = ask_at(store, Place::of(store, partition, &own), own).await?;
        Ok::<_, StoreError>(order.into_iter().zip(answers).collect::<Vec<_>>())
    });
    let mut answers: Vec<(usize, T::Answer)> = Vec::with_capacity(count);
    for part in join_all(parts).await {
        answers.extend(part?);
    }
    answers.sort_by_key(|(at, _)| *at);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

async fn ask_at<T: Asked>(
    store: &RedisStore,
    place: Option<Place>,
    asked: Vec<T>,
) -> Result<Vec<T::Answer>, StoreError> {
    let bytes = asked.iter().map(T::bytes).sum();
    let is_large = asked.len() >= T::COUNT_MAX || bytes >= T::BYTES_MAX;
    let Some(place) = place.filter(|_| !is_large) else { return T::carry_out(store, &asked).await };
    let (answer, answered) = oneshot::channel();
    if T::line(store).join(place, Call { asked, bytes, answer }) {
        tokio::spawn(see_to::<T>(store.clone(), place));
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

async fn see_to<T: Asked>(store: RedisStore, place: Place) {
    loop {
        let calls = T::line(&store).next(place);
        if calls.is_empty() {
            return;
        }
        let (mut all, mut callers) = (Vec::new(), Vec::with_capacity(calls.len()));
        for Call { asked, answer, .. } in calls {
            callers.push((asked.len(), answer));
            all.extend(asked);
        }
        match T::carry_out(&store, &all).await {
            Ok(answers) => share_out(answers, callers),
            Err(error) => callers.into_iter().for_each(|(_, caller)| drop(caller.send(Err(error.clone())))),
        }
    }
}

/// Gives every caller its answers. Whoever has gone is not missed.
fn share_out<A>(answers: Vec<A>, callers: Vec<(usize, Caller<A>)>) {
    let mut answers = answers.into_iter();
    for (count, caller) in callers {
        let own: Vec<A> = answers.by_ref().take(count).collect();
        let own = if own.len() == count { Ok(own) } else { Err(unexpected()) };
        drop(caller.send(own));
    }
}
