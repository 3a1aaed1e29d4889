//! Fuzzing of all that comes from outside, on the stable toolchain.
//!
//! A [`Target`] is a function that takes bytes and panics when a promise is broken: a round trip that does not come
//! back, an error that names no place, an output without a bound. [`mutate`] makes new inputs of kept ones, from a seed;
//! [`run()`] feeds them to a target, and keeps the input that breaks it. The test target runs a fixed number of inputs from a
//! fixed seed, `cargo xtask fuzz` runs for as long as it is told, from new seeds.
//!
//! Absent on purpose: coverage feedback, which needs a compiler of its own. The dictionaries and the kept inputs stand
//! in for it.

#![expect(clippy::unwrap_used, reason = "a target that cannot set its scene fails")]

pub mod mutate;
mod run;
mod targets;

use std::path::PathBuf;

pub use run::{Broken, run};
pub use targets::TARGETS;

/// Bytes at most of an input.
pub const INPUT_MAX_BYTES: usize = 4_096;

/// One thing that takes bytes from outside.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    /// Panics when a promise is broken.
    pub check: fn(&[u8]),
    /// Words that mean something to it.
    pub words: &'static [&'static str],
    /// Inputs of the test target: as many as take a few seconds.
    pub inputs: u64,
}

impl Target {
    pub fn named(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// The folder of its kept inputs.
    pub fn corpus(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name)
    }

    /// Its kept inputs, in the order of their names.
    pub fn kept(&self) -> Vec<Vec<u8>> {
        let files = std::fs::read_dir(self.corpus()).into_iter().flatten().flatten();
        let mut paths: Vec<_> = files.map(|file| file.path()).collect();
        paths.sort();
        paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
    }
}
