//! One writer, group commit.
//!
//! Requests that queue up while a transaction runs are taken all together by the next one. A transaction is
//! committed to the log without an fsync and handed to the [`FsyncThread`], which forces the log to disk and only
//! then answers; meanwhile the writer applies the next group. So one fsync serves however many callers there
//! are, processor and disk work at the same time, and no caller hears "yes" about something a power
//! cut could undo.
//!
//! If a statement or a commit fails, the transaction is rolled back and the index rebuilt from the file:
//! out of space is answered as such and the store goes on; anything else, a failed fsync above all, means the
//! file's state on disk is unknown, and the store stops for good. It never tries an fsync again.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use recado_core::{Lease, Random};
use recado_store::{FencedWrite, StoreError};
use rusqlite::{Connection, ErrorCode};
use tokio::sync::mpsc;

use crate::apply::WriteTransaction;
use crate::audit_log::Recorder;
use crate::disk::{DirLock, SpaceGuard};
use crate::fsync_thread::{Commit, FailureReason, FsyncThread, SharedWatcher};
use crate::index::Index;
use crate::load::load_index;
use crate::request::{Answer, Request};

/// Requests that may wait for the writer; more wait at the sender.
pub const QUEUE_REQUESTS_MAX: usize = 8_192;

/// Requests that wait inside the writer at most.
const GROUP_REQUESTS_MAX: usize = 4_096;

/// A transaction that has lasted this long takes no further request: those that came later would have to wait for it.
const TURN_MAX: Duration = Duration::from_millis(10);

/// Longest wait of a truncation for readers. They end soon, and writes must not wait for them.
const TRUNCATE_WAIT_MAX: Duration = Duration::from_millis(10);

/// Longest wait of a statement for another program that has locked the file.
pub const BUSY_WAIT_MAX: Duration = Duration::from_secs(5);

/// The log is checkpointed into the file in the background from this size on.
const WAL_CHECKPOINT_BYTES: u64 = 64 << 20;

/// A log that was checkpointed is cut to this size, or its old size would ask for a checkpoint at every commit.
/// Not by more than that: a log that is written in place syncs much faster than one that grows.
pub const WAL_KEPT_BYTES: u64 = 63 << 20;

/// From this size on the writer itself waits for the checkpoint, so that the log stays bounded.
const WAL_MAX_BYTES: u64 = 256 << 20;

/// Advice to the operator of a store that stopped.
pub const RECOVERS: &str = "start again: it recovers what it had acknowledged";

#[derive(Debug)]
pub struct Writer {
    pub file: Connection,
    pub random: Arc<Random>,
    pub index: Arc<Mutex<Index>>,
    pub space: Arc<Mutex<SpaceGuard>>,
    /// For its size alone: the fsync thread has one of its own.
    pub log: File,
    pub fsync_thread: FsyncThread,
    pub watcher: SharedWatcher,
    pub failure_reason: FailureReason,
    pub checkpointer: Checkpointer,
    /// Requests to truncate the log, answered once the transaction has ended.
    pub truncate_requests: Vec<Answer<bool>>,
    /// The number that was raised last under each name. In memory alone: all writers are in this process.
    pub fences: BTreeMap<&'static str, u64>,
    /// Let go when the writer has ended, and not before: until then it may still write.
    pub lock: DirLock,
}

/// A thread that checkpoints the log into the file on its own connection, so that the writer need not wait for it.
#[derive(Debug)]
pub struct Checkpointer {
    wanted: SyncSender<()>,
    thread: JoinHandle<()>,
}

/// Moves what has queued up into the group.
fn receive(group: &mut VecDeque<Request>, requests: &mut mpsc::Receiver<Request>) {
    while group.len() < GROUP_REQUESTS_MAX
        && let Ok(next) = requests.try_recv()
    {
        group.push_back(next);
    }
}

/// Counts the waiting requests of a kind.
fn count(group: &VecDeque<Request>, is_it: impl Fn(&Request) -> bool) -> usize {
    group.iter().filter(|request| is_it(request)).count()
}

impl Writer {
    pub fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut group = VecDeque::new();
        loop {
            if group.is_empty() {
                let Some(first) = requests.blocking_recv() else { break };
                group.push_back(first);
            }
            receive(&mut group, &mut requests);
            let is_close = |request: &Request| matches!(request, Request::Close(_));
            let (waited, closes) = (group.len(), count(&group, is_close));
            let began = Instant::now();
            let commit = self.transact(&mut group, began + TURN_MAX);
            let requests_count = (waited - group.len()) as u64;
            let closing = count(&group, is_close) < closes;
            if let Some(watcher) = self.watcher.get() {
                watcher.on_commit(requests_count, began.elapsed());
            }
            let broken = matches!(commit.outcome, Err(StoreError::Broken(_)));
            if let Err(StoreError::Broken(why)) = &commit.outcome {
                let _ = self.failure_reason.set(why.clone());
            }
            if let Err(error) = &commit.outcome {
                tracing::error!(%error, "a commit failed; nothing of it was kept");
            }
            let gone = self.fsync_thread.send(commit).is_err();
            if broken || closing || gone {
                break;
            }
            match self.truncate_requests.is_empty() {
                true => self.checkpoint_when_large(),
                false => {
                    let is_cut = self.truncate_log();
                    self.truncate_requests.drain(..).for_each(|answer| drop(answer.send(Ok(is_cut))));
                }
            }
        }
        let Writer { file, fsync_thread, checkpointer, lock, .. } = self;
        fsync_thread.join();
        checkpointer.join();
        drop(file);
        drop(lock);
    }

    /// Carries requests out in one transaction: the first, and others until `deadline`. Those that are left are for
    /// the next one.
    fn transact(&mut self, group: &mut VecDeque<Request>, deadline: Instant) -> Commit {
        let mut commit = Commit::default();
        commit.outcome = self.try_transact(group, deadline, &mut commit);
        commit
    }

    fn try_transact(
        &mut self,
        group: &mut VecDeque<Request>,
        deadline: Instant,
        commit: &mut Commit,
    ) -> Result<(), StoreError> {
        if let Err(error) = self.run_statement("BEGIN IMMEDIATE") {
            group.drain(..).for_each(|request| commit.replies.add_refusal(request));
            return Err(match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy) => StoreError::Unavailable(
                    "another program keeps the file locked; is a sqlite3 shell open?".to_owned(),
                ),
                _ => StoreError::Broken(format!("{error}; {RECOVERS}")),
            });
        }
        let outcome = self.apply(group, deadline, commit);
        let Err(error) = outcome else { return Ok(()) };
        let _ = self.file.execute_batch("ROLLBACK");
        commit.routes_to_wake.clear();
        if error.sqlite_error_code() != Some(ErrorCode::DiskFull) {
            return Err(StoreError::Broken(format!("{error}; {RECOVERS}")));
        }
        self.space.lock().refuse_until_next_reading();
        match load_index(&self.file, &self.random) {
            Ok(index) => {
                *self.index.lock() = index;
                Err(StoreError::Full("the disk ran full; nothing of this request was kept".to_owned()))
            }
            Err(error) => Err(StoreError::Broken(format!("cannot read the store back: {error}; {RECOVERS}"))),
        }
    }

    fn apply(
        &mut self,
        group: &mut VecDeque<Request>,
        deadline: Instant,
        commit: &mut Commit,
    ) -> rusqlite::Result<()> {
        let Commit { needs_fsync, routes_to_wake, replies, .. } = commit;
        let mut index = self.index.lock();
        let recorder = Recorder::new(&self.file);
        let mut transaction = WriteTransaction {
            file: &self.file,
            index: &mut index,
            recorder,
            random: &self.random,
            routes_to_wake,
        };
        let mut failed = None;
        let mut is_first = true;
        while (is_first || failed.is_some() || Instant::now() < deadline)
            && let Some(request) = group.pop_front()
        {
            is_first = false;
            *needs_fsync |= !touches_leases_alone(&request);
            if failed.is_some() {
                replies.add_refusal(request);
                continue;
            }
            // Settles leave their records to be written together. Requests that may look for them find them.
            if !matches!(request, Request::Settle(..) | Request::Claim(..) | Request::Enqueue(..))
                && let Err(error) = transaction.recorder.flush()
            {
                failed = Some(error);
                replies.add_refusal(request);
                continue;
            }
            if let Some(error) = self.find_refusal(&request, &transaction) {
                request.refuse(error);
                continue;
            }
            let outcome = match request {
                Request::Enqueue(jobs, answer) => replies.add(transaction.enqueue(jobs), answer),
                Request::Claim(claim, answer) => replies.add(transaction.claim(&claim), answer),
                Request::Extend(tokens, until, answer) => {
                    replies.add(transaction.extend(&tokens, until), answer)
                }
                Request::Settle(settlements, answer) => replies.add(transaction.settle(settlements), answer),
                Request::Cancel(id, audit, answer) => replies.add(transaction.cancel(&id, &audit), answer),
                Request::Redrive(redrive, answer) => replies.add(transaction.redrive(*redrive), answer),
                Request::Discard(discard, answer) => replies.add(transaction.discard(*discard), answer),
                Request::Prune(retention, now, answer) => {
                    replies.add(transaction.prune(&retention, now), answer)
                }
                Request::Forget(ids, answer) => replies.add(transaction.forget(&ids), answer),
                Request::Adopt(snapshots, answer) => replies.add(transaction.adopt(&snapshots), answer),
                Request::RaiseFence(fence, answer) => {
                    let raised = self.fences.entry(fence.name).or_default();
                    *raised = fence.number.max(*raised);
                    let is_newest = *raised == fence.number;
                    let _ = answer.send(if is_newest { Ok(()) } else { Err(StoreError::Fenced) });
                    continue;
                }
                Request::WriteFenced(_, write, answer) => {
                    replies.add(write_fenced(&mut transaction, write), answer)
                }
                Request::Record(events, answer) => replies.add(transaction.record(&events), answer),
                Request::TrimAudit(trim, answer) => replies.add(transaction.trim_audit(trim), answer),
                Request::KvWrite(writes, now, answer) => {
                    replies.add(transaction.kv_write(writes, now), answer)
                }
                Request::TruncateLog(answer) => {
                    self.truncate_requests.push(answer);
                    Ok(())
                }
                Request::Close(answer) => replies.add(Ok(()), answer),
            };
            failed = outcome.err();
        }
        let failed = failed.or_else(|| transaction.recorder.flush().err());
        drop(transaction);
        drop(index);
        match failed {
            Some(error) => Err(error),
            None => self.run_statement("COMMIT"),
        }
    }

    /// Returns the error of a request that is not carried out: another writer has raised its fence, or there is no space
    /// for new jobs. A request that holds known jobs only needs no space.
    fn find_refusal(&self, request: &Request, transaction: &WriteTransaction<'_>) -> Option<StoreError> {
        let no_space = || lock_space(&self.space, &self.file).refusal().map(str::to_owned);
        let (why, is_known) = match request {
            Request::WriteFenced(fence, ..) if self.fences.get(fence.name) != Some(&fence.number) => {
                return Some(StoreError::Fenced);
            }
            Request::Enqueue(jobs, _) => (no_space()?, transaction.knows_all(jobs.iter().map(|job| &job.id))),
            Request::Adopt(snapshots, _) | Request::WriteFenced(_, FencedWrite::Adopt(snapshots), _) => {
                (no_space()?, transaction.knows_all(snapshots.iter().map(|snapshot| &snapshot.job.id)))
            }
            _ => return None,
        };
        (!is_known).then_some(StoreError::Full(why))
    }

    /// Prepared once: there is one of these for every few jobs.
    fn run_statement(&self, statement: &str) -> rusqlite::Result<()> {
        self.file.prepare_cached(statement)?.execute([]).map(drop)
    }

    fn checkpoint_when_large(&self) {
        let size = self.log.metadata().map_or(0, |log| log.len());
        let max = lock_space(&self.space, &self.file)
            .log_max_bytes()
            .map_or(WAL_MAX_BYTES, |max| max.min(WAL_CHECKPOINT_BYTES));
        if size >= max {
            let _ = self.truncate_log();
        } else if size >= WAL_CHECKPOINT_BYTES {
            let _ = self.checkpointer.wanted.try_send(());
        }
    }

    /// Checkpoints the log and truncates it, unless a reader is in the way: then it is as long as before.
    fn truncate_log(&self) -> bool {
        let emptied = self.file.busy_timeout(TRUNCATE_WAIT_MAX).and_then(|()| {
            let is_busy = self.file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
            self.file.busy_timeout(BUSY_WAIT_MAX)?;
            is_busy.map(|is_busy: bool| !is_busy)
        });
        emptied.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot checkpoint the log into the file; it keeps growing");
            false
        })
    }
}

/// Carries out a write whose fence stands.
fn write_fenced(transaction: &mut WriteTransaction<'_>, write: FencedWrite) -> rusqlite::Result<Vec<Lease>> {
    match write {
        FencedWrite::Claim(claim) => return Ok(transaction.claim(&claim)?.leases),
        FencedWrite::Adopt(snapshots) => drop(transaction.adopt(&snapshots)?),
        FencedWrite::Record(events) => transaction.record(&events)?,
        FencedWrite::KvWrite(writes, now) => drop(transaction.kv_write(writes, now)?),
    }
    Ok(Vec::new())
}

/// Locks the guard and tells it the bytes that the store holds, when it is about to read the disk.
fn lock_space<'r>(space: &'r Mutex<SpaceGuard>, file: &Connection) -> MutexGuard<'r, SpaceGuard> {
    let mut space = space.lock();
    if space.is_reading_due()
        && let Ok(bytes) = held_bytes(file)
    {
        space.set_held_bytes(bytes);
    }
    space
}

pub fn held_bytes(file: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name| file.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
}

fn touches_leases_alone(request: &Request) -> bool {
    matches!(request, Request::Claim(..) | Request::Extend(..))
}

impl Checkpointer {
    pub fn start(file: Connection) -> std::io::Result<Self> {
        let (wanted, when) = std::sync::mpsc::sync_channel(1);
        let checkpoint = move || {
            while when.recv().is_ok() {
                if let Err(error) = file.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
                    tracing::warn!(%error, "cannot checkpoint the log into the file in the background");
                }
            }
        };
        let thread = std::thread::Builder::new().name("recado-checkpt".to_owned()).spawn(checkpoint)?;
        Ok(Checkpointer { wanted, thread })
    }

    fn join(self) {
        drop(self.wanted);
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
    use recado_core::Timestamp;
    use tokio::sync::oneshot;

    use super::*;

    fn writer_in(dir: &std::path::Path) -> Writer {
        let path = dir.join(crate::schema::FILE_NAME);
        let open = || {
            let file = Connection::open(&path).unwrap();
            crate::schema::prepare(&file).unwrap();
            file
        };
        Writer {
            file: open(),
            random: Arc::new(Random::from_seed(7)),
            index: Arc::new(Mutex::new(Index::new(&Random::from_seed(7)))),
            space: Arc::new(Mutex::new(SpaceGuard::new(dir, 0, None))),
            log: crate::disk::open_log(dir).unwrap(),
            fsync_thread: FsyncThread::start(
                crate::disk::open_log(dir).unwrap(),
                None,
                Arc::default(),
                Arc::default(),
                Arc::default(),
            )
            .unwrap(),
            failure_reason: Arc::default(),
            watcher: Arc::default(),
            checkpointer: Checkpointer::start(open()).unwrap(),
            truncate_requests: Vec::new(),
            fences: BTreeMap::new(),
            lock: crate::disk::lock(dir).unwrap(),
        }
    }

    #[test]
    fn only_a_commit_of_leases_alone_goes_without_an_fsync() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer_in(dir.path());
        let extend = || Request::Extend(Vec::new(), Timestamp::from_millis(0), oneshot::channel().0);
        let record = || Request::Record(Vec::new(), oneshot::channel().0);
        let settle = || Request::Settle(Vec::new(), oneshot::channel().0);
        let kv_write = || Request::KvWrite(Vec::new(), Timestamp::from_millis(0), oneshot::channel().0);
        let enqueue = || Request::Enqueue(Vec::new(), oneshot::channel().0);
        for (group, needs_fsync) in [
            (vec![enqueue()], true),
            (vec![extend()], false),
            (vec![extend(), settle(), extend()], true),
            (vec![extend(), extend()], false),
            (vec![record()], true),
            (vec![extend(), kv_write()], true),
        ] {
            let what = format!("{group:?}");
            let mut group = VecDeque::from(group);
            let commit = writer.transact(&mut group, Instant::now() + Duration::from_secs(60));
            assert!(group.is_empty(), "{what}");
            assert!(commit.outcome.is_ok(), "{what}");
            assert_eq!(commit.needs_fsync, needs_fsync, "{what}");
        }
    }

    #[test]
    fn a_turn_that_has_lasted_long_enough_leaves_the_rest_to_the_next_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer_in(dir.path());
        let extend = || Request::Extend(Vec::new(), Timestamp::from_millis(0), oneshot::channel().0);
        let record = || Request::Record(Vec::new(), oneshot::channel().0);
        let mut group = VecDeque::from([extend(), record(), extend()]);
        for (left, needs_fsync) in [(2, false), (1, true), (0, false)] {
            let commit = writer.transact(&mut group, Instant::now());
            assert!(commit.outcome.is_ok());
            assert_eq!((group.len(), commit.needs_fsync, commit.replies.0.len()), (left, needs_fsync, 1));
        }
    }

    /// The fsync thread's fsync is the one that counts: SQLite must put every commit into the log before it
    /// returns, and must order the log against the file at a checkpoint.
    #[test]
    fn sqlite_writes_a_log_that_the_fsync_thread_can_force() {
        let dir = tempfile::tempdir().unwrap();
        let writer = writer_in(dir.path());
        let number = |name| writer.file.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        let journal: String = writer.file.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!((journal.as_str(), number("synchronous")), ("wal", 1));
    }
}
