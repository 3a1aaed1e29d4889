//! Calls that come while others are on their way go together in the next one.
//!
//! A script costs a round trip, its start and the lanes that it reads and writes back, whether it does one thing or
//! two hundred. Deliveries end one by one and callers ask one by one, so what has queued up while the last scripts
//! ran is carried out by one. Nobody waits for company: when nothing is on its way, a call goes at once.
//!
//! - Every call has its own answer. An error is the answer to all that went together; the verbs are safe to repeat.
//! - A call ends within the link's timeout, its time in line included. Whoever gives up in line is not carried out.
//! - What goes together does not depend on any one caller staying: a task of its own carries it out.
//!
//! Calls that fill a script by themselves go by themselves.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;

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

    fn line(store: &RedisStore) -> &Line<Self>;

    /// An answer to each, in order.
    fn carry_out(
        store: &RedisStore,
        asked: &[Self],
    ) -> impl Future<Output = Result<Vec<Self::Answer>, StoreError>> + Send;
}

/// Calls that wait for their turn.
pub struct Line<T: Asked>(Mutex<Waiting<T>>);

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
        Line(Mutex::new(Waiting { calls: VecDeque::new(), under_way: 0 }))
    }
}

impl<T: Asked> fmt::Debug for Line<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("calls", &self.0.lock().calls.len()).finish_non_exhaustive()
    }
}

impl<T: Asked> Line<T> {
    /// Puts a call in line. Says whether somebody has to see to it.
    fn join(&self, call: Call<T>) -> bool {
        let mut waiting = self.0.lock();
        waiting.calls.push_back(call);
        let is_free = waiting.under_way < UNDER_WAY_MAX;
        waiting.under_way += usize::from(is_free);
        is_free
    }

    /// The calls that go next, none when nobody waits: then whoever asks has nothing more to see to.
    fn next(&self) -> Vec<Call<T>> {
        let mut waiting = self.0.lock();
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
        }
        next
    }
}

/// Has it carried out, with what others ask for at the same time.
pub async fn ask<T: Asked>(store: &RedisStore, asked: Vec<T>) -> Result<Vec<T::Answer>, StoreError> {
    let bytes = asked.iter().map(T::bytes).sum();
    if asked.len() >= T::COUNT_MAX || bytes >= T::BYTES_MAX {
        return T::carry_out(store, &asked).await;
    }
    let (answer, answered) = oneshot::channel();
    if T::line(store).join(Call { asked, bytes, answer }) {
        tokio::spawn(see_to::<T>(store.clone()));
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

async fn see_to<T: Asked>(store: RedisStore) {
    loop {
        let calls = T::line(&store).next();
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
