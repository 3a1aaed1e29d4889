//! Works bulk acts off, one chunk after another, as many at a time as their pace allows.
//!
//! choose → write down → process → count. If the process dies before the entry is written, nothing was touched; if it
//! dies after, the next one deals with the same entries, and finds on their trails which of them were done.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use recado_core::{AuditEvent, DeadLetter, Job, JobId, Status};
use recado_store::{Discarded, KeyValue, PageRequest, StoreError};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::{
    Bulk, BulkAct, BulkFailure, BulkFigures, BulkState, CanaryState, FAILURES_NAMED_MAX, NAMESPACE, is_dead,
    write,
};
use crate::dlq::DeadLetters;
use crate::dlq::operator::Replay;
use crate::error::EngineError;
use crate::shared::entry::{read_entry, write_entry};
use crate::shared::leader::{LeaderLease, LeaderTerms, LeaseWatch};

/// Interval of looks for bulk acts without a process.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Time that a bulk act stays with a silent process.
const HELD_FOR: Duration = Duration::from_secs(15);

/// Progress is saved at least this often while entries are processed.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// Progress is saved at least this often while a canary is waited for.
const SAVE_WHILE_WAITING_EVERY: Duration = Duration::from_secs(5);

/// Entries are taken on in chunks of about this time, so that they share commits.
const CHUNK_TIME: Duration = Duration::from_millis(50);

/// A bulk act gives up when this many entries failed and none was done.
const GIVE_UP_AFTER: u64 = 20;

/// Time between two looks at a canary.
const CANARY_LOOK: Duration = Duration::from_millis(250);

/// Pause after the store could not answer.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// Finds bulk acts without a process, and works on them, until the engine stops.
pub(crate) async fn run(dlq: Arc<DeadLetters>) {
    let mut runners = JoinSet::new();
    // Those that this process works on, and those that another one may.
    let mut ours = HashMap::<Box<str>, AbortHandle>::new();
    let mut watches = HashMap::new();
    loop {
        let mut changed = std::pin::pin!(dlq.bulk_changed.notified());
        changed.as_mut().enable();
        ours.retain(|_, runner| !runner.is_finished());
        match take_free(&dlq, &ours, &mut watches).await {
            Ok(taken) => {
                for runner in taken {
                    ours.insert(runner.lease.state.id.clone(), runners.spawn(runner.run()));
                }
            }
            Err(StoreError::Broken(error)) => return dlq.env.lifecycle.fail_store(&error),
            Err(error) => tracing::warn!(%error, "Cannot look for bulk acts; trying again"),
        }
        tokio::select! {
            biased;
            () = dlq.env.lifecycle.stopping.cancelled() => break,
            () = changed => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        while runners.try_join_next().is_some() {}
    }
    while runners.join_next().await.is_some() {}
}

async fn take_free(
    dlq: &Arc<DeadLetters>,
    ours: &HashMap<Box<str>, AbortHandle>,
    watches: &mut HashMap<Box<str>, LeaseWatch>,
) -> Result<Vec<Runner>, StoreError> {
    let now = dlq.env.now();
    let mut taken = Vec::new();
    let kv: Arc<dyn KeyValue> = dlq.store.clone();
    let terms = LeaderTerms { kv, node: dlq.env.node.clone(), namespace: NAMESPACE, length: HELD_FOR };
    let entries = dlq.store.kv_list(NAMESPACE, now).await?;
    watches.retain(|id, _| entries.iter().any(|entry| entry.key == *id));
    for entry in entries {
        let Some(bulk) = read_entry::<Bulk>(&entry).filter(|bulk| bulk.state == BulkState::Running) else {
            continue;
        };
        if ours.contains_key(&bulk.id) {
            continue;
        }
        let watch = watches.entry(bulk.id.clone()).or_default();
        if let Some(mut lease) = terms.take(&entry.key, entry.version, bulk, watch)
            && lease.save(now).await?
        {
            taken.push(Runner { dlq: dlq.clone(), lease });
        }
    }
    Ok(taken)
}

struct Runner {
    dlq: Arc<DeadLetters>,
    /// The bulk act, which this process works on.
    lease: LeaderLease<Bulk>,
}

/// The result of one step.
enum BulkStep {
    GoOn,
    /// It has ended, or another process has it now.
    Over,
}

impl Runner {
    async fn run(mut self) {
        loop {
            let lifecycle = &self.dlq.env.lifecycle;
            if lifecycle.is_stopping() {
                // So that the next process goes on at once; otherwise it takes over when the lease has run out.
                let released = self.lease.release(self.dlq.env.now()).await;
                return drop(released.map_err(|error| lifecycle.check(error)));
            }
            match self.step().await {
                Ok(BulkStep::GoOn) => {}
                Ok(BulkStep::Over) => return,
                Err(StoreError::Broken(error)) => return self.dlq.env.lifecycle.fail_store(&error),
                // Another process takes over when the lease has run out.
                Err(_) if self.dlq.env.lifecycle.is_stopping() => return,
                Err(error) => {
                    tracing::warn!(id = %self.bulk().id, %error, "A bulk act cannot continue yet; trying again");
                    self.wait(STORE_RETRY).await;
                }
            }
        }
    }

    async fn step(&mut self) -> Result<BulkStep, StoreError> {
        if self.canary_is(CanaryState::Waiting) {
            return self.look_at_canary().await;
        }
        let Bulk { walk, figures, .. } = &mut self.lease.state;
        let (walked, hand_is_empty) = (walk.walked, walk.in_hand.is_empty());
        let none_done = figures.done == 0;
        if walked && hand_is_empty {
            // What was counted and is not there any more: another was faster.
            figures.skipped += figures.left();
            let failed = none_done && figures.failed > 0;
            let because = failed.then(|| self.last_failure("every entry failed"));
            return self.end(if failed { BulkState::Failed } else { BulkState::Done }, because).await;
        }
        if none_done && figures.failed >= GIVE_UP_AFTER && hand_is_empty {
            let because = format!("the first {} failed", figures.failed);
            return self.end(BulkState::Failed, Some(self.last_failure(&because))).await;
        }
        let began = Instant::now();
        let (size, time) = self.chunk();
        if hand_is_empty && let BulkStep::Over = self.choose(size).await? {
            return Ok(BulkStep::Over);
        }
        let took = self.process_in_hand().await?;
        if self.canary_is(CanaryState::Starting) && (self.canary_left() == 0 || self.bulk().walk.walked) {
            let began = self.bulk().canary.as_ref().is_some_and(|canary| !canary.job_ids.is_empty());
            self.set_canary(if began { CanaryState::Waiting } else { CanaryState::Delivered });
            return self.save().await;
        }
        self.pace(began + time.mul_f64(took as f64 / size as f64)).await
    }

    /// Waits until the next entries may go; a signal meanwhile may mean that it was stopped.
    async fn pace(&mut self, next_at: Instant) -> Result<BulkStep, StoreError> {
        loop {
            let woken = self.wait(next_at.saturating_duration_since(Instant::now())).await;
            if (woken || self.lease.unsaved_for() >= SAVE_EVERY)
                && let BulkStep::Over = self.save().await?
            {
                return Ok(BulkStep::Over);
            }
            if !woken {
                return Ok(BulkStep::GoOn);
            }
        }
    }

    fn last_failure(&self, what: &str) -> String {
        let last = self.bulk().figures.failures.last().map(|failure| &*failure.reason).unwrap_or_default();
        format!("{what}; the last one because {last}")
    }

    /// Size and time budget of the next chunk.
    fn chunk(&self) -> (usize, Duration) {
        let each = Duration::from_secs(1) / self.bulk().rate_per_second.max(1);
        let size = (CHUNK_TIME.as_nanos() / each.as_nanos().max(1)).max(1);
        let size = usize::try_from(size).unwrap_or(1);
        let size = if self.canary_is(CanaryState::Starting) { size.min(self.canary_left()) } else { size };
        (size, each * u32::try_from(size).unwrap_or(1))
    }

    fn canary_is(&self, state: CanaryState) -> bool {
        self.bulk().canary.as_ref().is_some_and(|canary| canary.state == state)
    }

    fn canary_left(&self) -> usize {
        let left = |canary: &super::Canary| (canary.wanted as usize).saturating_sub(canary.job_ids.len());
        self.bulk().canary.as_ref().map_or(0, left)
    }

    fn set_canary(&mut self, state: CanaryState) {
        if let Some(canary) = &mut self.lease.state.canary {
            canary.state = state;
            canary.waiting_for = None;
        }
    }

    /// Takes the next entries in hand, and writes them down.
    async fn choose(&mut self, size: usize) -> Result<BulkStep, StoreError> {
        let entries = self.next_entries(size).await?;
        let Bulk { walk, figures, .. } = &mut self.lease.state;
        figures.total = figures.total.max(figures.counted() + entries.len() as u64);
        let (dead, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_dead);
        figures.skipped += others.len() as u64;
        walk.in_hand = dead.into_iter().map(|entry| entry.job_id).collect();
        if walk.in_hand.is_empty() { Ok(BulkStep::GoOn) } else { self.save().await }
    }

    /// Processes the entries in hand and returns their number. On an error none of them is counted.
    async fn process_in_hand(&mut self) -> Result<usize, StoreError> {
        let fates = join_all(self.lease.state.walk.in_hand.iter().map(|id| self.process_entry(id))).await;
        let fates = fates.into_iter().collect::<Result<Vec<_>, _>>()?;
        let hand = std::mem::take(&mut self.lease.state.walk.in_hand);
        for (id, went) in hand.iter().zip(fates) {
            self.count(id, went);
        }
        Ok(hand.len())
    }

    async fn process_entry(&self, id: &JobId) -> Result<EntryResult, StoreError> {
        let filter = self.bulk().filter.filter(self.bulk().started_at);
        let entry = self.dlq.store.dead_letter(id).await?;
        let went = match entry.filter(|entry| is_dead(entry) && filter.matches(entry)) {
            Some(entry) => self.act(&entry).await?,
            None => EntryResult::Skipped,
        };
        Ok(if matches!(went, EntryResult::Skipped) && self.was_ours(id).await? {
            EntryResult::Done
        } else {
            went
        })
    }

    /// Returns true if this bulk act has done it before: it died after that, or the answer was lost.
    async fn was_ours(&self, id: &JobId) -> Result<bool, StoreError> {
        let trail = self.dlq.store.audit(id).await?;
        let ours = &self.bulk().id;
        // A bulk act goes on after an upgrade, and records of the version before name it in their words alone.
        let names_us = |event: &AuditEvent| match &event.bulk_id {
            Some(bulk_id) => bulk_id == ours,
            None => event.decision.retry_reason.as_deref().is_some_and(|words| words.contains(&**ours)),
        };
        Ok(trail.iter().any(names_us))
    }

    /// Returns the next chosen entries and advances the walk past them.
    async fn next_entries(&mut self, size: usize) -> Result<Vec<DeadLetter>, StoreError> {
        let (store, Bulk { filter, started_at, walk, .. }) = (&self.dlq.store, &mut self.lease.state);
        let (ids, filter) = (&filter.job_ids, filter.filter(*started_at));
        if ids.is_empty() {
            let page = PageRequest { before: walk.place, limit: size };
            let page = store.dead_letters(filter, page).await?;
            (walk.walked, walk.place) = (page.next.is_none(), page.next);
            return Ok(page.items);
        }
        let from = walk.place.and_then(|place| usize::try_from(place).ok()).unwrap_or(0);
        let to = ids.len().min(from + size);
        let mut entries = Vec::with_capacity(size);
        for id in &ids[from.min(to)..to] {
            entries.extend(store.dead_letter(id).await?.filter(|entry| filter.matches(entry)));
        }
        (walk.walked, walk.place) = (to == ids.len(), Some(to as u64));
        Ok(entries)
    }

    /// Replays or discards one entry, retrying until the store takes it: no entry may be skipped.
    async fn act(&self, entry: &DeadLetter) -> Result<EntryResult, StoreError> {
        let bulk = self.bulk();
        let (words, actor, id) = (bulk.words_of_record(), bulk.actor.as_deref(), Some(&*bulk.id));
        loop {
            let went = match bulk.act {
                BulkAct::Replay => {
                    self.dlq.replay_entry(entry, None, Some(&words), actor, id).await.map(EntryResult::from)
                }
                BulkAct::Discard => {
                    self.dlq.discard_entry(entry, &words, actor, id).await.map(EntryResult::from)
                }
            };
            match went {
                Ok(went) => return Ok(went),
                Err(EngineError::Store(error @ StoreError::Broken(_))) => return Err(error),
                Err(error) if self.dlq.env.lifecycle.is_stopping() => {
                    return Err(StoreError::Unavailable(error.to_string()));
                }
                Err(error) => {
                    tracing::warn!(jobId = %entry.job_id, %error, "An entry of a bulk act has to wait for the store");
                    self.wait(STORE_RETRY).await;
                }
            }
        }
    }

    fn count(&mut self, id: &JobId, result: EntryResult) {
        let Bulk { figures, canary, .. } = &mut self.lease.state;
        match result {
            EntryResult::Done => {
                figures.done += 1;
                if let Some(canary) = canary.as_mut().filter(|canary| canary.state == CanaryState::Starting) {
                    canary.job_ids.push(id.clone());
                }
            }
            EntryResult::Skipped => figures.skipped += 1,
            EntryResult::Failed(reason) => {
                figures.failed += 1;
                if figures.failures.len() < FAILURES_NAMED_MAX {
                    figures.failures.push(BulkFailure { job_id: id.clone(), reason: reason.into() });
                }
            }
        }
    }

    /// Goes on when every canary was delivered, and stops when one died. One that is parked is waited for.
    async fn look_at_canary(&mut self) -> Result<BulkStep, StoreError> {
        let now = self.dlq.env.now();
        let ids = self.bulk().canary.as_ref().map(|canary| canary.job_ids.clone()).unwrap_or_default();
        let mut waiting_for = None;
        let mut all_sent = true;
        for id in &ids {
            let view = self.dlq.store.job(id, now).await?;
            match view.as_ref().map(|view| view.status) {
                Some(Status::Sent) => {}
                Some(Status::Failed | Status::Cancelled | Status::Discarded) | None => {
                    let entry = self.dlq.store.dead_letter(id).await?;
                    let why = entry.map(|entry| entry.failure.reason.as_str().to_owned());
                    self.set_canary(CanaryState::Died);
                    let why = why.unwrap_or_else(|| "it was cancelled".to_owned());
                    return self
                        .end(BulkState::Stopped, Some(format!("canary {id} failed again: {why}")))
                        .await;
                }
                Some(_) => {
                    all_sent = false;
                    let job = view.as_ref().map(|view| &view.job);
                    let hold = |job: &Job| self.dlq.gate.hold(job.route.as_str(), job.company.as_str());
                    let held = job.and_then(|job| hold(job).or_else(|| self.dlq.gate.receiver_hold(job)));
                    waiting_for = waiting_for.or(held.map(|hold| hold.why.into_boxed_str()));
                }
            }
        }
        if all_sent {
            self.set_canary(CanaryState::Delivered);
            return self.save().await;
        }
        let told = self.lease.state.canary.as_mut().map(|canary| {
            let changed = canary.waiting_for != waiting_for;
            canary.waiting_for = waiting_for;
            changed
        });
        if told == Some(true) || self.lease.unsaved_for() >= SAVE_WHILE_WAITING_EVERY {
            return self.save().await;
        }
        if self.wait(CANARY_LOOK).await { self.save().await } else { Ok(BulkStep::GoOn) }
    }

    /// Waits; returns true if a signal came meanwhile.
    async fn wait(&self, time: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.dlq.env.lifecycle.stopping.cancelled() => false,
            () = self.dlq.bulk_changed.notified() => true,
            () = tokio::time::sleep(time) => false,
        }
    }

    /// Writes its progress. An operator may have stopped it in between, or another process taken it over.
    async fn save(&mut self) -> Result<BulkStep, StoreError> {
        let now = self.dlq.env.now();
        if self.lease.save(now).await? {
            return Ok(BulkStep::GoOn);
        }
        let Some(entry) = self.dlq.store.kv_get(NAMESPACE, &self.bulk().id, now).await? else {
            return Ok(BulkStep::Over);
        };
        if let Some(stopped) = read_entry::<Bulk>(&entry).filter(|bulk| bulk.state != BulkState::Running) {
            // How far it came is known here alone. What is in hand was not touched yet.
            let Bulk { state, ended_at, stopped_because, .. } = stopped;
            let mut bulk = Bulk { state, ended_at, stopped_because, ..self.bulk().clone() };
            bulk.walk.in_hand.clear();
            write_entry(&*self.dlq.store, write(&bulk, Some(entry.version))?, now).await?;
        }
        Ok(BulkStep::Over)
    }

    async fn end(&mut self, state: BulkState, because: Option<String>) -> Result<BulkStep, StoreError> {
        let now = self.dlq.env.now();
        self.lease.state.end(state, because, now);
        let audit = vec![self.bulk().ended_audit(now)];
        if !self.lease.save_with_audit(audit, now).await? {
            self.lease.state.state = BulkState::Running;
            return self.save().await;
        }
        let Bulk { id, act, figures, stopped_because, .. } = self.bulk();
        let BulkFigures { total, done, skipped, failed, .. } = figures;
        tracing::warn!(%id, act = act.as_str(), total, done, skipped, failed, because = stopped_because.as_deref(), "Bulk act on dead letters ended");
        Ok(BulkStep::Over)
    }

    fn bulk(&self) -> &Bulk {
        &self.lease.state
    }
}

/// The result for one entry.
enum EntryResult {
    Done,
    Skipped,
    Failed(String),
}

impl From<Replay> for EntryResult {
    fn from(replay: Replay) -> Self {
        match replay {
            Replay::Started => EntryResult::Done,
            Replay::AlreadyReplaying | Replay::Unknown => EntryResult::Skipped,
            Replay::Undeliverable(why) => EntryResult::Failed(why),
            Replay::Damaged(damage) => EntryResult::Failed(format!("{damage} is damaged in the store")),
            Replay::InvalidData(_) => EntryResult::Failed("its data cannot be delivered".to_owned()),
        }
    }
}

impl From<Discarded> for EntryResult {
    fn from(discarded: Discarded) -> Self {
        match discarded {
            Discarded::Done => EntryResult::Done,
            Discarded::Replaying | Discarded::DiedAgain | Discarded::Unknown => EntryResult::Skipped,
        }
    }
}
