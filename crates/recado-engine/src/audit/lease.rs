//! The archiving node and its progress: one entry, which is a leader lease ([`crate::shared::leader`]).
//!
//! The archiver writes it again with every mark, so a node that was slow and lost its place finds out before it marks
//! anything. A node that dies is replaced when it has been silent for a while; one that stops gives its place up at once.
//!
//! It also says until when the files are whole. A node that takes over goes on from there, so that neither a restart nor
//! a change of nodes makes files look good that cannot be written; and the node that runs alerts reads it there.

use std::collections::BTreeMap;
use std::time::Duration;

use recado_core::Timestamp;
use recado_store::{KeyValue, KvEntry, StoreError, StoreResult};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{AuditTrail, NAMESPACE, Reach};
use crate::shared::entry::{read_entry, version_of};
use crate::shared::leader::{LeaderLease, LeaderState, LeaderTerms};

const KEY: &str = "archiver";

/// A node that is silent for this long is replaced.
const HELD_FOR: Duration = Duration::from_secs(15);

/// The progress of archiving a store's trail, and the node that archives it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ArchiverState {
    /// The store's name in the trail. Another store's numbers begin anew, so it has another name.
    pub store: Box<str>,
    /// The node that archives; empty when none does.
    pub node: Box<str>,
    /// Read by earlier versions alone, which do not archive before this time.
    pub until: Timestamp,
    /// By part: the last number that is archived.
    pub archived: BTreeMap<u16, u64>,
    /// All that happened before this is in the files. An entry of an earlier version does not say.
    #[serde(default)]
    pub whole_until: Option<Timestamp>,
}

impl LeaderState for ArchiverState {
    fn holder(&self) -> Option<&str> {
        Some(&self.node)
    }

    fn set_holder(&mut self, node: Option<&str>, until: Timestamp) {
        (self.node, self.until) = (node.unwrap_or_default().into(), until);
    }
}

pub(super) type ArchiverLease = LeaderLease<ArchiverState>;

/// Returns the name of one part of a store's trail in the files.
pub(super) fn source(store: &str, part: u16) -> Box<str> {
    format!("{store}/{part}").into()
}

impl ArchiverState {
    pub fn archived(&self, part: u16) -> u64 {
        self.archived.get(&part).copied().unwrap_or(0)
    }

    /// Reads the state as the store has it.
    pub async fn read(kv: &dyn KeyValue, now: Timestamp) -> StoreResult<Option<Self>> {
        let entry = kv.kv_get(NAMESPACE, KEY, now).await?;
        entry.as_ref().map(parse).transpose()
    }
}

/// An entry that cannot be read must not be replaced: its marks would be lost.
fn parse(entry: &KvEntry) -> StoreResult<ArchiverState> {
    read_entry(entry).ok_or_else(|| {
        let words = "the entry of who archives cannot be read; was it written by a newer version?";
        StoreError::Unavailable(words.to_owned())
    })
}

impl AuditTrail {
    /// Takes the right to archive, or keeps it; `None` while another node has it.
    pub(super) async fn take_lease(&self) -> StoreResult<Option<ArchiverLease>> {
        let now = self.env.now();
        let entry = self.store.kv_get(NAMESPACE, KEY, now).await?;
        let new = || ArchiverState {
            store: format!("store_{}", self.env.random.uuid_v7(now).to_simple()).into(),
            node: self.env.node.clone(),
            until: now,
            archived: BTreeMap::new(),
            whole_until: None,
        };
        let state = entry.as_ref().map(parse).transpose()?.unwrap_or_else(new);
        let is_ours = entry.is_some() && state.node == self.env.node;
        let (kv, node) = (self.store.clone(), self.env.node.clone());
        let terms = LeaderTerms { kv, node, namespace: NAMESPACE, length: HELD_FOR };
        let version = version_of(entry.as_ref());
        let taken = terms.take(KEY, version, state, &mut self.archive.progress.lock().watch);
        let Some(mut lease) = taken else { return Ok(None) };
        let (reach, renewed) = {
            let progress = self.archive.progress.lock();
            (progress.reach, progress.renewed)
        };
        let whole_until = match reach {
            Reach::Here { whole_until } => whole_until,
            Reach::Unknown | Reach::Elsewhere => lease.state.whole_until.unwrap_or(now),
        };
        // A clock that was set back must not make them whole for hours to come.
        let whole_until = whole_until.min(now);
        lease.state.whole_until = Some(whole_until);
        // Where no other node could take it, there is nothing to renew.
        let lasts = !self.store.is_shared() || renewed.is_some_and(|at| at.elapsed() < HELD_FOR / 2);
        let needs_save = !is_ours || !lasts;
        if needs_save && !self.save_lease(&mut lease).await? {
            return Ok(None);
        }
        self.archive.progress.lock().reach = Reach::Here { whole_until };
        Ok(Some(lease))
    }

    /// Writes down how far the files are; returns true if this node still archives.
    pub(super) async fn mark(&self, lease: &mut ArchiverLease, whole_until: Timestamp) -> StoreResult<bool> {
        lease.state.whole_until = Some(whole_until);
        self.save_lease(lease).await
    }

    async fn save_lease(&self, lease: &mut ArchiverLease) -> StoreResult<bool> {
        let saved = lease.save(self.env.now()).await?;
        if saved {
            self.archive.progress.lock().renewed = Some(Instant::now());
        }
        Ok(saved)
    }
}
