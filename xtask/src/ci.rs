//! Everything that must hold before a change lands, cheapest first.

use std::process::Command;

use crate::{Outcome, cargo, root, setup, tidy};

/// The crate with the tests of the built program.
const PROGRAM: &str = "recado";

/// Targets that run once more with the jobs in Redis: everything from end to end, but for what is about the embedded
/// store's files, about pages and configuration alone, or only waits.
const ON_REDIS: [&str; 2] = ["systems", "cli"];
const NOT_ON_REDIS: [&str; 13] = [
    "cli::audit::a_store_from_an_older_backup",
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
    let mut build = cargo();
    build.args(["test", "--workspace", "--all-features", "--no-run"]);
    crate::run("build of the tests", &mut build)?;
    in_two_lanes()?;
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

/// Runs the tests in two lanes at once, because most of them wait: those that run on either store, and all others.
/// The second one's output follows when it has ended.
fn in_two_lanes() -> Outcome {
    std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let program = crate::record("tests of the program", &mut of_the_program()?);
            // What the first one printed is shown even if the next one fails, and the other way round.
            let crates = crate::record("tests of the other crates", &mut of_the_other_crates());
            Ok([program, crates])
        });
        let both_stores = on_both_stores();
        let others: Result<_, String> = others.join().map_err(|_| "the second lane panicked".to_owned())?;
        let mut failed: Vec<_> = both_stores.err().into_iter().collect();
        for (text, outcome) in others? {
            println!("{text}");
            failed.extend(outcome.err());
        }
        failed.extend(crate::sim().err());
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    })
}

/// The program's targets that run on one store alone.
fn of_the_program() -> Result<Command, String> {
    let folder = root().join("crates").join(PROGRAM).join("tests");
    let files = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let names = files.flatten().filter_map(|file| {
        let path = file.path();
        let is_target = path.extension().is_some_and(|extension| extension == "rs");
        is_target.then(|| path.file_stem()?.to_str().map(str::to_owned)).flatten()
    });
    let mut tests = cargo();
    // The same selection of crates and features as in the build: nothing is built again.
    tests.args(["test", "--workspace", "--all-features", "--no-fail-fast"]);
    tests
        .args(names.filter(|name| !ON_REDIS.contains(&&**name)).flat_map(|name| ["--test".to_owned(), name]));
    Ok(tests)
}

fn of_the_other_crates() -> Command {
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--exclude", PROGRAM, "--all-features", "--no-fail-fast"]);
    tests
}

fn on_both_stores() -> Outcome {
    let mut embedded = cargo();
    embedded.args(["test", "--workspace", "--all-features"]);
    embedded.args(ON_REDIS.iter().flat_map(|test| ["--test", test]));
    crate::run("tests of the program with the jobs on disk", &mut embedded)?;
    on_redis()
}

fn on_redis() -> Outcome {
    let mut tests = cargo();
    // The same selection of crates and features as above: nothing is built again.
    tests.args(["test", "--workspace", "--all-features"]).env("RECADO_TEST_STORE", "redis");
    tests.args(ON_REDIS.iter().flat_map(|test| ["--test", test])).arg("--");
    tests.args(NOT_ON_REDIS.iter().flat_map(|part| ["--skip", part]));
    crate::run("tests with the jobs in Redis", &mut tests)
}
