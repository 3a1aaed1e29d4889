//! Looking into the trail: what is in the files, and what is not there yet.
//!
//! A walk through pages must show each record once, while records move from the store to the files under it. So it
//! is split where the files ended when it began. What the files had by then is shown by its place in them; all else,
//! wherever it is by now, is *fresh* and shown by its time.

use std::collections::BTreeMap;

use recado_audit::{Content, Hash, Order, Query, Record};
use recado_core::{AuditEvent, JobId, Timestamp};
use recado_store::AuditSpan;
use serde::{Deserialize, Serialize};

use super::lease::{ArchiverState, source};
use super::{AuditTrail, TrailTerms, off_thread};
use crate::error::TrailError;

/// Fresh records that are read at a time. All of them are read for a page, so that none is passed by.
const FRESH_RECORDS: usize = 1_000;

/// Records at the end of the files that are read at a time to find where those begin that are not marked yet.
const UNMARKED_RECORDS: usize = 100;

/// Records that are read of the files at a time for one job.
const JOB_RECORDS: usize = 1_000;

/// A record, and its seal if it is archived.
#[derive(Clone, Debug)]
pub struct TrailRecord {
    pub event: AuditEvent,
    pub seal: Option<Seal>,
}

/// The seal that makes a record of the files one of a chain.
#[derive(Clone, Debug)]
pub struct Seal {
    pub sequence: u64,
    pub recorded_at: Timestamp,
    pub hash: Hash,
    /// The record that says who erased what was personal in it.
    pub erased_by: Option<u64>,
}

impl From<Record> for TrailRecord {
    fn from(record: Record) -> Self {
        let erased_by = match &record.content {
            Content::Event { erased_by, .. } => *erased_by,
            Content::Erasure { .. } => None,
        };
        let (sequence, recorded_at, hash) = (record.sequence, record.archived_at, record.hash);
        let event = record.event().into_owned();
        TrailRecord { event, seal: Some(Seal { sequence, recorded_at, hash, erased_by }) }
    }
}

#[derive(Clone, Debug)]
pub struct TrailPage {
    pub found: Vec<TrailRecord>,
    pub next: Option<TrailPlace>,
}

/// The place where a walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrailPlace {
    /// The last sequence of the files when it began.
    split: u64,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum At {
    Fresh(Option<Key>),
    Files(Option<u64>),
}

/// Orders fresh records, and stays the same when one is archived.
type Key = (Timestamp, u16, u64);

/// Records of one side, and the place where it goes on if it has more.
type SidePage = Result<(Vec<TrailRecord>, Option<At>), TrailError>;

impl AuditTrail {
    /// A page of what is on record, from the store and the files.
    pub async fn search(&self, query: Query, place: Option<TrailPlace>) -> Result<TrailPage, TrailError> {
        let terms = self.archive.terms.as_ref().ok_or(TrailError::None)?;
        let walk = Walk::begin(self, terms, query).await?;
        walk.page(self, place).await
    }

    /// Everything on record about one job: from the store, and from the files what the store may have
    /// forgotten. `None` when it is unknown.
    pub async fn job_trail(&self, id: &JobId) -> Result<Option<Vec<AuditEvent>>, TrailError> {
        let (store, now) = (&self.store, self.env.now());
        let view = store.job(id, now).await?;
        let kept = store.audit(id).await?;
        let kept_for = self.jobs_kept;
        let is_young = view.as_ref().is_some_and(|view| view.job.enqueued_at.plus(kept_for) > now);
        let (Some(terms), false) = (&self.archive.terms, is_young) else {
            return Ok(view.map(|_| kept));
        };
        let mut trail = Vec::new();
        let mut query = Query {
            job: Some(id.as_str().into()),
            order: Order::OldestFirst,
            limit: JOB_RECORDS,
            ..Query::default()
        };
        loop {
            let page = search_files(terms, query.clone()).await?;
            trail.extend(page.records.iter().map(|record| record.event().into_owned()));
            query.beyond = page.next;
            if page.next.is_none() {
                break;
            }
        }
        let fresh: Vec<_> = kept.into_iter().filter(|event| !trail.contains(event)).collect();
        trail.extend(fresh);
        Ok((view.is_some() || !trail.is_empty()).then_some(trail))
    }
}

/// No files are no records: a node that has never archived has none.
async fn search_files(terms: &TrailTerms, query: Query) -> Result<recado_audit::Page, TrailError> {
    let dir = terms.dir.clone();
    off_thread(move || match dir.is_dir() {
        true => Ok(recado_audit::search(&dir, &query)?),
        false => Ok(recado_audit::Page { records: Vec::new(), next: None }),
    })
    .await?
}

/// One search, and how far both sides are.
pub(super) struct Walk<'t> {
    terms: &'t TrailTerms,
    query: Query,
    /// The last sequence of the files.
    pub(super) end: u64,
    /// The store's name in them, and the last number of each part that is there.
    store: Box<str>,
    pub(super) archived: BTreeMap<u16, u64>,
}

impl<'t> Walk<'t> {
    pub(super) async fn begin(
        trail: &AuditTrail,
        terms: &'t TrailTerms,
        query: Query,
    ) -> Result<Self, TrailError> {
        // Nothing is appended meanwhile, so both sides are of one moment.
        let writer = trail.archive.files.lock().await;
        if let Some(files) = &*writer {
            let archived = (0..trail.store.audit_parts()).map(|part| (part, files.archived(part))).collect();
            let end = files.trail.checkpoint().map_or(0, |checkpoint| checkpoint.sequence);
            return Ok(Walk { terms, query, end, store: files.store.clone(), archived });
        }
        let (store, archived) = match ArchiverState::read(&*trail.store, trail.env.now()).await? {
            Some(state) => (state.store, state.archived),
            None => Default::default(),
        };
        let mut walk = Walk { terms, query, end: 0, store, archived };
        walk.end = walk.last_marked(trail).await?;
        Ok(walk)
    }

    /// The last sequence of the files that the archiver has marked. What another node has appended and
    /// not marked yet is still among the store's fresh records, and must not be shown from the files as well.
    async fn last_marked(&self, trail: &AuditTrail) -> Result<u64, TrailError> {
        let mut query = Query { limit: UNMARKED_RECORDS, ..Query::default() };
        loop {
            let page = search_files(self.terms, query.clone()).await?;
            let marked = page.records.iter().find(|record| match self.origin(trail, record) {
                Some((part, number)) => number <= self.archived.get(&part).copied().unwrap_or(0),
                None => true,
            });
            query.beyond = page.next;
            if marked.is_some() || page.next.is_none() {
                return Ok(marked.map_or(0, |record| record.sequence));
            }
        }
    }

    async fn page(&self, trail: &AuditTrail, place: Option<TrailPlace>) -> Result<TrailPage, TrailError> {
        let newest_first = self.query.order == Order::NewestFirst;
        let begin = if newest_first { At::Fresh(None) } else { At::Files(None) };
        let TrailPlace { split, at } = place.unwrap_or(TrailPlace { split: self.end, at: begin });
        let mut page = TrailPage { found: Vec::new(), next: None };
        let mut at = Some(at);
        while let Some(here) = at.filter(|_| page.found.len() < self.query.limit) {
            let room = self.query.limit - page.found.len();
            let (found, next) = match here {
                At::Fresh(beyond) => self.fresh(trail, split, beyond, room).await?,
                At::Files(beyond) => self.archived(split, beyond, room).await?,
            };
            page.found.extend(found);
            at = match (next, here) {
                (Some(next), _) => Some(next),
                (None, At::Fresh(_)) => newest_first.then_some(At::Files(None)),
                (None, At::Files(_)) => (!newest_first).then_some(At::Fresh(None)),
            };
        }
        page.next = at.map(|at| TrailPlace { split, at });
        Ok(page)
    }

    /// The records in the files when the walk began.
    async fn archived(&self, split: u64, beyond: Option<u64>, room: usize) -> SidePage {
        let mut query = Query { beyond, limit: room, ..self.query.clone() };
        if query.order == Order::NewestFirst && beyond.is_none() {
            query.beyond = split.checked_add(1);
        }
        let page = search_files(self.terms, query).await?;
        let found: Vec<TrailRecord> = page
            .records
            .into_iter()
            .filter(|record| record.sequence <= split)
            .map(TrailRecord::from)
            .collect();
        let next = page.next.filter(|next| *next < split || self.query.order == Order::NewestFirst);
        Ok((found, next.map(|next| At::Files(Some(next)))))
    }

    /// The records that were not in the files by then, wherever they are now.
    async fn fresh(&self, trail: &AuditTrail, split: u64, beyond: Option<Key>, room: usize) -> SidePage {
        let mut left = Nearest { found: BTreeMap::new(), order: self.query.order, beyond, room };
        for part in 0..trail.store.audit_parts() {
            let after = self.archived.get(&part).copied().unwrap_or(0);
            let mut span = AuditSpan { part, after, newest_first: false };
            loop {
                let records = trail.store.audit_records(span, FRESH_RECORDS).await?;
                let Some(last) = records.last() else { break };
                let is_last = records.len() < FRESH_RECORDS;
                span.after = last.number;
                for record in records.into_iter().filter(|record| self.query.matches_event(&record.event)) {
                    let key = (record.event.timestamp, part, record.number);
                    left.offer(key, TrailRecord { event: record.event, seal: None });
                }
                if is_last {
                    break;
                }
            }
        }
        let (order, limit) = (Order::OldestFirst, FRESH_RECORDS);
        let mut query = Query { order, limit, beyond: Some(split), ..self.query.clone() };
        while query.beyond.is_some() {
            let page = search_files(self.terms, query.clone()).await?;
            for record in page.records {
                left.offer(self.key(trail, &record), TrailRecord::from(record));
            }
            query.beyond = page.next;
        }
        let (found, next) = left.page();
        Ok((found, next.map(|key| At::Fresh(Some(key)))))
    }

    fn key(&self, trail: &AuditTrail, record: &Record) -> Key {
        match &record.content {
            Content::Event { source_sequence, event, .. } => {
                let part = self.origin(trail, record).map_or(u16::MAX, |(part, _)| part);
                (event.timestamp, part, *source_sequence)
            }
            Content::Erasure { .. } => (record.archived_at, u16::MAX, record.sequence),
        }
    }

    /// The part of this store that an archived record came from, and its number there.
    fn origin(&self, trail: &AuditTrail, record: &Record) -> Option<(u16, u64)> {
        let Content::Event { source: from, source_sequence, .. } = &record.content else { return None };
        let part = (0..trail.store.audit_parts()).find(|part| source(&self.store, *part) == *from);
        part.map(|part| (part, *source_sequence))
    }
}

/// The first fresh records beyond a place, one more than fit on a page at most.
struct Nearest {
    /// In the order of the walk.
    found: BTreeMap<Rank, (Key, TrailRecord)>,
    order: Order,
    beyond: Option<Key>,
    room: usize,
}

/// The place of a fresh record in a walk: the first one is the smallest.
type Rank = (i64, u16, u64);

fn rank(order: Order, (at, part, number): Key) -> Rank {
    match order {
        Order::OldestFirst => (at.as_millis(), part, number),
        Order::NewestFirst => (-at.as_millis(), !part, !number),
    }
}

impl Nearest {
    fn offer(&mut self, key: Key, record: TrailRecord) {
        let at = rank(self.order, key);
        if self.beyond.is_none_or(|beyond| at > rank(self.order, beyond)) {
            self.found.insert(at, (key, record));
        }
        if self.found.len() > self.room + 1 {
            self.found.pop_last();
        }
    }

    /// The page's records, and the key of the last one if there are more.
    fn page(mut self) -> (Vec<TrailRecord>, Option<Key>) {
        let more = self.found.len() > self.room;
        if more {
            self.found.pop_last();
        }
        let next = self.found.values().next_back().map(|(key, _)| *key).filter(|_| more);
        (self.found.into_values().map(|(_, record)| record).collect(), next)
    }
}
