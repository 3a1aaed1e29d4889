//! The archive of surplus dead letters: a file a month in the data directory, a line each.
//!
//! A line counts once it is forced to disk, and its directory with it. A line that a crash cut off is closed
//! off before the next one; its entry has not left the store, so nothing is lost with it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use recado_core::Timestamp;
use recado_engine::dlq::archive::Archive;

/// Inside the data directory.
const DIRECTORY: &str = "dlq-archive";

#[derive(Debug)]
pub struct FileArchive {
    dir: PathBuf,
    /// Lines of two writers must not mix.
    writing: Mutex<()>,
}

impl FileArchive {
    pub fn within(data_dir: &Path) -> Self {
        FileArchive { dir: data_dir.join(DIRECTORY), writing: Mutex::new(()) }
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        // Payloads are personal data: other users of this machine may not read them.
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)?;
        // A file without lines may be new, or left by a process that died here: then no name on the way to it is sure.
        if file.metadata()?.len() == 0 {
            for dir in [Some(&*self.dir), self.dir.parent()].into_iter().flatten() {
                File::open(dir)?.sync_all()?;
            }
        }
        Ok(file)
    }
}

/// Returns true if the file ends in the middle of a line.
fn is_torn(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

impl Archive for FileArchive {
    fn append(&self, lines: &[String], now: Timestamp) -> io::Result<String> {
        let _alone = self.writing.lock();
        let month: String = now.to_string().chars().take("2026-11".len()).collect();
        let path = self.dir.join(format!("{month}.ndjson"));
        let mut file = self.open(&path)?;
        let mut text = String::new();
        if is_torn(&mut file)? {
            text.push('\n');
        }
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        Ok(path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOVEMBER: Timestamp = Timestamp::from_millis(1_794_700_000_000);

    fn lines(of: &[&str]) -> Vec<String> {
        of.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn lines_are_appended_to_the_months_file_and_only_its_owner_reads_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let archive = FileArchive::within(dir.path());
        let place = archive.append(&lines(&["a", "b"]), NOVEMBER).unwrap();
        assert_eq!(archive.append(&lines(&["c"]), NOVEMBER).unwrap(), place);
        assert!(place.ends_with("dlq-archive/2026-11.ndjson"), "{place}");
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "a\nb\nc\n");
        assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_line_that_was_cut_off_does_not_spoil_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let archive = FileArchive::within(dir.path());
        let place = archive.append(&lines(&["a"]), NOVEMBER).unwrap();
        OpenOptions::new().append(true).open(&place).unwrap().write_all(b"half a li").unwrap();
        archive.append(&lines(&["b"]), NOVEMBER).unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "a\nhalf a li\nb\n");
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(DIRECTORY), "a file in its place").unwrap();
        assert!(FileArchive::within(dir.path()).append(&lines(&["a"]), NOVEMBER).is_err());
    }
}
