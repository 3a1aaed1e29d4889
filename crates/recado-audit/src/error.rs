//! Errors, split by what the caller does next.

use std::path::{Path, PathBuf};

use crate::month::Month;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process writes to the trail; leave it to that one.
    #[error("the trail in {} is written by process {holder}; stop it, or give this one another directory", .dir.display())]
    Held { dir: PathBuf, holder: String },
    /// Try again in a moment.
    #[error("the trail in {} is being rewritten; try again in a moment", .dir.display())]
    Busy { dir: PathBuf },
    /// Try again when the disk is well.
    #[error("cannot use {}: {error}; check the disk and that this user may read and write there", .path.display())]
    Io { path: PathBuf, error: std::io::Error },
    /// An earlier write failed half-way. Open the trail again: that finds out what is on disk.
    #[error("an earlier write to the audit trail failed; open it again before writing on")]
    Broken,
    /// For a person: put the file back.
    #[error(
        "{} was moved, removed or changed by another program while it was written; put it back as it was", .path.display()
    )]
    Displaced { path: PathBuf },
    #[error("the key {} is gone, and records here are signed with it; put it back, or begin another directory", .path.display())]
    KeyMissing { path: PathBuf },
    #[error("{} holds no ed25519 key; put back what was written there (PKCS #8 as PEM)", .path.display())]
    NotAKey { path: PathBuf },
    #[error("there is no public key in {}; put public.pem back, or name the key to verify with", .dir.display())]
    NoPublicKey { dir: PathBuf },
    /// For a person: another key signed this file.
    #[error("{} is not signed with this trail's key; verify the trail, then remove the file to continue without it", .path.display())]
    NotOurs { path: PathBuf },
    /// For a person: nothing is written to a trail that is not whole.
    #[error(
        "{segment}.jsonl is not whole at line {line}: {what}; verify the trail and restore the file from a backup"
    )]
    Damaged { segment: Month, line: u64, what: String },
    /// For a person: records that were signed are gone.
    #[error(
        "sequence {signed} was signed, but the trail ends at {end}; restore the newest segment from a backup, \
         or remove head.json to continue without what is lost"
    )]
    Shortened { signed: u64, end: u64 },
    /// A defect of the caller's: a repeat is recognised by its number, so numbers must rise.
    #[error(
        "entry {sequence} of source {source_name} comes after {after} in one batch; sort entries by their number"
    )]
    OutOfOrder { source_name: Box<str>, sequence: u64, after: u64 },
    #[error(
        "entry {sequence} of source {source_name} is too long to be a record ({bytes} bytes); shorten its texts"
    )]
    TooLong { source_name: Box<str>, sequence: u64, bytes: usize },
    #[error("the trail knows {max} sources already; use the same name for the same source")]
    TooManySources { max: usize },
}

/// Returns a function for `map_err` that names the file.
pub(crate) fn io(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |error| Error::Io { path: path.to_owned(), error }
}
