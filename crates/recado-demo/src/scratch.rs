//! A directory of our own among the temporary ones, removed at the end.
//!
//! It is locked while in use, so that a demonstration can tell the remains of a killed one, which it removes,
//! from the directory of a running one.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tempfile::TempDir;

/// Prefix of every name.
const PREFIX: &str = "recado-demo-";

/// Times that another process may take ours for a leftover, between making it and locking it.
const TRIES_MAX: usize = 10;

/// Removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
    _lock: File,
}

impl Scratch {
    /// Makes one in `parent`, after taking leftovers away.
    pub fn within(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        for _ in 0..TRIES_MAX {
            let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let Ok(lock) = File::open(dir.path()) else { continue };
            lock.lock()?;
            if dir.path().is_dir() {
                return Ok(Scratch { dir, _lock: lock });
            }
        }
        Err(io::Error::other("other processes keep removing it"))
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes directories that are not locked. One that cannot be removed stays: it is no reason not to start.
fn sweep(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().filter_map(Result::ok);
    for entry in entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())) {
        let ours = rustix::process::getuid().as_raw();
        let is_ours = entry.metadata().is_ok_and(|about| about.is_dir() && about.uid() == ours);
        let Some(held) = is_ours.then(|| File::open(entry.path()).ok()).flatten() else { continue };
        match held.try_lock() {
            Ok(()) => drop(fs::remove_dir_all(entry.path())),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_gone_when_dropped_and_sweeps_only_what_is_not_held() {
        let parent = tempfile::tempdir().unwrap();
        let used = Scratch::within(parent.path()).unwrap();
        fs::write(used.path().join("recado.db"), "jobs").unwrap();
        let leftover = parent.path().join(format!("{PREFIX}left"));
        fs::create_dir_all(leftover.join("dlq-archive")).unwrap();
        fs::write(leftover.join("recado.db"), "jobs").unwrap();
        let of_others = parent.path().join("precious");
        fs::create_dir(&of_others).unwrap();
        std::os::unix::fs::symlink(&of_others, parent.path().join(format!("{PREFIX}link"))).unwrap();

        let second = Scratch::within(parent.path()).unwrap();
        assert!(!leftover.exists(), "a leftover stays");
        assert!(used.path().join("recado.db").exists(), "one in use was swept");
        assert!(of_others.exists());
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists());
    }
}
