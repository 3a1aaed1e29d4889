//! Searches records by their index, without reading the whole trail.

use std::ops::ControlFlow;
use std::path::Path;

use recado_core::{AuditEvent, Timestamp};

use crate::erasure::{Identity, Subject};
use crate::error::{Error, io};
use crate::index::{self, Field, Run};
use crate::line::{Line, json};
use crate::month::Month;
use crate::record::{Content, Kind, Record};
use crate::snapshot::{LINE_BYTES_MAX, Segment, Snapshot};

/// Records of a page by default.
const PAGE_RECORDS: usize = 100;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    NewestFirst,
    OldestFirst,
}

/// A search; a record must match every field that is set.
#[derive(Clone, Debug)]
pub struct Query {
    pub job: Option<Box<str>>,
    pub claim: Option<Box<str>>,
    pub correlation: Option<Box<str>>,
    pub company: Option<Box<str>>,
    /// The person the job was about.
    pub user: Option<Box<str>>,
    /// The person who acted.
    pub actor: Option<Box<str>>,
    pub kind: Option<Kind>,
    /// Happened at or after this.
    pub since: Option<Timestamp>,
    /// Happened before this.
    pub until: Option<Timestamp>,
    pub order: Order,
    /// Go on beyond this sequence, in the order asked for.
    pub beyond: Option<u64>,
    pub limit: usize,
}

impl Default for Query {
    fn default() -> Self {
        Query {
            job: None,
            claim: None,
            correlation: None,
            company: None,
            user: None,
            actor: None,
            kind: None,
            since: None,
            until: None,
            order: Order::default(),
            beyond: None,
            limit: PAGE_RECORDS,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub records: Vec<Record>,
    /// The value of `beyond` for the next page, if there is one.
    pub next: Option<u64>,
}

/// Finds records. Readers block no writer, and see the trail as it was when they began.
pub fn search(dir: &Path, query: &Query) -> Result<Page, Error> {
    let mut page = Page { records: Vec::new(), next: None };
    visit(&Snapshot::open(dir)?, query, |_, record| {
        if page.records.len() == query.limit {
            page.next = page.records.last().map(|record| record.sequence);
            return Ok(ControlFlow::Break(()));
        }
        page.records.push(record);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(page)
}

impl Query {
    /// Everything about one person, oldest first.
    pub fn about(subject: &Subject) -> Self {
        let mut query =
            Query { company: subject.company.clone(), order: Order::OldestFirst, ..Query::default() };
        let (place, id) = match &subject.identity {
            Identity::User(id) => (&mut query.user, id),
            Identity::Correlation(id) => (&mut query.correlation, id),
            Identity::Claim(id) => (&mut query.claim, id),
            Identity::Job(id) => (&mut query.job, id),
        };
        *place = Some(id.clone());
        query
    }

    fn texts(&self) -> impl Iterator<Item = (Field, &str)> {
        let texts = [
            (Field::Job, &self.job),
            (Field::Claim, &self.claim),
            (Field::Correlation, &self.correlation),
            (Field::User, &self.user),
            (Field::Actor, &self.actor),
            (Field::Company, &self.company),
        ];
        texts.into_iter().filter_map(|(field, text)| Some((field, text.as_deref()?)))
    }

    fn keys(&self) -> Vec<u64> {
        let texts = self.texts().map(|(field, text)| index::key(field, text));
        texts.chain(self.kind.map(index::kind_key)).collect()
    }

    fn fits(&self, record: &Record) -> bool {
        let content = match &record.content {
            Content::Event { event, .. } => self.matches_event(event),
            Content::Erasure { erasure } => {
                [&self.job, &self.claim, &self.correlation, &self.user].iter().all(|wanted| wanted.is_none())
                    && is(&self.actor, Some(&erasure.actor))
                    && is(&self.company, erasure.company_id.as_deref())
                    && self.matches_kind(Kind::Erasure, record.archived_at)
            }
        };
        content && self.reaches(record.sequence, record.sequence)
    }

    /// Returns true if an event matches, wherever it is kept.
    pub fn matches_event(&self, event: &AuditEvent) -> bool {
        is(&self.job, event.job_id.as_deref())
            && is(&self.claim, Some(&*event.claim_id).filter(|claim| !claim.is_empty()))
            && is(&self.correlation, event.correlation_id.as_deref())
            && is(&self.user, event.user_id.as_deref())
            && is(&self.actor, event.actor.as_deref())
            && is(&self.company, event.company_id.as_deref())
            && self.matches_kind(event.kind.into(), event.timestamp)
    }

    fn matches_kind(&self, kind: Kind, at: Timestamp) -> bool {
        self.kind.is_none_or(|wanted| wanted == kind)
            && self.since.is_none_or(|since| at >= since)
            && self.until.is_none_or(|until| at < until)
    }

    /// Returns true if any of these sequences lies beyond the point where the search goes on.
    fn reaches(&self, first: u64, last: u64) -> bool {
        self.beyond.is_none_or(|beyond| match self.order {
            Order::NewestFirst => first < beyond,
            Order::OldestFirst => last > beyond,
        })
    }

    fn may_be_in(&self, run: &Run) -> bool {
        self.reaches(run.first_sequence, run.last_sequence)
            && self.since.is_none_or(|since| run.newest >= since)
            && self.until.is_none_or(|until| run.oldest < until)
    }
}

fn is(wanted: &Option<Box<str>>, found: Option<&str>) -> bool {
    wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
}

/// Visits every matching record in order until the visitor stops it.
pub(crate) fn visit(
    snapshot: &Snapshot,
    query: &Query,
    mut show: impl FnMut(Month, Record) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    let newest_first = query.order == Order::NewestFirst;
    let keys = query.keys();
    let count = snapshot.segments.len();
    for place in 0..count {
        let place = if newest_first { count - 1 - place } else { place };
        let segment = &snapshot.segments[place];
        let next = snapshot.segments.get(place + 1);
        if query.beyond.is_some() && !query.reaches(segment.first_sequence()?, last_sequence_before(next)?) {
            continue;
        }
        let mut stretches: Vec<SearchRange> =
            index::read_runs(segment).into_iter().map(SearchRange::Indexed).collect();
        stretches.push(SearchRange::Rest(stretches.last().map_or(0, SearchRange::end)));
        if newest_first {
            stretches.reverse();
        }
        for stretch in stretches {
            let found = match stretch {
                SearchRange::Indexed(run) if !query.may_be_in(&run) => continue,
                SearchRange::Indexed(run) if !keys.is_empty() => indexed_positions(segment, &run, &keys)?,
                SearchRange::Indexed(run) => scan(segment, run.start, run.end, query)?,
                SearchRange::Rest(from) => scan(segment, from, segment.bytes, query)?,
            };
            let mut found = found.into_iter();
            while let Some(at) = if newest_first { found.next_back() } else { found.next() } {
                let Some(record) = segment.record_at(at)?.filter(|record| query.fits(record)) else {
                    continue;
                };
                if show(segment.month, record)?.is_break() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

enum SearchRange {
    Indexed(Run),
    /// From here to the segment's end.
    Rest(u64),
}

impl SearchRange {
    fn end(&self) -> u64 {
        match self {
            SearchRange::Indexed(run) => run.end,
            SearchRange::Rest(from) => *from,
        }
    }
}

/// The last sequence that can stand before a segment.
fn last_sequence_before(next: Option<&Segment>) -> Result<u64, Error> {
    next.map_or(Ok(u64::MAX), |next| Ok(next.first_sequence()?.saturating_sub(1)))
}

/// Positions of records that may match, by the key that fewest records have.
fn indexed_positions(segment: &Segment, run: &Run, keys: &[u64]) -> Result<Vec<u64>, Error> {
    let Some(index) = &segment.index else { return Ok(Vec::new()) };
    let mut fewest: Option<Vec<u64>> = None;
    for key in keys {
        let found = run.find(index, *key).map_err(io(&segment.path))?;
        if fewest.as_ref().is_none_or(|fewest| found.len() < fewest.len()) {
            fewest = Some(found);
        }
        if fewest.as_ref().is_some_and(Vec::is_empty) {
            break;
        }
    }
    Ok(fewest.unwrap_or_default())
}

/// Positions of records that match, found by reading the stretch. Most lines are skipped by a text search,
/// which is much faster than parsing each one.
fn scan(segment: &Segment, from: u64, to: u64, query: &Query) -> Result<Vec<u64>, Error> {
    let texts: Vec<String> = query.texts().map(|(_, text)| json(&text)).collect();
    let mut found = Vec::new();
    let mut lines = segment.lines(from, to);
    while let Some(raw) = lines.next()? {
        let may_fit = |line: &str| texts.iter().all(|text| line.contains(text.as_str()));
        if raw.ended
            && std::str::from_utf8(raw.bytes).is_ok_and(may_fit)
            && Record::read(raw.bytes).is_ok_and(|record| query.fits(&record))
        {
            found.push(raw.at);
        }
    }
    Ok(found)
}

impl Segment {
    fn first_sequence(&self) -> Result<u64, Error> {
        Ok(Line::read(&self.line_at(0)?).map_or(0, |line| line.sequence))
    }

    fn record_at(&self, at: u64) -> Result<Option<Record>, Error> {
        Ok(Record::read(&self.line_at(at)?).ok())
    }

    fn line_at(&self, at: u64) -> Result<Vec<u8>, Error> {
        let mut window_bytes = 4 << 10;
        loop {
            let end = (at + window_bytes).min(self.bytes);
            let mut window = self.read(at, end)?;
            match window.iter().position(|byte| *byte == b'\n') {
                Some(length) => window.truncate(length),
                None if end < self.bytes && window_bytes <= LINE_BYTES_MAX as u64 => {
                    window_bytes *= 16;
                    continue;
                }
                None => {}
            }
            return Ok(window);
        }
    }
}
