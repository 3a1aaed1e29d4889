//! The trail on a real disk: what is in the files, what a crash leaves, what a forger cannot do.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene fails")]

mod appending;
mod crash;
mod erasing;
mod figures;
mod forger;
mod format;
mod given;
mod locking;
mod retention;
mod searching;
mod tampering;
