//! Everything that must hold before a change lands, cheapest first.

use std::process::Command;

use crate::{Outcome, cargo, setup, tidy};

/// What is run once more with the jobs in Redis: everything from end to end, but for what is about the embedded
/// store's files, about pages and configuration alone, or only waits.
const ON_REDIS: [&str; 2] = ["systems", "cli"];
const NOT_ON_REDIS: [&str; 12] = [
    "cli::configuring",
    "cli::damage",
    "cli::moved_directory",
    "cli::moving",
    "cli::starting",
    "cli::redis",
    "systems::addresses",
    "systems::real_waits",
    "systems::described",
    "systems::documented",
    "systems::observing::g18",
    "systems::operating",
];

pub fn run() -> Outcome {
    setup::run()?;
    crate::run("format", cargo().args(["fmt", "--all", "--check"]))?;
    crate::run(
        "lints",
        cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "--deny",
            "warnings",
        ]),
    )?;
    tidy::run()?;
    let mut peers = Command::new("npm");
    peers.args(["ci", "--dry-run", "--ignore-scripts", "--prefix"]).arg(crate::root().join("bench"));
    crate::run("the benchmark's peers install from their lock file", &mut peers)?;
    crate::run("tests", cargo().args(["test", "--workspace", "--all-features"]))?;
    on_redis()?;
    println!("\nxtask ci: all of it holds");
    Ok(())
}

fn on_redis() -> Outcome {
    let mut tests = cargo();
    // The same selection of crates and features as above: nothing is built again.
    tests.args(["test", "--workspace", "--all-features"]).env("RECADO_TEST_STORE", "redis");
    tests.args(ON_REDIS.iter().flat_map(|test| ["--test", test])).arg("--");
    tests.args(NOT_ON_REDIS.iter().flat_map(|part| ["--skip", part]));
    crate::run("tests with the jobs in Redis", &mut tests)
}
