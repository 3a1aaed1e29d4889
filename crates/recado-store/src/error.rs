//! The errors of a store.

/// The answer of a store's call.
pub type StoreResult<T> = Result<T, StoreError>;

/// Split by what the caller does next.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written; ask again later. Work that is already in can still be settled.
    #[error("the store is full: {0}")]
    Full(String),
    /// It is not known whether it was written; ask again, the verbs are safe to repeat.
    #[error("the store did not answer: {0}")]
    Unavailable(String),
    /// The store's own files cannot be trusted any more. Stop, and start again to recover.
    #[error("the store has failed: {0}")]
    Broken(String),
    /// Nothing was written: a newer writer has raised the [`Fence`]. Stop for good.
    #[error("a newer writer has taken over")]
    Fenced,
}
