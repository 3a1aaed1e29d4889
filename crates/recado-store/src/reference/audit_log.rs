//! The audit trail of the reference: a list, scanned.

use async_trait::async_trait;
use recado_core::AuditEvent;

use super::{ReferenceStore, State};
use crate::{AuditLog, AuditRecord, AuditSpan, AuditTrim, StoreResult};

#[derive(Debug, Default, Clone)]
pub struct AuditTrail {
    kept: Vec<TrailEntry>,
    pub last_number: u64,
}

#[derive(Debug, Clone)]
struct TrailEntry {
    number: u64,
    /// The job that it is about, if the store knew one by that id.
    about: Option<u64>,
    event: AuditEvent,
    /// It came along with its job, and is on record elsewhere.
    archived: bool,
}

impl AuditTrail {
    pub fn append(&mut self, about: Option<u64>, event: AuditEvent) {
        self.last_number += 1;
        self.kept.push(TrailEntry { number: self.last_number, about, event, archived: false });
    }

    /// Appends a record that came along with its job and is archived elsewhere.
    pub fn append_archived(&mut self, about: u64, event: AuditEvent) {
        self.last_number += 1;
        self.kept.push(TrailEntry { number: self.last_number, about: Some(about), event, archived: true });
    }

    /// Gives the records about one job to another, and returns them.
    pub fn reassign(&mut self, from: u64, to: u64) -> Vec<AuditEvent> {
        let own = self.kept.iter_mut().filter(|kept| kept.about == Some(from));
        own.map(|kept| {
            kept.about = Some(to);
            kept.event.clone()
        })
        .collect()
    }

    pub fn events_of(&self, seq: u64) -> Vec<AuditEvent> {
        let own = self.kept.iter().filter(|kept| kept.about == Some(seq));
        own.map(|kept| kept.event.clone()).collect()
    }

    pub fn forget(&mut self, seq: u64) {
        self.kept.retain(|kept| kept.about != Some(seq));
    }
}

#[async_trait]
impl AuditLog for ReferenceStore {
    async fn record(&self, events: Vec<AuditEvent>) -> StoreResult<()> {
        let mut state = self.state.lock();
        events.into_iter().for_each(|event| state.record(event));
        Ok(())
    }

    async fn trim_audit(&self, trim: AuditTrim) -> StoreResult<u64> {
        let State { records, trail, .. } = &mut *self.state.lock();
        let known = |seq: Option<u64>| seq.is_some_and(|seq| records.contains_key(&seq));
        let before = trail.kept.len();
        trail.kept.retain(|kept| {
            let at = kept.event.timestamp;
            let over = at < trim.before || (at < trim.forgotten_before && !known(kept.about));
            trim.part != 0 || kept.number > trim.up_to || !over
        });
        Ok((before - trail.kept.len()) as u64)
    }

    async fn audit_records(&self, span: AuditSpan, limit: usize) -> StoreResult<Vec<AuditRecord>> {
        let state = self.state.lock();
        let is_given = |kept: &&TrailEntry| span.part == 0 && kept.number > span.after && !kept.archived;
        let given = state.trail.kept.iter().filter(is_given);
        let record = |kept: &TrailEntry| AuditRecord { number: kept.number, event: kept.event.clone() };
        Ok(match span.newest_first {
            true => given.rev().take(limit).map(record).collect(),
            false => given.take(limit).map(record).collect(),
        })
    }
}
