//! One segment, line by line.

use std::collections::BTreeSet;

use crate::digest::Hash;
use crate::erasure::Erasure;
use crate::error::Error;
use crate::key::PublicKey;
use crate::line::{Checkpoint, Line, Link, SealedContent, SealedPersonal};
use crate::month::Month;
use crate::record::{self, Record};
use crate::snapshot::Segment;

use super::report::{Fault, Findings};

/// The contents of a segment, and its faults.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// The first sequence, and what it continues, unless that cannot be read.
    pub(crate) first: Option<(u64, Option<Hash>)>,
    pub(crate) last: Option<Link>,
    /// The last line, if it is signed with the key.
    pub(crate) end: Option<Checkpoint>,
    pub(crate) records: u64,
    pub(crate) blanks: Vec<ErasedRecord>,
    pub(crate) erasures: Vec<(u64, Erasure)>,
    pub(crate) watched: Vec<(u64, Hash)>,
    pub(crate) findings: Findings,
}

/// A record without its personal part.
#[derive(Debug)]
pub(crate) struct ErasedRecord {
    pub(crate) sequence: u64,
    pub(crate) line: u64,
    pub(crate) by: u64,
}

/// Reads a segment up to `end`, where a signed line must be. The hashes of the sequences in `watch` are kept.
pub(crate) fn check_segment(
    segment: &Segment,
    end: u64,
    key: &PublicKey,
    watch: &BTreeSet<u64>,
) -> Result<Checked, Error> {
    let mut pass = SegmentCheck::new(segment.month, watch);
    let mut lines = segment.lines(0, end);
    while let Some(raw) = lines.next()? {
        pass.number += 1;
        match Line::read(raw.bytes).filter(|_| raw.ended) {
            Some(line) => pass.line(&line, raw.bytes),
            None => pass.unreadable(),
        }
    }
    let end_of_file = pass.finish();
    let mut checked = pass.checked;
    match end_of_file {
        None => {}
        Some((_, Some(end))) if end.is_signed_by(key) => checked.end = Some(end),
        Some((number, Some(end))) => {
            let (number, sequence, good_through) =
                first_wrong_signature(segment, key)?.unwrap_or((number, end.sequence, 0));
            let fault = Fault::WrongSignature { good_through };
            checked.findings.add(Some(segment.month), Some(number), Some(sequence), fault);
        }
        Some((number, None)) => {
            checked.findings.add(Some(segment.month), Some(number), None, Fault::NotSigned);
        }
    }
    Ok(checked)
}

/// Line and sequence of the first signature that does not hold, and the sequence of the last one that does.
fn first_wrong_signature(segment: &Segment, key: &PublicKey) -> Result<Option<(u64, u64, u64)>, Error> {
    let (mut number, mut good_through) = (0, None);
    let mut lines = segment.lines(0, segment.bytes);
    while let Some(raw) = lines.next()? {
        number += 1;
        let Some(line) = Line::read(raw.bytes) else { continue };
        let before = *good_through.get_or_insert(line.sequence.saturating_sub(1));
        match line.checkpoint() {
            Some(made) if made.is_signed_by(key) => good_through = Some(line.sequence),
            Some(_) => return Ok(Some((number, line.sequence, before))),
            None => {}
        }
    }
    Ok(None)
}

struct SegmentCheck<'a> {
    month: Month,
    name: String,
    watch: &'a BTreeSet<u64>,
    number: u64,
    /// Lines since the last readable one that were none.
    unreadable: u64,
    /// Sequences that were jumped over, and the line that did so.
    gaps: Vec<(u64, u64, u64)>,
    in_wrong_segment: bool,
    /// The last line's number, and the statement it makes if it is signed.
    end: Option<(u64, Option<Checkpoint>)>,
    checked: Checked,
}

impl<'a> SegmentCheck<'a> {
    fn new(month: Month, watch: &'a BTreeSet<u64>) -> Self {
        SegmentCheck {
            month,
            name: month.to_string(),
            watch,
            number: 0,
            unreadable: 0,
            gaps: Vec::new(),
            in_wrong_segment: false,
            end: None,
            checked: Checked::default(),
        }
    }

    fn find(&mut self, sequence: Option<u64>, fault: Fault) {
        self.checked.findings.add(Some(self.month), Some(self.number), sequence, fault);
    }

    fn unreadable(&mut self) {
        self.unreadable += 1;
        self.end = Some((self.number, None));
        self.find(None, Fault::Unreadable);
    }

    fn line(&mut self, line: &Line<'_>, bytes: &[u8]) {
        self.checked.records += 1;
        self.end = Some((self.number, line.checkpoint()));
        if !line.is_intact() {
            self.find(Some(line.sequence), Fault::Edited);
            self.continue_after_edit(line);
            return;
        }
        if !line.archived_at.starts_with(&self.name) && !self.in_wrong_segment {
            self.in_wrong_segment = true;
            let holds = line.archived_at.get(..7).unwrap_or_default().into();
            self.find(Some(line.sequence), Fault::WrongSegment { holds });
        }
        self.content(line, bytes);
        self.place(line);
        if self.watch.contains(&line.sequence) {
            self.checked.watched.push((line.sequence, line.hash));
        }
    }

    fn content(&mut self, line: &Line<'_>, bytes: &[u8]) {
        match line.content {
            SealedContent::Event { commitment, personal } => {
                if !personal.fits(commitment) {
                    self.find(Some(line.sequence), Fault::PersonalPartEdited);
                }
                if let SealedPersonal::Erased(by) = personal {
                    let (sequence, line) = (line.sequence, self.number);
                    self.checked.blanks.push(ErasedRecord { sequence, line, by });
                }
            }
            SealedContent::Erasure => match Record::read(bytes).map(|record| record.content) {
                Ok(record::Content::Erasure { erasure }) => {
                    self.checked.erasures.push((line.sequence, erasure));
                }
                _ => self.find(Some(line.sequence), Fault::Unreadable),
            },
        }
    }

    /// An edited line holds the place it is in: the one after it still knows its seal.
    fn continue_after_edit(&mut self, line: &Line<'_>) {
        let sequence = self.checked.last.map_or(line.sequence, |last| last.sequence + self.unreadable + 1);
        self.unreadable = 0;
        self.checked.first.get_or_insert((sequence, None));
        self.checked.last = Some(Link { sequence, seal: line.link().seal });
    }

    fn place(&mut self, line: &Line<'_>) {
        let sequence = line.sequence;
        let unreadable = std::mem::take(&mut self.unreadable);
        let Some(last) = self.checked.last else {
            let previous = (unreadable == 0).then_some(line.previous);
            self.checked.first = Some((sequence.saturating_sub(unreadable), previous));
            self.checked.last = Some(line.link());
            return;
        };
        let expected = last.sequence + 1;
        if sequence < expected {
            self.report_out_of_place(line);
            return;
        }
        if sequence > expected + unreadable {
            self.gaps.push((expected, sequence - 1, self.number));
        } else if sequence == expected && line.previous != last.seal {
            self.find(Some(sequence), Fault::DoesNotContinue);
        }
        self.checked.last = Some(line.link());
    }

    /// A sequence that was passed already: from a gap, from before the segment's first line, or a second time.
    fn report_out_of_place(&mut self, line: &Line<'_>) {
        let sequence = line.sequence;
        if let Some(at) = self.gaps.iter().position(|(first, last, _)| (*first..=*last).contains(&sequence)) {
            let (first, last, number) = self.gaps.swap_remove(at);
            let rest = [(first, sequence.saturating_sub(1), number), (sequence + 1, last, number)];
            self.gaps.extend(rest.into_iter().filter(|(first, last, _)| first <= last));
            self.find(Some(sequence), Fault::Moved);
        } else if self.checked.first.is_some_and(|(first, _)| sequence + 1 == first) {
            self.checked.first = Some((sequence, Some(line.previous)));
            self.find(Some(sequence), Fault::Moved);
        } else {
            self.find(Some(sequence), Fault::Repeated);
        }
    }

    fn finish(&mut self) -> Option<(u64, Option<Checkpoint>)> {
        for (first, last, number) in std::mem::take(&mut self.gaps) {
            let fault = Fault::Missing { first, last };
            self.checked.findings.add(Some(self.month), Some(number), Some(last + 1), fault);
        }
        self.end
    }
}
