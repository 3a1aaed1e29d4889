//! The data directory: its lock, the identity of its files, and the space on its disk.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock, statvfs};
use rustix::io::Errno;

use crate::schema::FILE_NAME;

const LOCK_NAME: &str = "recado.lock";

/// Time that a held lock is tried again before it counts as held.
const LOCK_WAIT_MAX: Duration = Duration::from_millis(250);

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("{} is in use by process {holder}; stop it, or give this one another --data-dir", .dir.display())]
    Held { dir: PathBuf, holder: String },
    #[error("cannot use {}: {error}; check that the directory can be written", .dir.display())]
    Io { dir: PathBuf, error: std::io::Error },
}

/// The lock on the directory, held for as long as the value lives; the system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct DirLock(File);

impl Drop for DirLock {
    /// Unlocks explicitly: a forked child keeps the descriptor open until it calls exec.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

pub fn lock(dir: &Path) -> Result<DirLock, LockError> {
    let io = |error| LockError::Io { dir: dir.to_owned(), error };
    // Payloads are personal data: directories made here are for this user alone.
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io)?;
    let mut file = private()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(dir.join(LOCK_NAME))
        .map_err(io)?;
    match try_lock(&file) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let holder = read_holder(&mut file).unwrap_or_else(|| "unknown".to_owned());
            return Err(LockError::Held { dir: dir.to_owned(), holder });
        }
        Err(error) => return Err(io(error.into())),
    }
    // Only for the message to a second process: on a full disk the store must open without it.
    let _ =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(DirLock(file))
}

/// The files of an open store by their identity, so that it is noticed when they are no longer where they were.
#[derive(Debug)]
pub struct StoreFiles(Vec<(PathBuf, (u64, u64))>);

impl StoreFiles {
    /// Remembers the files of an open store.
    pub fn remember(dir: &Path) -> std::io::Result<Self> {
        let paths = [dir.to_owned(), dir.join(LOCK_NAME), dir.join(FILE_NAME), log_path(dir)];
        let known = paths.into_iter().map(|path| identity(&path).map(|identity| (path, identity)));
        known.collect::<std::io::Result<_>>().map(StoreFiles)
    }

    /// Returns a message about the first file that was moved, removed or replaced, if one was. What is written from then
    /// on would not be there after a restart.
    pub fn find_missing(&self) -> Option<String> {
        let (path, _) = self.0.iter().find(|(path, known)| identity(path).ok() != Some(*known))?;
        Some(format!(
            "{} was moved, removed or replaced while the store was open; what was acknowledged is where the data \
             directory is now: start there (--data-dir), or put it back and start again",
            path.display()
        ))
    }
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Waits a moment for a holder that is on its way out: a process that was just killed, or one that was
/// forked off the last holder and has not become another program yet.
fn try_lock(file: &File) -> rustix::io::Result<()> {
    let asked = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if asked.elapsed() < LOCK_WAIT_MAX => {
                std::thread::sleep(LOCK_WAIT_MAX / 25)
            }
            answer => return answer,
        }
    }
}

/// Files that only this user may read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Makes an empty file where there is none, so that SQLite finds it with the right permissions; the log
/// and its index inherit them.
pub fn make_private(path: &Path) -> std::io::Result<()> {
    private().create(true).truncate(false).write(true).open(path).map(drop)
}

/// Returns the process that has locked this directory, if one has.
pub fn lock_holder(dir: &Path) -> Option<String> {
    let mut file = OpenOptions::new().read(true).write(true).open(dir.join(LOCK_NAME)).ok()?;
    if try_lock(&file).is_ok() {
        return None;
    }
    Some(read_holder(&mut file).unwrap_or_default())
}

fn read_holder(file: &mut File) -> Option<String> {
    let mut holder = String::new();
    file.read_to_string(&mut holder).ok()?;
    Some(holder.trim().to_owned()).filter(|holder| !holder.is_empty())
}

pub fn free_bytes(dir: &Path) -> Option<u64> {
    statvfs(dir).ok().map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Refuses new jobs while there is still space to settle the ones that are in.
#[derive(Debug)]
pub struct SpaceGuard {
    dir: PathBuf,
    reserve_bytes: u64,
    max_bytes: Option<u64>,
    /// Bytes in the store's pages, without those that can be used again: its files never shrink. As of the last
    /// commit, or the one before.
    pub held_bytes: u64,
    read_at: Option<Instant>,
    refusing: Option<String>,
}

/// Time that a reading of the disk's free space is used for.
const READ_EVERY: Duration = Duration::from_millis(100);

impl SpaceGuard {
    pub fn new(dir: &Path, reserve_bytes: u64, max_bytes: Option<u64>) -> Self {
        let dir = dir.to_owned();
        SpaceGuard { dir, reserve_bytes, max_bytes, held_bytes: 0, read_at: None, refusing: None }
    }

    /// Returns the size that the files may grow to: the bound that was set, or the space that there is.
    pub fn max_bytes(&self) -> Option<u64> {
        let room = free_bytes(&self.dir)
            .map(|free| used_bytes(&self.dir).saturating_add(free).saturating_sub(self.reserve_bytes));
        self.max_bytes.into_iter().chain(room).min()
    }

    /// Returns true if the next call of [`SpaceGuard::refusal`] reads the disk again.
    pub fn is_reading_due(&self) -> bool {
        self.read_at.is_none_or(|at| at.elapsed() >= READ_EVERY)
    }

    /// Returns the reason why new jobs are refused, if they are.
    pub fn refusal(&mut self) -> Option<&str> {
        if self.is_reading_due() {
            self.read_at = Some(Instant::now());
            self.refusing = self.read_disk();
        }
        self.refusing.as_deref()
    }

    /// Refuses new jobs until the next reading: a write has run out of space.
    pub fn refuse_until_next_reading(&mut self) {
        self.read_at = Some(Instant::now());
        self.refusing = Some("the disk is full; free some space".to_owned());
    }

    /// Returns the size that the log may grow to while space is short, so that ending jobs does not use up the reserve.
    pub fn log_max_bytes(&mut self) -> Option<u64> {
        let share = self.reserve_bytes / 4;
        self.refusal().is_some().then_some(share)
    }

    fn read_disk(&self) -> Option<String> {
        // The log comes on top: a checkpoint may make the file grow by as much.
        let kept = self.reserve_bytes.saturating_add(log_bytes(&self.dir));
        let free = free_bytes(&self.dir);
        if let Some(free) = free.filter(|free| *free < kept) {
            return Some(format!(
                "{free} bytes are free on the disk of {}, and {kept} are kept back so that jobs already taken in can end; \
                 free some space or lower store.reserve",
                self.dir.display(),
            ));
        }
        let held = self.held_bytes;
        let max = self.max_bytes.filter(|max| held >= *max)?;
        Some(format!(
            "the store holds {held} bytes and store.max_size allows {max}; raise it or let the queue drain"
        ))
    }
}

/// The database and its log.
pub fn used_bytes(dir: &Path) -> u64 {
    size(&dir.join(FILE_NAME)) + log_bytes(dir)
}

/// The log of what is not in the database file yet.
pub fn log_bytes(dir: &Path) -> u64 {
    size(&log_path(dir))
}

/// Opens the log, to be forced to disk. It is there as soon as a connection has read the file, and stays the same
/// file until the last connection closes. (SQLite's locks are on the other files, so that closing this one
/// drops none.)
///
/// Forces it once: a process that was killed may have left commits in it that are not on disk, and their jobs count as
/// on disk from now on.
pub fn open_log(dir: &Path) -> std::io::Result<File> {
    let log = OpenOptions::new().write(true).open(log_path(dir))?;
    log.sync_data()?;
    Ok(log)
}

fn log_path(dir: &Path) -> PathBuf {
    dir.join(format!("{FILE_NAME}-wal"))
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device cannot be synced, which stands for a disk that fails.
    #[test]
    fn the_log_is_on_disk_before_the_store_goes_on_with_it() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/null", log_path(dir.path())).unwrap();
        assert!(open_log(dir.path()).is_err());
        std::fs::remove_file(log_path(dir.path())).unwrap();
        std::fs::write(log_path(dir.path()), "").unwrap();
        assert!(open_log(dir.path()).is_ok());
    }
}
