//! One writer, group commit.
//!
//! Requests that queue up while a transaction runs are taken all together by the next one. A transaction is
//! committed to the log without an fsync and handed to the [`FsyncThread`], which forces the log to disk and only
//! then answers; meanwhile the writer applies the next group. So one fsync serves however many callers there
//! are, processor and disk work at the same time, and no caller hears "yes" about something a power
//! cut could undo. A claim does not wait for the disk, unless it takes a job that is not there yet ([`unsynced`]).
//!
//! If a statement or a commit fails, the transaction is rolled back and the index rebuilt from the file:
//! out of space is answered as such and the store goes on; anything else, a failed fsync above all, means the
//! file's state on disk is unknown, and the store stops for good. It never tries an fsync again.

pub(crate) mod apply;
pub(crate) mod fsync_thread;
mod queue_thread;
pub(crate) mod request;
pub(crate) mod statements;
pub(crate) mod unsynced;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use recado_core::Random;
use recado_store::StoreError;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use crate::disk::SpaceGuard;
use crate::index::Index;
use crate::load::load_index;
use crate::schema::BUSY_WAIT_MAX;
use crate::store::audit_log::Recorder;
use crate::writer::apply::WriteTransaction;
use crate::writer::fsync_thread::{Commit, FailureReason, FsyncThread, SharedWatcher};
use crate::writer::queue_thread::QueueThread;
use crate::writer::request::{ChangeError, Request, RequestKind};
use crate::writer::statements::Statements;
use crate::writer::unsynced::UnsyncedJobs;

/// Requests that may wait for the writer; more wait at the sender.
pub const QUEUE_REQUESTS_MAX: usize = 8_192;

/// Requests that wait inside the writer at most.
const GROUP_REQUESTS_MAX: usize = 4_096;

/// A transaction that has lasted this long takes no further request: those that came later would have to wait for it.
const TURN_MAX: Duration = Duration::from_millis(10);

/// Longest wait of a truncation for readers. They end soon, and writes must not wait for them.
const TRUNCATE_WAIT_MAX: Duration = Duration::from_millis(10);

/// The log is checkpointed into the file in the background from this size on.
const WAL_CHECKPOINT_BYTES: u64 = 64 << 20;

/// A log that was checkpointed is cut to this size; otherwise every commit would trigger a checkpoint.
/// Not by more than that: a log that is written in place syncs much faster than one that grows.
pub const WAL_KEPT_BYTES: u64 = 63 << 20;

/// From this size on the writer itself waits for the checkpoint, so that the log stays bounded.
const WAL_MAX_BYTES: u64 = 256 << 20;

/// Advice to the operator of a store that stopped.
pub const RECOVERS: &str = "start again: it recovers what it had acknowledged";

pub struct Writer<'f> {
    pub file: &'f Connection,
    pub statements: Statements<'f>,
    pub random: Arc<Random>,
    pub index: Arc<Mutex<Index>>,
    pub space: Arc<Mutex<SpaceGuard>>,
    /// For its size alone: the fsync thread has one of its own.
    pub log: File,
    pub fsync_thread: FsyncThread,
    pub watcher: SharedWatcher,
    pub failure_reason: FailureReason,
    pub checkpointer: QueueThread<()>,
    /// Requests to truncate the log, answered once the transaction has ended.
    pub truncate_requests: Vec<oneshot::Sender<bool>>,
    /// The number that was raised last under each name. In memory alone: all writers are in this process.
    pub fences: BTreeMap<&'static str, u64>,
    pub unsynced: UnsyncedJobs,
}

fn count_closes(group: &VecDeque<Request>) -> usize {
    group.iter().filter(|request| request.kind == RequestKind::Close).count()
}

impl Writer<'_> {
    pub fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut group = VecDeque::new();
        loop {
            if group.is_empty() {
                let Some(first) = requests.blocking_recv() else { break };
                group.push_back(first);
            }
            while group.len() < GROUP_REQUESTS_MAX
                && let Ok(next) = requests.try_recv()
            {
                group.push_back(next);
            }
            let (waited, closes) = (group.len(), count_closes(&group));
            let began = Instant::now();
            let mut commit = self.transact(&mut group, began + TURN_MAX);
            let requests_count = (waited - group.len()) as u64;
            let closing = count_closes(&group) < closes;
            if let Some(watcher) = self.watcher.get() {
                watcher.on_commit(requests_count, began.elapsed());
            }
            let broken = matches!(commit.failure, Some(StoreError::Broken(_)));
            if let Some(StoreError::Broken(why)) = &commit.failure {
                let _ = self.failure_reason.set(why.clone());
            }
            if let Some(error) = &commit.failure {
                tracing::error!(%error, "A commit failed; nothing of it was kept");
            }
            commit.early_replies.drain(..).for_each(|claim| claim.reply(Ok(())));
            let gone = self.fsync_thread.queue.send(commit).is_err();
            if broken || closing || gone {
                break;
            }
            match self.truncate_requests.is_empty() {
                true => self.checkpoint_when_large(),
                false => {
                    let is_cut = self.truncate_log();
                    for answer in self.truncate_requests.drain(..) {
                        let _ = answer.send(is_cut);
                    }
                }
            }
        }
        self.fsync_thread.join();
        self.checkpointer.join();
    }

    /// Carries requests out in one transaction: the first, and others until `deadline`. Those that are left are for
    /// the next one.
    fn transact(&mut self, group: &mut VecDeque<Request>, deadline: Instant) -> Commit {
        let mut commit = Commit::default();
        self.unsynced.begin_commit();
        commit.failure = self.try_transact(group, deadline, &mut commit).err();
        match &commit.failure {
            None => commit.number = self.unsynced.end_commit(self.index.lock().next_seq),
            Some(_) => commit.replies.append(&mut commit.early_replies),
        }
        commit
    }

    fn try_transact(
        &mut self,
        group: &mut VecDeque<Request>,
        deadline: Instant,
        commit: &mut Commit,
    ) -> Result<(), StoreError> {
        if let Err(error) = self.statements.execute("BEGIN IMMEDIATE", []) {
            commit.replies.extend(group.drain(..).map(|request| request.change));
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
        match load_index(self.file, Vec::new(), &self.random) {
            Ok(index) => {
                // No listener knows the due times of this index from its last claim.
                commit.routes_to_wake = index.routes().cloned().collect();
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
        let Writer { file, statements, random, index, space, fences, truncate_requests, unsynced, .. } = self;
        let mut index = index.lock();
        let mut transaction = WriteTransaction {
            file,
            statements,
            index: &mut index,
            recorder: Recorder::new(statements),
            random,
            space,
            fences,
            truncate_requests,
            routes_to_wake: &mut commit.routes_to_wake,
            unsynced,
            claimed_unsynced: false,
        };
        let mut failed = None;
        let mut is_first = true;
        while (is_first || failed.is_some() || Instant::now() < deadline)
            && let Some(mut request) = group.pop_front()
        {
            is_first = false;
            commit.needs_fsync |= request.needs_fsync();
            if failed.is_none() {
                match request.apply(&mut transaction) {
                    Ok(()) => {}
                    Err(ChangeError::Failed(error)) => failed = Some(error),
                    Err(ChangeError::Refused(error)) => {
                        request.change.reply(Err(error));
                        continue;
                    }
                }
            }
            let may_be_unsynced = std::mem::take(&mut transaction.claimed_unsynced);
            match request.kind == RequestKind::Claim && !may_be_unsynced && failed.is_none() {
                true => commit.early_replies.push(request.change),
                false => commit.replies.push(request.change),
            }
        }
        let failed = failed.or_else(|| transaction.recorder.flush().err());
        drop(transaction);
        drop(index);
        match failed {
            Some(error) => Err(error),
            None => self.statements.execute("COMMIT", []).map(drop),
        }
    }

    fn checkpoint_when_large(&self) {
        let size = self.log.metadata().map_or(0, |log| log.len());
        let max = lock_space(&self.space, self.file)
            .log_max_bytes()
            .map_or(WAL_MAX_BYTES, |max| max.min(WAL_CHECKPOINT_BYTES));
        if size >= max {
            let _ = self.truncate_log();
        } else if size >= WAL_CHECKPOINT_BYTES {
            let _ = self.checkpointer.queue.try_send(());
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
            tracing::warn!(%error, "Cannot checkpoint the log into the file; it keeps growing");
            false
        })
    }
}

/// Locks the guard and tells it the bytes that the store holds, when it is about to read the disk.
pub fn lock_space<'r>(space: &'r Mutex<SpaceGuard>, file: &Connection) -> MutexGuard<'r, SpaceGuard> {
    let mut space = space.lock();
    if space.is_reading_due()
        && let Ok(bytes) = held_bytes(file)
    {
        space.held_bytes = bytes;
    }
    space
}

pub fn held_bytes(file: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name| file.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
}

/// Starts a thread that checkpoints the log into the file on its own connection, so that the writer need not wait for
/// it.
pub fn start_checkpointer(file: Connection) -> std::io::Result<QueueThread<()>> {
    QueueThread::start("recado-checkpt", 1, move |wanted| {
        for () in wanted {
            if let Err(error) = file.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
                tracing::warn!(%error, "Cannot checkpoint the log into the file in the background");
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use recado_core::{LeaseToken, RouteName, Timestamp, Transition};
    use recado_store::{Claim, Pick, Settlement, Turns};
    use recado_testkit::jobs::{T0, new_job};

    use super::*;
    use crate::store::audit_log::PreparedSettlement;
    use crate::writer::fsync_thread::FsyncLoop;
    use crate::writer::unsynced::SyncedCommit;

    fn file_in(dir: &std::path::Path) -> Connection {
        let file = Connection::open(dir.join(crate::schema::FILE_NAME)).unwrap();
        crate::schema::prepare(&file).unwrap();
        file
    }

    fn writer_on<'f>(file: &'f Connection, dir: &std::path::Path) -> Writer<'f> {
        Writer {
            file,
            statements: Statements::new(file),
            random: Arc::new(Random::from_seed(7)),
            index: Arc::new(Mutex::new(Index::new(&Random::from_seed(7)))),
            space: Arc::new(Mutex::new(SpaceGuard::new(dir, 0, None))),
            log: crate::disk::open_log(dir).unwrap(),
            fsync_thread: FsyncLoop::of_a_test(crate::disk::open_log(dir).unwrap()).start().unwrap(),
            failure_reason: Arc::default(),
            watcher: Arc::default(),
            checkpointer: start_checkpointer(file_in(dir)).unwrap(),
            truncate_requests: Vec::new(),
            fences: BTreeMap::new(),
            unsynced: UnsyncedJobs::new(Arc::default(), 1),
        }
    }

    fn request(kind: RequestKind) -> Request {
        Request::new(kind, |_| Ok::<_, ChangeError>(())).0
    }

    #[test]
    fn only_a_commit_of_leases_alone_goes_without_an_fsync() {
        use RequestKind::{Claim, Enqueue, Extend, Other, Settle};
        let dir = tempfile::tempdir().unwrap();
        let file = file_in(dir.path());
        let mut writer = writer_on(&file, dir.path());
        for (kinds, needs_fsync) in [
            (vec![Enqueue], true),
            (vec![Extend], false),
            (vec![Claim], false),
            (vec![Extend, Settle, Extend], true),
            (vec![Extend, Claim, Extend], false),
            (vec![Other], true),
            (vec![Extend, Other], true),
        ] {
            let mut group: VecDeque<_> = kinds.iter().copied().map(request).collect();
            let commit = writer.transact(&mut group, Instant::now() + Duration::from_secs(60));
            assert!(group.is_empty(), "{kinds:?}");
            assert!(commit.failure.is_none(), "{kinds:?}");
            assert_eq!(commit.needs_fsync, needs_fsync, "{kinds:?}");
        }
    }

    fn claim(until: Timestamp) -> Claim {
        let (pick, worker) = (Pick::Ready(RouteName::new("email").unwrap()), "worker-1".into());
        let turns = Turns::default();
        let provider = None;
        Claim { pick, max: 1, now: T0, lease_until: until, worker, provider, outlives_process: false, turns }
    }

    /// Nothing may be sent that a power cut could undo: neither a new job nor one that comes back.
    #[test]
    fn a_claim_waits_for_the_disk_only_where_the_disk_does_not_have_its_job_yet() {
        for is_synced in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let file = file_in(dir.path());
            let mut writer = writer_on(&file, dir.path());
            let synced = SyncedCommit::default();
            writer.unsynced = UnsyncedJobs::new(synced.clone(), 1);
            let mut is_early = |request: Request| {
                let mut commit = writer.transact(&mut VecDeque::from([request]), Instant::now());
                if is_synced {
                    synced.store(commit.number, Ordering::Release);
                }
                let is_early = !commit.early_replies.is_empty();
                commit.early_replies.drain(..).chain(commit.replies).for_each(|change| change.reply(Ok(())));
                is_early
            };
            let job = new_job("job", "email", "{}", T0);
            let (enqueue, _) = Request::new(RequestKind::Enqueue, |open| open.enqueue(vec![job]));
            assert!(!is_early(enqueue), "only claims are answered early");
            for _ in 0..2 {
                let lease_until = T0.plus(Duration::from_secs(60));
                let (claim, claimed) =
                    Request::new(RequestKind::Claim, move |open| open.claim(&claim(lease_until)));
                assert_eq!(is_early(claim), is_synced);
                let token: LeaseToken = claimed.blocking_recv().unwrap().unwrap().leases[0].token;
                let transition = Transition::Release { at: T0, lost: None };
                let release = Settlement { token, transition, audit: None, now: T0, follow_ups: Vec::new() };
                let release = PreparedSettlement::prepare(release).unwrap();
                let (settle, _) = Request::new(RequestKind::Settle, |open| open.settle(vec![release]));
                assert!(!is_early(settle), "only claims are answered early");
            }
        }
    }

    #[test]
    fn a_turn_that_has_lasted_long_enough_leaves_the_rest_to_the_next_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = file_in(dir.path());
        let mut writer = writer_on(&file, dir.path());
        let kinds = [RequestKind::Extend, RequestKind::Other, RequestKind::Extend];
        let mut group = VecDeque::from(kinds.map(request));
        for (left, needs_fsync) in [(2, false), (1, true), (0, false)] {
            let commit = writer.transact(&mut group, Instant::now());
            assert!(commit.failure.is_none());
            assert_eq!((group.len(), commit.needs_fsync, commit.replies.len()), (left, needs_fsync, 1));
        }
    }

    /// The fsync thread's fsync is the one that counts: SQLite must put every commit into the log before it
    /// returns, and must order the log against the file at a checkpoint.
    #[test]
    fn sqlite_writes_a_log_that_the_fsync_thread_can_force() {
        let dir = tempfile::tempdir().unwrap();
        let file = file_in(dir.path());
        let writer = writer_on(&file, dir.path());
        let number = |name| writer.file.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        let journal: String = writer.file.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!((journal.as_str(), number("synchronous")), ("wal", 1));
    }
}
