//! Small values that all nodes share: a provider's breaker, the rest of a rate, a pause.
//!
//! The truth is an entry in the store. Each process has a copy, and changes it by *steps*: changes that can be replayed
//! on a fresh copy. A step is written only on top of the version that it was made on; when another node was faster, its
//! entry is read and the step is replayed on that. So there is no lock that a dead node could hold, and no node undoes
//! what another did.
//!
//! There are two ways to save a step. [`SharedStore::save`] returns when the store has it: for steps that must not be
//! granted twice. [`SharedStore::enqueue_write`] changes the copy at once and saves in the background: for reports
//! on deliveries, which must not wait. A step that changes nothing is not written, so a provider that is well costs no
//! I/O.
//!
//! The store has the truth, even if it is older than the copy: a Redis that crashed or was restored from a backup has
//! lost what was written last, and nodes that held on to it would disagree for good. A copy gives way to whatever a
//! read finds, unless this process wrote the value after the read began.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::{AuditEvent, Timestamp};
use recado_store::{AuditLog, KeyValue, KvEntry, KvWrite, KvWritten, Namespace, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::lifecycle::Lifecycle;
use crate::shared::entry::{EntryKey, WRITE_TRIES_MAX, read_entry, version_of, write_of};

/// Pending steps of one value at most. Steps on top of them, while nothing can be written, are dropped.
const PENDING_MAX: usize = 1_000;

/// First wait before pending steps are written again; it doubles up to [`WRITE_RETRY_MAX`].
const WRITE_RETRY_MIN: Duration = Duration::from_millis(50);
const WRITE_RETRY_MAX: Duration = Duration::from_secs(2);

/// A value that changes by steps, each of which can be replayed on a newer copy.
pub(crate) trait Replayable:
    Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    type Step: Debug + Send + Sync;
    /// The result of a step, for the caller.
    type Effect: Debug + Send;

    fn apply(&mut self, step: &Self::Step) -> Self::Effect;

    /// Returns the time from which on it equals the default, so that the store may forget it.
    fn expires_at(&self) -> Option<Timestamp> {
        None
    }
}

/// The effects of the steps that one save wrote.
#[derive(Debug)]
pub(crate) struct Saved<E> {
    /// Effect of the step that the caller asked for, if it asked for one.
    pub asked: Option<E>,
    /// Effects of the pending steps.
    pub pending: Vec<E>,
}

/// The state of a step after [`SharedValue::add_pending`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingWrite {
    /// It changed nothing, or there is no room for it.
    Unchanged,
    /// The task that writes pending steps is running already.
    FlushRuns,
    /// No task is running: the caller has to start one.
    NeedsFlush,
}

/// The result of taking in what the store has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub(crate) struct SyncResult {
    /// A value changed.
    pub changed: bool,
    /// A value was being written and took nothing in: it has to be read again.
    pub busy: bool,
}

impl SyncResult {
    const BUSY: SyncResult = SyncResult { changed: false, busy: true };
}

impl FromIterator<SyncResult> for SyncResult {
    fn from_iter<I: IntoIterator<Item = SyncResult>>(all: I) -> Self {
        all.into_iter().fold(SyncResult::default(), |one, other| SyncResult {
            changed: one.changed | other.changed,
            busy: one.busy | other.busy,
        })
    }
}

/// A value that all nodes share, as this process knows it.
#[derive(Debug)]
pub(crate) struct SharedValue<T: Replayable> {
    namespace: Namespace,
    /// The key of its entry in the store.
    pub key: Box<str>,
    copy: Mutex<LocalCopy<T>>,
    /// One writer in a process, so that its own tasks do not conflict with each other.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct LocalCopy<T: Replayable> {
    /// The value as the store has it.
    stored: T,
    version: u64,
    /// Steps that the store does not have yet.
    pending: VecDeque<T::Step>,
    /// `stored` with all pending steps applied to it.
    current: T,
    /// A task that writes the pending steps is running.
    flush_runs: bool,
    /// A write whose answer was lost: the value that it makes, and how many pending steps are in it.
    in_doubt: Option<(T, usize)>,
    /// Time at which this process last wrote the value or read it alone; a read that began earlier may be out of date.
    known_at: Option<Instant>,
}

/// A value about to be written.
struct Draft<T: Replayable> {
    after: T,
    /// The version that it is written on top of; absent when it changes nothing.
    version: Option<u64>,
    saved: Saved<T::Effect>,
}

impl<T: Replayable> SharedValue<T> {
    pub fn new(namespace: Namespace, key: impl Into<Box<str>>) -> Self {
        let copy = LocalCopy {
            stored: T::default(),
            version: 0,
            pending: VecDeque::new(),
            current: T::default(),
            flush_runs: false,
            in_doubt: None,
            known_at: None,
        };
        let (copy, writing) = (Mutex::new(copy), tokio::sync::Mutex::default());
        SharedValue { namespace, key: key.into(), copy, writing }
    }

    /// Reads the value as this process knows it.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.copy.lock().current)
    }

    /// Applies a step to the copy, and keeps it for the task that writes.
    fn add_pending(&self, step: T::Step) -> PendingWrite {
        let mut copy = self.copy.lock();
        let mut after = copy.current.clone();
        after.apply(&step);
        if after == copy.current || copy.pending.len() >= PENDING_MAX {
            return PendingWrite::Unchanged;
        }
        copy.current = after;
        copy.pending.push_back(step);
        match std::mem::replace(&mut copy.flush_runs, true) {
            true => PendingWrite::FlushRuns,
            false => PendingWrite::NeedsFlush,
        }
    }

    pub fn has_pending_writes(&self) -> bool {
        !self.copy.lock().pending.is_empty()
    }

    /// Returns true when all pending steps are saved and the flush task may end.
    fn is_flushed(&self) -> bool {
        let mut copy = self.copy.lock();
        copy.flush_runs &= !copy.pending.is_empty();
        !copy.flush_runs
    }

    /// Takes in what a read that began at `read_at` found; `None` if the store has no such entry. Nothing is taken in
    /// while this value is being written, or if it was written since.
    pub fn sync(&self, entry: Option<&KvEntry>, read_at: Instant) -> SyncResult {
        let Ok(_writing) = self.writing.try_lock() else { return SyncResult::BUSY };
        let mut copy = self.copy.lock();
        if copy.known_at.is_some_and(|at| at >= read_at) {
            return SyncResult::BUSY;
        }
        let (before, version) = (copy.current.clone(), copy.version);
        copy.replace(entry);
        let changed = copy.current != before;
        // What has an end goes by itself; the rest is never removed.
        if changed && copy.version < version && copy.stored.expires_at().is_none() {
            tracing::warn!(
                kind = self.namespace.as_str(),
                name = &*self.key,
                "The store lost its latest value; all nodes use the older one that it has now"
            );
        }
        SyncResult { changed, busy: false }
    }

    fn entry_key(&self) -> EntryKey<'_> {
        EntryKey { namespace: self.namespace, key: &self.key }
    }

    /// Applies the pending steps and the one asked for to the store's value; no write when that changes nothing.
    fn draft(&self, asked: Option<&T::Step>) -> Draft<T> {
        let copy = self.copy.lock();
        let mut after = copy.stored.clone();
        let pending = copy.pending.iter().map(|step| after.apply(step)).collect();
        let saved = Saved { asked: asked.map(|step| after.apply(step)), pending };
        Draft { version: (after != copy.stored).then_some(copy.version), after, saved }
    }

    /// Takes the draft as what the store has. Without a version, the store had it all along.
    fn accept(&self, draft: Draft<T>, version: Option<u64>) -> Saved<T::Effect> {
        let mut copy = self.copy.lock();
        if let Some(version) = version {
            (copy.version, copy.known_at) = (version, Some(Instant::now()));
        }
        copy.stored = draft.after;
        copy.drop_saved(draft.saved.pending.len());
        draft.saved
    }

    /// Remembers a draft whose write was not answered.
    fn doubt(&self, draft: Draft<T>) {
        self.copy.lock().in_doubt = Some((draft.after, draft.saved.pending.len()));
    }

    /// Reads the store's value, to go on from that.
    async fn reload(&self, kv: &dyn KeyValue, now: Timestamp) -> Result<(), StoreError> {
        let entry = kv.kv_get(self.namespace, &self.key, now).await?;
        let mut copy = self.copy.lock();
        copy.replace(entry.as_ref());
        copy.known_at = Some(Instant::now());
        Ok(())
    }
}

impl<T: Replayable> LocalCopy<T> {
    fn replace(&mut self, entry: Option<&KvEntry>) {
        let version = version_of(entry);
        if version == self.version {
            // A write without an answer may still be on its way.
            return;
        }
        self.version = version;
        self.stored = entry.and_then(read_entry).unwrap_or_default();
        // If this is what the write without an answer would have made, it was that write.
        let saved = self.in_doubt.take().filter(|(after, _)| *after == self.stored);
        self.drop_saved(saved.map_or(0, |(_, pending)| pending));
    }

    /// Drops the first pending steps, which the store has now.
    fn drop_saved(&mut self, steps: usize) {
        self.in_doubt = None;
        self.pending.drain(..steps);
        self.current = self.stored.clone();
        self.pending.iter().for_each(|step| drop(self.current.apply(step)));
    }
}

/// Saves shared values in the store.
#[derive(Debug)]
pub(crate) struct SharedStore {
    pub kv: Arc<dyn KeyValue>,
    pub audit: Arc<dyn AuditLog>,
    pub clock: Arc<dyn Clock>,
    pub lifecycle: Arc<Lifecycle>,
}

/// Values, each with the step that is asked for on top of its pending ones.
type AskedSteps<'a, T> = [(&'a SharedValue<T>, Option<<T as Replayable>::Step>)];

type SavedSteps<T> = Result<Vec<Saved<<T as Replayable>::Effect>>, StoreError>;

impl SharedStore {
    /// Applies a step at once, and saves it in the background, however long that takes. Returns true if the step
    /// changed the value. `on_saved` is called with the effect once the store has it.
    pub fn enqueue_write<T: Replayable>(
        self: &Arc<Self>,
        value: &Arc<SharedValue<T>>,
        step: T::Step,
        on_saved: impl Fn(T::Effect) + Send + Sync + 'static,
    ) -> bool {
        let added = value.add_pending(step);
        if added == PendingWrite::NeedsFlush {
            let (store, value) = (self.clone(), value.clone());
            self.lifecycle.deliveries.spawn(async move { store.flush(&value, on_saved).await });
        }
        added != PendingWrite::Unchanged
    }

    /// Saves pending steps until there are none.
    async fn flush<T: Replayable>(&self, value: &SharedValue<T>, on_saved: impl Fn(T::Effect)) {
        let mut wait = WRITE_RETRY_MIN;
        while !value.is_flushed() {
            match self.save(&[(value, None)]).await {
                Ok(saved) => saved.into_iter().flat_map(|saved| saved.pending).for_each(&on_saved),
                Err(StoreError::Broken(_)) => return,
                Err(_) => {
                    tracing::warn!("Cannot save a shared value; trying again");
                    tokio::select! {
                        biased;
                        () = self.lifecycle.stopped.cancelled() => return,
                        () = tokio::time::sleep(wait) => {}
                    }
                    wait = (wait * 2).min(WRITE_RETRY_MAX);
                }
            }
        }
    }

    /// Writes all pending steps of each of these values, and the step that is asked for on top, in one request; each
    /// value may stand here once. Returns when the store has them, in the order given. After an error it is
    /// unknown which of them the store has.
    pub async fn save<T: Replayable>(&self, asked: &AskedSteps<'_, T>) -> SavedSteps<T> {
        self.save_with_audit(asked, &|_| Vec::new()).await
    }

    /// Saves the steps like [`SharedStore::save`], together with the audit records that `record` makes of
    /// each new value. A step that changes nothing is recorded, too.
    pub async fn save_with_audit<T: Replayable>(
        &self,
        asked: &AskedSteps<'_, T>,
        record: &(dyn Fn(&T) -> Vec<AuditEvent> + Sync),
    ) -> SavedSteps<T> {
        self.compare_and_set(asked, record).await.map_err(|error| self.lifecycle.check(error))
    }

    async fn compare_and_set<T: Replayable>(
        &self,
        asked: &AskedSteps<'_, T>,
        record: &(dyn Fn(&T) -> Vec<AuditEvent> + Sync),
    ) -> SavedSteps<T> {
        let now = self.clock.now();
        // All tasks lock in the same order, so that no two wait for each other.
        let mut in_order: Vec<_> = asked.iter().map(|(value, _)| value).collect();
        in_order.sort_by_key(|value| (value.namespace, &*value.key));
        let mut locked = Vec::with_capacity(in_order.len());
        for value in in_order {
            locked.push(value.writing.lock().await);
        }
        let mut done: Vec<Option<Saved<T::Effect>>> = asked.iter().map(|_| None).collect();
        for tries in 0..WRITE_TRIES_MAX {
            let (mut writes, mut drafts) = (Vec::new(), Vec::new());
            let open = asked.iter().zip(&mut done).enumerate().filter(|(_, (_, done))| done.is_none());
            for (at, ((value, step), done)) in open {
                let mut draft = value.draft(step.as_ref());
                if tries == 0 && draft.version.is_none() && step.is_some() && self.kv.is_shared() {
                    // The copy may be out of date: only the store knows that there is nothing to write.
                    value.reload(&*self.kv, now).await?;
                    draft = value.draft(step.as_ref());
                }
                let audit = record(&draft.after);
                if draft.version.is_some() {
                    let write = write_of(value.entry_key(), Some(&draft.after), draft.version)?;
                    writes.push(KvWrite { expires_at: draft.after.expires_at(), audit, ..write });
                    drafts.push((at, draft));
                    continue;
                }
                if !audit.is_empty() {
                    self.audit.record(audit).await?;
                }
                *done = Some(value.accept(draft, None));
            }
            if writes.is_empty() {
                return Ok(done.into_iter().flatten().collect());
            }
            let written = match self.kv.kv_write(writes, now).await {
                Ok(written) => written,
                Err(error) => {
                    drafts.into_iter().for_each(|(at, draft)| asked[at].0.doubt(draft));
                    return Err(error);
                }
            };
            for ((at, draft), written) in drafts.into_iter().zip(written) {
                let (value, _) = &asked[at];
                match written {
                    KvWritten::Done { version } => done[at] = Some(value.accept(draft, Some(version))),
                    KvWritten::Conflict { .. } => value.reload(&*self.kv, now).await?,
                }
            }
        }
        Err(StoreError::Unavailable("an entry kept changing while it was written".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use recado_store::prelude::*;
    use recado_store::reference::ReferenceStore;
    use recado_store_conformance::faulty::{FaultyStore, Verb};
    use serde::Deserialize;

    use super::*;

    const NAMESPACE: Namespace = Namespace::new("sums");
    const NOW: Timestamp = Timestamp::from_millis(1_760_000_000_000);

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Sum(i64);

    impl Replayable for Sum {
        type Step = i64;
        type Effect = i64;

        fn apply(&mut self, step: &i64) -> i64 {
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

        fn apply(&mut self, step: &bool) {
            self.0 = *step;
        }
    }

    fn store() -> Arc<FaultyStore> {
        Arc::new(FaultyStore::around(Arc::new(ReferenceStore::default())))
    }

    fn shared(store: &Arc<FaultyStore>) -> SharedStore {
        let (kv, audit) = (store.clone(), store.clone());
        SharedStore { kv, audit, clock: Arc::new(FixedClock), lifecycle: Arc::default() }
    }

    #[derive(Debug)]
    struct FixedClock;

    impl Clock for FixedClock {
        fn now(&self) -> Timestamp {
            NOW
        }
    }

    fn sum(key: &str) -> SharedValue<Sum> {
        SharedValue::new(NAMESPACE, key)
    }

    fn read(sum: &SharedValue<Sum>) -> i64 {
        sum.read(|sum| sum.0)
    }

    async fn entry(store: &FaultyStore, key: &str) -> KvEntry {
        store.kv_get(NAMESPACE, key, NOW).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_step_that_changes_nothing_is_neither_pending_nor_written() {
        let (store, sum) = (store(), sum("a"));
        assert_eq!(sum.add_pending(0), PendingWrite::Unchanged);
        let saved = shared(&store).save(&[(&sum, Some(0))]).await.unwrap();
        assert_eq!(saved[0].asked, Some(0));
        assert!(store.kv_list(NAMESPACE, NOW).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_pending_step_counts_at_once_and_is_written_by_the_next_save() {
        let (store, sum) = (store(), sum("a"));
        assert_eq!(
            (sum.add_pending(2), sum.add_pending(3)),
            (PendingWrite::NeedsFlush, PendingWrite::FlushRuns)
        );
        assert_eq!((read(&sum), sum.is_flushed()), (5, false));
        let saved = shared(&store).save(&[(&sum, Some(10))]).await.unwrap();
        assert_eq!((saved[0].pending.as_slice(), saved[0].asked), (&[2, 5][..], Some(15)));
        assert_eq!((read(&sum), sum.is_flushed(), sum.has_pending_writes()), (15, true, false));
        assert_eq!(sum.add_pending(1), PendingWrite::NeedsFlush, "the task that wrote it has ended");
    }

    #[tokio::test]
    async fn a_step_is_made_again_on_what_another_node_wrote() {
        let (store, here, there) = (store(), sum("a"), sum("a"));
        shared(&store).save(&[(&there, Some(100))]).await.unwrap();
        here.add_pending(1);
        let saved = shared(&store).save(&[(&here, Some(10))]).await.unwrap();
        assert_eq!((saved[0].pending.as_slice(), saved[0].asked), (&[101][..], Some(111)));
        assert_eq!(entry(&store, "a").await.value.as_str(), "111");
    }

    #[tokio::test]
    async fn a_write_whose_answer_was_lost_is_not_made_twice() {
        let gone = StoreError::Unavailable("gone".to_owned());
        let (store, sum) = (store(), sum("a"));
        sum.add_pending(7);
        store.fail(Verb::KvWriteAnswer, 0, 1, gone);
        assert!(shared(&store).save(&[(&sum, None)]).await.is_err());
        assert_eq!((store.fired(Verb::KvWriteAnswer), entry(&store, "a").await.value.as_str()), (1, "7"));
        shared(&store).save(&[(&sum, Some(1))]).await.unwrap();
        assert_eq!((read(&sum), entry(&store, "a").await.value.as_str()), (8, "8"));
    }

    #[tokio::test]
    async fn what_the_store_has_replaces_the_copy_even_if_it_is_older_and_pending_steps_stay() {
        let (store, here, there) = (store(), sum("a"), sum("a"));
        shared(&store).save(&[(&there, Some(1))]).await.unwrap();
        let old = entry(&store, "a").await;
        shared(&store).save(&[(&there, Some(1))]).await.unwrap();
        let new = entry(&store, "a").await;
        here.add_pending(10);
        let sync = |entry: Option<&KvEntry>| (here.sync(entry, Instant::now()).changed, read(&here));
        assert_eq!(sync(Some(&new)), (true, 12));
        assert_eq!(sync(Some(&new)), (false, 12), "it is known");
        assert_eq!(sync(Some(&old)), (true, 11), "the store lost its last write");
        assert_eq!(sync(None), (true, 10), "the store lost it all");
        assert_eq!(sync(None), (false, 10));
    }

    #[tokio::test]
    async fn what_was_read_before_this_process_wrote_is_not_taken_in() {
        let (store, sum) = (store(), sum("a"));
        shared(&store).save(&[(&sum, Some(1))]).await.unwrap();
        let (read_at, old) = (Instant::now(), entry(&store, "a").await);
        shared(&store).save(&[(&sum, Some(1))]).await.unwrap();
        assert_eq!((sum.sync(Some(&old), read_at), read(&sum)), (SyncResult::BUSY, 2));
        assert_eq!((sum.sync(None, read_at), read(&sum)), (SyncResult::BUSY, 2));
    }

    #[tokio::test]
    async fn a_write_without_an_answer_that_comes_late_is_not_made_twice_after_a_read_that_did_not_see_it() {
        let gone = StoreError::Unavailable("gone".to_owned());
        let (store, sum) = (store(), sum("a"));
        sum.add_pending(7);
        store.fail(Verb::KvWriteAnswer, 0, 1, gone);
        let read_at = Instant::now();
        assert!(shared(&store).save(&[(&sum, None)]).await.is_err());
        assert_eq!(
            sum.sync(None, read_at),
            SyncResult::default(),
            "the read came before the write was carried out"
        );
        shared(&store).save(&[(&sum, Some(1))]).await.unwrap();
        assert_eq!((read(&sum), entry(&store, "a").await.value.as_str()), (8, "8"));
    }

    #[tokio::test]
    async fn a_step_that_changes_nothing_of_an_outdated_copy_is_made_on_what_the_store_has() {
        let wakes = Arc::default();
        let store = Arc::new(FaultyStore::shared(Arc::new(ReferenceStore::default()), &wakes));
        let (here, there) =
            (SharedValue::<Flag>::new(NAMESPACE, "a"), SharedValue::<Flag>::new(NAMESPACE, "a"));
        shared(&store).save(&[(&there, Some(true))]).await.unwrap();
        shared(&store).save(&[(&here, Some(false))]).await.unwrap();
        assert_eq!(entry(&store, "a").await.value.as_str(), "false", "the copy said so, the store did not");
    }

    #[tokio::test]
    async fn a_value_that_is_being_written_takes_nothing_in() {
        let (store, here, there) = (store(), sum("a"), sum("a"));
        shared(&store).save(&[(&there, Some(1))]).await.unwrap();
        let found = entry(&store, "a").await;
        let writing = here.writing.lock().await;
        let sync = || here.sync(Some(&found), Instant::now());
        assert_eq!((sync(), read(&here)), (SyncResult { changed: false, busy: true }, 0));
        drop(writing);
        assert_eq!((sync(), read(&here)), (SyncResult { changed: true, busy: false }, 1));
    }

    #[tokio::test]
    async fn several_are_written_in_one_go_and_a_conflict_of_one_costs_the_others_nothing() {
        let (store, a, b, elsewhere) = (store(), sum("a"), sum("b"), sum("b"));
        shared(&store).save(&[(&elsewhere, Some(100))]).await.unwrap();
        let saved = shared(&store).save(&[(&b, Some(1)), (&a, Some(2))]).await.unwrap();
        let asked: Vec<_> = saved.into_iter().map(|saved| saved.asked).collect();
        assert_eq!(asked, [Some(101), Some(2)], "in the order given");
        assert_eq!((read(&a), read(&b)), (2, 101));
    }
}
