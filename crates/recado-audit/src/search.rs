//! Searches records by their index, without reading the whole trail.

use std::ops::ControlFlow;
use std::path::Path;

use recado_core::{AuditEvent, AuditKind, Timestamp};

use crate::erasure::{Identity, Subject};
use crate::error::{Error, io};
use crate::index::{self, Field, Run, Span};
use crate::line::{Line, json};
use crate::month::Month;
use crate::record::Record;
use crate::snapshot::{Segment, Snapshot};

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
    pub kind: Option<AuditKind>,
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

/// Hands every matching record to `show`, one at a time, until it breaks off. `limit` has no say.
pub fn walk(dir: &Path, query: &Query, mut show: impl FnMut(Record) -> ControlFlow<()>) -> Result<(), Error> {
    visit(&Snapshot::open(dir)?, query, |_, record| Ok(show(record)))
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

    /// In the order of [`index::texts_of`].
    fn texts(&self) -> [(Field, Option<&str>); 6] {
        [
            (Field::Job, self.job.as_deref()),
            (Field::Claim, self.claim.as_deref()),
            (Field::Correlation, self.correlation.as_deref()),
            (Field::Company, self.company.as_deref()),
            (Field::User, self.user.as_deref()),
            (Field::Actor, self.actor.as_deref()),
        ]
    }

    fn keys(&self) -> Vec<u64> {
        let texts = self.texts().into_iter().filter_map(|(field, text)| Some(index::key(field, text?)));
        texts.chain(self.kind.map(index::kind_key)).collect()
    }

    fn fits(&self, record: &Record) -> bool {
        self.matches_event(&record.event()) && self.reaches(record.sequence, record.sequence)
    }

    /// Returns true if an event matches, wherever it is kept.
    pub fn matches_event(&self, event: &AuditEvent) -> bool {
        let mut texts = self.texts().into_iter().zip(index::texts_of(event));
        texts.all(|((_, wanted), (_, found))| wanted.is_none() || wanted == found)
            && self.kind.is_none_or(|wanted| wanted == event.kind)
            && self.since.is_none_or(|since| event.timestamp >= since)
            && self.until.is_none_or(|until| event.timestamp < until)
    }

    /// Returns true if any of these sequences lies beyond the point where the search goes on.
    fn reaches(&self, first: u64, last: u64) -> bool {
        self.beyond.is_none_or(|beyond| match self.order {
            Order::NewestFirst => first < beyond,
            Order::OldestFirst => last > beyond,
        })
    }

    fn may_be_in(&self, span: Span) -> bool {
        self.reaches(span.first_sequence, span.last_sequence)
            && self.since.is_none_or(|since| span.newest >= since)
            && self.until.is_none_or(|until| span.oldest < until)
    }
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
        let mut runs: Vec<Option<Run>> = index::read_runs(segment).into_iter().map(Some).collect();
        let indexed = runs.last().copied().flatten().map_or(0, |run| run.span.end);
        // What is not indexed yet comes after all runs.
        runs.push(None);
        if newest_first {
            runs.reverse();
        }
        for run in runs {
            let found = match run {
                Some(run) if !query.may_be_in(run.span) => continue,
                Some(run) if !keys.is_empty() => indexed_positions(segment, &run, &keys)?,
                Some(run) => scan(segment, run.span.start, run.span.end, query)?,
                None => scan(segment, indexed, segment.bytes, query)?,
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

/// The last sequence that can stand before a segment.
fn last_sequence_before(next: Option<&Segment>) -> Result<u64, Error> {
    next.map_or(Ok(u64::MAX), |next| Ok(next.first_sequence()?.saturating_sub(1)))
}

/// Positions of records that may match, by the key that fewest records have.
fn indexed_positions(segment: &Segment, run: &Run, keys: &[u64]) -> Result<Vec<u64>, Error> {
    let Some(index) = &segment.index else { return Ok(Vec::new()) };
    let found = keys.iter().map(|key| run.find(index, *key)).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(io(&segment.path))?;
    Ok(found.into_iter().min_by_key(Vec::len).unwrap_or_default())
}

/// Positions of records that match, found by reading the stretch. Most lines are skipped by a text search,
/// which is much faster than parsing each one.
fn scan(segment: &Segment, from: u64, to: u64, query: &Query) -> Result<Vec<u64>, Error> {
    let texts: Vec<String> =
        query.texts().iter().filter_map(|(_, text)| text.map(|text| json(&text))).collect();
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
        let mut lines = self.lines_by(4 << 10, at, self.bytes);
        Ok(lines.next()?.map_or_else(Vec::new, |raw| raw.bytes.to_vec()))
    }
}
