//! The file behind `--out`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

use super::Stop;

/// A file that takes its place only when it is whole: until then the old one stays. Only its owner may read it, for
/// it holds personal data.
#[derive(Debug)]
pub struct OutFile {
    path: PathBuf,
    file: File,
    /// Its place until it is whole; a pipe or a device cannot be replaced and has none.
    temporary: Option<TempPath>,
}

impl OutFile {
    pub fn create(path: &Path) -> Result<Self, Stop> {
        let is_special = std::fs::metadata(path).is_ok_and(|found| !found.is_file());
        let opened = match is_special {
            true => OpenOptions::new().write(true).open(path).map(|file| (file, None)),
            false => NamedTempFile::new_in(directory_of(path)).map(|file| {
                let (file, temporary) = file.into_parts();
                (file, Some(temporary))
            }),
        };
        let (file, temporary) = opened.map_err(|error| cannot_write(path, &error))?;
        Ok(OutFile { path: path.to_owned(), file, temporary })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.file.write_all(bytes).map_err(|error| cannot_write(&self.path, &error))
    }

    /// Forces the file to disk and puts it in its place.
    pub fn finish(self) -> Result<(), Stop> {
        let OutFile { path, mut file, temporary } = self;
        let done = match temporary {
            None => file.flush(),
            Some(temporary) => file
                .sync_all()
                .and_then(|()| temporary.persist(&path).map_err(|error| error.error))
                .and_then(|()| File::open(directory_of(&path))?.sync_all()),
        };
        done.map_err(|error| cannot_write(&path, &error))
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn cannot_write(path: &Path, error: &io::Error) -> Stop {
    Stop::Failed(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_old_file_stays_until_the_new_one_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("backup.ndjson");
        std::fs::write(&path, "the good old backup").unwrap();
        let mut file = OutFile::create(&path).unwrap();
        file.write(b"half of").unwrap();
        drop(file);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "the good old backup");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "what was begun is removed");

        let mut file = OutFile::create(&path).unwrap();
        file.write(b"all of it").unwrap();
        file.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "all of it");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_device_is_written_in_place() {
        let mut file = OutFile::create(Path::new("/dev/null")).unwrap();
        file.write(b"gone").unwrap();
        file.finish().unwrap();
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    }
}
