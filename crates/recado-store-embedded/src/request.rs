//! Requests to the writer, and the answers that wait for their commit.

use recado_core::{AuditEvent, JobId, Lease, LeaseToken, NewJob, Timestamp};
use recado_store::{
    Adopted, AuditTrim, Cancelled, Claim, Claimed, Discard, Discarded, Enqueued, Extended, Fence,
    FencedWrite, JobSnapshot, KvWrite, KvWritten, Pruned, Redrive, Redriven, Retention, Settled, StoreError,
};
use tokio::sync::oneshot;

use crate::audit_log::{Forgotten, PreparedSettlement};

pub type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

#[derive(Debug)]
pub enum Request {
    Enqueue(Vec<NewJob>, Answer<Vec<Enqueued>>),
    Claim(Claim, Answer<Claimed>),
    Extend(Vec<LeaseToken>, Timestamp, Answer<Vec<Extended>>),
    Settle(Vec<PreparedSettlement>, Answer<Vec<Settled>>),
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
    /// Truncate the log, which still has what was forgotten. Answers false when a reader is in the way.
    TruncateLog(Answer<bool>),
    Close(Answer<()>),
}

impl Request {
    /// Answers with an error.
    pub fn refuse(self, error: StoreError) {
        fn send_error<T>(answer: Answer<T>, error: StoreError) {
            let _ = answer.send(Err(error));
        }
        match self {
            Request::Enqueue(_, answer) => send_error(answer, error),
            Request::Claim(_, answer) => send_error(answer, error),
            Request::Extend(_, _, answer) => send_error(answer, error),
            Request::Settle(_, answer) => send_error(answer, error),
            Request::Cancel(_, _, answer) => send_error(answer, error),
            Request::Redrive(_, answer) => send_error(answer, error),
            Request::Discard(_, answer) => send_error(answer, error),
            Request::Prune(_, _, answer) => send_error(answer, error),
            Request::Forget(_, answer) => send_error(answer, error),
            Request::Adopt(_, answer) => send_error(answer, error),
            Request::RaiseFence(_, answer) => send_error(answer, error),
            Request::WriteFenced(_, _, answer) => send_error(answer, error),
            Request::Record(_, answer) => send_error(answer, error),
            Request::TrimAudit(_, answer) => send_error(answer, error),
            Request::KvWrite(_, _, answer) => send_error(answer, error),
            Request::TruncateLog(answer) => send_error(answer, error),
            Request::Close(answer) => send_error(answer, error),
        }
    }
}

/// An answer that waits for its commit.
pub type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// The answers that wait for one commit, in order.
#[derive(Default)]
pub struct Replies(pub Vec<Reply>);

impl Replies {
    /// Adds the answer to a request that was carried out, or that failed and takes its transaction with it.
    pub fn add<T: Send + 'static>(
        &mut self,
        outcome: rusqlite::Result<T>,
        answer: Answer<T>,
    ) -> rusqlite::Result<()> {
        let (value, error) = match outcome {
            Ok(value) => (Ok(value), Ok(())),
            Err(error) => (Err(rolled_back()), Err(error)),
        };
        self.0.push(Box::new(move |committed| drop(answer.send(committed.and(value)))));
        error
    }

    /// Adds the answer to a request that came after the one that failed: it was not tried.
    pub fn add_refusal(&mut self, request: Request) {
        self.0.push(Box::new(move |committed| request.refuse(committed.err().unwrap_or_else(rolled_back))));
    }

    pub fn send(self, outcome: &Result<(), StoreError>) {
        self.0.into_iter().for_each(|reply| reply(outcome.clone()));
    }
}

fn rolled_back() -> StoreError {
    StoreError::Unavailable("rolled back".to_owned())
}
