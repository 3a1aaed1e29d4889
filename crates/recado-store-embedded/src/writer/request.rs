//! Requests to the writer. Each keeps its own answer until its commit is on disk.

use recado_store::StoreError;
use tokio::sync::oneshot;

use crate::writer::apply::WriteTransaction;

/// The kind of a request, as far as the commit depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    Enqueue,
    Claim,
    Extend,
    Settle,
    /// The writer ends after it.
    Close,
    Other,
}

/// An error of a change.
#[derive(Debug)]
pub enum ChangeError {
    /// The request is answered at once, and the transaction goes on without it.
    Refused(StoreError),
    /// The transaction fails, with all its requests.
    Failed(rusqlite::Error),
}

impl From<rusqlite::Error> for ChangeError {
    fn from(error: rusqlite::Error) -> Self {
        ChangeError::Failed(error)
    }
}

/// A change to the store, and later the answer to its caller.
pub trait Change: Send {
    fn apply(&mut self, transaction: &mut WriteTransaction<'_, '_>) -> Result<(), ChangeError>;

    /// Answers with the outcome of the commit. A change that was not carried out is answered with an error.
    fn reply(self: Box<Self>, committed: Result<(), StoreError>);
}

struct PendingChange<T, F> {
    /// Absent once it was tried.
    change: Option<F>,
    /// Present once it was carried out.
    value: Option<T>,
    answer: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F> Change for PendingChange<T, F>
where
    F: FnOnce(&mut WriteTransaction<'_, '_>) -> Result<T, ChangeError> + Send,
{
    fn apply(&mut self, transaction: &mut WriteTransaction<'_, '_>) -> Result<(), ChangeError> {
        if let Some(change) = self.change.take() {
            self.value = Some(change(transaction)?);
        }
        Ok(())
    }

    fn reply(self: Box<Self>, committed: Result<(), StoreError>) {
        let rolled_back = || StoreError::Unavailable("rolled back".to_owned());
        let PendingChange { value, answer, .. } = *self;
        let _ = answer.send(committed.and_then(|()| value.ok_or_else(rolled_back)));
    }
}

pub struct Request {
    pub kind: RequestKind,
    pub change: Box<dyn Change>,
}

impl Request {
    /// Makes a request, and the receiver of its answer.
    pub fn new<T: Send + 'static, E: Into<ChangeError>>(
        kind: RequestKind,
        change: impl FnOnce(&mut WriteTransaction<'_, '_>) -> Result<T, E> + Send + 'static,
    ) -> (Self, oneshot::Receiver<Result<T, StoreError>>) {
        let (answer, answered) = oneshot::channel();
        let change = |transaction: &mut WriteTransaction<'_, '_>| change(transaction).map_err(Into::into);
        let change = PendingChange { change: Some(change), value: None, answer };
        (Request { kind, change: Box::new(change) }, answered)
    }

    pub fn apply(&mut self, transaction: &mut WriteTransaction<'_, '_>) -> Result<(), ChangeError> {
        // Settles leave their records to be written together. Requests that may look for them find them.
        if !matches!(self.kind, RequestKind::Settle | RequestKind::Claim | RequestKind::Enqueue) {
            transaction.recorder.flush()?;
        }
        self.change.apply(transaction)
    }

    /// Leases alone need not survive a crash of the machine: their loss costs a repeated claim.
    pub fn needs_fsync(&self) -> bool {
        !matches!(self.kind, RequestKind::Claim | RequestKind::Extend)
    }
}
