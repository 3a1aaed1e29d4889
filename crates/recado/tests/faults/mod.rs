//! Faults of the machine under a running server: a wall clock that steps, a disk that stalls.
//!
//! A small library (`shim.c`) is built with `cc` and loaded into the server with `LD_PRELOAD`. It writes a line for each
//! fault that struck, so that a test can assert that its fault fired.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// The switches of one server's faults.
pub struct Faults {
    dir: TempDir,
}

impl Faults {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .args([&dir.path().join("shim.so"), &shim])
            .output()
            .expect("cc is not installed; `cargo xtask setup` installs it");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Faults { dir }
    }

    /// The environment of a server that these faults strike.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.dir.path().join(name).display().to_string();
        vec![("LD_PRELOAD", path("shim.so")), ("RECADO_FAULTS", self.dir.path().display().to_string())]
    }

    /// Sets the server's wall clock this far off the machine's.
    pub fn set_clock(&self, seconds: i64) {
        // A server must never read half of it.
        let next = self.dir.path().join("clock.next");
        std::fs::write(&next, (seconds * 1_000).to_string()).expect("a file");
        std::fs::rename(next, self.dir.path().join("clock")).expect("a file");
    }

    /// From now on no fsync returns.
    pub fn stall_disk(&self) {
        std::fs::write(self.dir.path().join("stall"), "").expect("a file");
    }

    pub fn free_disk(&self) {
        std::fs::remove_file(self.dir.path().join("stall")).expect("it was stalled");
    }

    /// Returns how often a fault struck: "step" or "stall".
    pub fn fired(&self, fault: &str) -> usize {
        let log = std::fs::read_to_string(self.dir.path().join("fired")).unwrap_or_default();
        log.lines().filter(|line| *line == fault).count()
    }
}
