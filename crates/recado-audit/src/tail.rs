//! The end of a trail when it is opened: what a crash left unfinished, and what was signed last.
//!
//! An append is on disk when its last line is, and that line is signed. So a line after the last signed one
//! was never acknowledged: its source will bring it again, and it is cut off. A signed line that `head.json`
//! names and the segments lack is another matter: the trail was cut.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::FileExt;

use recado_core::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::error::{Error, io};
use crate::files::{self, Folder, HEAD, INDEX, SEGMENT};
use crate::key::{PublicKey, Purpose};
use crate::line::{Checkpoint, Line, Link, SIGNED_SEAL_LEN, ends_signed};
use crate::month::Month;
use crate::record::{Content, Record};
use crate::snapshot::{LINE_BYTES_MAX, Segment};
use crate::statement;

/// The highest number of each source that is archived.
pub(crate) type Sources = BTreeMap<Box<str>, u64>;

/// The newest signed record, and how far each source has been archived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Head {
    pub(crate) segment: Month,
    pub(crate) archived_at: Timestamp,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) sources: Sources,
}

/// Repairs made when a trail was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Bytes of an append that did not come to its end, and were cut off.
    pub cut_bytes: u64,
    /// `head.json` was missing; it was made again from what is there.
    pub head_was_missing: bool,
    /// An erasure that was begun earlier was carried to its end: the sequence of its record.
    pub finished_erasure: Option<u64>,
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.cut_bytes > 0 {
            parts.push(format!("cut off {} bytes of an append that did not end", self.cut_bytes));
        }
        if self.head_was_missing {
            parts.push("made head.json again; records cut off the end before would not show".to_owned());
        }
        if let Some(sequence) = self.finished_erasure {
            parts.push(format!("finished the erasure of record {sequence}"));
        }
        f.write_str(&parts.join("; "))
    }
}

pub(crate) struct Tail {
    /// Expected content of `head.json`.
    pub(crate) head: Option<Head>,
    pub(crate) recovered: Recovered,
    /// True if `head.json` agrees with the segments.
    pub(crate) head_is_current: bool,
}

pub(crate) fn recover(folder: &Folder, key: &PublicKey) -> Result<Tail, Error> {
    let months = folder.months(SEGMENT)?;
    let known = read_head(folder, key)?;
    let end = find_end(folder, &months, key)?;
    let signed = known.as_ref().map(|known| known.checkpoint);
    let ended = end.as_ref().map(|(head, _)| head.checkpoint);
    let end_sequence = ended.map_or(0, |ended| ended.sequence);
    if let Some(signed) = signed.filter(|signed| signed.sequence > end_sequence) {
        return Err(Error::Shortened { signed: signed.sequence, end: end_sequence });
    }
    let recovered = Recovered {
        cut_bytes: cut_unsigned_lines(folder, &months, end.as_ref())?,
        head_was_missing: signed.is_none() && ended.is_some(),
        finished_erasure: None,
    };
    let head_is_current = signed == ended;
    let mut head = end.map(|(head, _)| head);
    if let Some(head) = &mut head {
        head.sources = match known {
            Some(known) if head_is_current => known.sources,
            known => read_sources(folder, &months, known, head.segment)?,
        };
    }
    Ok(Tail { head, recovered, head_is_current })
}

fn read_head(folder: &Folder, key: &PublicKey) -> Result<Option<Head>, Error> {
    let path = folder.file(HEAD);
    // It is not forced to disk: a power cut may leave it empty, cut off or with zeros in it.
    let is_whole = |bytes: &Vec<u8>| serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
    let Some(bytes) = files::read(&path)?.filter(is_whole) else { return Ok(None) };
    let head = statement::read(&bytes, Purpose::HEAD, key);
    head.map(Some).ok_or(Error::NotOurs { path })
}

/// The last signed line, its sources left out, and the position behind it.
fn find_end(folder: &Folder, months: &[Month], key: &PublicKey) -> Result<Option<(Head, u64)>, Error> {
    for month in months.iter().rev() {
        let segment = Segment::open(folder, *month)?;
        let at = segment.signed_end()?;
        if at == 0 {
            continue;
        }
        let bytes = segment.line_that_ends_at(at)?;
        let line = Line::read(&bytes).filter(Line::is_intact);
        let checkpoint = line.and_then(|line| line.checkpoint()).filter(|made| made.is_signed_by(key));
        let archived_at = line.and_then(|line| line.archived_at.parse().ok());
        let (Some(checkpoint), Some(archived_at)) = (checkpoint, archived_at) else {
            let what = "its last signed record is not one that this key signed".to_owned();
            return Err(Error::Damaged { segment: *month, line: segment.lines_before(at)?, what });
        };
        let head = Head { segment: *month, archived_at, checkpoint, sources: Sources::new() };
        return Ok(Some((head, at)));
    }
    Ok(None)
}

/// Takes away what stands after the end.
fn cut_unsigned_lines(folder: &Folder, months: &[Month], end: Option<&(Head, u64)>) -> Result<u64, Error> {
    let mut cut = 0;
    for month in months.iter().rev() {
        let path = folder.month_file(*month, SEGMENT);
        let bytes = std::fs::metadata(&path).map_err(io(&path))?.len();
        match end {
            Some((head, _)) if head.segment > *month => break,
            Some((head, at)) if head.segment == *month => {
                if bytes > *at {
                    let file = files::private_file_options().open(&path).map_err(io(&path))?;
                    file.set_len(*at).and_then(|()| file.sync_all()).map_err(io(&path))?;
                    cut += bytes - at;
                }
                break;
            }
            _ => {
                files::remove(&folder.month_file(*month, INDEX))?;
                files::remove(&path)?;
                folder.sync_directory()?;
                cut += bytes;
            }
        }
    }
    Ok(cut)
}

/// Reads on from what the head knows, or everything if there is none, and checks the chain on the way.
fn read_sources(
    folder: &Folder,
    months: &[Month],
    head: Option<Head>,
    last: Month,
) -> Result<Sources, Error> {
    let from = head.as_ref().map(|head| head.segment);
    let head_is = head.as_ref().map(|head| head.checkpoint);
    let known = head_is.map_or(0, |head| head.sequence);
    let mut sources = head.map(|head| head.sources).unwrap_or_default();
    let mut link: Option<Link> = None;
    for month in months.iter().filter(|month| from.is_none_or(|from| from <= **month) && **month <= last) {
        let segment = Segment::open(folder, *month)?;
        let mut lines = segment.lines(0, segment.bytes);
        let mut number = 0;
        while let Some(raw) = lines.next()? {
            number += 1;
            let damaged =
                |what: &str| Error::Damaged { segment: *month, line: number, what: what.to_owned() };
            let line = Line::read(raw.bytes).filter(|line| raw.ended && line.is_intact());
            let line = line.ok_or_else(|| damaged("not a record as it was written"))?;
            if link.is_some_and(|link| link.sequence + 1 != line.sequence || link.seal != line.previous) {
                return Err(damaged("it does not continue the record before it"));
            }
            if head_is.is_some_and(|head| head.sequence == line.sequence && head.hash != line.hash) {
                return Err(damaged("it is not the record that head.json was made of"));
            }
            link = Some(line.link());
            if line.sequence > known {
                let record = Record::read(raw.bytes).map_err(|_| damaged("not a record"))?;
                if let Content::Event { source, source_sequence, .. } = record.content {
                    sources.insert(source, source_sequence);
                }
            }
        }
    }
    Ok(sources)
}

impl Segment {
    /// Position behind the last line that looks signed; zero if there is none.
    pub(crate) fn signed_end(&self) -> Result<u64, Error> {
        const WINDOW_BYTES: u64 = 64 << 10;
        let mut end = self.bytes;
        loop {
            let start = end.saturating_sub(WINDOW_BYTES);
            let window = self.read(start, end)?;
            let newlines = (0..window.len()).rev().filter(|at| window[*at] == b'\n');
            for at in newlines {
                if ends_signed(&window[..at]) {
                    return Ok(start + at as u64 + 1);
                }
            }
            if start == 0 {
                return Ok(0);
            }
            // A line that ends near the window's start is looked at whole in the next one.
            end = start + SIGNED_SEAL_LEN as u64;
        }
    }

    pub(crate) fn line_that_ends_at(&self, end: u64) -> Result<Vec<u8>, Error> {
        let mut window_bytes = 4 << 10;
        loop {
            let start = end.saturating_sub(window_bytes);
            let mut window = self.read(start, end.saturating_sub(1))?;
            match window.iter().rposition(|byte| *byte == b'\n') {
                Some(at) => return Ok(window.split_off(at + 1)),
                None if start == 0 || window_bytes > LINE_BYTES_MAX as u64 => return Ok(window),
                None => window_bytes *= 16,
            }
        }
    }

    fn lines_before(&self, end: u64) -> Result<u64, Error> {
        let mut lines = self.lines(0, end);
        let mut count = 0;
        while lines.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    pub(crate) fn read(&self, from: u64, to: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, from).map_err(io(&self.path))?;
        Ok(bytes)
    }
}
