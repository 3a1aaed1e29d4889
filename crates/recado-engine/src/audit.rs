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
//! one archives at a time: [`lease`] says which, and how far it is. [`search`] answers from both; [`erase`] removes one
//! person's data from both.
//!
//! Deliberately absent: the format of the files, which is `recado-audit`'s business, and anything that waits for them.
//! No delivery and no act depends on the trail's disk.

pub(crate) mod archiver;
mod erase;
mod follow_ups;
mod lease;
pub(crate) mod reads;
mod search;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use recado_audit::Trail;
use recado_core::Timestamp;
use recado_store::{Namespace, Store, StoreError};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use self::lease::ArchiverLease;
use crate::duties::gauges::told;
use crate::engine::Inner;
use crate::shared::leader::LeaseWatch;

pub use erase::{Erased, Erasing, ErasureOrder};
pub use search::{Seal, TrailPage, TrailPlace, TrailRecord};

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

/// The reason why the trail could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TrailError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Files(#[from] recado_audit::Error),
    /// The task that worked on the files is gone.
    #[error("work on the audit trail's files was cut off; the log says more")]
    CutOff,
    #[error("this server keeps no audit trail")]
    None,
}

/// The files, while this node writes them.
#[derive(Debug, Default)]
pub(crate) struct ArchiveWriter {
    files: Option<Files>,
}

#[derive(Debug)]
struct Files {
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
#[derive(Debug)]
pub(crate) struct AuditArchive {
    terms: Option<TrailTerms>,
    /// One at a time: archiving, erasing, or reading the progress of both sides.
    desk: Mutex<ArchiveWriter>,
    reach: parking_lot::Mutex<Reach>,
    lease: parking_lot::Mutex<LeaseState>,
    lateness: parking_lot::Mutex<Lateness>,
}

/// The archiver's lease as this process knows it.
#[derive(Debug, Default)]
struct LeaseState {
    watch: LeaseWatch,
    /// Time at which this process wrote the note last.
    renewed: Option<Instant>,
}

/// Lateness of the files, measured by the monotonic clock since they were last seen to become whole up to some time.
#[derive(Debug)]
struct Lateness {
    /// Absent while nothing is known of them since the start.
    whole_until: Option<Timestamp>,
    /// Their lateness when that was seen.
    late: Duration,
    seen: Instant,
}

impl Lateness {
    fn new() -> Self {
        Lateness { whole_until: None, late: Duration::ZERO, seen: Instant::now() }
    }

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
#[derive(Clone, Copy, Debug)]
enum Reach {
    /// Since the start the store could not be asked who writes them.
    Unknown,
    /// This node writes them, and all that happened before this is in them.
    Here { whole_until: Timestamp },
    /// Another node writes them.
    Elsewhere,
}

impl AuditArchive {
    pub fn new(terms: Option<TrailTerms>) -> Self {
        let reach = parking_lot::Mutex::new(Reach::Unknown);
        let lateness = parking_lot::Mutex::new(Lateness::new());
        AuditArchive { terms, desk: Mutex::default(), reach, lease: parking_lot::Mutex::default(), lateness }
    }

    pub fn terms(&self) -> Option<&TrailTerms> {
        self.terms.as_ref()
    }

    fn reach(&self) -> Reach {
        *self.reach.lock()
    }

    fn reaches(&self, reach: Reach) {
        *self.reach.lock() = reach;
    }

    fn lease(&self) -> parking_lot::MutexGuard<'_, LeaseState> {
        self.lease.lock()
    }

    async fn desk(&self) -> MutexGuard<'_, ArchiveWriter> {
        self.desk.lock().await
    }
}

impl Inner {
    /// Lag of the files, whichever node writes them. Absent where no trail is kept, and while another node
    /// writes them that cannot be asked or does not say.
    pub async fn trail_late(&self, now: Timestamp) -> Option<Duration> {
        self.keeper.terms()?;
        let noted = match self.store.is_shared() {
            true => {
                told(ArchiverLease::read(&*self.store, now).await).flatten().and_then(|hold| hold.whole_until)
            }
            false => None,
        };
        let whole_until = match self.keeper.reach() {
            // The note is written only now and then; or this node lost its place, and does not know yet.
            Reach::Here { whole_until } => noted.max(Some(whole_until)),
            Reach::Unknown => noted,
            Reach::Elsewhere => Some(noted?),
        };
        Some(self.keeper.lateness.lock().measure(whole_until, now))
    }
}

/// Progress of a store's archived trail: the last number of each part.
pub async fn archived_in(store: &dyn Store, now: Timestamp) -> Result<BTreeMap<u16, u64>, StoreError> {
    Ok(ArchiverLease::read(store, now).await?.map(|hold| hold.archived).unwrap_or_default())
}

/// Runs what blocks on files where that is allowed.
async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, TrailError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| TrailError::CutOff)
}
