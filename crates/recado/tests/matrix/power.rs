//! The directory that a power cut leaves behind.
//!
//! The library in the server keeps a journal of all its calls on files. Here they are done again on a model of a disk:
//! bytes are sure once their file was forced (fsync, fdatasync), names once their directory was. Of everything else a
//! cut leaves what chance says:
//!
//! - of each sector of 512 bytes some version between the forced one and the last, each sector by itself, so writes are
//!   torn and arrive in any order;
//! - a length between the forced one and the last; bytes within it that never arrived are zero;
//! - of names made, changed and removed the first few, in their order, as file systems with a journal do. To force a
//!   file does not force its name.
//!
//! The index of SQLite's log (`-shm`) is written by mmap and is made anew after a crash: it is left out.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const SECTOR_BYTES: usize = 512;

/// A disk with one directory: what is sure, and what is not yet.
pub struct Image {
    root: PathBuf,
    files: Vec<FileImage>,
    /// The file that each inode is now. A number may be used again.
    inodes: HashMap<u64, usize>,
    names: Names,
    changed_names: Vec<(u64, NameChange)>,
}

/// Files by their number here; directories have none.
type Names = BTreeMap<PathBuf, Option<usize>>;

#[derive(Default)]
struct FileImage {
    forced: Vec<u8>,
    changes: Vec<(u64, Change)>,
}

enum Change {
    Write { at: usize, data: Vec<u8> },
    Truncate(usize),
}

enum NameChange {
    Make(PathBuf, Option<usize>),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

/// A call as `disk.c` recorded it.
struct Record {
    kind: u64,
    number: u64,
    inode: u64,
    value: u64,
    path: PathBuf,
    data: Vec<u8>,
}

impl Image {
    /// The directory as it is now, all of it forced.
    pub fn of(root: &Path) -> Self {
        let mut image = Image {
            root: root.to_owned(),
            files: Vec::new(),
            inodes: HashMap::new(),
            names: Names::new(),
            changed_names: Vec::new(),
        };
        image.read(root);
        image
    }

    fn read(&mut self, dir: &Path) {
        for entry in std::fs::read_dir(dir).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                self.names.insert(path.clone(), None);
                self.read(&path);
            } else {
                let inode = path.metadata().expect("a file").ino();
                let forced = std::fs::read(&path).expect("a file");
                self.inodes.insert(inode, self.files.len());
                self.names.insert(path, Some(self.files.len()));
                self.files.push(FileImage { forced, changes: Vec::new() });
            }
        }
    }

    /// Puts into the directory what the cut left of it.
    pub fn cut_power(mut self, journal: &Path, seed: u64) {
        for record in records(&std::fs::read(journal).expect("a journal")) {
            self.apply(record);
        }
        self.is_as_the_directory();
        let mut chance = fastrand::Rng::with_seed(seed);
        let kept = chance.usize(..=self.changed_names.len());
        for (_, change) in self.changed_names.drain(..kept) {
            change.apply(&mut self.names);
        }
        // Sometimes nothing that was not forced is left, sometimes nearly all of it.
        let luck = [0.0, 0.5, 0.95][chance.usize(..3)];
        let left: Vec<_> = self.files.into_iter().map(|file| file.after_cut(luck, &mut chance)).collect();
        let _ = std::fs::remove_dir_all(&self.root);
        std::fs::create_dir(&self.root).expect("a directory");
        for (path, file) in self.names {
            match file {
                // Without its directory it cannot be found.
                _ if !path.parent().is_some_and(Path::exists) || is_index(&path) => {}
                None => std::fs::create_dir(&path).expect("a directory"),
                Some(file) => std::fs::write(&path, &left[file]).expect("a file"),
            }
        }
    }

    fn apply(&mut self, Record { kind, number, inode, value, path, data }: Record) {
        let file = self.inodes.get(&inode).copied();
        let mut change = |change| {
            let file = &mut self.files[file.expect("a file that is known")];
            file.changes.push((number, change));
        };
        match kind {
            0 => change(Change::Write { at: value as usize, data }),
            1 => change(Change::Truncate(value as usize)),
            2 => self.files[file.expect("a file that is known")].force(value),
            3 => {
                self.inodes.insert(inode, self.files.len());
                self.changed_names.push((number, NameChange::Make(path, Some(self.files.len()))));
                self.files.push(FileImage::default());
            }
            4 => self.changed_names.push((number, NameChange::Remove(path))),
            5 => {
                let to = PathBuf::from(String::from_utf8(data).expect("a path"));
                self.changed_names.push((number, NameChange::Rename(path, to)));
            }
            6 if path == self.root => {}
            6 => self.changed_names.push((number, NameChange::Make(path, None))),
            7 => {
                let is_forced = |(at, change): &mut (u64, NameChange)| *at < value && change.is_in(&path);
                for (_, change) in self.changed_names.extract_if(.., is_forced) {
                    change.apply(&mut self.names);
                }
            }
            other => panic!("no call has the kind {other}"),
        }
    }

    /// Asserts that the journal is complete: with all changes the model is the directory as the dead process left it.
    #[track_caller]
    fn is_as_the_directory(&self) {
        let there = Image::of(&self.root);
        let mut names = self.names.clone();
        self.changed_names.iter().for_each(|(_, change)| change.apply(&mut names));
        let without_index =
            |names: &Names| -> Vec<_> { names.keys().filter(|path| !is_index(path)).cloned().collect() };
        assert_eq!(without_index(&names), without_index(&there.names), "the journal misses a name");
        for (path, file) in names.iter().filter(|(path, _)| !is_index(path)) {
            let (Some(here), Some(there_file)) = (file, there.names[path]) else { continue };
            let mut bytes = self.files[*here].forced.clone();
            self.files[*here].changes.iter().for_each(|(_, change)| change.apply(&mut bytes));
            assert!(
                bytes == there.files[there_file].forced,
                "the journal misses a write to {}",
                path.display()
            );
        }
    }
}

/// The index of SQLite's log.
fn is_index(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "db-shm")
}

impl FileImage {
    /// Makes everything sure that was done before the call with this number.
    fn force(&mut self, before: u64) {
        for (_, change) in self.changes.extract_if(.., |(number, _)| *number < before) {
            change.apply(&mut self.forced);
        }
    }

    fn after_cut(mut self, luck: f64, chance: &mut fastrand::Rng) -> Vec<u8> {
        // Lengths are cut off in order: after the first that did not happen, nothing did.
        let cuts: Vec<_> =
            (0..self.changes.len()).filter(|at| matches!(self.changes[*at].1, Change::Truncate(_))).collect();
        let happened = chance.usize(..=cuts.len());
        if let Some(first_missing) = cuts.get(happened) {
            self.changes.truncate(*first_missing);
        }
        let mut lengths = vec![self.forced.len()];
        let mut versions: HashMap<usize, usize> = HashMap::new();
        for (_, change) in &self.changes {
            let length = lengths.last().copied().unwrap_or(0);
            lengths.push(match change {
                Change::Write { at, data } => length.max(at + data.len()),
                Change::Truncate(to) => *to,
            });
            change.sectors().for_each(|sector| *versions.entry(sector).or_default() += 1);
        }
        let mut left: BTreeMap<usize, usize> = versions.into_iter().collect();
        for versions in left.values_mut() {
            if chance.f64() >= luck {
                *versions = chance.usize(..=*versions);
            }
        }
        let mut bytes = self.forced;
        for (_, change) in &self.changes {
            match change {
                Change::Truncate(_) => change.apply(&mut bytes),
                Change::Write { at, data } => {
                    for sector in change.sectors() {
                        let versions = left.entry(sector).or_default();
                        if *versions == 0 {
                            continue;
                        }
                        *versions -= 1;
                        let (from, to) = (sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES);
                        let (from, to) = (from.max(*at), to.min(at + data.len()));
                        write(&mut bytes, from, &data[from - at..to - at]);
                    }
                }
            }
        }
        let length = if chance.f64() < luck { lengths.len() - 1 } else { chance.usize(..lengths.len()) };
        bytes.resize(lengths[length], 0);
        bytes
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write { at, data } => write(bytes, *at, data),
            Change::Truncate(to) => bytes.resize(*to, 0),
        }
    }

    fn sectors(&self) -> std::ops::Range<usize> {
        match self {
            Change::Write { at, data } => at / SECTOR_BYTES..(at + data.len()).div_ceil(SECTOR_BYTES),
            Change::Truncate(_) => 0..0,
        }
    }
}

fn write(bytes: &mut Vec<u8>, at: usize, data: &[u8]) {
    if bytes.len() < at + data.len() {
        bytes.resize(at + data.len(), 0);
    }
    bytes[at..at + data.len()].copy_from_slice(data);
}

impl NameChange {
    fn is_in(&self, dir: &Path) -> bool {
        let (NameChange::Make(path, _) | NameChange::Remove(path) | NameChange::Rename(_, path)) = self;
        path.parent() == Some(dir)
    }

    fn apply(&self, names: &mut Names) {
        match self {
            NameChange::Make(path, file) => drop(names.insert(path.clone(), *file)),
            NameChange::Remove(path) => drop(names.remove(path)),
            NameChange::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
        }
    }
}

fn records(mut bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let number =
            |at: usize| u64::from_ne_bytes(bytes[at * 8..at * 8 + 8].try_into().expect("eight bytes"));
        let (path_ends, data_ends) = (56 + number(5) as usize, 56 + (number(5) + number(6)) as usize);
        let path = String::from_utf8(bytes[56..path_ends].to_vec()).expect("a path").into();
        let data = bytes[path_ends..data_ends].to_vec();
        let (kind, at, inode, value) = (number(0), number(1), number(2), number(3));
        records.push(Record { kind, number: at, inode, value, path, data });
        bytes = &bytes[data_ends..];
    }
    records
}
