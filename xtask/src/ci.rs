//! Everything that must hold before a change lands, cheapest first.

use std::process::Command;

use crate::{Outcome, cargo, setup, tidy};

/// Targets that run once more with the jobs in Redis: everything from end to end, but for what is about the embedded
/// store's files, about pages and configuration alone, or only waits.
const ON_REDIS: [&str; 2] = ["systems", "cli"];
const NOT_ON_REDIS: [&str; 12] = [
    "cli::chaos",
    "cli::configuring",
    "cli::damage",
    "cli::moved_directory",
    "cli::moving",
    "cli::starting",
    "cli::redis",
    "systems::addresses",
    "systems::described",
    "systems::documented",
    "systems::observing::g18",
    "systems::operating",
];

/// Tests that only wait, as long as real policies do. [`real_waits`] runs them.
const WAITS: &str = "systems::real_waits";

/// Targets of the inner loop beside the unit tests: stores, engine and API, without the built binary.
const INNER: [&str; 4] = ["reference", "embedded", "engine", "api"];

/// Runs what a change is tried with again and again.
pub fn inner_loop() -> Outcome {
    format_and_lints()?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--all-features", "--lib"]);
    tests.args(INNER.iter().flat_map(|test| ["--test", test]));
    crate::run("unit, store, engine and API tests", &mut tests)
}

/// Runs everything that must hold before a change lands.
pub fn run() -> Outcome {
    setup::run()?;
    format_and_lints()?;
    tidy::run()?;
    let mut peers = Command::new("npm");
    peers.args(["ci", "--dry-run", "--ignore-scripts", "--prefix"]).arg(crate::root().join("bench"));
    crate::run("the benchmark's peers install from their lock file", &mut peers)?;
    crate::run("tests", cargo().args(["test", "--workspace", "--all-features"]))?;
    crate::sim()?;
    on_redis()?;
    println!("\nxtask ci: all of it holds");
    Ok(())
}

fn format_and_lints() -> Outcome {
    crate::run("format", cargo().args(["fmt", "--all", "--check"]))?;
    let lints = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "--deny", "warnings"];
    crate::run("lints", cargo().args(lints))
}

/// Runs the tests that wait as long as real policies do.
pub fn real_waits() -> Outcome {
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--all-features", "--test", "systems", "--", "--ignored", WAITS]);
    crate::run("waits of real policies", &mut tests)
}

fn on_redis() -> Outcome {
    let mut tests = cargo();
    // The same selection of crates and features as above: nothing is built again.
    tests.args(["test", "--workspace", "--all-features"]).env("RECADO_TEST_STORE", "redis");
    tests.args(ON_REDIS.iter().flat_map(|test| ["--test", test])).arg("--");
    tests.args(NOT_ON_REDIS.iter().flat_map(|part| ["--skip", part]));
    crate::run("tests with the jobs in Redis", &mut tests)
}
