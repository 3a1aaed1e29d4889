//! A test that goes on in a process of its own: the same test of the same binary, started again.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Directory of the test that was started again.
const WORK_DIR: &str = "RECADO_TEST_WORK_DIR";

/// The directory to work in, when this process is the one that was started again.
pub fn work_dir() -> Option<PathBuf> {
    std::env::var_os(WORK_DIR).map(PathBuf::from)
}

/// This binary, told to run one test and nothing else. `test` is the name that the harness lists.
pub fn arguments(test: &str) -> Vec<String> {
    let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    vec![
        program,
        "--exact".to_owned(),
        test.to_owned(),
        "--nocapture".to_owned(),
        "--test-threads=1".to_owned(),
    ]
}

pub fn in_dir<'a>(command: &'a mut Command, dir: &Path) -> &'a mut Command {
    command.env(WORK_DIR, dir)
}
