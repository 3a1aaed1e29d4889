//! The store: sends each write to the writer, and each read to a connection of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_core::{
    AuditEvent, DeadLetter, JobId, Lease, LeaseToken, NewJob, Random, RouteName, Status, Timestamp,
};
use recado_store::prelude::*;
use recado_store::{
    Adopted, AuditRecord, AuditSpan, AuditTrim, Cancelled, Claim, Claimed, Counts, DeadLetterFilter,
    DeadLetterGroup, Discard, Discarded, Durability, Enqueued, Extended, Fence, FencedWrite, GroupBy,
    JobFilter, JobSnapshot, JobView, KvEntry, KvWrite, KvWritten, LeftOut, Namespace, Page, PageRequest,
    Pruned, Redrive, Redriven, Retention, Settled, Settlement, StoreError, StoreReport, TenantFilter,
    TenantView, Waker, Wakes, Watcher,
};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::audit_log::PreparedSettlement;
use crate::disk::{self, LockError, SpaceGuard, StoreFiles};
use crate::fsync_thread::{FailureReason, FsyncThread, SharedWatcher};
use crate::index::{DueFilter, Index};
use crate::inspect::{Candidates, Readers, unavailable};
use crate::load::{carry_over_leases, load_index, orphan_leases, repair_statuses};
use crate::request::Request;
use crate::schema::{self, FILE_NAME, SchemaError};
use crate::writer::{Checkpointer, QUEUE_REQUESTS_MAX, WAL_KEPT_BYTES, Writer, held_bytes};

/// Jobs that memory names for one page of a list.
const CANDIDATES_MAX: usize = 2_000;

/// Pieces of one prune at most.
const PRUNE_PIECES_MAX: usize = 4;

/// Jobs that one piece of a forget is told of. It may do fewer.
const FORGET_JOBS_MAX: usize = 64;

/// Tries to truncate the log after something was forgotten, and the time between two.
const TRUNCATE_TRIES_MAX: usize = 100;
const TRUNCATE_TRY_EVERY: Duration = Duration::from_millis(50);

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
    requests: mpsc::Sender<Request>,
    index: Arc<Mutex<Index>>,
    wakes: Arc<Wakes>,
    space: Arc<Mutex<SpaceGuard>>,
    readers: Arc<Readers>,
    dir: PathBuf,
    place: Arc<StoreFiles>,
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
        disk::make_private(&path).map_err(|error| LockError::Io { dir: dir.clone(), error })?;
        let file = open_file(&path)?;
        let read = |error| OpenError::Read { path: path.clone(), error };
        orphan_leases(&file).map_err(read)?;
        if let Some(now) = options.now {
            carry_over_leases(&file, now).map_err(read)?;
        }
        repair_statuses(&file).map_err(read)?;
        let index = Arc::new(Mutex::new(load_index(&file, &random).map_err(read)?));
        let wakes = Arc::new(Wakes::default());
        let mut space = SpaceGuard::new(&dir, options.reserve_bytes, options.max_bytes);
        space.set_held_bytes(held_bytes(&file).map_err(read)?);
        let space = Arc::new(Mutex::new(space));
        let open_log = || disk::open_log(&dir).map_err(|error| LockError::Io { dir: dir.clone(), error });
        let place = StoreFiles::remember(&dir).map_err(|error| LockError::Io { dir: dir.clone(), error })?;
        let place = Arc::new(place);
        let watcher = SharedWatcher::default();
        let failure_reason = FailureReason::default();
        let writer = Writer {
            file,
            random,
            index: index.clone(),
            space: space.clone(),
            log: open_log()?,
            fsync_thread: FsyncThread::start(
                open_log()?,
                Some(place.clone()),
                wakes.clone(),
                watcher.clone(),
                failure_reason.clone(),
            )
            .map_err(OpenError::Thread)?,
            watcher: watcher.clone(),
            failure_reason: failure_reason.clone(),
            checkpointer: Checkpointer::start(open_file(&path)?).map_err(OpenError::Thread)?,
            truncate_requests: Vec::new(),
            fences: BTreeMap::new(),
            lock,
        };
        let (requests, inbox) = mpsc::channel(QUEUE_REQUESTS_MAX);
        let writer = std::thread::Builder::new()
            .name("recado-writer".to_owned())
            .spawn(move || writer.run(inbox))
            .map_err(OpenError::Thread)?;
        Ok(EmbeddedStore {
            requests,
            index,
            wakes,
            space,
            readers: Arc::new(Readers::new(path)),
            dir,
            place,
            writer: Mutex::new(Some(writer)),
            watcher,
            failure_reason,
        })
    }

    /// The error of a store whose writer has ended.
    fn failed(&self) -> StoreError {
        let why =
            self.failure_reason.get().map_or("the writer has stopped; restart to recover", String::as_str);
        StoreError::Broken(why.to_owned())
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Request,
    ) -> Result<T, StoreError> {
        let gone = || self.failed();
        let (answer, answered) = oneshot::channel();
        self.requests.send(request(answer)).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// Truncates the log, which still has what was forgotten. Most of it is checkpointed beside the writer, and the
    /// writer only does the rest. A reader may be in the way for a moment.
    async fn truncate_log_after_forget(&self) -> Result<(), StoreError> {
        for _ in 0..TRUNCATE_TRIES_MAX {
            let path = self.dir.join(FILE_NAME);
            let checkpoint = move || {
                let file = open_file(&path).map_err(unavailable)?;
                let checkpointed = file.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
                checkpointed.map_err(unavailable)
            };
            tokio::task::spawn_blocking(checkpoint).await.unwrap_or_else(|error| Err(unavailable(error)))?;
            if self.ask(Request::TruncateLog).await? {
                return Ok(());
            }
            tokio::time::sleep(TRUNCATE_TRY_EVERY).await;
        }
        tracing::warn!("what was forgotten still stands in the log: the file is being read all the time");
        Ok(())
    }

    fn row_of(&self, id: &JobId) -> Option<u64> {
        let index = self.index.lock();
        index.row_of(index.digest(id.as_str()))
    }

    /// Returns the jobs that a list has to look through, as far as memory knows: to look through all takes long.
    fn find_candidates(&self, filter: &JobFilter, page: PageRequest, now: Timestamp) -> Candidates {
        let max = CANDIDATES_MAX.max(page.limit + 1);
        let top = page.before.map_or(u64::MAX, |before| before.saturating_sub(1));
        let index = self.index.lock();
        let Some(owner) = index.owner_filter(filter) else {
            return Candidates::These { seqs: Vec::new(), more: false };
        };
        let is_asked_for = filter.company.is_some() || filter.route.is_some();
        let seqs = match filter.status {
            _ if filter.correlation_id.is_some() => return Candidates::All,
            Some(Status::Queued) => index.find_waiting(owner, DueFilter::Due, now.as_millis(), top, max),
            Some(Status::Scheduled) => {
                index.find_waiting(owner, DueFilter::NotDue, now.as_millis(), top, max)
            }
            None | Some(Status::Sent) if is_asked_for => index.owner_index.find_newest(owner, top, max),
            _ => return Candidates::All,
        };
        Candidates::These { more: seqs.len() == max, seqs }
    }
}

fn open_file(path: &Path) -> Result<Connection, OpenError> {
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
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        self.ask(|answer| Request::Enqueue(jobs, answer)).await
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.ask(|answer| Request::Claim(claim, answer)).await
    }

    async fn extend(&self, tokens: Vec<LeaseToken>, until: Timestamp) -> Result<Vec<Extended>, StoreError> {
        self.ask(|answer| Request::Extend(tokens, until, answer)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        let settlements =
            settlements.into_iter().map(PreparedSettlement::prepare).collect::<Result<_, _>>()?;
        self.ask(|answer| Request::Settle(settlements, answer)).await
    }

    async fn cancel(&self, id: &JobId, audit: AuditEvent) -> Result<Cancelled, StoreError> {
        self.ask(|answer| Request::Cancel(id.clone(), audit, answer)).await
    }

    async fn redrive(&self, redrive: Redrive) -> Result<Redriven, StoreError> {
        self.ask(|answer| Request::Redrive(Box::new(redrive), answer)).await
    }

    async fn discard(&self, discard: Discard) -> Result<Discarded, StoreError> {
        self.ask(|answer| Request::Discard(Box::new(discard), answer)).await
    }

    /// In pieces, so that others get their turn in between.
    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned, StoreError> {
        let mut all = Pruned { more: true, ..Pruned::default() };
        for _ in 0..PRUNE_PIECES_MAX {
            let piece = self.ask(|answer| Request::Prune(retention.clone(), now, answer)).await?;
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

    async fn lease(&self, token: LeaseToken) -> Result<Option<Lease>, StoreError> {
        let seq = crate::apply::seq_of(token);
        let held = self.index.lock().leases.get(&seq).cloned();
        let Some(held) = held.filter(|held| crate::apply::make_token(seq, held.fence) == token) else {
            return Ok(None);
        };
        let job =
            self.readers.query(move |file| crate::inspect::job(file, seq, Timestamp::from_millis(0))).await?;
        Ok(job.map(|view| Lease {
            token,
            attempt: held.attempt,
            claimed_at: Timestamp::from_millis(held.claimed_at),
            expires_at: Timestamp::from_millis(held.expires_at),
            job: view.job,
            lost: None,
        }))
    }

    async fn close(&self) -> Result<(), StoreError> {
        // Before the writer: the last connection to close checkpoints the log, and a reader could not.
        self.readers.close();
        let closed = self.ask(Request::Close).await;
        let writer = self.writer.lock().take();
        if let Some(writer) = writer {
            // The writer has answered, so it is past its last transaction.
            let _ = tokio::task::spawn_blocking(move || writer.join()).await;
        }
        closed
    }
}

#[async_trait]
impl Inspect for EmbeddedStore {
    fn durability(&self) -> Durability {
        Durability::Fsync
    }

    async fn job(&self, id: &JobId, now: Timestamp) -> Result<Option<JobView>, StoreError> {
        let Some(seq) = self.row_of(id) else { return Ok(None) };
        self.readers.query(move |file| crate::inspect::job(file, seq, now)).await
    }

    async fn jobs(
        &self,
        filter: JobFilter,
        page: PageRequest,
        now: Timestamp,
    ) -> Result<Page<JobView>, StoreError> {
        let among = self.find_candidates(&filter, page, now);
        self.readers.query(move |file| crate::inspect::jobs(file, &filter, &among, page, now)).await
    }

    async fn audit(&self, id: &JobId) -> Result<Vec<AuditEvent>, StoreError> {
        let Some(seq) = self.row_of(id) else { return Ok(Vec::new()) };
        self.readers.query(move |file| crate::inspect::audit(file, seq)).await
    }

    async fn dead_letter(&self, id: &JobId) -> Result<Option<DeadLetter>, StoreError> {
        let Some(seq) = self.row_of(id) else { return Ok(None) };
        self.readers.query(move |file| crate::inspect::dead_letter(file, seq)).await
    }

    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> Result<Page<DeadLetter>, StoreError> {
        self.readers.query(move |file| crate::inspect::dead_letters(file, &filter, page)).await
    }

    async fn dead_letter_groups(
        &self,
        by: GroupBy,
        filter: DeadLetterFilter,
    ) -> Result<Vec<DeadLetterGroup>, StoreError> {
        self.readers.query(move |file| crate::inspect::dead_letter_groups(file, by, &filter)).await
    }

    async fn oldest_dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        self.readers.query(move |file| crate::inspect::oldest_dead_letters(file, limit)).await
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts, StoreError> {
        let mut index = self.index.lock();
        let (delayed, ready) = index.waiting_counts(now.as_millis());
        Ok(Counts {
            delayed,
            ready,
            leased: index.leases.len() as u64,
            dead_letters: index.dead_count,
            ended: index.ended.len() as u64,
            waiting_by_route: index.waiting_by_route(),
        })
    }

    async fn oldest_due(
        &self,
        left_out: &LeftOut,
        now: Timestamp,
    ) -> Result<BTreeMap<RouteName, Timestamp>, StoreError> {
        Ok(self.index.lock().oldest_due(left_out, now.as_millis()))
    }

    async fn tenants(&self, filter: TenantFilter, now: Timestamp) -> Result<Vec<TenantView>, StoreError> {
        Ok(self.index.lock().tenants(&filter, now.as_millis()))
    }

    async fn report(&self) -> Result<StoreReport, StoreError> {
        if self.requests.is_closed() {
            return Err(self.failed());
        }
        if let Some(why) = self.place.find_missing() {
            return Err(StoreError::Broken(why));
        }
        let (used_bytes, max_bytes, refusing) = {
            let mut space = self.space.lock();
            (space.held_bytes(), space.max_bytes(), space.refusal().map(str::to_owned))
        };
        Ok(StoreReport {
            kind: "embedded",
            durability: self.durability(),
            size_bytes: disk::used_bytes(&self.dir),
            used_bytes,
            free_bytes: disk::free_bytes(&self.dir),
            max_bytes,
            refusing,
            unanswered: None,
        })
    }
}

#[async_trait]
impl KeyValue for EmbeddedStore {
    async fn kv_write(&self, writes: Vec<KvWrite>, now: Timestamp) -> Result<Vec<KvWritten>, StoreError> {
        self.ask(|answer| Request::KvWrite(writes, now, answer)).await
    }

    async fn kv_get(
        &self,
        namespace: Namespace,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KvEntry>, StoreError> {
        let key: Box<str> = key.into();
        self.readers.query(move |file| crate::key_value::read_entry(file, namespace, &key, now)).await
    }

    async fn kv_list(&self, namespace: Namespace, now: Timestamp) -> Result<Vec<KvEntry>, StoreError> {
        self.readers.query(move |file| crate::key_value::list_entries(file, namespace, now)).await
    }
}

#[async_trait]
impl AuditLog for EmbeddedStore {
    async fn record(&self, events: Vec<AuditEvent>) -> Result<(), StoreError> {
        self.ask(|answer| Request::Record(events, answer)).await
    }

    async fn trim_audit(&self, trim: AuditTrim) -> Result<u64, StoreError> {
        self.ask(|answer| Request::TrimAudit(trim, answer)).await
    }

    async fn audit_records(&self, span: AuditSpan, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        let found = self.readers.query(move |file| crate::audit_log::read_span(file, span, limit)).await?;
        if !found.is_empty() {
            // What a reader sees is committed, and may not have been forced to disk yet. A power cut could take it
            // back and give its number to another record: the archiver must get it only when it is durable.
            self.record(Vec::new()).await?;
        }
        Ok(found)
    }
}

#[async_trait]
impl Transfer for EmbeddedStore {
    /// In pieces, so that others get their turn in between; the log is truncated once, when all are gone.
    async fn forget(&self, ids: Vec<JobId>) -> Result<u64, StoreError> {
        let (mut gone, mut rest) = (0, &ids[..]);
        while !rest.is_empty() {
            let some = rest[..rest.len().min(FORGET_JOBS_MAX)].to_vec();
            let forgotten = self.ask(|answer| Request::Forget(some, answer)).await?;
            gone += forgotten.jobs;
            rest = &rest[forgotten.ids..];
        }
        self.truncate_log_after_forget().await?;
        Ok(gone)
    }

    async fn adopt(&self, transfers: Vec<JobSnapshot>) -> Result<Vec<Adopted>, StoreError> {
        self.ask(|answer| Request::Adopt(transfers, answer)).await
    }

    async fn raise_fence(&self, fence: Fence) -> Result<(), StoreError> {
        self.ask(|answer| Request::RaiseFence(fence, answer)).await
    }

    async fn write_fenced(&self, fence: Fence, write: FencedWrite) -> Result<Vec<Lease>, StoreError> {
        self.ask(|answer| Request::WriteFenced(fence, write, answer)).await
    }

    async fn snapshots(&self, after: Option<u64>, limit: usize) -> Result<Page<JobSnapshot>, StoreError> {
        self.readers.query(move |file| crate::transfer::list_snapshots(file, after, limit)).await
    }

    async fn snapshot(&self, id: &JobId) -> Result<Option<JobSnapshot>, StoreError> {
        let Some(seq) = self.row_of(id) else { return Ok(None) };
        let page =
            self.readers.query(move |file| crate::transfer::list_snapshots(file, Some(seq - 1), 1)).await?;
        // Its row may have been forgotten in between, and the next one is another job's.
        Ok(page.items.into_iter().find(|transfer| transfer.job.id == *id))
    }
}
