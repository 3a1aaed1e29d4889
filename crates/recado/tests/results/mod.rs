//! The results of fault tests, as lines of JSON for `docs/proof.md` (`cargo xtask proof`).

use std::fs::File;
use std::io::Write;

use serde_json::{Map, Value, json};

/// One row: a fault in the middle of an operation, so often.
#[derive(Default)]
pub struct Row {
    pub fault: &'static str,
    pub operation: &'static str,
    /// The test that runs it.
    pub test: &'static str,
    pub seed: u64,
    pub runs: usize,
    pub fired: usize,
    pub acknowledged: usize,
    pub lost: usize,
    /// Acknowledged, and lost with the last writes of a Redis that does not force each to disk.
    pub lost_by_redis: usize,
    /// By their causes.
    pub duplicates: Map<String, Value>,
}

impl Row {
    pub fn add_duplicates(&mut self, cause: &str, count: usize) {
        if count > 0 {
            let before = self.duplicates.get(cause).and_then(Value::as_u64).unwrap_or(0);
            self.duplicates.insert(cause.to_owned(), (before + count as u64).into());
        }
    }

    /// Asserts that the fault fired in each run, and adds the row to the file that `RECADO_RESULTS` names, if it does.
    #[track_caller]
    pub fn write(&self) {
        let Row { fault, operation, test, seed, runs, fired, acknowledged, lost, lost_by_redis, duplicates } =
            self;
        let line = json!({
            "fault": fault, "operation": operation, "test": test, "seed": seed, "runs": runs, "fired": fired,
            "acknowledged": acknowledged, "lost": lost, "lostByRedis": lost_by_redis, "duplicates": duplicates,
        });
        eprintln!("{line}");
        if let Ok(path) = std::env::var("RECADO_RESULTS") {
            let file = File::options().create(true).append(true).open(path);
            file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
                .expect("a file for results");
        }
        assert!(*runs > 0 && *fired >= *runs, "the fault fired {fired} times in {runs} runs");
    }
}
