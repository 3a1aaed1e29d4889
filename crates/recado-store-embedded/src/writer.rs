//! One writer, group commit.
//!
//! While a commit waits for the disk, requests queue up; the next transaction takes them all. Every
//! request of a transaction is answered after its commit, and only then. So one fsync serves however
//! many callers there are, and nobody hears "yes" about something a power cut could undo.
//!
//! If a statement or a commit fails, the transaction is rolled back and the index rebuilt from the file:
//! out of room is answered as such and life goes on; anything else, a failed fsync above all, means the
//! file's state on disk is unknown, and the store stops for good. It never tries an fsync again.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::{AuditEvent, JobId, LeaseToken, NewJob, Timestamp};
use recado_store::{
    Cancelled, Claim, Claimed, Discarded, Enqueued, Extended, Pruned, Redrive, Redriven, Retention, Settled,
    Settlement, StoreError, Wakes,
};
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use crate::apply::Apply;
use crate::disk::{DirLock, RoomGuard, log_bytes};
use crate::index::Index;
use crate::load::load;

/// Requests that may wait for the writer; more wait at the sender.
pub const QUEUE_REQUESTS_MAX: usize = 8_192;

/// Requests that one transaction takes at most.
const GROUP_REQUESTS_MAX: usize = 4_096;

/// Fewer answers than this are sent where they are.
const ANSWERS_APART_MIN: usize = 4;

/// The log is folded back into the file in the background from this size on.
const WAL_FOLD_BYTES: u64 = 16 << 20;

/// A log that was folded back is cut to this size, or its old size would ask for folding at every commit.
/// Not by more than that: a log that is written in place syncs much faster than one that grows.
pub const WAL_KEPT_BYTES: u64 = 15 << 20;

/// From this size on the writer itself waits for the folding, so that the log stays bounded.
const WAL_MAX_BYTES: u64 = 256 << 20;

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

#[derive(Debug)]
pub enum Request {
    Enqueue(Vec<NewJob>, Answer<Vec<Enqueued>>),
    Claim(Claim, Answer<Claimed>),
    Extend(Vec<LeaseToken>, Timestamp, Answer<Vec<Extended>>),
    Settle(Vec<Settlement>, Answer<Vec<Settled>>),
    Cancel(JobId, AuditEvent, Answer<Cancelled>),
    Redrive(Box<Redrive>, Answer<Redriven>),
    Discard(JobId, AuditEvent, Answer<Discarded>),
    Prune(Retention, Timestamp, Answer<Pruned>),
    Record(Vec<AuditEvent>, Answer<()>),
    Close(Answer<()>),
}

/// An answer that waits for its commit.
type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

#[derive(Debug)]
pub struct Writer {
    pub file: Connection,
    /// What `file` is set to.
    pub sync: Sync,
    pub index: Arc<Mutex<Index>>,
    pub wakes: Arc<Wakes>,
    pub room: Arc<Mutex<RoomGuard>>,
    pub dir: PathBuf,
    pub folder: Folder,
    /// The runtime that callers wait in, if the store was opened in one.
    pub callers: Option<tokio::runtime::Handle>,
    /// Let go when the writer has ended, and not before: until then it may still write.
    pub lock: DirLock,
}

/// Folds the log into the file on its own connection, so that the writer need not wait for it.
#[derive(Debug)]
pub struct Folder {
    wanted: SyncSender<()>,
    thread: JoinHandle<()>,
}

/// Decides how long a commit waits for company.
///
/// Whoever waits for an answer sends the next request right after it. So at the moment when a commit ends,
/// most callers are about to ask again; a commit that started at once would leave without them. A short
/// pause lets them come along, and one fsync, one write of each page and one round of wake-ups serve them
/// all. Only enqueues are worth it: leases and outcomes are what deliveries wait for. Callers that are few,
/// or that do not come back, are not waited for.
#[derive(Debug, Default)]
struct Gather {
    /// Requests that were under way when the last commit ended.
    callers: usize,
}

/// Fewer callers than this are not worth waiting for.
const GATHER_CALLERS_MIN: usize = 8;

/// The pause is spent in slices; one that brings nobody ends it.
const GATHER_SLICE: Duration = Duration::from_micros(100);
const GATHER_SLICES_MAX: usize = 5;

impl Gather {
    fn fill(&self, group: &mut Vec<Request>, requests: &mut mpsc::Receiver<Request>) {
        take(group, requests);
        for _ in 0..GATHER_SLICES_MAX {
            let missing = group.len() * 4 < self.callers * 3;
            if !missing || self.callers < GATHER_CALLERS_MIN || !group.iter().all(is_enqueue) {
                return;
            }
            std::thread::sleep(GATHER_SLICE);
            let before = group.len();
            take(group, requests);
            if group.len() == before {
                return;
            }
        }
    }

    fn committed(&mut self, callers: usize) {
        self.callers = callers;
    }
}

fn is_enqueue(request: &Request) -> bool {
    matches!(request, Request::Enqueue(..))
}

/// Moves what has queued up into the group.
fn take(group: &mut Vec<Request>, requests: &mut mpsc::Receiver<Request>) {
    while group.len() < GROUP_REQUESTS_MAX
        && let Ok(next) = requests.try_recv()
    {
        group.push(next);
    }
}

/// What a transaction has to survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// A crash of the process: leases, whose loss costs nothing but a repeated claim.
    Process,
    /// A crash of the machine.
    Machine,
}

impl Writer {
    pub fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut rung = Vec::new();
        let mut replies: Vec<Reply> = Vec::new();
        let mut gather = Gather::default();
        while let Some(first) = requests.blocking_recv() {
            let mut group = vec![first];
            gather.fill(&mut group, &mut requests);
            let size = group.len();
            let closing = group.iter().any(|request| matches!(request, Request::Close(_)));
            let outcome = self.transact(group, &mut rung, &mut replies);
            let broken = matches!(outcome, Err(StoreError::Broken(_)));
            gather.committed(size + requests.len());
            if let Err(error) = &outcome {
                tracing::error!(%error, "a commit failed; nothing of it was kept");
            }
            self.answer(&mut replies, &outcome);
            for route in rung.drain(..) {
                self.wakes.ring(&route);
            }
            if broken || closing {
                break;
            }
            self.fold_log();
        }
        let Writer { file, folder, lock, .. } = self;
        folder.end();
        drop(file);
        drop(lock);
    }

    /// Tells everybody how the commit went. Many callers are told from inside the runtime they wait in: that
    /// is one wake-up from here, and the rest is handed around among the runtime's own threads.
    fn answer(&self, replies: &mut Vec<Reply>, outcome: &Result<(), StoreError>) {
        match &self.callers {
            Some(callers) if replies.len() >= ANSWERS_APART_MIN => {
                let (replies, outcome) = (std::mem::take(replies), outcome.clone());
                callers.spawn(async move { replies.into_iter().for_each(|reply| reply(outcome.clone())) });
            }
            _ => replies.drain(..).for_each(|reply| reply(outcome.clone())),
        }
    }

    fn begin(&mut self, sync: Sync) -> rusqlite::Result<()> {
        if self.sync != sync {
            // NORMAL skips only the fsync of this commit: the next FULL one covers it, and a killed process
            // loses nothing because the log is already with the kernel.
            let level = if sync == Sync::Process { "NORMAL" } else { "FULL" };
            self.file.pragma_update(None, "synchronous", level)?;
            self.sync = sync;
        }
        self.file.execute_batch("BEGIN IMMEDIATE")
    }

    fn transact(
        &mut self,
        group: Vec<Request>,
        rung: &mut Vec<recado_core::RouteName>,
        replies: &mut Vec<Reply>,
    ) -> Result<(), StoreError> {
        let sync = if group.iter().all(only_leases) { Sync::Process } else { Sync::Machine };
        if let Err(error) = self.begin(sync) {
            group.into_iter().for_each(|request| refuse_later(request, replies));
            return Err(match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy) => StoreError::Unavailable(
                    "another program keeps the file locked; is a sqlite3 shell open?".to_owned(),
                ),
                _ => StoreError::Broken(error.to_string()),
            });
        }
        let outcome = self.apply(group, rung, replies);
        let Err(error) = outcome else { return Ok(()) };
        let _ = self.file.execute_batch("ROLLBACK");
        rung.clear();
        if error.sqlite_error_code() != Some(ErrorCode::DiskFull) {
            return Err(StoreError::Broken(error.to_string()));
        }
        self.room.lock().ran_out();
        match load(&self.file) {
            Ok(index) => {
                *self.index.lock() = index;
                Err(StoreError::Full("the disk ran full; nothing of this request was kept".to_owned()))
            }
            Err(error) => Err(StoreError::Broken(format!("cannot read the store back: {error}"))),
        }
    }

    fn apply(
        &mut self,
        group: Vec<Request>,
        rung: &mut Vec<recado_core::RouteName>,
        replies: &mut Vec<Reply>,
    ) -> rusqlite::Result<()> {
        let mut index = self.index.lock();
        let mut apply = Apply { file: &self.file, index: &mut index, rung };
        let mut failed = None;
        for request in group {
            if failed.is_some() {
                refuse_later(request, replies);
                continue;
            }
            let outcome = match request {
                Request::Enqueue(jobs, answer) => {
                    // Who asks again about a job that is in gets to hear so, room or not.
                    if let Some(why) = refusing(&self.room, &self.file)
                        && !apply.all_known(&jobs)
                    {
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
                Request::Redrive(redrive, answer) => later(apply.redrive(&redrive), answer, replies),
                Request::Discard(id, audit, answer) => later(apply.discard(&id, &audit), answer, replies),
                Request::Prune(retention, now, answer) => {
                    later(apply.prune(&retention, now), answer, replies)
                }
                Request::Record(events, answer) => later(apply.record(&events), answer, replies),
                Request::Close(answer) => later(Ok(()), answer, replies),
            };
            failed = outcome.err();
        }
        drop(index);
        match failed {
            Some(error) => Err(error),
            None => self.file.execute_batch("COMMIT"),
        }
    }

    fn fold_log(&self) {
        let size = log_bytes(&self.dir);
        let max = self.room.lock().log_max_bytes().map_or(WAL_MAX_BYTES, |max| max.min(WAL_FOLD_BYTES));
        if size >= max {
            let folded = self.file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            if let Err(error) = folded {
                tracing::warn!(%error, "cannot fold the log back into the file; it keeps growing");
            }
        } else if size >= WAL_FOLD_BYTES {
            let _ = self.folder.wanted.try_send(());
        }
    }
}

/// Why new jobs are refused, if they are.
fn refusing(room: &Mutex<RoomGuard>, file: &Connection) -> Option<String> {
    let mut room = room.lock();
    if room.look_is_due()
        && let Ok(bytes) = held_bytes(file)
    {
        room.holds(bytes);
    }
    room.refusing().map(str::to_owned)
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
        Request::Claim(_, answer) => refuse(answer, replies),
        Request::Extend(_, _, answer) => refuse(answer, replies),
        Request::Settle(_, answer) => refuse(answer, replies),
        Request::Cancel(_, _, answer) => refuse(answer, replies),
        Request::Redrive(_, answer) => refuse(answer, replies),
        Request::Discard(_, _, answer) => refuse(answer, replies),
        Request::Prune(_, _, answer) => refuse(answer, replies),
        Request::Record(_, answer) => refuse(answer, replies),
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
        let open = || {
            let file = Connection::open(dir.join(crate::schema::FILE_NAME)).unwrap();
            crate::schema::prepare(&file).unwrap();
            file
        };
        Writer {
            file: open(),
            sync: Sync::Machine,
            index: Arc::new(Mutex::new(Index::new())),
            wakes: Arc::default(),
            room: Arc::new(Mutex::new(RoomGuard::new(dir, 0, None))),
            dir: dir.to_owned(),
            folder: Folder::start(open()).unwrap(),
            callers: None,
            lock: crate::disk::lock(dir).unwrap(),
        }
    }

    /// Cutting the power is beyond a test; what SQLite was told to do about it is not.
    #[test]
    fn only_a_commit_of_leases_alone_goes_without_an_fsync() {
        const NORMAL: i64 = 1;
        const FULL: i64 = 2;
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer_in(dir.path());
        let extend = || Request::Extend(Vec::new(), Timestamp::from_millis(0), oneshot::channel().0);
        let record = || Request::Record(Vec::new(), oneshot::channel().0);
        let settle = || Request::Settle(Vec::new(), oneshot::channel().0);
        let enqueue = || Request::Enqueue(Vec::new(), oneshot::channel().0);
        for (group, level) in [
            (vec![enqueue()], FULL),
            (vec![extend()], NORMAL),
            (vec![extend(), settle(), extend()], FULL),
            (vec![extend(), extend()], NORMAL),
            (vec![record()], FULL),
        ] {
            let what = format!("{group:?}");
            writer.transact(group, &mut Vec::new(), &mut Vec::new()).unwrap();
            let synchronous: i64 =
                writer.file.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
            let journal: String =
                writer.file.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
            assert_eq!((synchronous, journal.as_str()), (level, "wal"), "{what}");
        }
    }
}
