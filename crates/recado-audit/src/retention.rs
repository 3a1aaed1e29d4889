//! Retention: drops old months whole, and keeps a signed summary in place of each.
//!
//! The summary says where the segment began and ended in the chain, so that `verify` can go on from it and
//! accepts nothing else in its place, and what failed how often in that month, without personal data: error
//! analysis is kept for good.

use std::collections::{BTreeMap, BTreeSet};

use recado_core::{AuditKind, Class, RetryDecision, Timestamp};
use serde::{Deserialize, Serialize};

use crate::digest::Hash;
use crate::error::Error;
use crate::files::{self, Durability, INDEX, SEGMENT, SUMMARY};
use crate::key::Purpose;
use crate::line::Checkpoint;
use crate::month::Month;
use crate::record::{Content, Record};
use crate::snapshot::Segment;
use crate::statement;
use crate::trail::Trail;
use crate::verify::check_segment;

/// Months that records are kept by default: five years.
pub const MONTHS_KEPT: u32 = 60;

/// The remains of a segment that was dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Summary {
    pub segment: Month,
    pub dropped_at: Timestamp,
    pub first_sequence: u64,
    /// The hash that its first record continued.
    pub previous: Hash,
    /// Its last record.
    pub end: Checkpoint,
    pub analysis: Vec<KindCount>,
}

/// Records of one kind in a month.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KindCount {
    pub route: Box<str>,
    pub kind: AuditKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_classification: Option<Class>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Box<str>>,
    pub records: u64,
}

impl Trail {
    /// Drops the segments whose every record is older than so many months; the newest segment always stays. A
    /// segment that is not whole is not dropped: it is evidence.
    pub fn drop_older_than(&mut self, months: u32, now: Timestamp) -> Result<Vec<Summary>, Error> {
        if self.broken {
            return Err(Error::Broken);
        }
        let mut dropped = Vec::new();
        let newest = self.head.as_ref().map(|head| head.segment);
        let old = |month: &Month| Some(*month) != newest && Month::of(now).since(*month) > months;
        for month in self.folder.months(SEGMENT)?.into_iter().take_while(old) {
            let _no_reader_opens_files = self.folder.lock_readers_out()?;
            let summary = self.summarise(month, now)?;
            if let Some(summary) = summary {
                let path = self.folder.month_file(month, SUMMARY);
                self.write_statement(&path, Purpose::SUMMARY, &summary, Durability::OnDisk)?;
                dropped.push(summary);
            }
            self.remove_segment(month)?;
        }
        Ok(dropped)
    }

    /// Finishes dropping segments whose summary is there already.
    pub(crate) fn finish_dropping(&self) -> Result<(), Error> {
        let segments = self.folder.months(SEGMENT)?;
        for month in self.folder.months(SUMMARY)?.into_iter().filter(|month| segments.contains(month)) {
            let bytes = files::read(&self.folder.month_file(month, SUMMARY))?.unwrap_or_default();
            if statement::read::<Summary>(&bytes, Purpose::SUMMARY, &self.public_key()).is_some() {
                let _no_reader_opens_files = self.folder.lock_readers_out()?;
                self.remove_segment(month)?;
            }
        }
        Ok(())
    }

    fn remove_segment(&self, month: Month) -> Result<(), Error> {
        files::remove(&self.folder.month_file(month, INDEX))?;
        files::remove(&self.folder.month_file(month, SEGMENT))?;
        self.folder.sync_directory()
    }

    /// Nothing if the segment holds nothing.
    fn summarise(&self, month: Month, now: Timestamp) -> Result<Option<Summary>, Error> {
        let segment = Segment::open(&self.folder, month)?;
        let checked = check_segment(&segment, segment.bytes, &self.public_key(), &BTreeSet::new())?;
        if let Some(finding) = checked.findings.first() {
            let (line, what) = (finding.line.unwrap_or(0), finding.fault.to_string());
            return Err(Error::Damaged { segment: month, line, what });
        }
        let (Some((first_sequence, Some(previous))), Some(end)) = (checked.first, checked.end) else {
            return Ok(None);
        };
        let analysis = count_by_kind(&segment)?;
        Ok(Some(Summary { segment: month, dropped_at: now, first_sequence, previous, end, analysis }))
    }
}

fn count_by_kind(segment: &Segment) -> Result<Vec<KindCount>, Error> {
    let mut groups = BTreeMap::<String, KindCount>::new();
    let mut lines = segment.lines(0, segment.bytes);
    while let Some(raw) = lines.next()? {
        let Ok(Record { content: Content::Event { event, .. }, .. }) = Record::read(raw.bytes) else {
            continue;
        };
        let RetryDecision { error_classification, rule, .. } = event.decision;
        let group = format!("{:?}", (&event.route, event.kind, error_classification, &rule));
        let analysed = groups.entry(group).or_insert(KindCount {
            route: event.route,
            kind: event.kind,
            error_classification,
            rule,
            records: 0,
        });
        analysed.records += 1;
    }
    Ok(groups.into_values().collect())
}
