//! A reader's view of a trail: its files as they were at one moment.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, io};
use crate::files::{ERASURE, Folder, HEAD, INDEX, SEGMENT, SUMMARY, read};
use crate::month::Month;

/// No record is longer, so that a reader's memory is bounded whatever a file holds.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 20;

/// A segment as it was when it was opened: what is written to it later is not seen.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) month: Month,
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) bytes: u64,
    pub(crate) index: Option<File>,
}

impl Segment {
    pub(crate) fn open(folder: &Folder, month: Month) -> Result<Self, Error> {
        let path = folder.month_file(month, SEGMENT);
        let file = File::open(&path).map_err(io(&path))?;
        let bytes = file.metadata().map_err(io(&path))?.len();
        Ok(Segment { month, path, file, bytes, index: File::open(folder.month_file(month, INDEX)).ok() })
    }

    /// The lines from one offset to another.
    pub(crate) fn lines(&self, from: u64, to: u64) -> Lines<'_> {
        self.lines_by(256 << 10, from, to)
    }

    /// The lines from one offset to another, read in pieces of `buffer_bytes`.
    pub(crate) fn lines_by(&self, buffer_bytes: usize, from: u64, to: u64) -> Lines<'_> {
        let part = Part { file: &self.file, at: from, end: to.min(self.bytes) };
        let reader = BufReader::with_capacity(buffer_bytes, part);
        Lines { path: &self.path, reader, line: Vec::new(), at: from }
    }
}

/// The directory's files at one moment, opened: no erasure and no retention comes in between.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// Oldest first.
    pub(crate) segments: Vec<Segment>,
    pub(crate) summaries: Vec<(Month, Vec<u8>)>,
    pub(crate) head: Option<Vec<u8>>,
    /// An erasure that was begun by a process that is gone.
    pub(crate) erasure: Option<Vec<u8>>,
    pub(crate) being_written: bool,
}

impl Snapshot {
    pub(crate) fn open(dir: &Path) -> Result<Self, Error> {
        let folder = Folder(dir.to_owned());
        let _lock = folder.lock_reader()?;
        // Asked before and after: a writer may come or go while the segments are measured.
        let written_before = folder.is_being_written();
        // The head first: segments grow meanwhile, and may be ahead of it but not behind.
        let head = read(&folder.file(HEAD))?;
        let erasure = read(&folder.file(ERASURE))?;
        let mut summaries = Vec::new();
        for month in folder.months(SUMMARY)? {
            summaries.extend(read(&folder.month_file(month, SUMMARY))?.map(|bytes| (month, bytes)));
        }
        let months = folder.months(SEGMENT)?;
        let segments =
            months.into_iter().map(|month| Segment::open(&folder, month)).collect::<Result<_, _>>()?;
        let being_written = written_before || folder.is_being_written();
        Ok(Snapshot { segments, summaries, head, erasure, being_written })
    }
}

struct Part<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let room = buffer.len().min(left);
        let count = self.file.read_at(&mut buffer[..room], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

pub(crate) struct Lines<'a> {
    path: &'a Path,
    reader: BufReader<Part<'a>>,
    line: Vec<u8>,
    at: u64,
}

/// One line as it stands in its file.
pub(crate) struct Raw<'a> {
    /// Without the newline.
    pub(crate) bytes: &'a [u8],
    /// Position of its first byte; the next line begins behind its last.
    pub(crate) at: u64,
    pub(crate) end: u64,
    /// True if a newline ends it. A line that is too long comes in pieces, and only the last is ended.
    pub(crate) ended: bool,
}

impl Lines<'_> {
    pub(crate) fn next(&mut self) -> Result<Option<Raw<'_>>, Error> {
        self.line.clear();
        let most = LINE_BYTES_MAX as u64 + 1;
        let count =
            self.reader.by_ref().take(most).read_until(b'\n', &mut self.line).map_err(io(self.path))?;
        if count == 0 {
            return Ok(None);
        }
        let at = self.at;
        self.at += count as u64;
        let ended = self.line.last() == Some(&b'\n');
        let bytes = &self.line[..count - usize::from(ended)];
        Ok(Some(Raw { bytes, at, end: self.at, ended }))
    }
}
