//! Directories, stores and jobs that the tests start from.

use recado_store::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use recado_core::{
    Attempt, AttemptResult, Blame, BodyHash, Burial, Cause, Class, CompanyId, Failure, JobId, Lease, NewJob,
    Payload, Priority, Reason, RouteName, Timestamp, Transition,
};
use recado_store::conformance::Home;
use recado_store::{Claim, Enqueued, Pick, Settled, Settlement, Store, StoreError, Turns};
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore, FILE_NAME};
use tempfile::TempDir;

pub const T0: Timestamp = Timestamp::from_millis(1_736_677_800_000);
pub const HOUR: Duration = Duration::from_secs(3_600);
pub const DAY: Duration = Duration::from_secs(24 * 3_600);

/// A data directory that is gone with the test.
pub struct Directory(TempDir);

impl Directory {
    pub fn new() -> Self {
        Directory(tempfile::tempdir().unwrap())
    }

    /// In memory where the system offers it, for tests that are not about the disk.
    pub fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Directory(tempfile::tempdir_in(memory).unwrap()) } else { Directory::new() }
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self) -> PathBuf {
        self.path().join(FILE_NAME)
    }

    pub fn log(&self) -> PathBuf {
        self.path().join(format!("{FILE_NAME}-wal"))
    }

    pub fn store(&self) -> EmbeddedStore {
        EmbeddedStore::open(&options(self.path())).unwrap()
    }
}

#[async_trait]
impl Home for Directory {
    async fn open(&mut self) -> Arc<dyn Store> {
        Arc::new(self.store())
    }
}

/// No room kept back: these tests say themselves how full the disk is.
pub fn options(dir: &Path) -> EmbeddedOptions {
    EmbeddedOptions { reserve_bytes: 0, ..EmbeddedOptions::at(dir) }
}

pub fn id(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

pub fn job(name: &str) -> NewJob {
    NewJob {
        id: id(name),
        route: RouteName::new("email").unwrap(),
        company: CompanyId::new("acme").unwrap(),
        data: Payload::new(&format!(r#"{{"for":"{name}"}}"#)).unwrap(),
        user_id: None,
        correlation_id: None,
        traceparent: None,
        priority: Priority::default(),
        enqueued_at: T0,
        due_at: T0,
        expires_at: T0.plus(DAY),
        body_hash: BodyHash(1),
    }
}

/// A job whose payload has this many bytes.
pub fn heavy(name: &str, bytes: usize) -> NewJob {
    NewJob { data: Payload::new(&format!("\"{}\"", "x".repeat(bytes - 2))).unwrap(), ..job(name) }
}

pub fn accepted(answers: &Result<Vec<Enqueued>, StoreError>) -> bool {
    matches!(answers, Ok(answers) if answers.iter().all(|answer| matches!(answer, Enqueued::Accepted { .. })))
}

/// Claims jobs of route `email` under leases of an hour that live with the process.
pub async fn claim(store: &EmbeddedStore, max: usize, now: Timestamp) -> Vec<Lease> {
    let claim = Claim {
        pick: Pick::Ready(RouteName::new("email").unwrap()),
        max,
        now,
        lease_until: now.plus(HOUR),
        worker: "node".into(),
        provider: None,
        outlives_process: false,
        turns: Turns::default(),
    };
    store.claim(claim).await.unwrap().leases
}

pub fn attempt(lease: &Lease, result: AttemptResult) -> Attempt {
    Attempt::ended(lease.attempt, T0, T0, result)
}

pub fn deliver(lease: &Lease) -> Transition {
    Transition::Deliver { attempt: attempt(lease, AttemptResult::Sent), answer: None }
}

pub fn bury(lease: &Lease, code: Option<&str>, reason: &str) -> Transition {
    let failure = Failure {
        class: Class::Permanent,
        code: code.map(Into::into),
        reason: Reason::new(reason).unwrap(),
        rule: "smtp/5xx".into(),
        blame: Blame::Message,
        retry_after: None,
        asked_wait: None,
        uncertain: false,
        invalid_payload: false,
        stack_trace: None,
    };
    let attempt = Some(attempt(lease, AttemptResult::Failed));
    Transition::Bury(Burial {
        cause: Cause::Permanent,
        failure,
        attempt,
        held_up: false,
        at: T0,
        ttl: 7 * DAY,
    })
}

pub async fn settle(
    store: &EmbeddedStore,
    lease: &Lease,
    transition: Transition,
) -> Result<Settled, StoreError> {
    settle_with(store, lease, transition, Vec::new()).await
}

pub async fn settle_with(
    store: &EmbeddedStore,
    lease: &Lease,
    transition: Transition,
    follow_ups: Vec<NewJob>,
) -> Result<Settled, StoreError> {
    let settlement = Settlement { token: lease.token, transition, audit: None, now: T0, follow_ups };
    Ok(store.settle(vec![settlement]).await?[0])
}

/// Makes a job that reports on another one, on a route of its own.
pub fn word_of(name: &str) -> NewJob {
    NewJob { route: RouteName::new("hooks").unwrap(), ..job(&format!("word-of-{name}")) }
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
