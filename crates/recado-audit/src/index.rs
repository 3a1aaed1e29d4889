//! Where to find what: beside each segment a file of sorted runs, each covering a stretch of it.
//!
//! A run has a header and, for every key of every record in its stretch (job, claim, company, …), the key's
//! hash and where the record is; sorted, with a fence for each page, so that a look-up reads one page. All of
//! it is derived: a missing or cut-off index costs time and nothing else, whoever searches reads every record
//! that it points at, and `verify` never opens it.
//!
//! Absent on purpose: an index of the newest stretch. Up to [`RUN_BYTES`] of records are searched by reading.

use std::fs::File;
use std::hash::Hasher;
use std::os::unix::fs::FileExt;
use std::path::Path;

use recado_core::Timestamp;
use siphasher::sip::SipHasher13;

use crate::error::{Error, io};
use crate::files;
use crate::line::{Line, json};
use crate::record::{Content, Kind, Record};
use crate::snapshot::Segment;

/// How much of a segment one run covers, about ten thousand records.
pub(crate) const RUN_BYTES: u64 = 8 << 20;

const MAGIC: [u8; 8] = *b"recado1\n";
const HEADER_LEN: usize = 72;
const ENTRY_LEN: usize = 12;
const PAGE_ENTRIES: usize = 256;

/// What a record can be found by.
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

pub(crate) fn kind_key(kind: Kind) -> u64 {
    match kind {
        Kind::Event(kind) => key(Field::Kind, &json(&kind)),
        Kind::Erasure => key(Field::Kind, "erasure"),
    }
}

fn keys(record: &Record) -> impl Iterator<Item = u64> {
    let texts = match &record.content {
        Content::Event { event, .. } => [
            (Field::Claim, Some(&event.claim_id).filter(|claim| !claim.is_empty())),
            (Field::Job, event.job_id.as_ref()),
            (Field::Company, event.company_id.as_ref()),
            (Field::Actor, event.actor.as_ref()),
            (Field::User, event.user_id.as_ref()),
            (Field::Correlation, event.correlation_id.as_ref()),
        ],
        Content::Erasure { erasure } => [
            (Field::Actor, Some(&erasure.actor)),
            (Field::Company, erasure.company_id.as_ref()),
            (Field::Claim, None),
            (Field::Job, None),
            (Field::User, None),
            (Field::Correlation, None),
        ],
    };
    let texts = texts.into_iter().filter_map(|(field, value)| Some(key(field, value?)));
    texts.chain([kind_key(record.kind())])
}

/// One run's header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The stretch of the segment.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) first_sequence: u64,
    pub(crate) last_sequence: u64,
    pub(crate) oldest: Timestamp,
    pub(crate) newest: Timestamp,
    entries: usize,
    /// Where the run's body is in the index file.
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

    fn header(&self) -> [u8; HEADER_LEN] {
        let words = [
            self.start,
            self.end,
            self.first_sequence,
            self.last_sequence,
            self.oldest.as_millis().cast_unsigned(),
            self.newest.as_millis().cast_unsigned(),
            self.entries as u64,
        ];
        let mut header = [0; HEADER_LEN];
        for (place, word) in words.into_iter().enumerate() {
            header[place * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        let sum = header_sum(&header);
        header[HEADER_LEN - 16..][..8].copy_from_slice(&sum.to_le_bytes());
        header[HEADER_LEN - 8..].copy_from_slice(&MAGIC);
        header
    }

    fn read(index: &File, at: u64) -> Option<Run> {
        let mut header = [0; HEADER_LEN];
        index.read_exact_at(&mut header, at).ok()?;
        let word =
            |place: usize| u64::from_le_bytes(*header[place * 8..].first_chunk().expect("in the header"));
        if header[HEADER_LEN - 8..] != MAGIC || word(7) != header_sum(&header) {
            return None;
        }
        Some(Run {
            start: word(0),
            end: word(1),
            first_sequence: word(2),
            last_sequence: word(3),
            oldest: Timestamp::from_millis(word(4).cast_signed()),
            newest: Timestamp::from_millis(word(5).cast_signed()),
            entries: u32::try_from(word(6)).ok()? as usize,
            body: at + HEADER_LEN as u64,
        })
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
            (u64::from_le_bytes(*hash) == key).then_some(self.start + u64::from(offset))
        };
        Ok(entries.as_chunks().0.iter().filter_map(offset).collect())
    }
}

fn header_sum(header: &[u8; HEADER_LEN]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(&header[..HEADER_LEN - 16]);
    hasher.finish()
}

/// The runs that cover the segment from its beginning without a gap.
pub(crate) fn runs(segment: &Segment) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let Some(index) = &segment.index else { return runs };
    let index_bytes = index.metadata().map_or(0, |meta| meta.len());
    let (mut at, mut covered) = (0, 0);
    while let Some(run) = Run::read(index, at) {
        let fits = run.start == covered && run.end > run.start && run.end <= segment.bytes;
        if !fits || run.body_end() > index_bytes {
            break;
        }
        (at, covered) = (run.body_end(), run.end);
        runs.push(run);
    }
    // An index that was made for another state of the segment points between its lines.
    let fits = |run: &Run| {
        let line = segment.line_that_ends_at(run.end).unwrap_or_default();
        Line::read(&line).is_some_and(|line| line.sequence == run.last_sequence)
    };
    if runs.last().is_some_and(|run| !fits(run)) {
        runs.clear();
    }
    runs
}

/// Brings an index up to its segment, except for a last stretch that is still growing. Says how far it is now.
pub(crate) fn catch_up(path: &Path, segment: &Segment, closed: bool) -> Result<u64, Error> {
    let last = runs(segment).pop();
    let (mut from, mut at) = last.map_or((0, 0), |run| (run.end, run.body_end()));
    let least = if closed { 1 } else { RUN_BYTES };
    while segment.bytes - from >= least {
        let (run, body) = build(segment, from, at)?;
        let file = files::private().create(true).truncate(false).open(path).map_err(io(path))?;
        // The body first: whoever finds the header can rely on what follows it.
        file.set_len(at)
            .and_then(|()| file.write_all_at(&body, run.body))
            .and_then(|()| file.sync_data())
            .and_then(|()| file.write_all_at(&run.header(), at))
            .map_err(io(path))?;
        (from, at) = (run.end, run.body_end());
    }
    Ok(from)
}

fn build(segment: &Segment, from: u64, at: u64) -> Result<(Run, Vec<u8>), Error> {
    let mut run = Run {
        start: from,
        end: from,
        first_sequence: u64::MAX,
        last_sequence: 0,
        oldest: Timestamp::MAX,
        newest: Timestamp::from_millis(i64::MIN),
        entries: 0,
        body: at + HEADER_LEN as u64,
    };
    let mut entries: Vec<(u64, u32)> = Vec::new();
    let mut lines = segment.lines(from, segment.bytes);
    while run.end - from < RUN_BYTES
        && let Some(raw) = lines.next()?
    {
        run.end = raw.end;
        let Ok(record) = Record::read(raw.bytes) else { continue };
        run.first_sequence = run.first_sequence.min(record.sequence);
        run.last_sequence = run.last_sequence.max(record.sequence);
        run.oldest = run.oldest.min(record.timestamp());
        run.newest = run.newest.max(record.timestamp());
        let offset = u32::try_from(raw.at - from).expect("a run is shorter than four gigabytes");
        entries.extend(keys(&record).map(|key| (key, offset)));
    }
    entries.sort_unstable();
    run.entries = entries.len();
    let mut body = Vec::with_capacity(run.body_len());
    for page in entries.chunks(PAGE_ENTRIES) {
        body.extend_from_slice(&page[0].0.to_le_bytes());
    }
    for (hash, offset) in entries {
        body.extend_from_slice(&hash.to_le_bytes());
        body.extend_from_slice(&offset.to_le_bytes());
    }
    Ok((run, body))
}
