//! The directory of a trail: its files, and the lock of its writer.
//!
//! | file | |
//! |---|---|
//! | `2026-11.jsonl` | a segment: the records that were archived in that month |
//! | `2026-11.index` | positions of its records by key; derived |
//! | `2021-11.summary.json` | the remains of a segment that was dropped, signed |
//! | `head.json` | the newest signed record, so that a cut-off end shows |
//! | `erasure.json` | an erasure that is being carried out |
//! | `signing.pem`, `public.pem` | the key and its public half |
//! | `writer.lock`, `reader.lock` | held by the writer; held against rewriting while readers open the files |

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Error, io};
use crate::month::Month;

/// Time to wait for a lock before it counts as held.
const WRITER_WAIT_MAX: Duration = Duration::from_millis(250);
const READER_WAIT_MAX: Duration = Duration::from_secs(10);

const UNFINISHED: &str = ".new";

pub(crate) const HEAD: &str = "head.json";
pub(crate) const ERASURE: &str = "erasure.json";
pub(crate) const SIGNING_KEY: &str = "signing.pem";
pub(crate) const PUBLIC_KEY: &str = "public.pem";
const WRITER_LOCK: &str = "writer.lock";
const READER_LOCK: &str = "reader.lock";

/// Endings of the files that each month has.
pub(crate) const SEGMENT: &str = ".jsonl";
pub(crate) const INDEX: &str = ".index";
pub(crate) const SUMMARY: &str = ".summary.json";

#[derive(Clone, Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// Makes the directory if need be, for this user alone: trails hold personal data.
    pub(crate) fn make(dir: &Path) -> Result<Self, Error> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io(dir))?;
        // Until its own name is forced to disk, a power cut takes the directory with every file in it.
        let is_empty = std::fs::read_dir(dir).map_err(io(dir))?.next().is_none();
        if let Some(parent) = std::path::absolute(dir).map_err(io(dir))?.parent().filter(|_| is_empty) {
            File::open(parent).and_then(|parent| parent.sync_all()).map_err(io(parent))?;
        }
        Ok(Folder(dir.to_owned()))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The file of a month with this ending.
    pub(crate) fn month_file(&self, month: Month, ending: &str) -> PathBuf {
        self.0.join(format!("{month}{ending}"))
    }

    /// The months that have a file with this ending, oldest first.
    pub(crate) fn months(&self, ending: &str) -> Result<Vec<Month>, Error> {
        let names = self.names()?;
        let months = names.iter().filter_map(|name| name.strip_suffix(ending)?.parse().ok());
        let mut months: Vec<Month> = months.collect();
        months.sort_unstable();
        Ok(months)
    }

    fn names(&self) -> Result<Vec<String>, Error> {
        let entries = std::fs::read_dir(&self.0).map_err(io(&self.0))?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect::<std::io::Result<_>>().map_err(io(&self.0))
    }

    /// Forgets files that were being written when a process ended.
    pub(crate) fn remove_unfinished(&self) -> Result<(), Error> {
        let names = self.names()?;
        let mut unfinished = names.iter().filter(|name| name.ends_with(UNFINISHED));
        unfinished.try_for_each(|name| remove(&self.file(name)))
    }

    /// Makes names that came or went durable.
    pub(crate) fn sync_directory(&self) -> Result<(), Error> {
        File::open(&self.0).and_then(|dir| dir.sync_all()).map_err(io(&self.0))
    }

    /// The right to write, for as long as the value lives; the system takes it back when the process ends.
    pub(crate) fn lock_writer(&self) -> Result<File, Error> {
        let path = self.file(WRITER_LOCK);
        let mut file = private_file_options().create(true).truncate(false).open(&path).map_err(io(&path))?;
        if !wait_for_lock(WRITER_WAIT_MAX, || file.try_lock()).map_err(io(&path))? {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let holder = holder.trim();
            let holder = if holder.is_empty() { "unknown" } else { holder }.to_owned();
            return Err(Error::Held { dir: self.0.clone(), holder });
        }
        // Only for the message to a second process.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(file)
    }

    /// Keeps readers from opening files while some of them are replaced.
    pub(crate) fn lock_readers_out(&self) -> Result<File, Error> {
        let path = self.file(READER_LOCK);
        let file = private_file_options().create(true).truncate(false).open(&path).map_err(io(&path))?;
        let locked = wait_for_lock(READER_WAIT_MAX, || file.try_lock()).map_err(io(&path))?;
        locked.then_some(file).ok_or_else(|| Error::Busy { dir: self.0.clone() })
    }

    /// A copy of a trail may lack this file: copies are never rewritten.
    pub(crate) fn lock_reader(&self) -> Result<Option<File>, Error> {
        let path = self.file(READER_LOCK);
        let Some(file) = if_there(File::open(&path)).map_err(io(&path))? else { return Ok(None) };
        let locked = wait_for_lock(READER_WAIT_MAX, || file.try_lock_shared()).map_err(io(&path))?;
        locked.then_some(Some(file)).ok_or_else(|| Error::Busy { dir: self.0.clone() })
    }

    pub(crate) fn is_being_written(&self) -> bool {
        File::open(self.file(WRITER_LOCK))
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

fn wait_for_lock(
    at_most: Duration,
    mut attempt: impl FnMut() -> Result<(), TryLockError>,
) -> Result<bool, std::io::Error> {
    let asked = Instant::now();
    loop {
        match attempt() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if asked.elapsed() >= at_most => return Ok(false),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Files that only this user may read.
pub(crate) fn private_file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// The state of a replaced file when its writer goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Durability {
    /// Its bytes and its name are on disk.
    OnDisk,
    /// The system writes it in its own time.
    InTime,
}

/// Puts a whole new file in the place of an old one.
pub(crate) fn replace(
    path: &Path,
    durability: Durability,
    write: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> Result<(), Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED);
    let new = PathBuf::from(name);
    let mut file = private_file_options().create(true).truncate(true).open(&new).map_err(io(&new))?;
    write(&mut file).map_err(io(&new))?;
    if durability == Durability::OnDisk {
        file.sync_all().map_err(io(&new))?;
    }
    std::fs::rename(&new, path).map_err(io(path))?;
    match path.parent() {
        Some(dir) if durability == Durability::OnDisk => Folder(dir.to_owned()).sync_directory(),
        _ => Ok(()),
    }
}

pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    if_there(std::fs::remove_file(path)).map(drop).map_err(io(path))
}

/// The file's bytes, or nothing where there is no file.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    if_there(std::fs::read(path)).map_err(io(path))
}

/// The result of an access to a file, or nothing where there is no file.
pub(crate) fn if_there<T>(accessed: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match accessed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        accessed => accessed.map(Some),
    }
}
