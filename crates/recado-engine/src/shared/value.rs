//! Small values that all nodes agree on: a provider's breaker, what is left of a rate, a pause.
//!
//! The truth is a note in the store. Each process has a copy, and changes it by *steps*: values that can be made
//! again on a fresh copy. A step is written only on top of the version that it was made on; when another node was
//! faster, its note is read and the step is made again on that. So there is no lock that a dead node could hold,
//! and no node undoes what another did.
//!
//! There are two ways to make one. A step that must not be granted twice waits until the store has it ([`make`]). A
//! delivery's report on its provider is made here at once and *owed* to the store ([`SharedValue::owe`]). A step that
//! changes nothing is not written, so a provider that is well costs no I/O.
//!
//! The store has the truth, even if it is older than the copy: a Redis that crashed or was restored from a
//! backup has lost what was written last, and nodes that held on to it would disagree for good. A copy gives way to
//! whatever a read finds, unless this process wrote the value after the read began.

use std::collections::VecDeque;
use std::fmt::Debug;

use parking_lot::Mutex;
use recado_core::{AuditEvent, Payload, Timestamp};
use recado_store::{KvEntry, KvWrite, KvWritten, Namespace, Store, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// Tries at a compare-and-set before giving up; each loss means that another writer won.
const WRITE_TRIES_MAX: usize = 32;

/// Steps at most that one value owes the store. What comes on top while nothing can be written is forgotten.
const OWED_MAX: usize = 1_000;

/// A value that changes by steps.
pub(crate) trait Replayable:
    Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    type Step: Debug + Send + Sync;
    /// The effect of a step.
    type Effect: Debug + Send;

    fn step(&mut self, step: &Self::Step) -> Self::Effect;

    /// From then on it is as if there had never been anything, and the store may forget it.
    fn over_at(&self) -> Option<Timestamp> {
        None
    }
}

/// The result for one value in [`make`].
#[derive(Debug)]
pub(crate) struct Saved<E> {
    /// Of the step that was asked for, if one was.
    pub asked: Option<E>,
    /// Of what was owed, and is written now.
    pub owed: Vec<E>,
}

/// The state of a step that is owed to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PendingWrite {
    /// It changed nothing.
    Nothing,
    /// A task that writes it is running already.
    Attended,
    /// No task is running: the caller has to start one.
    Unattended,
}

/// The result of learning what the store has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub(crate) struct SyncResult {
    /// One of them changed.
    pub news: bool,
    /// One of them was being written and did not listen: it has to be told again.
    pub busy: bool,
}

impl SyncResult {
    const BUSY: SyncResult = SyncResult { news: false, busy: true };
}

impl FromIterator<SyncResult> for SyncResult {
    fn from_iter<I: IntoIterator<Item = SyncResult>>(all: I) -> Self {
        all.into_iter().fold(SyncResult::default(), |one, other| SyncResult {
            news: one.news | other.news,
            busy: one.busy | other.busy,
        })
    }
}

#[derive(Debug)]
pub(crate) struct SharedValue<T: Replayable> {
    namespace: Namespace,
    key: Box<str>,
    copy: Mutex<LocalCopy<T>>,
    /// One writer in a process, so that its own tasks do not conflict with each other.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct LocalCopy<T: Replayable> {
    /// As the store has it.
    written: T,
    version: u64,
    owed: VecDeque<T::Step>,
    /// `written` with all owed steps made on it.
    current: T,
    /// A task that writes the owed steps is running.
    attended: bool,
    /// A write whose answer was lost: what it makes, and how much of what is owed is in it.
    doubtful: Option<(T, usize)>,
    /// Time at which this process last wrote the value or read it alone; a read that began earlier may be out of date.
    known_at: Option<Instant>,
}

/// A value about to be written.
struct Draft<T: Replayable> {
    after: T,
    made: Saved<T::Effect>,
}

impl<T: Replayable> SharedValue<T> {
    pub fn new(namespace: Namespace, key: impl Into<Box<str>>) -> Self {
        let copy = LocalCopy {
            written: T::default(),
            version: 0,
            owed: VecDeque::new(),
            current: T::default(),
            attended: false,
            doubtful: None,
            known_at: None,
        };
        SharedValue {
            namespace,
            key: key.into(),
            copy: Mutex::new(copy),
            writing: tokio::sync::Mutex::default(),
        }
    }

    /// Looks at it, as this process knows it.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.copy.lock().current)
    }

    /// Makes a step here and owes it to the store.
    pub fn owe(&self, step: T::Step) -> PendingWrite {
        let mut copy = self.copy.lock();
        let mut after = copy.current.clone();
        after.step(&step);
        if after == copy.current || copy.owed.len() >= OWED_MAX {
            return PendingWrite::Nothing;
        }
        copy.current = after;
        copy.owed.push_back(step);
        match std::mem::replace(&mut copy.attended, true) {
            true => PendingWrite::Attended,
            false => PendingWrite::Unattended,
        }
    }

    pub fn owes(&self) -> bool {
        !self.copy.lock().owed.is_empty()
    }

    /// Returns true when all owed steps are written and the task that wrote them may end.
    pub fn is_even(&self) -> bool {
        let mut copy = self.copy.lock();
        copy.attended &= !copy.owed.is_empty();
        !copy.attended
    }

    /// Takes in what a read that began at `read_at` found; `None` if the store has no such note. Nothing is taken in
    /// while this value is being written, or if it was written since.
    pub fn learn(&self, note: Option<&KvEntry>, read_at: Instant) -> SyncResult {
        let Ok(_writing) = self.writing.try_lock() else { return SyncResult::BUSY };
        let mut copy = self.copy.lock();
        if copy.known_at.is_some_and(|at| at >= read_at) {
            return SyncResult::BUSY;
        }
        let (before, version) = (copy.current.clone(), copy.version);
        copy.replace(note);
        let news = copy.current != before;
        // What has an end goes by itself; the rest is never removed.
        if news && copy.version < version && copy.written.over_at().is_none() {
            tracing::warn!(
                kind = self.namespace.as_str(),
                name = &*self.key,
                "The store has lost what was last said about this; what it has now holds on all nodes"
            );
        }
        SyncResult { news, busy: false }
    }

    /// The key of its note.
    pub fn key(&self) -> &str {
        &self.key
    }

    fn place(&self) -> (Namespace, &str) {
        (self.namespace, &self.key)
    }

    /// Makes the owed steps and the one asked for on the store's value; `None` when that changes nothing.
    fn draft(&self, asked: Option<&T::Step>) -> (Draft<T>, Option<(u64, Option<Timestamp>)>) {
        let copy = self.copy.lock();
        let mut after = copy.written.clone();
        let owed = copy.owed.iter().map(|step| after.step(step)).collect();
        let made = Saved { asked: asked.map(|step| after.step(step)), owed };
        let write = (after != copy.written).then(|| (copy.version, after.over_at()));
        (Draft { after, made }, write)
    }

    /// The draft is what the store has. Without a version, it had it all along.
    fn settle(&self, draft: Draft<T>, version: Option<u64>) -> Saved<T::Effect> {
        let mut copy = self.copy.lock();
        if let Some(version) = version {
            (copy.version, copy.known_at) = (version, Some(Instant::now()));
        }
        copy.written = draft.after;
        copy.pay(draft.made.owed.len());
        draft.made
    }

    fn doubt(&self, draft: Draft<T>) {
        self.copy.lock().doubtful = Some((draft.after, draft.made.owed.len()));
    }

    /// Reads the store's value, to go on from that.
    async fn read_again(&self, store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        let note = store.kv_get(self.namespace, &self.key, now).await?;
        let mut copy = self.copy.lock();
        copy.replace(note.as_ref());
        copy.known_at = Some(Instant::now());
        Ok(())
    }
}

impl<T: Replayable> LocalCopy<T> {
    fn replace(&mut self, note: Option<&KvEntry>) {
        let version = note.map_or(0, |note| note.version);
        if version == self.version {
            // A write without an answer may still be on its way.
            return;
        }
        self.version = version;
        self.written = note.and_then(|note| note.value.parse().ok()).unwrap_or_default();
        // If this is what the write without an answer would have made, it was that write.
        let paid = self.doubtful.take().filter(|(after, _)| *after == self.written);
        self.pay(paid.map_or(0, |(_, owed)| owed));
    }

    fn pay(&mut self, owed: usize) {
        self.doubtful = None;
        self.owed.drain(..owed);
        self.current = self.written.clone();
        self.owed.iter().for_each(|step| drop(self.current.step(step)));
    }
}

/// Writes all steps that each of these owes, and the step that is asked for on top, in one request; each
/// value may stand here once. Returns when the store has them, in the order given. After an error it is
/// unknown which of them the store has.
pub(crate) async fn make<T: Replayable>(
    store: &dyn Store,
    asked: &[(&SharedValue<T>, Option<T::Step>)],
    now: Timestamp,
) -> Result<Vec<Saved<T::Effect>>, StoreError> {
    make_on_record(store, asked, &|_| Vec::new(), now).await
}

/// Does the same, and puts on the audit trail what `record` makes of each new value, in the same atomic step. A step that
/// changes nothing is recorded, too.
pub(crate) async fn make_on_record<T: Replayable>(
    store: &dyn Store,
    asked: &[(&SharedValue<T>, Option<T::Step>)],
    record: &(dyn Fn(&T) -> Vec<AuditEvent> + Sync),
    now: Timestamp,
) -> Result<Vec<Saved<T::Effect>>, StoreError> {
    // All tasks lock in the same order, so that no two wait for each other.
    let mut in_order: Vec<_> = asked.iter().map(|(agreed, _)| agreed).collect();
    in_order.sort_by_key(|agreed| agreed.place());
    let mut locked = Vec::with_capacity(in_order.len());
    for agreed in in_order {
        locked.push(agreed.writing.lock().await);
    }
    let mut made: Vec<Option<Saved<T::Effect>>> = asked.iter().map(|_| None).collect();
    for tries in 0..WRITE_TRIES_MAX {
        let (mut writes, mut drafts) = (Vec::new(), Vec::new());
        let open = asked.iter().zip(&mut made).enumerate().filter(|(_, (_, made))| made.is_none());
        for (at, ((agreed, step), made)) in open {
            let mut drafted = agreed.draft(step.as_ref());
            if tries == 0 && drafted.1.is_none() && step.is_some() && store.is_shared() {
                // The copy may be out of date: only the store knows that there is nothing to write.
                agreed.read_again(store, now).await?;
                drafted = agreed.draft(step.as_ref());
            }
            match drafted {
                (draft, None) => {
                    let records = record(&draft.after);
                    if !records.is_empty() {
                        store.record(records).await?;
                    }
                    *made = Some(agreed.settle(draft, None));
                }
                (draft, Some((version, expires_at))) => {
                    let value = Some(json(&draft.after)?);
                    let (namespace, key) = (agreed.namespace, agreed.key.clone());
                    let audit = record(&draft.after);
                    writes.push(KvWrite { namespace, key, value, expect: Some(version), expires_at, audit });
                    drafts.push((at, draft));
                }
            }
        }
        if writes.is_empty() {
            return Ok(made.into_iter().flatten().collect());
        }
        let noted = match store.kv_write(writes, now).await {
            Ok(noted) => noted,
            Err(error) => {
                drafts.into_iter().for_each(|(at, draft)| asked[at].0.doubt(draft));
                return Err(error);
            }
        };
        for ((at, draft), noted) in drafts.into_iter().zip(noted) {
            let (agreed, _) = &asked[at];
            match noted {
                KvWritten::Done { version } => made[at] = Some(agreed.settle(draft, Some(version))),
                KvWritten::Conflict { .. } => agreed.read_again(store, now).await?,
            }
        }
    }
    Err(StoreError::Unavailable("a note kept changing while it was written".to_owned()))
}

fn json(value: &impl Serialize) -> Result<Payload, StoreError> {
    let written = serde_json::to_string(value);
    written
        .map(Payload::trusted)
        .map_err(|error| StoreError::Unavailable(format!("cannot write a note: {error}")))
}

#[cfg(test)]
mod tests {
    use recado_store::prelude::*;
    use std::sync::Arc;

    use recado_store::faulty::{FaultyStore, Verb};
    use recado_store::reference::ReferenceStore;
    use serde::Deserialize;

    use super::*;

    const NAMESPACE: Namespace = Namespace::new("sums");
    const NOW: Timestamp = Timestamp::from_millis(1_760_000_000_000);

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Sum(i64);

    impl Replayable for Sum {
        type Step = i64;
        type Effect = i64;

        fn step(&mut self, step: &i64) -> i64 {
            self.0 += step;
            self.0
        }
    }

    /// A value that a step sets.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Flag(bool);

    impl Replayable for Flag {
        type Step = bool;
        type Effect = ();

        fn step(&mut self, step: &bool) {
            self.0 = *step;
        }
    }

    fn store() -> FaultyStore {
        FaultyStore::around(Arc::new(ReferenceStore::default()))
    }

    fn sum(key: &str) -> SharedValue<Sum> {
        SharedValue::new(NAMESPACE, key)
    }

    fn read(sum: &SharedValue<Sum>) -> i64 {
        sum.read(|sum| sum.0)
    }

    async fn note(store: &FaultyStore, key: &str) -> KvEntry {
        store.kv_get(NAMESPACE, key, NOW).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_step_that_changes_nothing_is_neither_owed_nor_written() {
        let (store, sum) = (store(), sum("a"));
        assert_eq!(sum.owe(0), PendingWrite::Nothing);
        let made = make(&store, &[(&sum, Some(0))], NOW).await.unwrap();
        assert_eq!(made[0].asked, Some(0));
        assert!(store.kv_list(NAMESPACE, NOW).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn what_is_owed_is_there_at_once_and_written_by_whoever_comes_first() {
        let (store, sum) = (store(), sum("a"));
        assert_eq!((sum.owe(2), sum.owe(3)), (PendingWrite::Unattended, PendingWrite::Attended));
        assert_eq!((read(&sum), sum.is_even()), (5, false));
        let made = make(&store, &[(&sum, Some(10))], NOW).await.unwrap();
        assert_eq!((made[0].owed.as_slice(), made[0].asked), (&[2, 5][..], Some(15)));
        assert_eq!((read(&sum), sum.is_even(), sum.owes()), (15, true, false));
        assert_eq!(sum.owe(1), PendingWrite::Unattended, "the task that wrote it has ended");
    }

    #[tokio::test]
    async fn a_step_is_made_again_on_what_another_node_wrote() {
        let (store, here, there) = (store(), sum("a"), sum("a"));
        make(&store, &[(&there, Some(100))], NOW).await.unwrap();
        here.owe(1);
        let made = make(&store, &[(&here, Some(10))], NOW).await.unwrap();
        assert_eq!((made[0].owed.as_slice(), made[0].asked), (&[101][..], Some(111)));
        assert_eq!(note(&store, "a").await.value.as_str(), "111");
    }

    #[tokio::test]
    async fn a_write_whose_answer_was_lost_is_not_made_twice() {
        let gone = StoreError::Unavailable("gone".to_owned());
        let (store, sum) = (store(), sum("a"));
        sum.owe(7);
        store.fail(Verb::KvWriteAnswer, 0, 1, gone);
        assert!(make(&store, &[(&sum, None)], NOW).await.is_err());
        assert_eq!((store.fired(Verb::KvWriteAnswer), note(&store, "a").await.value.as_str()), (1, "7"));
        make(&store, &[(&sum, Some(1))], NOW).await.unwrap();
        assert_eq!((read(&sum), note(&store, "a").await.value.as_str()), (8, "8"));
    }

    #[tokio::test]
    async fn what_the_store_has_replaces_the_copy_even_if_it_is_older_and_what_is_owed_stays() {
        let (store, here, there) = (store(), sum("a"), sum("a"));
        make(&store, &[(&there, Some(1))], NOW).await.unwrap();
        let old = note(&store, "a").await;
        make(&store, &[(&there, Some(1))], NOW).await.unwrap();
        let new = note(&store, "a").await;
        here.owe(10);
        let learn = |note: Option<&KvEntry>| (here.learn(note, Instant::now()).news, read(&here));
        assert_eq!(learn(Some(&new)), (true, 12));
        assert_eq!(learn(Some(&new)), (false, 12), "it is known");
        assert_eq!(learn(Some(&old)), (true, 11), "the store lost its last write");
        assert_eq!(learn(None), (true, 10), "the store lost it all");
        assert_eq!(learn(None), (false, 10));
    }

    #[tokio::test]
    async fn what_was_read_before_this_process_wrote_is_not_taken_in() {
        let (store, sum) = (store(), sum("a"));
        make(&store, &[(&sum, Some(1))], NOW).await.unwrap();
        let (read_at, old) = (Instant::now(), note(&store, "a").await);
        make(&store, &[(&sum, Some(1))], NOW).await.unwrap();
        assert_eq!((sum.learn(Some(&old), read_at), read(&sum)), (SyncResult::BUSY, 2));
        assert_eq!((sum.learn(None, read_at), read(&sum)), (SyncResult::BUSY, 2));
    }

    #[tokio::test]
    async fn a_write_without_an_answer_that_comes_late_is_not_made_twice_after_a_read_that_did_not_see_it() {
        let gone = StoreError::Unavailable("gone".to_owned());
        let (store, sum) = (store(), sum("a"));
        sum.owe(7);
        store.fail(Verb::KvWriteAnswer, 0, 1, gone);
        let read_at = Instant::now();
        assert!(make(&store, &[(&sum, None)], NOW).await.is_err());
        assert_eq!(
            sum.learn(None, read_at),
            SyncResult::default(),
            "the read came before the write was carried out"
        );
        make(&store, &[(&sum, Some(1))], NOW).await.unwrap();
        assert_eq!((read(&sum), note(&store, "a").await.value.as_str()), (8, "8"));
    }

    #[tokio::test]
    async fn a_step_that_changes_nothing_of_an_outdated_copy_is_made_on_what_the_store_has() {
        let bell = Arc::default();
        let store = FaultyStore::shared(Arc::new(ReferenceStore::default()), &bell);
        let (here, there) =
            (SharedValue::<Flag>::new(NAMESPACE, "a"), SharedValue::<Flag>::new(NAMESPACE, "a"));
        make(&store, &[(&there, Some(true))], NOW).await.unwrap();
        make(&store, &[(&here, Some(false))], NOW).await.unwrap();
        assert_eq!(note(&store, "a").await.value.as_str(), "false", "the copy said so, the store did not");
    }

    #[tokio::test]
    async fn what_is_being_written_says_that_it_did_not_listen() {
        let (store, here, there) = (store(), sum("a"), sum("a"));
        make(&store, &[(&there, Some(1))], NOW).await.unwrap();
        let note = note(&store, "a").await;
        let writing = here.writing.lock().await;
        let learn = || here.learn(Some(&note), Instant::now());
        assert_eq!((learn(), read(&here)), (SyncResult { news: false, busy: true }, 0));
        drop(writing);
        assert_eq!((learn(), read(&here)), (SyncResult { news: true, busy: false }, 1));
    }

    #[tokio::test]
    async fn several_are_written_in_one_go_and_a_conflict_of_one_costs_the_others_nothing() {
        let (store, a, b, elsewhere) = (store(), sum("a"), sum("b"), sum("b"));
        make(&store, &[(&elsewhere, Some(100))], NOW).await.unwrap();
        let made = make(&store, &[(&b, Some(1)), (&a, Some(2))], NOW).await.unwrap();
        let asked: Vec<_> = made.into_iter().map(|made| made.asked).collect();
        assert_eq!(asked, [Some(101), Some(2)], "in the order given");
        assert_eq!((read(&a), read(&b)), (2, 101));
    }
}
