//! A loss of the last writes: the state of a moment ago is put back, as after a crash of a server whose log is forced
//! to disk every second.

use super::{ReferenceStore, State};

/// The state of a store at one moment.
#[derive(Debug, Clone)]
pub struct SavedState(State);

impl ReferenceStore {
    pub fn save_state(&self) -> SavedState {
        SavedState(self.state.lock().clone())
    }

    /// Forgets everything since the state was saved. Numbers that were given since then are not given again, as those of
    /// a server are not that takes them from its clock. All listeners wake: they look at what is there now.
    pub fn restore_state(&self, saved: SavedState) {
        let mut state = self.state.lock();
        let State { next_fence, namespaces, trail, .. } = &*state;
        let (fence, version, number) = (*next_fence, namespaces.last_version, trail.last_number);
        *state = saved.0;
        state.next_fence = fence;
        state.namespaces.last_version = version;
        state.trail.last_number = number;
        self.wakes.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use recado_core::{Payload, Timestamp};

    use super::*;
    use crate::prelude::*;
    use crate::{KvWrite, KvWritten, Namespace};

    const NAMESPACE: Namespace = Namespace::new("pauses");
    const NOW: Timestamp = Timestamp::from_millis(0);

    async fn write(store: &ReferenceStore, value: &str) -> u64 {
        let value = Some(Payload::trusted(value));
        let write = KvWrite {
            namespace: NAMESPACE,
            key: "a".into(),
            value,
            expect: None,
            expires_at: None,
            audit: vec![],
        };
        match store.kv_write(vec![write], NOW).await.unwrap()[0] {
            KvWritten::Done { version } => version,
            KvWritten::Conflict { .. } => panic!("nothing was expected"),
        }
    }

    #[tokio::test]
    async fn a_loss_goes_back_and_gives_no_number_twice() {
        let store = ReferenceStore::default();
        let first = write(&store, "1").await;
        let saved = store.save_state();
        let lost = write(&store, "2").await;
        store.restore_state(saved);
        let entry = store.kv_get(NAMESPACE, "a", NOW).await.unwrap().unwrap();
        assert_eq!((entry.version, entry.value.as_str()), (first, "1"));
        assert_eq!(store.kv_versions(&[NAMESPACE]).await.unwrap(), [Some(first)], "it is older than before");
        assert!(write(&store, "3").await > lost);
    }
}
