//! Many dead letters replayed or discarded at once: counted first, paced, a canary first if asked, seen on the
//! way, stopped at any time.
//!
//! A bulk act is an entry in the store, and the entry is the leader lease of the process that works on it
//! ([`crate::shared::leader`]). A request writes it; a process that finds it free takes it, writes down how far it came,
//! and lets go when it stops. So one that was cut off by a restart goes on where it was, by the same path as a new one,
//! and of several nodes one works on it.
//!
//! Its figures add up at all times: done, skipped, failed and left are the total. Entries are written down as in hand
//! before they are touched, and the record that a bulk act leaves on a job's trail names it: so a process that takes over
//! after a crash knows of each whether it was done.
//!
//! Only what was in the queue at the start is touched; a replay that fails again comes back too late for that.
//! Two bulk acts over the same entries are two people at the same entry: the store lets one of them begin.

mod run;

use recado_core::words::counted;
use std::collections::HashSet;
use std::time::Duration;

use recado_core::{AuditEvent, AuditKind, DeadLetter, DeadLetterState, JobId, Payload, Timestamp};
use recado_store::{DeadLetterFilter, GroupBy, KvWrite, Namespace, PageRequest, StoreError};
use serde::{Deserialize, Serialize};

use crate::dlq::{DeadLetters, about_entries};
use crate::error::{EngineError, Result};
use crate::shared::entry::{Edit, EntryKey, read_entry, update_entry, version_of, write_entry, write_of};
use crate::shared::leader::LeaderState;

pub use recado_core::dead_letter::bulk::{BulkAct, BulkState, CanaryState};
pub(crate) use run::run;

pub const NAMESPACE: Namespace = Namespace::new("replays");

/// Bulk acts that may run at once, over all nodes.
pub const RUNNING_MAX: usize = 4;

/// Ended bulk acts that are remembered, and for how long.
const ENDED_KEPT_MAX: usize = 100;
const ENDED_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Gentle enough for a provider that has just come back.
pub const RATE_DEFAULT: u32 = 50;

/// Failures that are named; the rest is counted.
pub const FAILURES_NAMED_MAX: usize = 20;

/// The entry in the same namespace that says which bulk acts are about to begin.
const SLOTS: &str = "slots";

/// A slot whose bulk act is not there after this long is free: its process died before it wrote the bulk act.
const SLOT_KEPT: Duration = Duration::from_secs(60);

/// Tries at a slot while others are taken.
const SLOT_TRIES: usize = 64;

/// A bulk act that is about to begin, and since when.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Slot {
    id: Box<str>,
    at: Timestamp,
}

/// Selection of a bulk act; all given conditions must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Chosen {
    #[serde(flatten)]
    pub entries: DeadLetterFilter,
    /// Only these, if any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub job_ids: Vec<JobId>,
}

impl Chosen {
    /// Removes repeated ids.
    #[must_use]
    pub fn without_repetitions(mut self) -> Self {
        let mut seen = HashSet::new();
        self.job_ids.retain(|id| seen.insert(id.clone()));
        self
    }

    /// The store's filter. Entries that came after `now` were not there when the person chose.
    fn filter(&self, now: Timestamp) -> DeadLetterFilter {
        let until = self.entries.until.map_or(now, |until| until.min(now));
        DeadLetterFilter { until: Some(until), ..self.entries.clone() }
    }
}

/// The first few, whose fate decides about the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Canary {
    pub wanted: u32,
    pub job_ids: Vec<JobId>,
    pub state: CanaryState,
    /// The reason why they wait, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BulkFailure {
    pub job_id: JobId,
    pub reason: Box<str>,
}

/// A bulk act and how far it came, as the store has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bulk {
    pub id: Box<str>,
    pub act: BulkAct,
    pub state: BulkState,
    pub filter: Chosen,
    pub rate_per_second: u32,
    /// The reason, for the trail of each entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Box<str>>,
    #[serde(flatten)]
    pub figures: BulkFigures,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    pub started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_because: Option<Box<str>>,
    #[serde(flatten)]
    walk: BulkWalk,
    /// The node that works on it: its leader lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<Box<str>>,
    /// Read by earlier versions alone, which do not work on it before this time.
    held_until: Timestamp,
}

/// The number of entries that a bulk act is about, by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BulkFigures {
    /// Counted at the start; more if some were just being buried.
    pub total: u64,
    pub done: u64,
    /// On their way already, or gone: another was faster.
    pub skipped: u64,
    pub failed: u64,
    pub failures: Vec<BulkFailure>,
}

impl BulkFigures {
    /// Those of the total that nothing has become of.
    pub fn left(&self) -> u64 {
        self.total.saturating_sub(self.counted())
    }

    fn counted(&self) -> u64 {
        self.done + self.skipped + self.failed
    }
}

/// The walk of a bulk act through the chosen entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BulkWalk {
    /// The place to go on: below this order number, or at this one of the named ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<u64>,
    /// Chosen, and not counted yet: done or not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    in_hand: Vec<JobId>,
    /// Every entry has been looked at.
    walked: bool,
}

impl Bulk {
    /// The words on the trail of each entry: the reason, and this bulk act's id.
    fn words_of_record(&self) -> String {
        let id = &self.id;
        match &self.words {
            Some(words) => format!("{words} (bulk act {id})"),
            None => format!("bulk act {id}"),
        }
    }

    fn end(&mut self, state: BulkState, because: Option<String>, now: Timestamp) {
        self.state = state;
        self.ended_at = Some(now);
        self.stopped_because = because.map(Into::into);
    }

    fn audit(&self, kind: AuditKind, words: String, now: Timestamp) -> AuditEvent {
        let about = about_entries(&self.filter.entries, &self.id, kind, now);
        let about = AuditEvent { bulk_id: Some(self.id.clone()), ..about };
        about.reason(words).by(self.actor.as_deref())
    }

    fn ended_audit(&self, now: Timestamp) -> AuditEvent {
        let BulkFigures { total, done, skipped, failed, .. } = &self.figures;
        let left = self.figures.left();
        let because = self.stopped_because.as_deref().map(|why| format!("; {why}")).unwrap_or_default();
        let words = format!(
            "Bulk {} of {} ended: {done} done, {skipped} skipped, {failed} failed, {left} left{because}",
            self.act.as_str(),
            counted(*total, "dead letter", "dead letters")
        );
        self.audit(AuditKind::BulkEnded, words, now)
    }
}

/// A place in the walk of a bulk act through the dead letter queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePlace {
    /// Nothing was looked at.
    Top,
    /// Below this order number of the store.
    Below(u64),
    /// Every entry was looked at.
    End,
}

/// The order number below which the bulk act in this entry goes on. Absent where it goes on by no number of its store.
pub fn queue_number(entry: &Payload) -> Option<u64> {
    let bulk: Bulk = entry.parse().ok()?;
    let walks = bulk.state == BulkState::Running && bulk.filter.job_ids.is_empty() && !bulk.walk.walked;
    bulk.walk.place.filter(|_| walks)
}

/// Sets the place in the queue of another store from which the bulk act in this entry goes on.
pub fn at_queue_place(entry: Payload, place: QueuePlace) -> Payload {
    let Ok(mut bulk) = entry.parse::<Bulk>() else { return entry };
    bulk.walk.walked = place == QueuePlace::End;
    bulk.walk.place = match place {
        QueuePlace::Below(number) => Some(number),
        QueuePlace::Top | QueuePlace::End => None,
    };
    serde_json::to_string(&bulk).map_or(entry, Payload::trusted)
}

/// An order for a bulk act.
#[derive(Clone, Debug)]
pub struct BulkOrder {
    pub act: BulkAct,
    pub filter: Chosen,
    pub rate_per_second: Option<u32>,
    pub canary: Option<u32>,
    pub words: Option<Box<str>>,
    pub actor: Option<Box<str>>,
}

/// The refusal of a bulk act because as many run as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl DeadLetters {
    /// Counts the chosen dead letters, and shows a few of them, newest first.
    pub async fn choose(&self, chosen: &Chosen, sample: usize) -> Result<(u64, Vec<DeadLetter>)> {
        let filter = chosen.filter(self.env.now());
        if chosen.job_ids.is_empty() {
            let groups = self.store.dead_letter_groups(GroupBy::Route, filter.clone()).await?;
            let page = PageRequest { before: None, limit: sample };
            let sample =
                if sample == 0 { Vec::new() } else { self.store.dead_letters(filter, page).await?.items };
            return Ok((groups.iter().map(|group| group.count).sum(), sample));
        }
        let (mut total, mut shown) = (0, Vec::new());
        for id in &chosen.job_ids {
            let entry = self.store.dead_letter(id).await?.filter(|entry| filter.matches(entry));
            total += u64::from(entry.is_some());
            shown.extend(entry.filter(|_| shown.len() < sample));
        }
        Ok((total, shown))
    }

    /// Begins a bulk act. It is counted and written down before this answers, and done after.
    pub async fn start_bulk(&self, order: BulkOrder) -> Result<Result<Bulk, TooMany>> {
        if self.env.lifecycle.is_stopping() {
            return Err(EngineError::Stopping);
        }
        let id: Box<str> = format!("rpl_{}", self.env.random.uuid_v7(self.env.now()).to_simple()).into();
        let Some(all) = self.take_slot(&id).await? else { return Ok(Err(TooMany)) };
        let (total, _) = self.choose(&order.filter, 0).await?;
        let now = self.env.now();
        let canary =
            |wanted| Canary { wanted, job_ids: Vec::new(), state: CanaryState::Starting, waiting_for: None };
        let bulk = Bulk {
            id,
            act: order.act,
            state: BulkState::Running,
            filter: order.filter,
            rate_per_second: order.rate_per_second.unwrap_or(RATE_DEFAULT),
            words: order.words,
            actor: order.actor,
            figures: BulkFigures { total, ..BulkFigures::default() },
            canary: order.canary.map(canary),
            started_at: now,
            ended_at: None,
            stopped_because: None,
            walk: BulkWalk::default(),
            holder: None,
            held_until: now,
        };
        let words = bulk.words.as_deref().map(|words| format!(": {words}")).unwrap_or_default();
        let words = format!(
            "Bulk {} of {} begins{words}",
            bulk.act.as_str(),
            counted(total, "dead letter", "dead letters")
        );
        let audit = vec![bulk.audit(AuditKind::BulkStarted, words, now)];
        let forgotten = all.iter().filter(|bulk| bulk.ended_at.is_some()).skip(ENDED_KEPT_MAX - 1);
        let mut writes = vec![KvWrite { audit, ..write(&bulk, Some(0))? }];
        for old in forgotten {
            writes.push(KvWrite { value: None, ..write(old, None)? });
        }
        self.store.kv_write(writes, now).await?;
        tracing::warn!(id = %bulk.id, act = bulk.act.as_str(), total, actor = bulk.actor.as_deref(), "Bulk act on dead letters begins");
        self.bulk_changed.notify_waiters();
        Ok(Ok(bulk))
    }

    /// Takes one of [`RUNNING_MAX`] slots for a bulk act that is about to be written, in one step over all nodes. Returns
    /// all bulk acts that there are, or `None` when every slot is taken.
    async fn take_slot(&self, id: &str) -> Result<Option<Vec<Bulk>>> {
        for _ in 0..SLOT_TRIES {
            let now = self.env.now();
            // Slots first: a bulk act that is written after this has its slot in them.
            let entry = self.store.kv_get(NAMESPACE, SLOTS, now).await?;
            let all = self.bulks().await?;
            let running = all.iter().filter(|bulk| bulk.state == BulkState::Running).count();
            let mut taken: Vec<Slot> = entry.as_ref().and_then(read_entry).unwrap_or_default();
            taken.retain(|slot| slot.at.plus(SLOT_KEPT) > now && !all.iter().any(|bulk| bulk.id == slot.id));
            if running + taken.len() >= RUNNING_MAX {
                return Ok(None);
            }
            taken.push(Slot { id: id.into(), at: now });
            let write = write_of(entry_key(SLOTS), Some(&taken), Some(version_of(entry.as_ref())))?;
            let write = KvWrite { expires_at: Some(now.plus(SLOT_KEPT)), ..write };
            if write_entry(&*self.store, write, now).await?.is_some() {
                return Ok(Some(all));
            }
        }
        Err(StoreError::Unavailable("too many bulk acts begin at once; try again".to_owned()).into())
    }

    /// Returns every bulk act that is remembered, newest first.
    pub async fn bulks(&self) -> Result<Vec<Bulk>> {
        let entries = self.store.kv_list(NAMESPACE, self.env.now()).await?;
        let mut all: Vec<Bulk> = entries.iter().filter_map(read_entry).collect();
        all.sort_by(|a, b| (b.started_at, &b.id).cmp(&(a.started_at, &a.id)));
        Ok(all)
    }

    pub async fn bulk(&self, id: &str) -> Result<Option<Bulk>> {
        Ok(self.store.kv_get(NAMESPACE, id, self.env.now()).await?.as_ref().and_then(read_entry))
    }

    /// Stops a bulk act; what it has done stays done. One that has ended is left as it is.
    pub async fn stop_bulk(&self, id: &str, actor: Option<&str>) -> Result<Option<Bulk>> {
        let now = self.env.now();
        let because = format!("stopped by {}", actor.unwrap_or("an operator"));
        let updated = update_entry(&*self.store, entry_key(id), now, |bulk: Option<&Bulk>| {
            let mut bulk = bulk.filter(|bulk| bulk.state == BulkState::Running)?.clone();
            bulk.end(BulkState::Stopped, Some(because.clone()), now);
            let (expires_at, audit) = (bulk.expires_at(), vec![bulk.ended_audit(now).by(actor)]);
            Some(Edit { value: Some(bulk), expires_at, audit })
        });
        let updated = updated.await?;
        let Some((stopped, _)) = updated.written else { return Ok(updated.found) };
        tracing::warn!(id, actor, "Bulk act on dead letters stopped by hand");
        self.bulk_changed.notify_waiters();
        Ok(Some(stopped))
    }
}

fn entry_key(id: &str) -> EntryKey<'_> {
    EntryKey { namespace: NAMESPACE, key: id }
}

fn write(bulk: &Bulk, expect: Option<u64>) -> Result<KvWrite, StoreError> {
    Ok(KvWrite { expires_at: bulk.expires_at(), ..write_of(entry_key(&bulk.id), Some(bulk), expect)? })
}

impl LeaderState for Bulk {
    fn holder(&self) -> Option<&str> {
        self.holder.as_deref()
    }

    fn set_holder(&mut self, node: Option<&str>, until: Timestamp) {
        (self.holder, self.held_until) = (node.map(Into::into), until);
    }

    fn expires_at(&self) -> Option<Timestamp> {
        self.ended_at.map(|at| at.plus(ENDED_KEPT))
    }
}

fn is_dead(entry: &DeadLetter) -> bool {
    entry.state == DeadLetterState::Dead
}
