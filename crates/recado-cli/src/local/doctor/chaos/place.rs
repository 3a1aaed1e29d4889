//! The directory that `recado doctor --chaos` tests.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use recado_config::units::about_size;
use tempfile::TempDir;

use super::super::checks::nearest_existing;
use crate::Stop;

/// Free space that must be there before it begins.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// Free space that its own files leave at the least. With less, another program has filled the disk.
const FREE_BYTES_LEFT: u64 = 256 << 20;

/// The name of every directory begins with it.
const DIR_PREFIX: &str = "recado-chaos-";

/// The disk of a data directory.
pub struct Disk {
    data_dir: PathBuf,
    /// Directories to work in, all on this disk. The first that can be written is taken.
    places: Vec<PathBuf>,
}

impl Disk {
    /// The disk of a directory that the caller named: it must be there, or the wrong disk would be tested.
    pub fn named(data_dir: &Path) -> Result<Self, Stop> {
        if data_dir.as_os_str().is_empty() {
            return Err(Stop::usage("--data-dir is empty: name a directory on the disk to test"));
        }
        if !data_dir.exists() {
            let shown = data_dir.display();
            return Err(Stop::Usage(format!(
                "{shown} does not exist: make it, or name another directory on the disk to test with --data-dir"
            )));
        }
        Disk::of(data_dir)
    }

    /// The disk that a data directory is on, or will be on.
    pub fn of(data_dir: &Path) -> Result<Self, Stop> {
        if data_dir.exists() && !data_dir.is_dir() {
            let shown = data_dir.display();
            return Err(Stop::Usage(format!(
                "{shown} is not a directory: name a directory on the disk to test with --data-dir"
            )));
        }
        let there = nearest_existing(data_dir);
        let there = there.canonicalize().unwrap_or(there);
        let device = |path: &Path| path.metadata().map(|about| about.dev()).ok();
        let beside = there.parent().filter(|parent| data_dir.is_dir() && device(parent) == device(&there));
        let places = beside.map(Path::to_owned).into_iter().chain([there.clone()]).collect();
        Ok(Disk { data_dir: data_dir.to_owned(), places })
    }

    /// Returns the directories of earlier runs that could not remove them, or of one that still runs.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        let entries = self.places.iter().filter_map(|place| place.read_dir().ok()).flatten().flatten();
        let is_ours = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(DIR_PREFIX.as_bytes()))
        };
        entries.map(|entry| entry.path()).filter(is_ours).collect()
    }

    /// Makes a directory to work in: beside the data directory, or inside where its parent is another disk or may not be
    /// written.
    pub fn make_dir(&self) -> Result<TempDir, Stop> {
        let shown = self.data_dir.display();
        let failed = |error: io::Error| {
            Stop::Failed(format!(
                "cannot write in {shown}: {error}; name a directory that this user may write in with --data-dir"
            ))
        };
        let mut made = Err(io::ErrorKind::NotFound.into());
        for place in &self.places {
            made = tempfile::Builder::new().prefix(DIR_PREFIX).tempdir_in(place);
            if made.is_ok() {
                break;
            }
        }
        let dir = made.map_err(failed)?;
        let free = free_bytes(dir.path()).map_err(failed)?;
        if free < FREE_BYTES_MIN {
            let (free, least) = (about_size(free), about_size(FREE_BYTES_MIN));
            return Err(Stop::Failed(format!(
                "the disk of {shown} has {free} free, and the kills need {least}: make room, or name another directory \
                 with --data-dir"
            )));
        }
        Ok(dir)
    }
}

/// Returns the bytes that this user may still write on the disk of a directory.
fn free_bytes(dir: &Path) -> io::Result<u64> {
    let room = rustix::fs::statvfs(dir)?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

/// Refuses a result that was taken on a full disk: a server that cannot write what it delivered is not at fault, and
/// neither is the disk.
pub fn check_room(dir: &Path) -> Result<(), String> {
    free_bytes(dir).map_or(Ok(()), judge_room)
}

fn judge_room(free: u64) -> Result<(), String> {
    if free >= FREE_BYTES_LEFT {
        return Ok(());
    }
    Err(format!(
        "another program filled the disk meanwhile, {} are left, so this run says nothing about the disk: make room, and \
         try again",
        about_size(free)
    ))
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "on the disk of {}", self.data_dir.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_works_inside_the_data_directory_when_its_parent_may_not_be_written() {
        let data = tempfile::tempdir().expect("a directory");
        let data_dir = data.path().canonicalize().expect("a directory");
        let mut disk = Disk::named(&data_dir).expect("a disk");
        assert_eq!(disk.places.len(), 2, "beside it, and inside");
        // Permissions hold back no administrator; a directory that is not there does.
        disk.places[0] = data_dir.join("missing");
        let dir = disk.make_dir().expect("a directory");
        assert_eq!(dir.path().parent(), Some(&*data_dir));
        assert_eq!(disk.leftovers(), [dir.path()], "what a killed run leaves is found by the next");
    }

    #[test]
    fn a_result_from_a_disk_that_was_filled_is_refused() {
        let refused = judge_room(0).expect_err("nothing is left");
        assert!(refused.contains("0 B are left"), "{refused}");
        assert!(judge_room(FREE_BYTES_LEFT - 1).is_err());
        assert!(judge_room(FREE_BYTES_MIN - (200 << 20)).is_ok(), "its own files fill no disk");
    }
}
