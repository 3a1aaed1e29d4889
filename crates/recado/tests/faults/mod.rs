//! Faults of the machine under a running server: a wall clock that steps, a disk that stalls or fails, a process that
//! dies at a chosen write, a power cut.
//!
//! A small library (`shim.c`, `disk.c`) is built with `cc` and loaded into the server with `LD_PRELOAD`. It writes a
//! line for each fault that struck, so that a test can assert that its fault fired.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

/// The switches of one server's faults.
pub struct Faults {
    dir: TempDir,
    switches: File,
}

/// The library, built once.
static LIBRARY: OnceLock<PathBuf> = OnceLock::new();

fn build() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Another run of the tests may have the last one loaded.
    let (next, library) =
        (target.join(format!("faults-{}.so", std::process::id())), target.join("faults.so"));
    let source = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults").join(name);
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .args([&next, &source("shim.c"), &source("disk.c")])
        .output()
        .expect("cc is not installed; `cargo xtask setup` installs it");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    std::fs::rename(next, &library).expect("a file");
    library
}

/// A number that the library shares with the tests: its place in the file `switches`, as in `disk.c`.
#[derive(Clone, Copy)]
enum Switch {
    Calls,
    KillAt,
    KillHow,
    KeepJournal,
    FailWith,
    FailKinds,
    FailAfter,
    StallNames,
}

/// The moment of a kill at a call.
#[derive(Clone, Copy, Debug)]
pub enum KillHow {
    Before,
    After,
    /// After half of a write; at other calls as `After`.
    Half,
}

/// Calls on files, by their bits in `disk.c`.
pub mod calls {
    pub const WRITE: i64 = 1;
    pub const TRUNCATE: i64 = 1 << 1;
    pub const SYNC: i64 = 1 << 2;
    pub const CREATE: i64 = 1 << 3;
    pub const UNLINK: i64 = 1 << 4;
    pub const RENAME: i64 = 1 << 5;
    pub const MAKE_DIR: i64 = 1 << 6;
    pub const SYNC_DIR: i64 = 1 << 7;
}

impl Faults {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let switches = dir.path().join("switches");
        std::fs::write(&switches, [0; 4096]).expect("a file");
        let switches = File::options().read(true).write(true).open(switches).expect("a file");
        Faults { dir, switches }
    }

    /// The environment of a server that these faults strike.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let library = LIBRARY.get_or_init(build).display().to_string();
        vec![("LD_PRELOAD", library), ("RECADO_FAULTS", self.dir.path().display().to_string())]
    }

    /// The same, for a server whose calls on files of this directory can be struck.
    pub fn variables_on(&self, data: &Path) -> Vec<(&'static str, String)> {
        let mut variables = self.variables();
        variables.push(("RECADO_FAULTS_ON", data.display().to_string()));
        variables
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

    /// Counts calls from now on, and kills the process at the n-th if `at` says so.
    pub fn arm(&self, at: Option<(i64, KillHow)>) {
        let (at, how) = at.unwrap_or((0, KillHow::Before));
        self.set(Switch::KillAt, 0);
        self.set(Switch::KillHow, how as i64);
        self.set(Switch::Calls, 0);
        self.set(Switch::KillAt, at);
    }

    /// Calls on files of the directory since it was armed.
    pub fn calls(&self) -> i64 {
        let mut number = [0; 8];
        self.switches.read_exact_at(&mut number, Switch::Calls as u64 * 8).expect("eight bytes");
        i64::from_ne_bytes(number)
    }

    /// Keeps a journal of all calls of the processes that start from now on.
    pub fn keep_journal(&self) {
        self.set(Switch::KeepJournal, 1);
    }

    pub fn journal(&self) -> PathBuf {
        self.dir.path().join("journal")
    }

    /// Has calls of these kinds fail with this error, after the first few.
    pub fn fail(&self, kinds: i64, error: i32, after: i64) {
        self.set(Switch::FailAfter, after);
        self.set(Switch::FailKinds, kinds);
        self.set(Switch::FailWith, error.into());
    }

    pub fn mend(&self) {
        self.set(Switch::FailWith, 0);
    }

    /// From now on no name is resolved, or all are again.
    pub fn stall_names(&self, stalls: bool) {
        self.set(Switch::StallNames, stalls.into());
    }

    fn set(&self, switch: Switch, to: i64) {
        self.switches.write_all_at(&to.to_ne_bytes(), switch as u64 * 8).expect("eight bytes");
    }

    /// Returns how often a fault struck: "step", "stall", "kill", "fail" or "names".
    pub fn fired(&self, fault: &str) -> usize {
        let log = std::fs::read_to_string(self.dir.path().join("fired")).unwrap_or_default();
        log.lines().filter(|line| *line == fault).count()
    }
}
