//! The audit trail, from the store to its files and to readers.
//!
//! ```text
//!   settle, record … ─▶ store ──▶ archiver ──▶ files (recado-audit): chained, signed, kept for years
//!                          │                     │
//!                          └──▶ search ◀─────────┘     what is not archived yet, and all that is
//! ```
//!
//! Stores take records in together with what they are about; [`archiver`] copies them to the files in the
//! background, and lets the store forget what is archived and no longer needed there. Of the nodes that share a store
//! one archives at a time: [`lease`] says which, and how far it is. [`search`] answers from both; [`suggestions`] learns
//! from both; [`erase`] removes one person's data from both.
//!
//! Deliberately absent: the format of the files, which is `recado-audit`'s business, and anything that waits for them.
//! No delivery and no act depends on the trail's disk.

pub(crate) mod archiver;
mod erase;
mod follow_ups;
mod lease;
pub(crate) mod reads;
mod search;
mod suggestions;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use recado_audit::Trail;
use recado_core::Timestamp;
use recado_store::{KeyValue, Namespace, Store, StoreError};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::audit::lease::ArchiverState;
use crate::audit::reads::Reads;
use crate::dlq::DeadLetters;
use crate::environment::Environment;
use crate::error::TrailError;
use crate::lifecycle;
use crate::notify::Notifier;
use crate::shared::leader::LeaseWatch;

pub use erase::{Erased, Erasing, ErasureOrder};
pub use search::{Seal, TrailPage, TrailPlace, TrailRecord};
pub use suggestions::{Suggestion, Suggestions};

/// The archiving node, and its progress. It does not move with a store: numbers mean something in their own
/// store alone.
pub const NAMESPACE: Namespace = Namespace::new("audit");

/// Place of the trail's files, and their retention.
#[derive(Clone, Debug)]
pub struct TrailTerms {
    pub dir: PathBuf,
    /// Path of the signing key, if not beside the files.
    pub key: Option<PathBuf>,
    pub months_kept: u32,
}

/// The files, while this node writes them.
#[derive(Debug)]
pub(crate) struct Files {
    trail: Trail,
    /// The store's name in the files.
    store: Box<str>,
}

impl Files {
    /// The last number of a part that the files hold.
    fn archived(&self, part: u16) -> u64 {
        self.trail.archived_through(&lease::source(&self.store, part)).unwrap_or(0)
    }
}

/// This process's part in the trail.
#[derive(Debug, Default)]
pub(crate) struct AuditArchive {
    terms: Option<TrailTerms>,
    /// One at a time: archiving, erasing, or reading the progress of both sides.
    files: Mutex<Option<Files>>,
    progress: parking_lot::Mutex<ArchiveProgress>,
}

/// The archiver's lease and the progress of the files, as this process knows them.
#[derive(Debug, Default)]
struct ArchiveProgress {
    reach: Reach,
    watch: LeaseWatch,
    /// Time at which this process wrote the entry of the lease last.
    renewed: Option<Instant>,
    lateness: Lateness,
}

/// Lag of the trail's files. It grows by the monotonic clock from the last time that the files made progress.
#[derive(Debug)]
struct Lateness {
    /// Absent while nothing is known of them since the start.
    whole_until: Option<Timestamp>,
    /// Their lateness when that was seen.
    late: Duration,
    seen: Instant,
}

impl Default for Lateness {
    fn default() -> Self {
        Lateness { whole_until: None, late: Duration::ZERO, seen: Instant::now() }
    }
}

impl Lateness {
    /// Takes in how far the files are, if that is known; returns how late they are.
    fn measure(&mut self, whole_until: Option<Timestamp>, now: Timestamp) -> Duration {
        if let Some(whole_until) = whole_until {
            // An earlier time than before is the clock's doing: they get later all the same.
            if self.whole_until.is_none_or(|before| whole_until > before) {
                (self.late, self.seen) = (now.since(whole_until), Instant::now());
            }
            self.whole_until = Some(whole_until);
        }
        self.late + self.seen.elapsed()
    }
}

/// The progress of the files, as this process knows it.
#[derive(Clone, Copy, Debug, Default)]
enum Reach {
    /// Since the start the store could not be asked who writes them.
    #[default]
    Unknown,
    /// This node writes them, and all that happened before this is in them.
    Here { whole_until: Timestamp },
    /// Another node writes them.
    Elsewhere,
}

impl AuditArchive {
    pub fn new(terms: Option<TrailTerms>) -> Self {
        AuditArchive { terms, ..AuditArchive::default() }
    }
}

/// The audit trail: archived, searched, and erased from.
#[derive(Debug)]
pub struct AuditTrail {
    pub(crate) env: Arc<Environment>,
    pub(crate) archive: AuditArchive,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) dlq: Arc<DeadLetters>,
    pub(crate) notifier: Arc<Notifier>,
    /// Time that ended jobs are remembered.
    pub(crate) jobs_kept: Duration,
    pub(crate) reads: Reads,
    /// One at a time reads the trail for suggestions.
    pub(crate) suggesting: Arc<Mutex<()>>,
}

impl AuditTrail {
    /// Lag of the files, whichever node writes them. Absent where no trail is kept, and while another node
    /// writes them that cannot be asked or does not say.
    pub(crate) async fn lateness(&self, now: Timestamp) -> Option<Duration> {
        self.archive.terms.as_ref()?;
        let stored = match self.store.is_shared() {
            true => ArchiverState::read(&*self.store, now).await.unwrap_or_else(|error| {
                tracing::debug!(%error, "Cannot read how far the audit trail's files are");
                None
            }),
            false => None,
        };
        let stored = stored.and_then(|state| state.whole_until);
        let mut progress = self.archive.progress.lock();
        let whole_until = match progress.reach {
            // The entry is written only now and then; or this node lost its place, and does not know yet.
            Reach::Here { whole_until } => stored.max(Some(whole_until)),
            Reach::Unknown => stored,
            Reach::Elsewhere => Some(stored?),
        };
        Some(progress.lateness.measure(whole_until, now))
    }
}

/// Progress of a store's archived trail: the last number of each part.
pub async fn archived_in(kv: &dyn KeyValue, now: Timestamp) -> Result<BTreeMap<u16, u64>, StoreError> {
    Ok(ArchiverState::read(kv, now).await?.map(|state| state.archived).unwrap_or_default())
}

/// Runs what blocks on files where that is allowed.
async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, TrailError> {
    lifecycle::off_thread(work).await.ok_or(TrailError::CutOff)
}

/// Works on the trail's files where blocking is allowed, and gives them back with the result.
async fn on_files<T: Send + 'static>(
    mut files: Files,
    work: impl FnOnce(&mut Trail) -> T + Send + 'static,
) -> Result<(Files, T), TrailError> {
    off_thread(move || {
        let done = work(&mut files.trail);
        (files, done)
    })
    .await
}
