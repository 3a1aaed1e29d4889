//! Findings, and their places.

use std::fmt;

use serde::Serialize;

use crate::line::Checkpoint;
use crate::month::Month;

/// Findings that are listed at most; a trail with more needs no longer list.
const FINDINGS_MAX: usize = 100;

/// The result of `verify`: what it read, and every fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub segments: usize,
    /// Months of which only the signed summary is left.
    pub dropped: usize,
    pub records: u64,
    /// Records whose personal part was erased.
    pub erased: u64,
    /// The sequence of the newest record; zero if there is none.
    pub end: u64,
    /// The newest signed record, for the auditor to keep.
    pub checkpoint: Option<Checkpoint>,
    /// Checkpoints that were brought along and whose records were dropped since.
    pub unchecked: Vec<u64>,
    /// Oldest segment first.
    pub findings: Vec<Finding>,
    /// There are more findings than are listed.
    pub more: bool,
}

impl Report {
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }

    /// Nothing is on record and nothing ever was, as far as the directory tells. One that all files were removed from
    /// looks the same: only a checkpoint that was kept elsewhere tells them apart.
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment: Option<Month>,
    /// From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    #[serde(flatten)]
    pub fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    #[error("this is not a record as it was written")]
    Unreadable,
    #[error("the record was edited: its hash is not that of its content")]
    Edited,
    #[error("the personal part was edited: it is not the one that the record commits to")]
    PersonalPartEdited,
    #[error("the personal part is gone, and no erasure on record names this record")]
    BlankWithoutErasure,
    #[error("record {by} says that the personal part was erased, and it is there")]
    NotErased { by: u64 },
    #[error("{} before this one", missing(*.first, *.last))]
    Missing { first: u64, last: u64 },
    #[error("the record was moved here from another place")]
    Moved,
    #[error("a record with this sequence stands before it already: it was inserted or written twice")]
    Repeated,
    #[error("the record does not continue the one before it: one of them was replaced")]
    DoesNotContinue,
    #[error("the file holds records of {holds}: segments were swapped or renamed")]
    WrongSegment { holds: Box<str> },
    #[error("the segment does not end with a signed record: its end was cut off or replaced")]
    NotSigned,
    #[error("the signature is not the key's: what follows record {good_through} was written by another hand")]
    WrongSignature { good_through: u64 },
    #[error(
        "{bytes} bytes after the last signed record: an append that did not end, or something foreign; opening the trail takes them away"
    )]
    Unsigned { bytes: u64 },
    #[error("this record was signed, and the trail ends at {end}: its end was cut off")]
    Shortened { end: u64 },
    #[error("the record is not the one that this checkpoint was made of: the trail was rewritten")]
    CheckpointDiffers,
    #[error("the checkpoint that was brought along is not signed with this key")]
    CheckpointNotSigned,
    #[error("head.json is missing or not signed with this key: records cut off the end would not show")]
    HeadMissing,
    #[error("the summary of this month is not signed with this key")]
    SummaryNotSigned,
    #[error("an erasure was begun and not finished; opening the trail finishes it")]
    ErasureUnfinished,
}

fn missing(first: u64, last: u64) -> String {
    match first == last {
        true => format!("record {first} is missing"),
        false => format!("records {first} to {last} are missing"),
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut place = Vec::new();
        place.extend(self.segment.map(|segment| format!("segment {segment}")));
        place.extend(self.line.map(|line| format!("line {line}")));
        place.extend(self.sequence.map(|sequence| format!("sequence {sequence}")));
        if !place.is_empty() {
            write!(f, "{}: ", place.join(", "))?;
        }
        write!(f, "{}", self.fault)
    }
}

/// A bounded list.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
    more: bool,
}

impl Findings {
    pub(crate) fn add(
        &mut self,
        segment: Option<Month>,
        line: Option<u64>,
        sequence: Option<u64>,
        fault: Fault,
    ) {
        self.push(Finding { segment, line, sequence, fault });
    }

    fn push(&mut self, finding: Finding) {
        if self.list.len() < FINDINGS_MAX {
            self.list.push(finding);
        } else {
            self.more = true;
        }
    }

    pub(crate) fn absorb(&mut self, others: Findings) {
        self.more |= others.more;
        others.list.into_iter().for_each(|finding| self.push(finding));
    }

    pub(crate) fn first(&self) -> Option<&Finding> {
        self.list.first()
    }

    pub(crate) fn sorted(mut self) -> (Vec<Finding>, bool) {
        self.list.sort_by_key(|finding| (finding.segment, finding.line));
        (self.list, self.more)
    }
}
