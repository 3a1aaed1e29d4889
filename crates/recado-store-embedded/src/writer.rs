//! One writer, group commit.
//!
//! Requests that queue up while a transaction runs are taken all together by the next one. A transaction is
//! committed to the log without an fsync and handed to the [`Forcer`], which forces the log to disk and only
//! then answers; meanwhile the writer applies the next group. So one fsync serves however many callers there
//! are, processor and disk work at the same time, and nobody hears "yes" about something a power cut could
//! undo.
//!
//! If a statement or a commit fails, the transaction is rolled back and the index rebuilt from the file:
//! out of room is answered as such and life goes on; anything else, a failed fsync above all, means the
//! file's state on disk is unknown, and the store stops for good. It never tries an fsync again.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use recado_core::{AuditEvent, JobId, Lease, LeaseToken, NewJob, Timestamp};
use recado_store::{
    Adopted, AuditTrim, Cancelled, Claim, Claimed, Discard, Discarded, Enqueued, Extended, Fence,
    FencedWrite, JobSnapshot, KvWrite, KvWritten, Pruned, Redrive, Redriven, Retention, Settled, StoreError,
};
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use crate::apply::Apply;
use crate::disk::{DirLock, RoomGuard};
use crate::forcer::{Commit, FailedWhy, Forcer, Watched};
use crate::index::Index;
use crate::load::load;
use crate::trail::{Forgotten, Recorder, Settling};

/// Requests that may wait for the writer; more wait at the sender.
pub const QUEUE_REQUESTS_MAX: usize = 8_192;

/// Requests that wait inside the writer at most.
const GROUP_REQUESTS_MAX: usize = 4_096;

/// A transaction that has lasted this long takes no further request: those that came later would have to wait for it.
const TURN_MAX: Duration = Duration::from_millis(10);

/// Longest wait of a fold for readers. They end soon, and writes must not wait for them.
const FOLD_WAIT_MAX: Duration = Duration::from_millis(10);

/// Longest wait of a statement for another program that has locked the file.
pub const BUSY_WAIT_MAX: Duration = Duration::from_secs(5);

/// The log is folded back into the file in the background from this size on.
const WAL_FOLD_BYTES: u64 = 64 << 20;

/// A log that was folded back is cut to this size, or its old size would ask for folding at every commit.
/// Not by more than that: a log that is written in place syncs much faster than one that grows.
pub const WAL_KEPT_BYTES: u64 = 63 << 20;

/// From this size on the writer itself waits for the folding, so that the log stays bounded.
const WAL_MAX_BYTES: u64 = 256 << 20;

/// Advice to the operator of a store that stopped.
pub const RECOVERS: &str = "start again: it recovers what it had acknowledged";

pub type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

#[derive(Debug)]
pub enum Request {
    Enqueue(Vec<NewJob>, Answer<Vec<Enqueued>>),
    Claim(Claim, Answer<Claimed>),
    Extend(Vec<LeaseToken>, Timestamp, Answer<Vec<Extended>>),
    Settle(Vec<Settling>, Answer<Vec<Settled>>),
    Cancel(JobId, AuditEvent, Answer<Cancelled>),
    Redrive(Box<Redrive>, Answer<Redriven>),
    Discard(Box<Discard>, Answer<Discarded>),
    Prune(Retention, Timestamp, Answer<Pruned>),
    Forget(Vec<JobId>, Answer<Forgotten>),
    Adopt(Vec<JobSnapshot>, Answer<Vec<Adopted>>),
    RaiseFence(Fence, Answer<()>),
    WriteFenced(Fence, FencedWrite, Answer<Vec<Lease>>),
    Record(Vec<AuditEvent>, Answer<()>),
    TrimAudit(AuditTrim, Answer<u64>),
    KvWrite(Vec<KvWrite>, Timestamp, Answer<Vec<KvWritten>>),
    /// Cut the log to nothing: what was forgotten still stands in it. Answers false when a reader is in the way.
    EmptyLog(Answer<bool>),
    Close(Answer<()>),
}

/// An answer that waits for its commit.
pub type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

#[derive(Debug)]
pub struct Writer {
    pub file: Connection,
    pub index: Arc<Mutex<Index>>,
    pub room: Arc<Mutex<RoomGuard>>,
    /// Only looked at: the forcer has one of its own.
    pub log: File,
    pub forcer: Forcer,
    pub watcher: Watched,
    pub failed_why: FailedWhy,
    pub folder: Folder,
    /// Those who wait for the log to be cut, once the transaction has ended.
    pub log_cuts: Vec<Answer<bool>>,
    /// The number that was raised last under each name. In memory alone: all writers are in this process.
    pub fences: BTreeMap<&'static str, u64>,
    /// Let go when the writer has ended, and not before: until then it may still write.
    pub lock: DirLock,
}

/// Folds the log into the file on its own connection, so that the writer need not wait for it.
#[derive(Debug)]
pub struct Folder {
    wanted: SyncSender<()>,
    thread: JoinHandle<()>,
}

/// Moves what has queued up into the group.
fn take(group: &mut VecDeque<Request>, requests: &mut mpsc::Receiver<Request>) {
    while group.len() < GROUP_REQUESTS_MAX
        && let Ok(next) = requests.try_recv()
    {
        group.push_back(next);
    }
}

/// The requests of a kind that wait.
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
            take(&mut group, &mut requests);
            let is_close = |request: &Request| matches!(request, Request::Close(_));
            let (waited, closes) = (group.len(), count(&group, is_close));
            let began = Instant::now();
            let commit = self.transact(&mut group, began + TURN_MAX);
            let requests_count = (waited - group.len()) as u64;
            let closing = count(&group, is_close) < closes;
            if let Some(watcher) = self.watcher.get() {
                watcher.committed(requests_count, began.elapsed());
            }
            let broken = matches!(commit.outcome, Err(StoreError::Broken(_)));
            if let Err(StoreError::Broken(why)) = &commit.outcome {
                let _ = self.failed_why.set(why.clone());
            }
            if let Err(error) = &commit.outcome {
                tracing::error!(%error, "a commit failed; nothing of it was kept");
            }
            let gone = self.forcer.force(commit).is_err();
            if broken || closing || gone {
                break;
            }
            match self.log_cuts.is_empty() {
                true => self.fold_log(),
                false => {
                    let is_cut = self.empty_log();
                    self.log_cuts.drain(..).for_each(|answer| drop(answer.send(Ok(is_cut))));
                }
            }
        }
        let Writer { file, forcer, folder, lock, .. } = self;
        forcer.end();
        folder.end();
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
            group.drain(..).for_each(|request| refuse_later(request, &mut commit.replies));
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
        commit.rung.clear();
        if error.sqlite_error_code() != Some(ErrorCode::DiskFull) {
            return Err(StoreError::Broken(format!("{error}; {RECOVERS}")));
        }
        self.room.lock().ran_out();
        match load(&self.file) {
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
        let Commit { forced, rung, replies, .. } = commit;
        let mut index = self.index.lock();
        let recorder = Recorder::new(&self.file);
        let mut apply = Apply { file: &self.file, index: &mut index, recorder, rung };
        let mut failed = None;
        let mut is_first = true;
        while (is_first || failed.is_some() || Instant::now() < deadline)
            && let Some(request) = group.pop_front()
        {
            is_first = false;
            *forced |= !only_leases(&request);
            if failed.is_some() {
                refuse_later(request, replies);
                continue;
            }
            // Settles leave their records to be written together. Whoever else may look for them finds them.
            if !matches!(request, Request::Settle(..) | Request::Claim(..) | Request::Enqueue(..))
                && let Err(error) = apply.recorder.write()
            {
                failed = Some(error);
                refuse_later(request, replies);
                continue;
            }
            let outcome = match request {
                Request::Enqueue(jobs, answer) => {
                    if let Some(why) = refusing(&self.room, &apply, jobs.iter().map(|job| &job.id)) {
                        let _ = answer.send(Err(StoreError::Full(why)));
                        continue;
                    }
                    later(apply.enqueue(jobs), answer, replies)
                }
                Request::Claim(claim, answer) => later(apply.claim(&claim), answer, replies),
                Request::Extend(tokens, until, answer) => {
                    later(apply.extend(&tokens, until), answer, replies)
                }
                Request::Settle(settlements, answer) => later(apply.settle(settlements), answer, replies),
                Request::Cancel(id, audit, answer) => later(apply.cancel(&id, &audit), answer, replies),
                Request::Redrive(redrive, answer) => later(apply.redrive(*redrive), answer, replies),
                Request::Discard(discard, answer) => later(apply.discard(*discard), answer, replies),
                Request::Prune(retention, now, answer) => {
                    later(apply.prune(&retention, now), answer, replies)
                }
                Request::Forget(ids, answer) => later(apply.forget(&ids), answer, replies),
                Request::Adopt(transfers, answer) => {
                    if let Some(why) = refusing(&self.room, &apply, ids_of(&transfers)) {
                        let _ = answer.send(Err(StoreError::Full(why)));
                        continue;
                    }
                    later(apply.adopt(&transfers), answer, replies)
                }
                Request::RaiseFence(fence, answer) => {
                    let raised = self.fences.entry(fence.name).or_default();
                    *raised = fence.number.max(*raised);
                    let is_newest = *raised == fence.number;
                    let _ = answer.send(if is_newest { Ok(()) } else { Err(StoreError::Fenced) });
                    continue;
                }
                Request::WriteFenced(fence, _, answer)
                    if self.fences.get(fence.name) != Some(&fence.number) =>
                {
                    let _ = answer.send(Err(StoreError::Fenced));
                    continue;
                }
                Request::WriteFenced(_, write, answer) => {
                    if let FencedWrite::Adopt(transfers) = &write
                        && let Some(why) = refusing(&self.room, &apply, ids_of(transfers))
                    {
                        let _ = answer.send(Err(StoreError::Full(why)));
                        continue;
                    }
                    later(write_fenced(&mut apply, write), answer, replies)
                }
                Request::Record(events, answer) => later(apply.record(&events), answer, replies),
                Request::TrimAudit(trim, answer) => later(apply.trim_audit(trim), answer, replies),
                Request::KvWrite(writes, now, answer) => later(apply.kv_write(writes, now), answer, replies),
                Request::EmptyLog(answer) => {
                    self.log_cuts.push(answer);
                    Ok(())
                }
                Request::Close(answer) => later(Ok(()), answer, replies),
            };
            failed = outcome.err();
        }
        let failed = failed.or_else(|| apply.recorder.write().err());
        drop(apply);
        drop(index);
        match failed {
            Some(error) => Err(error),
            None => self.run_statement("COMMIT"),
        }
    }

    /// Prepared once: there is one of these for every few jobs.
    fn run_statement(&self, statement: &str) -> rusqlite::Result<()> {
        self.file.prepare_cached(statement)?.execute([]).map(drop)
    }

    fn fold_log(&self) {
        let size = self.log.metadata().map_or(0, |log| log.len());
        let max = looked(&self.room, &self.file)
            .log_max_bytes()
            .map_or(WAL_MAX_BYTES, |max| max.min(WAL_FOLD_BYTES));
        if size >= max {
            let _ = self.empty_log();
        } else if size >= WAL_FOLD_BYTES {
            let _ = self.folder.wanted.try_send(());
        }
    }

    /// Folds the log back and cuts it, unless a reader is in the way: then it is as long as before.
    fn empty_log(&self) -> bool {
        let emptied = self.file.busy_timeout(FOLD_WAIT_MAX).and_then(|()| {
            let is_busy = self.file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
            self.file.busy_timeout(BUSY_WAIT_MAX)?;
            is_busy.map(|is_busy: bool| !is_busy)
        });
        emptied.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot fold the log back into the file; it keeps growing");
            false
        })
    }
}

/// Why new jobs are refused, if they are.
///
/// Returns the reason why new jobs are refused. A request that holds known jobs only needs no room, and is not refused.
fn refusing<'a>(
    room: &Mutex<RoomGuard>,
    apply: &Apply<'_>,
    ids: impl Iterator<Item = &'a JobId>,
) -> Option<String> {
    let why = looked(room, apply.file).refusing().map(str::to_owned);
    why.filter(|_| !apply.all_known(ids))
}

fn ids_of(transfers: &[JobSnapshot]) -> impl Iterator<Item = &JobId> {
    transfers.iter().map(|transfer| &transfer.job.id)
}

/// Carries out a write whose fence stands.
fn write_fenced(apply: &mut Apply<'_>, write: FencedWrite) -> rusqlite::Result<Vec<Lease>> {
    match write {
        FencedWrite::Claim(claim) => return Ok(apply.claim(&claim)?.leases),
        FencedWrite::Adopt(transfers) => drop(apply.adopt(&transfers)?),
        FencedWrite::Record(events) => apply.record(&events)?,
        FencedWrite::KvWrite(writes, now) => drop(apply.kv_write(writes, now)?),
    }
    Ok(Vec::new())
}

/// The guard, who knows what the store holds.
fn looked<'r>(room: &'r Mutex<RoomGuard>, file: &Connection) -> MutexGuard<'r, RoomGuard> {
    let mut room = room.lock();
    if room.look_is_due()
        && let Ok(bytes) = held_bytes(file)
    {
        room.holds(bytes);
    }
    room
}

pub fn held_bytes(file: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name| file.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
}

fn only_leases(request: &Request) -> bool {
    matches!(request, Request::Claim(..) | Request::Extend(..))
}

/// Keeps an answer until the commit has spoken.
fn later<T: Send + 'static>(
    outcome: rusqlite::Result<T>,
    answer: Answer<T>,
    replies: &mut Vec<Reply>,
) -> rusqlite::Result<()> {
    let (value, error) = match outcome {
        Ok(value) => (Some(value), None),
        Err(error) => (None, Some(error)),
    };
    replies.push(Box::new(move |committed: Result<(), StoreError>| {
        let said =
            committed.and_then(|()| value.ok_or_else(|| StoreError::Unavailable("rolled back".to_owned())));
        let _ = answer.send(said);
    }));
    error.map_or(Ok(()), Err)
}

/// A request that came after the one that failed: it was not tried.
fn refuse_later(request: Request, replies: &mut Vec<Reply>) {
    fn refuse<T: Send + 'static>(answer: Answer<T>, replies: &mut Vec<Reply>) {
        replies.push(Box::new(move |committed: Result<(), StoreError>| {
            let error = committed.err().unwrap_or_else(|| StoreError::Unavailable("rolled back".to_owned()));
            let _ = answer.send(Err(error));
        }));
    }
    match request {
        Request::Enqueue(_, answer) => refuse(answer, replies),
        Request::Forget(_, answer) => refuse(answer, replies),
        Request::Adopt(_, answer) => refuse(answer, replies),
        Request::RaiseFence(_, answer) => refuse(answer, replies),
        Request::WriteFenced(_, _, answer) => refuse(answer, replies),
        Request::Claim(_, answer) => refuse(answer, replies),
        Request::Extend(_, _, answer) => refuse(answer, replies),
        Request::Settle(_, answer) => refuse(answer, replies),
        Request::Cancel(_, _, answer) => refuse(answer, replies),
        Request::Redrive(_, answer) => refuse(answer, replies),
        Request::Discard(_, answer) => refuse(answer, replies),
        Request::Prune(_, _, answer) => refuse(answer, replies),
        Request::Record(_, answer) => refuse(answer, replies),
        Request::TrimAudit(_, answer) => refuse(answer, replies),
        Request::KvWrite(_, _, answer) => refuse(answer, replies),
        Request::EmptyLog(answer) => refuse(answer, replies),
        Request::Close(answer) => refuse(answer, replies),
    }
}

impl Folder {
    pub fn start(file: Connection) -> std::io::Result<Self> {
        let (wanted, when) = std::sync::mpsc::sync_channel(1);
        let fold = move || {
            while when.recv().is_ok() {
                if let Err(error) = file.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
                    tracing::warn!(%error, "cannot fold the log back into the file in the background");
                }
            }
        };
        let thread = std::thread::Builder::new().name("recado-folder".to_owned()).spawn(fold)?;
        Ok(Folder { wanted, thread })
    }

    fn end(self) {
        drop(self.wanted);
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
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
            index: Arc::new(Mutex::new(Index::new())),
            room: Arc::new(Mutex::new(RoomGuard::new(dir, 0, None))),
            log: crate::disk::open_log(dir).unwrap(),
            forcer: Forcer::start(
                crate::disk::open_log(dir).unwrap(),
                None,
                Arc::default(),
                Arc::default(),
                Arc::default(),
            )
            .unwrap(),
            failed_why: Arc::default(),
            watcher: Arc::default(),
            folder: Folder::start(open()).unwrap(),
            log_cuts: Vec::new(),
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
        for (group, forced) in [
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
            assert_eq!(commit.forced, forced, "{what}");
        }
    }

    #[test]
    fn a_turn_that_has_lasted_long_enough_leaves_the_rest_to_the_next_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer_in(dir.path());
        let extend = || Request::Extend(Vec::new(), Timestamp::from_millis(0), oneshot::channel().0);
        let record = || Request::Record(Vec::new(), oneshot::channel().0);
        let mut group = VecDeque::from([extend(), record(), extend()]);
        for (left, forced) in [(2, false), (1, true), (0, false)] {
            let commit = writer.transact(&mut group, Instant::now());
            assert!(commit.outcome.is_ok());
            assert_eq!((group.len(), commit.forced, commit.replies.len()), (left, forced, 1));
        }
    }

    /// The forcer's fsync is the one that counts: SQLite must put every commit into the log before it
    /// returns, and must order the log against the file when it folds.
    #[test]
    fn sqlite_writes_a_log_that_the_forcer_can_force() {
        let dir = tempfile::tempdir().unwrap();
        let writer = writer_in(dir.path());
        let number = |name| writer.file.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        let journal: String = writer.file.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!((journal.as_str(), number("synchronous")), ("wal", 1));
    }
}
