//! The archiving node and its progress: one note, written only on top of the version that was read.
//!
//! The note is a leader lease ([`crate::shared::leader`]). The archiver writes it again with every mark, so a node
//! that was slow and lost its place finds out before it marks anything. A node that dies is replaced when it
//! has been silent for a while; one that stops gives its place up at once.
//!
//! It also says until when the files are whole. A node that takes over goes on from there, so that neither a
//! restart nor a change of nodes makes files look good that cannot be written; and the node that runs alerts
//! reads it there.

use std::collections::BTreeMap;
use std::time::Duration;

use recado_core::{Payload, Timestamp};
use recado_store::{KvWrite, KvWritten, Store, StoreError};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{NAMESPACE, Reach};
use crate::engine::Inner;

const KEY: &str = "archiver";

/// A node that is silent for this long is replaced.
const HELD_FOR: Duration = Duration::from_secs(15);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ArchiverLease {
    /// The store's name in the trail. Another store's numbers begin anew, so it has another name.
    pub store: Box<str>,
    /// The node that archives; empty when none does.
    pub node: Box<str>,
    /// Read by earlier versions alone, which do not archive before this time.
    pub until: Timestamp,
    /// By part: the last number that is archived.
    pub archived: BTreeMap<u16, u64>,
    /// All that happened before this is in the files. A note of an earlier version does not say.
    #[serde(default)]
    pub whole_until: Option<Timestamp>,
    #[serde(skip)]
    version: u64,
}

/// The name of one part of a store's trail in the files.
pub(super) fn source(store: &str, part: u16) -> Box<str> {
    format!("{store}/{part}").into()
}

impl ArchiverLease {
    pub fn archived(&self, part: u16) -> u64 {
        self.archived.get(&part).copied().unwrap_or(0)
    }

    fn new(engine: &Inner) -> Self {
        ArchiverLease {
            store: format!("store_{}", uuid::Uuid::now_v7().simple()).into(),
            node: engine.settings.node.clone(),
            until: engine.clock.now(),
            archived: BTreeMap::new(),
            whole_until: None,
            version: 0,
        }
    }

    /// As the store has it.
    pub async fn read(store: &dyn Store, now: Timestamp) -> Result<Option<ArchiverLease>, StoreError> {
        let Some(note) = store.kv_get(NAMESPACE, KEY, now).await? else { return Ok(None) };
        let unreadable = |_| {
            let words = "the note of who archives cannot be read; was it written by a newer version?";
            StoreError::Unavailable(words.to_owned())
        };
        let hold: ArchiverLease = note.value.parse().map_err(unreadable)?;
        Ok(Some(ArchiverLease { version: note.version, ..hold }))
    }

    /// Takes the right to archive, or keeps it; the other node's note while that one has it.
    pub async fn take(engine: &Inner) -> Result<Result<ArchiverLease, ArchiverLease>, StoreError> {
        let now = engine.clock.now();
        let mut hold = match ArchiverLease::read(&*engine.store, now).await? {
            Some(hold) => hold,
            None => ArchiverLease::new(engine),
        };
        let shared = engine.store.is_shared();
        let ours = hold.node == engine.settings.node;
        if !engine.keeper.lease().watch.may_take(engine, Some(&hold.node), hold.version, HELD_FOR) {
            return Ok(Err(hold));
        }
        let whole_until = match engine.keeper.reach() {
            Reach::Here { whole_until } => whole_until,
            Reach::Unknown | Reach::Elsewhere => hold.whole_until.unwrap_or(now),
        };
        // A clock that was set back must not make them whole for hours to come.
        let whole_until = whole_until.min(now);
        hold.whole_until = Some(whole_until);
        // Where no other node could take it, there is nothing to renew.
        let renewed = engine.keeper.lease().renewed;
        let lasts = !shared || renewed.is_some_and(|at| at.elapsed() < HELD_FOR / 2);
        if !(ours && hold.version > 0 && lasts) {
            hold.node = engine.settings.node.clone();
            if !hold.write(engine, HELD_FOR).await? {
                return Ok(Err(hold));
            }
        }
        engine.keeper.reaches(Reach::Here { whole_until });
        Ok(Ok(hold))
    }

    /// Writes down how far the files are; whether this node still archives.
    pub async fn mark(&mut self, engine: &Inner, whole_until: Timestamp) -> Result<bool, StoreError> {
        self.whole_until = Some(whole_until);
        self.write(engine, HELD_FOR).await
    }

    /// Lets another node take over at once.
    pub async fn give_up(mut self, engine: &Inner) -> Result<(), StoreError> {
        self.node = Box::default();
        self.write(engine, Duration::ZERO).await.map(drop)
    }

    async fn write(&mut self, engine: &Inner, held_for: Duration) -> Result<bool, StoreError> {
        let now = engine.clock.now();
        self.until = now.plus(held_for);
        let value =
            serde_json::to_string(self).map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let write = KvWrite {
            namespace: NAMESPACE,
            key: KEY.into(),
            value: Some(Payload::trusted(value)),
            expect: Some(self.version),
            expires_at: None,
            audit: Vec::new(),
        };
        match engine.store.kv_write(vec![write], now).await?.first() {
            Some(KvWritten::Done { version }) => {
                self.version = *version;
                engine.keeper.lease().renewed = Some(Instant::now());
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
