//! A store that fails on request, around one that works, for tests of what callers do about it.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_core::AuditEvent;
use recado_store::{KvWritten, Namespace, Store, StoreError, StoreResult, Wakes};
use tokio::sync::watch;

use crate::intercepted::{Call, Done, InterceptedStore, Interceptor};

/// A method, or a group of methods, that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Enqueue,
    Claim,
    Settle,
    KvWrite,
    /// The entries are written, and the answer is lost.
    KvWriteAnswer,
    /// One entry or a whole namespace.
    KvRead,
    /// Any verb that writes.
    Write,
    /// Any verb that writes: it is done, and its answer is lost.
    WriteAnswer,
}

/// A store that fails as its [`FaultPlan`] says.
pub type FaultyStore = InterceptedStore<FaultPlan>;

/// The faults that tests ask for, and what was seen of them.
#[derive(Debug)]
pub struct FaultPlan {
    plan: Mutex<Vec<Fault>>,
    fired: Mutex<Vec<Verb>>,
    recorded: Mutex<Vec<AuditEvent>>,
    namespaces_read: Mutex<Vec<Namespace>>,
    /// While true, work is done and no answer leaves, as behind a disk that stalls.
    stalled: watch::Sender<bool>,
}

#[derive(Debug)]
struct Fault {
    verb: Verb,
    /// Calls of the verb that still go well.
    after: usize,
    times: usize,
    error: StoreError,
}

impl FaultyStore {
    pub fn around(inner: Arc<dyn Store>) -> Self {
        InterceptedStore::new(inner, FaultPlan::new(), None)
    }

    /// One node's view of a store that several share: a write of entries wakes the others, too.
    pub fn shared(inner: Arc<dyn Store>, kv_wakes: &Arc<Wakes>) -> Self {
        InterceptedStore::new(inner, FaultPlan::new(), Some(kv_wakes.clone()))
    }
}

impl FaultPlan {
    fn new() -> Self {
        FaultPlan {
            plan: Mutex::default(),
            fired: Mutex::default(),
            recorded: Mutex::default(),
            namespaces_read: Mutex::default(),
            stalled: watch::Sender::new(false),
        }
    }

    /// After `after` calls that go well, the next `times` calls of `verb` fail before they reach the store.
    pub fn fail(&self, verb: Verb, after: usize, times: usize, error: StoreError) {
        self.plan.lock().push(Fault { verb, after, times, error });
    }

    /// Times that the verb has failed: a test of a fault asserts that it fired.
    pub fn fired(&self, verb: Verb) -> usize {
        self.fired.lock().iter().filter(|fired| **fired == verb).count()
    }

    /// Audit events recorded alone or together with entries, in order.
    pub fn recorded(&self) -> Vec<AuditEvent> {
        self.recorded.lock().clone()
    }

    /// Times that this whole namespace was read.
    pub fn reads_of(&self, namespace: &str) -> usize {
        self.namespaces_read.lock().iter().filter(|read| read.as_str() == namespace).count()
    }

    /// From now on jobs are taken in, leased, extended and settled, and the answers wait.
    pub fn stall(&self) {
        self.stalled.send_replace(true);
    }

    /// The answers leave.
    pub fn end_stall(&self) {
        self.stalled.send_replace(false);
    }

    /// Calls whose answers wait.
    pub fn waiting_answers(&self) -> usize {
        self.stalled.receiver_count()
    }

    fn trip(&self, verb: Verb) -> Result<(), StoreError> {
        let mut plan = self.plan.lock();
        let Some(fault) = plan.iter_mut().find(|fault| fault.verb == verb && fault.times > 0) else {
            return Ok(());
        };
        if fault.after > 0 {
            fault.after -= 1;
            return Ok(());
        }
        fault.times -= 1;
        self.fired.lock().push(verb);
        Err(fault.error.clone())
    }
}

#[async_trait]
impl Interceptor for FaultPlan {
    async fn before(&self, call: Call) -> StoreResult<()> {
        match call {
            Call::Enqueue => self.trip(Verb::Enqueue)?,
            Call::Claim => self.trip(Verb::Claim)?,
            Call::Settle => self.trip(Verb::Settle)?,
            Call::KvWrite => self.trip(Verb::KvWrite)?,
            Call::KvGet(_) => self.trip(Verb::KvRead)?,
            Call::KvList(namespace) => {
                self.namespaces_read.lock().push(namespace);
                self.trip(Verb::KvRead)?;
            }
            _ => {}
        }
        if call.is_write() { self.trip(Verb::Write) } else { Ok(()) }
    }

    async fn after(&self, call: Call) -> StoreResult<()> {
        if matches!(call, Call::Enqueue | Call::Claim | Call::Extend | Call::Settle) {
            // The sender is here, so this ends only with the stall.
            let _ = self.stalled.subscribe().wait_for(|stalled| !stalled).await;
        }
        if call == Call::KvWrite {
            self.trip(Verb::KvWriteAnswer)?;
        }
        if call.is_write() { self.trip(Verb::WriteAnswer) } else { Ok(()) }
    }

    fn observe(&self, done: Done<'_>) {
        match done {
            Done::KvWritten(writes, written) => {
                let is_done = |answer: &KvWritten| matches!(answer, KvWritten::Done { .. });
                let done = writes.iter().zip(written).filter(|(_, answer)| is_done(answer));
                self.recorded.lock().extend(done.flat_map(|(write, _)| write.audit.iter().cloned()));
            }
            Done::Recorded(events) => self.recorded.lock().extend(events.iter().cloned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use recado_core::Timestamp;
    use recado_store::KvWrite;
    use recado_store::prelude::*;
    use recado_store::reference::ReferenceStore;

    use super::*;

    const NAMESPACE: Namespace = Namespace::new("accounts");
    const NOW: Timestamp = Timestamp::from_millis(0);

    #[tokio::test]
    async fn entries_fail_when_told_to_and_only_then() {
        let store = FaultyStore::around(Arc::new(ReferenceStore::default()));
        let write = || KvWrite {
            namespace: NAMESPACE,
            key: "a".into(),
            value: Some(recado_core::Payload::trusted("1")),
            expect: None,
            expires_at: None,
            audit: Vec::new(),
        };
        let gone = || StoreError::Unavailable("gone".to_owned());
        store.fail(Verb::KvWrite, 0, 1, gone());
        store.fail(Verb::KvRead, 1, 2, gone());
        assert!(store.kv_write(vec![write()], NOW).await.is_err());
        assert!(
            store.kv_get(NAMESPACE, "a", NOW).await.unwrap().is_none(),
            "the write failed before the store"
        );
        assert!(store.kv_get(NAMESPACE, "a", NOW).await.is_err());
        assert!(store.kv_list(NAMESPACE, NOW).await.is_err());
        assert!(store.kv_write(vec![write()], NOW).await.is_ok());
        assert_eq!(store.kv_list(NAMESPACE, NOW).await.unwrap().len(), 1);
        assert_eq!((store.fired(Verb::KvWrite), store.fired(Verb::KvRead)), (1, 2));
    }
}
