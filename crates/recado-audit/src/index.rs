//! The index: beside each segment a file of sorted runs, each covering a stretch of it.
//!
//! A run has a header and, for every key of every record in its stretch (job, claim, company, …), the key's
//! hash and the record's position; sorted, with a fence for each page, so that a look-up reads one page. All
//! of it is derived: a missing or cut-off index costs time and nothing else, a search reads every record that
//! it points at, and `verify` never opens it.
//!
//! Absent on purpose: an index of the newest stretch. Up to [`RUN_BYTES`] of records are searched by reading.

use std::fs::File;
use std::hash::Hasher;
use std::os::unix::fs::FileExt;
use std::path::Path;

use recado_core::{AuditEvent, AuditKind, Timestamp};
use siphasher::sip::SipHasher13;

use crate::error::{Error, io};
use crate::files;
use crate::line::{Line, json};
use crate::record::Record;
use crate::snapshot::Segment;

/// Bytes of a segment that one run covers, about ten thousand records.
pub(crate) const RUN_BYTES: u64 = 8 << 20;

const MAGIC: [u8; 8] = *b"recado1\n";
const HEADER_LEN: usize = 72;
const ENTRY_LEN: usize = 12;
const PAGE_ENTRIES: usize = 256;

/// A field by which records can be found.
#[derive(Clone, Copy)]
pub(crate) enum Field {
    Job,
    Claim,
    Correlation,
    Company,
    User,
    Actor,
    Kind,
}

pub(crate) fn key(field: Field, value: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(&[field as u8]);
    hasher.write(value.as_bytes());
    hasher.finish()
}

pub(crate) fn kind_key(kind: AuditKind) -> u64 {
    match kind {
        AuditKind::PersonalDataErased => key(Field::Kind, "erasure"),
        kind => key(Field::Kind, &json(&kind)),
    }
}

/// The texts by which an event can be found.
pub(crate) fn texts_of(event: &AuditEvent) -> [(Field, Option<&str>); 6] {
    [
        (Field::Job, event.job_id.as_deref()),
        (Field::Claim, Some(&*event.claim_id).filter(|claim| !claim.is_empty())),
        (Field::Correlation, event.correlation_id.as_deref()),
        (Field::Company, event.company_id.as_deref()),
        (Field::User, event.user_id.as_deref()),
        (Field::Actor, event.actor.as_deref()),
    ]
}

/// The part of a segment that a run covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) first_sequence: u64,
    pub(crate) last_sequence: u64,
    pub(crate) oldest: Timestamp,
    pub(crate) newest: Timestamp,
}

/// One run's header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) span: Span,
    entries: usize,
    /// Position of the run's body in the index file.
    body: u64,
}

impl Run {
    fn pages(&self) -> usize {
        self.entries.div_ceil(PAGE_ENTRIES)
    }

    fn body_len(&self) -> usize {
        self.pages() * 8 + self.entries * ENTRY_LEN
    }

    fn body_end(&self) -> u64 {
        self.body + self.body_len() as u64
    }

    fn header(&self) -> Vec<u8> {
        let Span { start, end, first_sequence, last_sequence, oldest, newest } = self.span;
        let times = [oldest, newest].map(|at| at.as_millis().cast_unsigned());
        let words = [start, end, first_sequence, last_sequence, times[0], times[1], self.entries as u64];
        let words = words.map(u64::to_le_bytes);
        [words.as_flattened(), &header_sum(&words), &MAGIC].concat()
    }

    fn read(index: &File, at: u64) -> Option<Run> {
        let mut header = [0; HEADER_LEN];
        index.read_exact_at(&mut header, at).ok()?;
        let (words, _) = header.as_chunks();
        if words[8] != MAGIC || words[7] != header_sum(&words[..7]) {
            return None;
        }
        let word = |place: usize| u64::from_le_bytes(words[place]);
        let time = |place| Timestamp::from_millis(word(place).cast_signed());
        let span = Span {
            start: word(0),
            end: word(1),
            first_sequence: word(2),
            last_sequence: word(3),
            oldest: time(4),
            newest: time(5),
        };
        Some(Run { span, entries: u32::try_from(word(6)).ok()? as usize, body: at + HEADER_LEN as u64 })
    }

    /// Offsets in the segment of the records with this key (and, once in a great while, of others), rising.
    pub(crate) fn find(&self, index: &File, key: u64) -> std::io::Result<Vec<u64>> {
        let mut fences = vec![0; self.pages() * 8];
        index.read_exact_at(&mut fences, self.body)?;
        let fences: Vec<u64> = fences.as_chunks().0.iter().map(|fence| u64::from_le_bytes(*fence)).collect();
        // A page begins with its fence; the key may already be at the end of the page before.
        let first = fences.partition_point(|fence| *fence < key).saturating_sub(1);
        let last = fences.partition_point(|fence| *fence <= key);
        let (from, to) = (first * PAGE_ENTRIES, (last * PAGE_ENTRIES).min(self.entries));
        let mut entries = vec![0; to.saturating_sub(from) * ENTRY_LEN];
        index.read_exact_at(&mut entries, self.body + (fences.len() * 8 + from * ENTRY_LEN) as u64)?;
        let offset = |entry: &[u8; ENTRY_LEN]| {
            let (hash, offset) = entry.split_first_chunk().expect("an entry is longer than its hash");
            let offset = u32::from_le_bytes(*offset.first_chunk().expect("the rest of an entry"));
            (u64::from_le_bytes(*hash) == key).then_some(self.span.start + u64::from(offset))
        };
        Ok(entries.as_chunks().0.iter().filter_map(offset).collect())
    }
}

fn header_sum(words: &[[u8; 8]]) -> [u8; 8] {
    let mut hasher = SipHasher13::new();
    hasher.write(words.as_flattened());
    hasher.finish().to_le_bytes()
}

/// The runs that cover the segment from its beginning without a gap.
pub(crate) fn read_runs(segment: &Segment) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let Some(index) = &segment.index else { return runs };
    let index_bytes = index.metadata().map_or(0, |meta| meta.len());
    let (mut at, mut covered) = (0, 0);
    while let Some(run) = Run::read(index, at) {
        let Span { start, end, .. } = run.span;
        if start != covered || end <= start || end > segment.bytes || run.body_end() > index_bytes {
            break;
        }
        (at, covered) = (run.body_end(), end);
        runs.push(run);
    }
    // An index that was made for another state of the segment points between its lines.
    let fits = |run: &Run| {
        let line = segment.line_that_ends_at(run.span.end).unwrap_or_default();
        Line::read(&line).is_some_and(|line| line.sequence == run.span.last_sequence)
    };
    if runs.last().is_some_and(|run| !fits(run)) {
        runs.clear();
    }
    runs
}

/// Brings an index up to its segment, except for a last stretch of fewer than `least_bytes`. Records that the
/// writer still has in memory are not read again. Returns the position it has reached.
pub(crate) fn extend_index(
    path: &Path,
    segment: &Segment,
    least_bytes: u64,
    unindexed: Option<Stretch>,
) -> Result<u64, Error> {
    let last = read_runs(segment).pop();
    let (mut from, mut at) = last.map_or((0, 0), |run| (run.span.end, run.body_end()));
    let mut unindexed = unindexed.filter(|stretch| stretch.span.end == segment.bytes);
    while segment.bytes - from >= least_bytes {
        let until = unindexed.as_ref().map(|stretch| stretch.span.start).filter(|start| *start >= from);
        let stretch = match unindexed.take_if(|stretch| stretch.span.start == from) {
            Some(stretch) => stretch,
            None => read(segment, from, until.unwrap_or(segment.bytes))?,
        };
        let (run, body) = stretch.into_run(at);
        let file = files::private_file_options().create(true).truncate(false).open(path).map_err(io(path))?;
        // The body first: a reader that finds the header can rely on the body behind it.
        file.set_len(at)
            .and_then(|()| file.write_all_at(&body, run.body))
            .and_then(|()| file.sync_data())
            .and_then(|()| file.write_all_at(&run.header(), at))
            .map_err(io(path))?;
        (from, at) = (run.span.end, run.body_end());
    }
    Ok(from)
}

/// Lines of a segment without a gap, on their way to become a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    span: Span,
    /// Keys, and where each one's line begins, counted from the start.
    entries: Vec<(u64, u32)>,
}

impl Stretch {
    pub(crate) fn from(start: u64) -> Self {
        let span = Span {
            start,
            end: start,
            first_sequence: u64::MAX,
            last_sequence: 0,
            oldest: Timestamp::MAX,
            newest: Timestamp::from_millis(i64::MIN),
        };
        Stretch { span, entries: Vec::new() }
    }

    /// Adds the next line. If lines are missing before it, the stretch begins anew.
    pub(crate) fn add(&mut self, at: u64, end: u64, sequence: u64, event: &AuditEvent) {
        if at != self.span.end {
            *self = Stretch::from(at);
        }
        let Stretch { span, entries } = self;
        let offset = u32::try_from(at - span.start).expect("a run is shorter than four gigabytes");
        let texts = texts_of(event).into_iter().filter_map(|(field, text)| Some(key(field, text?)));
        entries.extend(texts.chain([kind_key(event.kind)]).map(|key| (key, offset)));
        span.end = end;
        span.first_sequence = span.first_sequence.min(sequence);
        span.last_sequence = span.last_sequence.max(sequence);
        span.oldest = span.oldest.min(event.timestamp);
        span.newest = span.newest.max(event.timestamp);
    }

    /// A run, and its body, for this place in the index file.
    fn into_run(mut self, at: u64) -> (Run, Vec<u8>) {
        self.entries.sort_unstable();
        let run = Run { span: self.span, entries: self.entries.len(), body: at + HEADER_LEN as u64 };
        let mut body = Vec::with_capacity(run.body_len());
        for page in self.entries.chunks(PAGE_ENTRIES) {
            body.extend_from_slice(&page[0].0.to_le_bytes());
        }
        for (hash, offset) in self.entries {
            body.extend_from_slice(&hash.to_le_bytes());
            body.extend_from_slice(&offset.to_le_bytes());
        }
        (run, body)
    }
}

fn read(segment: &Segment, from: u64, to: u64) -> Result<Stretch, Error> {
    let mut stretch = Stretch::from(from);
    let mut lines = segment.lines(from, to);
    while stretch.span.end - from < RUN_BYTES
        && let Some(raw) = lines.next()?
    {
        match Record::read(raw.bytes) {
            Ok(record) => stretch.add(raw.at, raw.end, record.sequence, &record.event()),
            Err(_) => stretch.span.end = raw.end,
        }
    }
    Ok(stretch)
}

#[cfg(test)]
mod tests {
    use recado_core::AuditKind;

    use super::*;
    use crate::files::Folder;
    use crate::month::Month;
    use crate::record::Entry;
    use crate::trail::{Options, Trail};

    #[test]
    fn what_the_writer_kept_in_mind_is_what_a_reader_finds() {
        let dir = tempfile::tempdir().expect("a place");
        let mut trail = Trail::open(dir.path(), &Options::default()).expect("a trail");
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
        let entries: Vec<_> = (1..=20)
            .map(|n| {
                let kind = if n % 2 == 0 { AuditKind::Delivered } else { AuditKind::Replayed };
                let mut event = AuditEvent::claim(&format!("guia-{n}"), "tiss", kind, now);
                event.job_id = Some(format!("job-{n}").into());
                event.company_id = (n % 3 == 0).then(|| "acme".into());
                event.user_id = (n % 5 == 0).then(|| "ana".into());
                event.correlation_id = (n % 7 == 0).then(|| "order".into());
                Entry { source: "store".into(), sequence: n, event: event.by((n % 4 == 0).then_some("rita")) }
            })
            .collect();
        trail.append(&entries, now).expect("written");
        let folder = Folder(dir.path().into());
        let segment = Segment::open(&folder, Month::of(now)).expect("a segment");
        let (mut unindexed, mut lines) = (Stretch::from(0), segment.lines(0, segment.bytes));
        for entry in &entries {
            let line = lines.next().expect("readable").expect("a line for each");
            unindexed.add(line.at, line.end, entry.sequence, &entry.event);
        }
        assert_eq!(unindexed, read(&segment, 0, segment.bytes).expect("readable"));
    }
}
