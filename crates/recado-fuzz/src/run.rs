//! Feeds inputs to a target.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use recado_core::Random;
use recado_core::payload::digest_of;

use crate::Target;
use crate::mutate::mutate;

/// An input that breaks a promise.
#[derive(Debug)]
pub struct Broken {
    /// The file that it was kept in.
    pub kept_as: PathBuf,
    pub why: String,
}

/// Feeds the kept inputs to a target, and then new ones for as long as `goes_on` says of their count. Returns the
/// number of inputs; an input that breaks the target is kept.
pub fn run(target: &Target, seed: u64, mut goes_on: impl FnMut(u64) -> bool) -> Result<u64, Broken> {
    let (kept, random) = (target.kept(), Random::from_seed(seed));
    let mut count = 0;
    for input in &kept {
        try_input(target, input)?;
        count += 1;
    }
    while goes_on(count) {
        try_input(target, &mutate(&kept, target.words, &random))?;
        count += 1;
    }
    Ok(count)
}

fn try_input(target: &Target, input: &[u8]) -> Result<(), Broken> {
    catch_unwind(AssertUnwindSafe(|| (target.check)(input))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let why = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned();
        let kept_as =
            target.corpus().join(format!("broken-{:016x}", digest_of(&[&format!("{input:?}")]) as u64));
        std::fs::create_dir_all(target.corpus()).unwrap();
        std::fs::write(&kept_as, input).unwrap();
        Broken { kept_as, why }
    })
}
