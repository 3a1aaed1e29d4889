//! Errors of the engine's public calls.

use recado_store::StoreError;

/// The result of a call that fails with an [`EngineError`], unless it names another error.
pub type Result<T, E = EngineError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine is on its way out.
    #[error("the engine is stopping; ask another node or come back after the restart")]
    Stopping,
    #[error(transparent)]
    Trail(TrailError),
}

/// The reason why the audit trail could not be read or written.
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
    /// The store gives its new records numbers that older records in the files have.
    #[error(
        "its files go further than this store, which was put back from an older backup; name a new directory in \
         [audit] dir, and keep the old one: it is whole"
    )]
    StoreIsOlder,
    /// One caller at a time has the whole trail read.
    #[error("another caller is having the audit trail read; ask again when that has ended")]
    Busy,
}

impl From<TrailError> for EngineError {
    fn from(error: TrailError) -> Self {
        match error {
            TrailError::Store(error) => EngineError::Store(error),
            error => EngineError::Trail(error),
        }
    }
}

/// A stop that left something behind.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "{outcomes} outcomes could not be written down, and {deliveries} deliveries had not ended within the grace; \
         their jobs are taken over when their leases end, and those that were sent are sent again"
    )]
    Unfinished { outcomes: u64, deliveries: u64 },
}
