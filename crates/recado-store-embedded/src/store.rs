//! The store: sends each write to the writer, and each read to a connection of its own.

pub(crate) mod audit_log;
pub(crate) mod inspect;
pub(crate) mod key_value;
pub(crate) mod transfer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_core::{AuditEvent, JobId, Lease, LeaseToken, NewJob, Random, RouteName, Timestamp};
use recado_store::{
    Cancelled, Claim, Claimed, Discard, Discarded, Enqueued, Extended, JobStore, Pruned, Redrive, Redriven,
    Retention, Settled, Settlement, StoreError, StoreResult, Waker, Wakes, Watcher,
};
use rusqlite::Connection;
use tokio::sync::mpsc;

use crate::disk::{self, LockError, SpaceGuard, StoreFiles};
use crate::index::{ActiveLease, Index};
use crate::load::{carry_over_leases, load_index, orphan_leases};
use crate::schema::{self, FILE_NAME, SchemaError};
use crate::store::audit_log::PreparedSettlement;
use crate::store::inspect::{Readers, open_reader, read_job};
use crate::writer::apply::{WriteTransaction, make_token, seq_of};
use crate::writer::fsync_thread::{FailureReason, FsyncLoop, SharedWatcher};
use crate::writer::request::{ChangeError, Request, RequestKind};
use crate::writer::statements::Statements;
use crate::writer::unsynced::{SyncedCommit, UnsyncedJobs};
use crate::writer::{QUEUE_REQUESTS_MAX, WAL_KEPT_BYTES, Writer, held_bytes, start_checkpointer};

/// Connections at most that read the jobs at a start.
const LOAD_READERS_MAX: usize = 4;

/// Pieces of one prune at most.
const PRUNE_PIECES_MAX: usize = 4;

/// The store's directory and the space that it may take.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    pub dir: PathBuf,
    /// New jobs are refused when the disk has less free than this.
    pub reserve_bytes: u64,
    /// New jobs are refused when the store's files are larger than this.
    pub max_bytes: Option<u64>,
    /// The time that leases are measured by, at the opening. Workers' leases of the last process are set by it; without
    /// it they stay as they are.
    pub now: Option<Timestamp>,
}

impl EmbeddedOptions {
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        EmbeddedOptions { dir: dir.into(), reserve_bytes: 64 << 20, max_bytes: None, now: None }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("cannot use {}: {error}", .path.display())]
    Schema { path: PathBuf, error: SchemaError },
    #[error("cannot read {}: {error}", .path.display())]
    Read { path: PathBuf, error: rusqlite::Error },
    #[error("cannot start the writer: {0}")]
    Thread(std::io::Error),
}

#[derive(Debug)]
pub struct EmbeddedStore {
    pub(crate) requests: mpsc::Sender<Request>,
    pub(crate) index: Arc<Mutex<Index>>,
    wakes: Arc<Wakes>,
    pub(crate) space: Arc<Mutex<SpaceGuard>>,
    pub(crate) readers: Arc<Readers>,
    pub(crate) dir: PathBuf,
    pub(crate) place: Arc<StoreFiles>,
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
    watcher: SharedWatcher,
    failure_reason: FailureReason,
}

impl EmbeddedStore {
    /// Opens the store, recovering whatever the last process left. Blocks while it reads the file.
    ///
    /// Fences of leases are drawn from `random`. A store that is opened again needs another seed: a lease must never
    /// get the fence of an earlier one.
    pub fn open(options: &EmbeddedOptions, random: Arc<Random>) -> Result<Self, OpenError> {
        let dir = options.dir.clone();
        let lock = disk::lock(&dir)?;
        let path = dir.join(FILE_NAME);
        let io = |error| LockError::Io { dir: dir.clone(), error };
        disk::make_private(&path).map_err(io)?;
        let file = open_file(&path)?;
        let read = |error| OpenError::Read { path: path.clone(), error };
        orphan_leases(&file).map_err(read)?;
        if let Some(now) = options.now {
            carry_over_leases(&file, now).map_err(read)?;
        }
        let load_readers = (0..load_readers_count()).map(|_| open_reader(&path)).collect::<Result<_, _>>();
        let index = load_readers.and_then(|readers| load_index(&file, readers, &random)).map_err(read)?;
        let index = Arc::new(Mutex::new(index));
        let wakes = Arc::new(Wakes::default());
        let mut space = SpaceGuard::new(&dir, options.reserve_bytes, options.max_bytes);
        space.held_bytes = held_bytes(&file).map_err(read)?;
        let space = Arc::new(Mutex::new(space));
        let place = Arc::new(StoreFiles::remember(&dir).map_err(io)?);
        let watcher = SharedWatcher::default();
        let failure_reason = FailureReason::default();
        let synced = SyncedCommit::default();
        let unsynced = UnsyncedJobs::new(synced.clone(), index.lock().next_seq);
        let fsync_loop = FsyncLoop {
            log: disk::open_log(&dir).map_err(io)?,
            files: Some(place.clone()),
            wakes: wakes.clone(),
            callers: tokio::runtime::Handle::try_current().ok(),
            watcher: watcher.clone(),
            failure_reason: failure_reason.clone(),
            synced,
        };
        let log = disk::open_log(&dir).map_err(io)?;
        let fsync_thread = fsync_loop.start().map_err(OpenError::Thread)?;
        let checkpointer = start_checkpointer(open_file(&path)?).map_err(OpenError::Thread)?;
        let (requests, inbox) = mpsc::channel(QUEUE_REQUESTS_MAX);
        let (written_index, written_space) = (index.clone(), space.clone());
        let (its_watcher, its_failure_reason) = (watcher.clone(), failure_reason.clone());
        let write = move || {
            let writer = Writer {
                file: &file,
                statements: Statements::new(&file),
                random,
                index: written_index,
                space: written_space,
                log,
                fsync_thread,
                watcher: its_watcher,
                failure_reason: its_failure_reason,
                checkpointer,
                truncate_requests: Vec::new(),
                fences: BTreeMap::new(),
                unsynced,
            };
            writer.run(inbox);
            drop(file);
            // Not before: until here it may still write.
            drop(lock);
        };
        let writer = std::thread::Builder::new()
            .name("recado-writer".to_owned())
            .spawn(write)
            .map_err(OpenError::Thread)?;
        Ok(EmbeddedStore {
            requests,
            index,
            wakes,
            space,
            readers: Arc::new(Readers::new(path, failure_reason.clone())),
            dir,
            place,
            writer: Mutex::new(Some(writer)),
            watcher,
            failure_reason,
        })
    }

    /// The error of a store whose writer has ended.
    pub(crate) fn failed(&self) -> StoreError {
        let why =
            self.failure_reason.get().map_or("the writer has stopped; restart to recover", String::as_str);
        StoreError::Broken(why.to_owned())
    }

    /// Has the writer make a change, and waits for its commit.
    pub(crate) async fn write<T: Send + 'static, E: Into<ChangeError> + 'static>(
        &self,
        kind: RequestKind,
        change: impl FnOnce(&mut WriteTransaction<'_, '_>) -> Result<T, E> + Send + 'static,
    ) -> StoreResult<T> {
        let (request, answered) = Request::new(kind, change);
        self.requests.send(request).await.map_err(|_| self.failed())?;
        answered.await.map_err(|_| self.failed())?
    }

    pub(crate) fn row_of(&self, id: &JobId) -> Option<u64> {
        let index = self.index.lock();
        index.row_of(index.digest(id.as_str()))
    }
}

fn load_readers_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(LOAD_READERS_MAX)
}

pub fn open_file(path: &Path) -> Result<Connection, OpenError> {
    let schema = |error| OpenError::Schema { path: path.to_owned(), error };
    let file = Connection::open(path).map_err(|error| schema(error.into()))?;
    schema::prepare(&file).map_err(schema)?;
    file.pragma_update(None, "wal_autocheckpoint", 0).map_err(|error| schema(error.into()))?;
    file.pragma_update(None, "journal_size_limit", WAL_KEPT_BYTES).map_err(|error| schema(error.into()))?;
    Ok(file)
}

/// Waits for the writer to end, so that the next process finds the directory at rest and unlocked.
impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.readers.close();
        // The writer ends when its last sender is gone.
        self.requests = mpsc::channel(1).0;
        if let Some(writer) = self.writer.get_mut().take() {
            let _ = writer.join();
        }
    }
}

#[async_trait]
impl JobStore for EmbeddedStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        self.write(RequestKind::Enqueue, move |transaction| transaction.enqueue(jobs)).await
    }

    async fn claim(&self, claim: Claim) -> StoreResult<Claimed> {
        self.write(RequestKind::Claim, move |transaction| transaction.claim(&claim)).await
    }

    async fn extend(&self, tokens: Vec<LeaseToken>, until: Timestamp) -> StoreResult<Vec<Extended>> {
        self.write(RequestKind::Extend, move |transaction| transaction.extend(&tokens, until)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        let settlements =
            settlements.into_iter().map(PreparedSettlement::prepare).collect::<Result<_, _>>()?;
        self.write(RequestKind::Settle, move |transaction| transaction.settle(settlements)).await
    }

    async fn cancel(&self, id: &JobId, audit: AuditEvent) -> StoreResult<Cancelled> {
        let id = id.clone();
        self.write(RequestKind::Other, move |transaction| transaction.cancel(&id, &audit)).await
    }

    async fn redrive(&self, redrive: Redrive) -> StoreResult<Redriven> {
        self.write(RequestKind::Other, move |transaction| transaction.redrive(redrive)).await
    }

    async fn discard(&self, discard: Discard) -> StoreResult<Discarded> {
        self.write(RequestKind::Other, move |transaction| transaction.discard(discard)).await
    }

    /// In pieces, so that others get their turn in between.
    async fn prune(&self, retention: Retention, now: Timestamp) -> StoreResult<Pruned> {
        let mut all = Pruned { more: true, ..Pruned::default() };
        for _ in 0..PRUNE_PIECES_MAX {
            let retention = retention.clone();
            let prune = move |transaction: &mut WriteTransaction<'_, '_>| transaction.prune(&retention, now);
            let piece = self.write(RequestKind::Other, prune).await?;
            all.ended += piece.ended;
            all.dead_letters += piece.dead_letters;
            all.kv_entries += piece.kv_entries;
            all.more = piece.more;
            if !piece.more {
                break;
            }
        }
        Ok(all)
    }

    fn waker(&self, route: &RouteName) -> Waker {
        self.wakes.waker(route)
    }

    fn watch(&self, watcher: Arc<dyn Watcher>) {
        // The first one stays.
        let _ = self.watcher.set(watcher);
    }

    async fn leases(&self, tokens: &[LeaseToken]) -> StoreResult<Vec<Option<Lease>>> {
        let held = {
            let index = self.index.lock();
            let held = |token: &LeaseToken| {
                let seq = seq_of(*token);
                let held = index.leases.get(&seq).filter(|held| make_token(seq, held.fence) == *token)?;
                Some((*token, held.clone()))
            };
            tokens.iter().map(held).collect::<Vec<_>>()
        };
        let read = move |file: &Connection| {
            let lease = |held: Option<(LeaseToken, ActiveLease)>| {
                let Some((token, held)) = held else { return Ok(None) };
                let view = read_job(file, seq_of(token), Timestamp::from_millis(0))?;
                Ok(view.map(|view| Lease {
                    token,
                    attempt: held.as_lost.attempt,
                    claimed_at: held.as_lost.claimed_at,
                    expires_at: Timestamp::from_millis(held.expires_at),
                    job: view.job,
                    lost: None,
                }))
            };
            held.into_iter().map(lease).collect()
        };
        self.readers.query(read).await
    }

    async fn close(&self) -> StoreResult<()> {
        // Before the writer: the last connection to close checkpoints the log, and a reader could not.
        self.readers.close();
        let closed = self.write(RequestKind::Close, |_| Ok::<_, ChangeError>(())).await;
        let writer = self.writer.lock().take();
        if let Some(writer) = writer {
            // The writer has answered, so it is past its last transaction.
            let _ = tokio::task::spawn_blocking(move || writer.join()).await;
        }
        closed
    }
}
