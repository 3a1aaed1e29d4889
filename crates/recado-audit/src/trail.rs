//! The writer of a trail: appends batches, each durable and signed when `append` returns.
//!
//! If the process dies before the fsync, the batch is gone or stands there in part, and opening the trail
//! cuts off lines that no signed line follows; the source brings them again, and lines that did get through
//! are known by their number. After the fsync, only `head.json` is old, and opening the trail brings it up to
//! date.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use recado_core::Timestamp;

use crate::error::{Error, io};
use crate::files::{self, Durability, Folder, HEAD, INDEX, PUBLIC_KEY, SEGMENT, SIGNING_KEY};
use crate::index::{self, RUN_BYTES, Stretch};
use crate::key::{PublicKey, Purpose, SigningKey};
use crate::line::{Checkpoint, Link, Writer};
use crate::month::Month;
use crate::record::Entry;
use crate::snapshot::{LINE_BYTES_MAX, Segment};
use crate::tail::{self, Head, Recovered, Sources};

/// Stores and their partitions that one trail can tell apart.
const SOURCES_MAX: usize = 4_096;

#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the signing key, which is made if absent; `signing.pem` in the trail's directory by default.
    /// Kept elsewhere, it is out of reach of a program that can only write to the trail.
    pub key: Option<PathBuf>,
    /// Records at most between two signatures. The last record of an append is signed in any case.
    pub sign_every: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { key: None, sign_every: 1_000 }
    }
}

/// The result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub records: usize,
    /// Entries that the trail had already.
    pub repeated: usize,
}

#[derive(Debug)]
pub struct Trail {
    pub(crate) folder: Folder,
    pub(crate) key: SigningKey,
    sign_every: usize,
    pub(crate) head: Option<Head>,
    current: Option<CurrentSegment>,
    recovered: Recovered,
    pub(crate) broken: bool,
    _lock: File,
}

/// The segment that grows.
#[derive(Debug)]
struct CurrentSegment {
    month: Month,
    path: PathBuf,
    file: File,
    bytes: u64,
    /// Position up to which the segment is indexed.
    indexed: u64,
    /// Records written since then by this process.
    unindexed: Stretch,
}

impl CurrentSegment {
    /// Returns true if the open file is still the one under its name and no other program wrote to it:
    /// records in a file without a name would be lost with this process.
    fn is_in_place(&self) -> bool {
        let (Ok(named), Ok(held)) = (std::fs::metadata(&self.path), self.file.metadata()) else {
            return false;
        };
        (named.dev(), named.ino(), named.len()) == (held.dev(), held.ino(), self.bytes)
    }
}

impl Trail {
    /// Takes the right to write, makes the key at first use, and puts right what a crash left behind.
    pub fn open(dir: &Path, options: &Options) -> Result<Self, Error> {
        let folder = Folder::make(dir)?;
        let lock = folder.lock_writer()?;
        folder.remove_unfinished()?;
        // Made here, so that readers find it before the first rewriting.
        drop(folder.lock_readers_out()?);
        let key_path = options.key.clone().unwrap_or_else(|| folder.file(SIGNING_KEY));
        let key = if folder.months(SEGMENT)?.is_empty() {
            SigningKey::load_or_make(&key_path)?
        } else {
            SigningKey::load(&key_path)?
        };
        let public = key.public();
        let pem = public.to_string();
        if files::read(&folder.file(PUBLIC_KEY))?.as_deref() != Some(pem.as_bytes()) {
            files::replace(&folder.file(PUBLIC_KEY), Durability::OnDisk, |file| {
                file.write_all(pem.as_bytes())
            })?;
        }
        let tail = tail::recover(&folder, &public)?;
        let mut trail = Trail {
            folder,
            key,
            sign_every: options.sign_every.max(1),
            head: tail.head,
            current: None,
            recovered: tail.recovered,
            broken: false,
            _lock: lock,
        };
        trail.reopen_segment()?;
        if !tail.head_is_current {
            trail.write_head()?;
        }
        trail.finish_dropping()?;
        trail.recovered.finished_erasure = trail.finish_erasure()?;
        for month in trail.folder.months(SEGMENT)? {
            trail.catch_up_index(month)?;
        }
        Ok(trail)
    }

    /// Repairs made when the trail was opened, if any.
    pub fn recovered(&self) -> Option<&Recovered> {
        (self.recovered != Recovered::default()).then_some(&self.recovered)
    }

    pub fn public_key(&self) -> PublicKey {
        self.key.public()
    }

    /// The newest signed record, for an auditor to keep elsewhere.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.head.as_ref().map(|head| head.checkpoint)
    }

    /// The highest number of this source that is archived: its store may forget events up to it.
    pub fn archived_through(&self, source: &str) -> Option<u64> {
        self.head.as_ref()?.sources.get(source).copied()
    }

    /// Writes the entries that are new, in their order, and forces them to disk. It may be repeated with the
    /// same entries: those that are there already are passed over.
    pub fn append(&mut self, entries: &[Entry], now: Timestamp) -> Result<Appended, Error> {
        if self.broken {
            return Err(Error::Broken);
        }
        let (fresh, sources) = self.select_new(entries)?;
        let repeated = entries.len() - fresh.len();
        let Some(last) = fresh.len().checked_sub(1) else { return Ok(Appended { records: 0, repeated }) };
        let salts = random_salts(fresh.len()).map_err(io(&self.folder.0))?;
        let (archived_at, mut writer) = self.writer(now);
        let first = writer.link.sequence + 1;
        let mut ends = Vec::with_capacity(fresh.len());
        let mut checkpoint = None;
        for (place, (entry, salt)) in fresh.iter().zip(&salts).enumerate() {
            let start = writer.bytes.len();
            let body = writer.begin_event(entry, *salt);
            if place == last || (place + 1) % self.sign_every == 0 {
                checkpoint = Some(writer.end_signed(body));
            } else {
                writer.end(body, None);
            }
            let bytes = writer.bytes.len() - start;
            if bytes > LINE_BYTES_MAX {
                let (source_name, sequence) = (entry.source.clone(), entry.sequence);
                return Err(Error::TooLong { source_name, sequence, bytes });
            }
            ends.push(writer.bytes.len() as u64);
        }
        let checkpoint = checkpoint.expect("the last record of a batch is signed");
        let bytes = writer.bytes;
        let segment = Month::of(archived_at);
        self.write(segment, &bytes)?;
        if let Some(current) = &mut self.current {
            let start = current.bytes - bytes.len() as u64;
            let mut at = start;
            for ((entry, end), sequence) in fresh.iter().zip(ends).zip(first..) {
                current.unindexed.add(at, start + end, sequence, &entry.event);
                at = start + end;
            }
        }
        self.advance_to(Head { segment, archived_at, checkpoint, sources });
        Ok(Appended { records: fresh.len(), repeated })
    }

    /// Entries that the trail does not have, and how far each source is when they are in.
    fn select_new<'e>(&self, entries: &'e [Entry]) -> Result<(Vec<&'e Entry>, Sources), Error> {
        let mut sources = self.head.as_ref().map(|head| head.sources.clone()).unwrap_or_default();
        let mut seen = BTreeMap::<&str, u64>::new();
        let mut fresh = Vec::with_capacity(entries.len());
        for entry in entries {
            let before = seen.insert(&entry.source, entry.sequence);
            if let Some(after) = before.filter(|before| *before >= entry.sequence) {
                let (source_name, sequence) = (entry.source.clone(), entry.sequence);
                return Err(Error::OutOfOrder { source_name, sequence, after });
            }
            if sources.get(&entry.source).is_none_or(|archived| *archived < entry.sequence) {
                sources.insert(entry.source.clone(), entry.sequence);
                fresh.push(entry);
            }
        }
        if sources.len() > SOURCES_MAX {
            return Err(Error::TooManySources { max: SOURCES_MAX });
        }
        Ok((fresh, sources))
    }

    /// A clock that was set back does not take the trail back.
    pub(crate) fn writer(&self, now: Timestamp) -> (Timestamp, Writer<'_>) {
        let archived_at = self.head.as_ref().map_or(now, |head| head.archived_at.max(now));
        (archived_at, Writer::new(self.link(), &self.key, archived_at))
    }

    pub(crate) fn link(&self) -> Link {
        self.head.as_ref().map_or(Link::START, |head| head.checkpoint.link())
    }

    /// On disk when it returns. A failed write is taken back; a failed fsync is never tried again.
    pub(crate) fn write(&mut self, month: Month, bytes: &[u8]) -> Result<(), Error> {
        let begun = self.current.as_ref().is_none_or(|current| current.month != month);
        if begun {
            self.open_segment(month, files::private_file_options().create(true).truncate(true))?;
        }
        let current = self.current.as_mut().ok_or(Error::Broken)?;
        if !current.is_in_place() {
            self.broken = true;
            return Err(Error::Displaced { path: current.path.clone() });
        }
        if let Err(error) = current.file.write_all_at(bytes, current.bytes) {
            self.broken |= current.file.set_len(current.bytes).is_err();
            return Err(io(&current.path)(error));
        }
        if let Err(error) = current.file.sync_data() {
            self.broken = true;
            return Err(io(&current.path)(error));
        }
        if begun && let Err(error) = self.folder.sync_directory() {
            self.broken = true;
            return Err(error);
        }
        current.bytes += bytes.len() as u64;
        Ok(())
    }

    fn open_segment(&mut self, month: Month, options: &OpenOptions) -> Result<(), Error> {
        let path = self.folder.month_file(month, SEGMENT);
        let file = options.open(&path).map_err(io(&path))?;
        let bytes = file.metadata().map_err(io(&path))?.len();
        let unindexed = Stretch::from(bytes);
        self.current = Some(CurrentSegment { month, path, file, bytes, indexed: 0, unindexed });
        Ok(())
    }

    /// Takes the newest segment up again, which may be another file than before.
    pub(crate) fn reopen_segment(&mut self) -> Result<(), Error> {
        let Some(month) = self.head.as_ref().map(|head| head.segment) else { return Ok(()) };
        self.open_segment(month, &files::private_file_options())
    }

    /// Everything up to this head is on disk. What else is written here is derived, and made again if it is lost.
    pub(crate) fn advance_to(&mut self, head: Head) {
        let closed = self.head.as_ref().map(|head| head.segment).filter(|before| *before != head.segment);
        self.head = Some(head);
        let _ = self.write_head();
        if let Some(closed) = closed {
            let _ = self.catch_up_index(closed);
        }
        let Some(current) = self.current.as_mut() else { return };
        if current.bytes - current.indexed >= RUN_BYTES {
            let (month, bytes) = (current.month, current.bytes);
            let in_mind = std::mem::replace(&mut current.unindexed, Stretch::from(bytes));
            if let (Ok(indexed), Some(current)) = (self.index(month, Some(in_mind)), &mut self.current) {
                current.indexed = indexed;
            }
        }
    }

    fn write_head(&self) -> Result<(), Error> {
        let Some(head) = &self.head else { return Ok(()) };
        self.write_statement(&self.folder.file(HEAD), Purpose::HEAD, head, Durability::InTime)
    }

    pub(crate) fn catch_up_index(&self, month: Month) -> Result<u64, Error> {
        self.index(month, None)
    }

    /// A segment that is still growing is indexed a stretch at a time, one that is closed to its end.
    fn index(&self, month: Month, in_mind: Option<Stretch>) -> Result<u64, Error> {
        let is_closed = self.head.as_ref().is_some_and(|head| head.segment > month);
        let least_bytes = if is_closed { 1 } else { RUN_BYTES };
        let segment = Segment::open(&self.folder, month)?;
        index::extend_index(&self.folder.month_file(month, INDEX), &segment, least_bytes, in_mind)
    }
}

/// Random salts that keep commitments from being guessed.
pub(crate) fn random_salts(count: usize) -> Result<Vec<[u8; 16]>, std::io::Error> {
    let mut bytes = vec![0; 16 * count];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| std::io::Error::other("no random numbers"))?;
    Ok(bytes.as_chunks().0.to_vec())
}
