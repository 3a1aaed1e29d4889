//! Verifies that a trail is complete and unchanged, and reports where it is not.
//!
//! Each segment is read once, as a stream, several at a time ([`segment`]): every line's hash, its personal
//! part, its place in the chain, and the signature that closes the segment. Signatures before that one are
//! under the chain, so they need no checking of their own; they are gone through only to find the place when
//! the last does not hold. Then the segments are joined, with the summaries of those that were dropped, and held
//! against the erasures, `head.json` and what the auditor kept.
//!
//! Absent on purpose: trust in anything derived. No index is opened.

mod report;
mod segment;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::digest::Hash;
use crate::error::Error;
use crate::files::{self, Folder, PUBLIC_KEY};
use crate::key::{PublicKey, Purpose};
use crate::line::{Checkpoint, Link};
use crate::month::Month;
use crate::retention::Summary;
use crate::snapshot::Snapshot;
use crate::statement;
use crate::tail::Head;

use report::Findings;
pub use report::{Fault, Finding, Report};
pub(crate) use segment::{Checked, check_segment};

/// Segments read at the same time at most.
const READERS_MAX: usize = 8;

/// Evidence that an auditor brings along.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The key that the trail must be signed with. Without it the trail's own `public.pem` serves, which proves
    /// no more than that it was all signed by one key.
    pub public_key: Option<PublicKey>,
    /// Checkpoints that were kept elsewhere: nothing up to them may have changed.
    pub checkpoints: Vec<Checkpoint>,
}

/// Reads the whole trail. What is wrong with it is in the report; an error means that it could not be read.
pub fn verify(dir: &Path, evidence: &Evidence) -> Result<Report, Error> {
    let key = match evidence.public_key {
        Some(key) => key,
        None => own_key(dir)?,
    };
    let snapshot = Snapshot::open(dir)?;
    let head: Option<Head> =
        snapshot.head.as_ref().and_then(|bytes| statement::read(bytes, Purpose::HEAD, &key));
    let kept = evidence.checkpoints.iter().chain(head.as_ref().map(|head| &head.checkpoint));
    let watch: BTreeSet<u64> = kept.map(|checkpoint| checkpoint.sequence).collect();
    let checked = check_segments(&snapshot, &key, &watch)?;

    let mut findings = Findings::default();
    find_unfinished_erasure(&snapshot, &mut findings)?;
    let pieces = collect_pieces(&snapshot, &checked, &key, &mut findings);
    let end = check_joins(&pieces, &mut findings);
    check_erasures(&checked, &snapshot, &mut findings);
    let reached = WatchedRecords::new(&checked, &pieces, end);
    if let Some(head) = &head {
        reached.compare_checkpoint(&head.checkpoint, &mut findings);
    } else if end.sequence > 0 {
        findings.add(None, None, None, Fault::HeadMissing);
    }
    let mut unchecked = Vec::new();
    for checkpoint in &evidence.checkpoints {
        if !checkpoint.is_signed_by(&key) {
            findings.add(None, None, Some(checkpoint.sequence), Fault::CheckpointNotSigned);
        } else if !reached.compare_checkpoint(checkpoint, &mut findings) {
            unchecked.push(checkpoint.sequence);
        }
    }

    let mut report = Report {
        segments: snapshot.segments.len(),
        dropped: pieces.iter().filter(|piece| piece.dropped).count(),
        records: checked.iter().map(|(_, checked)| checked.records).sum(),
        erased: checked.iter().map(|(_, checked)| checked.blanks.len() as u64).sum(),
        end: end.sequence,
        checkpoint: pieces.last().and_then(|piece| piece.end),
        unchecked,
        findings: Vec::new(),
        more: false,
    };
    for (_, checked) in checked {
        findings.absorb(checked.findings);
    }
    (report.findings, report.more) = findings.sorted();
    Ok(report)
}

fn own_key(dir: &Path) -> Result<PublicKey, Error> {
    let pem = files::read(&Folder(dir.to_owned()).file(PUBLIC_KEY))?;
    let key = pem.and_then(|pem| String::from_utf8(pem).ok()?.parse().ok());
    key.ok_or_else(|| Error::NoPublicKey { dir: dir.to_owned() })
}

/// Checks all segments, on as many threads as there are processors.
fn check_segments(
    snapshot: &Snapshot,
    key: &PublicKey,
    watch: &BTreeSet<u64>,
) -> Result<Vec<(Month, Checked)>, Error> {
    let segments = &snapshot.segments;
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(Month, Checked)>, Error> {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(segment) = segments.get(place) else { return Ok(done) };
            let newest = place + 1 == segments.len();
            let end = if newest { segment.signed_end()? } else { segment.bytes };
            done.push((segment.month, check_segment(segment, end, key, watch)?));
        }
    };
    let readers = std::thread::available_parallelism().map_or(1, usize::from).min(READERS_MAX);
    let mut checked = Vec::with_capacity(segments.len());
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..readers.min(segments.len())).map(|_| scope.spawn(work)).collect();
        for reader in readers {
            checked.extend(reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(())
    })?;
    checked.sort_by_key(|(month, _)| *month);
    Ok(checked)
}

/// Finds an act that was begun and not ended, unless a writer is at it right now.
fn find_unfinished_erasure(snapshot: &Snapshot, findings: &mut Findings) -> Result<(), Error> {
    if snapshot.erasure.is_some() {
        findings.add(None, None, None, Fault::ErasureUnfinished);
    }
    let Some(newest) = snapshot.segments.last().filter(|_| !snapshot.being_written) else { return Ok(()) };
    let bytes = newest.bytes - newest.signed_end()?;
    if bytes > 0 {
        findings.add(Some(newest.month), None, None, Fault::Unsigned { bytes });
    }
    Ok(())
}

/// A part of the chain: a segment, or what is left of one.
struct Piece {
    month: Month,
    first_sequence: u64,
    previous: Option<Hash>,
    last: Link,
    /// Its last record, if that is signed as it should be.
    end: Option<Checkpoint>,
    /// Only its summary is left.
    dropped: bool,
}

fn collect_pieces(
    snapshot: &Snapshot,
    checked: &[(Month, Checked)],
    key: &PublicKey,
    findings: &mut Findings,
) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (month, checked) in checked {
        if let (Some((first_sequence, previous)), Some(last)) = (checked.first, checked.last) {
            let (month, end) = (*month, checked.end);
            pieces.push(Piece { month, first_sequence, previous, last, dropped: false, end });
        }
    }
    for (month, bytes) in &snapshot.summaries {
        let there = pieces.iter().any(|piece| piece.month == *month);
        match statement::read::<Summary>(bytes, Purpose::SUMMARY, key).filter(|made| made.segment == *month) {
            None => findings.add(Some(*month), None, None, Fault::SummaryNotSigned),
            Some(_) if there => {}
            Some(summary) => pieces.push(Piece {
                month: *month,
                first_sequence: summary.first_sequence,
                previous: Some(summary.previous),
                last: summary.end.link(),
                dropped: true,
                end: Some(summary.end),
            }),
        }
    }
    // By what they hold and not by their names: a file with the wrong name is one finding, not three.
    pieces.sort_by_key(|piece| piece.first_sequence);
    pieces
}

/// Each piece continues the one before; says where the chain ends.
fn check_joins(pieces: &[Piece], findings: &mut Findings) -> Link {
    let mut link = Link::START;
    for piece in pieces {
        let (line, sequence) = ((!piece.dropped).then_some(1), Some(piece.first_sequence));
        let expected = link.sequence + 1;
        let fault = if piece.first_sequence > expected {
            Some(Fault::Missing { first: expected, last: piece.first_sequence - 1 })
        } else if piece.first_sequence < expected {
            Some(Fault::Repeated)
        } else if piece.previous.is_some_and(|previous| previous != link.seal) {
            Some(Fault::DoesNotContinue)
        } else {
            None
        };
        if let Some(fault) = fault {
            findings.add(Some(piece.month), line, sequence, fault);
        }
        if piece.last.sequence >= link.sequence {
            link = piece.last;
        }
    }
    link
}

/// Every blank record is named by an erasure, and every record that an erasure names is blank.
fn check_erasures(checked: &[(Month, Checked)], snapshot: &Snapshot, findings: &mut Findings) {
    let mut named = BTreeMap::<(Month, u64), u64>::new();
    let newest = checked.iter().flat_map(|(_, checked)| &checked.erasures).map(|(by, _)| *by).max();
    for (by, erasure) in checked.iter().flat_map(|(_, checked)| &checked.erasures) {
        for (month, sequences) in &erasure.segments {
            named.extend(sequences.iter().map(|sequence| ((*month, *sequence), *by)));
        }
    }
    for (month, checked) in checked {
        for blank in &checked.blanks {
            if named.remove(&(*month, blank.sequence)) != Some(blank.by) {
                findings.add(
                    Some(*month),
                    Some(blank.line),
                    Some(blank.sequence),
                    Fault::BlankWithoutErasure,
                );
            }
        }
        let here = named.range((*month, 0)..=(*month, u64::MAX));
        for ((_, sequence), by) in here.filter(|(_, by)| snapshot.erasure.is_none() || Some(**by) != newest) {
            findings.add(Some(*month), None, Some(*sequence), Fault::NotErased { by: *by });
        }
    }
}

/// The records at the watched sequences.
struct WatchedRecords {
    hashes: BTreeMap<u64, Hash>,
    begins_at: u64,
    ends_at: u64,
}

impl WatchedRecords {
    fn new(checked: &[(Month, Checked)], pieces: &[Piece], end: Link) -> Self {
        let seen = checked.iter().flat_map(|(_, checked)| &checked.watched).copied();
        let dropped = pieces.iter().filter(|piece| piece.dropped).filter_map(|piece| piece.end);
        let dropped = dropped.map(|end| (end.sequence, end.hash));
        let begins =
            pieces.iter().find(|piece| !piece.dropped).map_or(u64::MAX, |piece| piece.first_sequence);
        WatchedRecords { hashes: dropped.chain(seen).collect(), begins_at: begins, ends_at: end.sequence }
    }

    /// False if its record was dropped, so that nothing can be said.
    fn compare_checkpoint(&self, checkpoint: &Checkpoint, findings: &mut Findings) -> bool {
        let sequence = checkpoint.sequence;
        let fault = match self.hashes.get(&sequence) {
            Some(hash) if *hash == checkpoint.hash => return true,
            Some(_) => Fault::CheckpointDiffers,
            None if sequence > self.ends_at => Fault::Shortened { end: self.ends_at },
            None if sequence < self.begins_at => return false,
            // The record is missing, and the chain says so.
            None => return true,
        };
        findings.add(None, None, Some(sequence), fault);
        true
    }
}
