//! A server with its far end, its faults and its ledger; and one run of an operation that is struck.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use recado_testkit::eventually;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::far_end::FarEnd;
use super::faults::{Faults, KillHow, calls};
use super::given::{Place, Server, ask};
use super::ledger::{Account, Ledger, SharedLedger};
use super::operations::Operation;
use super::power;
use super::results::Row;

/// Jobs that a server gets at most until it is struck.
const WORK_MAX: usize = 200;

/// Directory of the embedded store, below a place.
pub const DATA: &str = "recado-data";

/// The life of the server that is struck, and the one after.
pub const STRUCK: &str = "struck";
const AFTER: &str = "after";

pub struct Scene {
    pub place: Place,
    pub far_end: FarEnd,
    pub faults: Arc<Faults>,
    pub ledger: SharedLedger,
    /// The server that may be struck at any time.
    address: std::net::SocketAddr,
    /// Store of its servers, if not their directory.
    store: Option<String>,
}

/// A fault at one call on the files of the store.
#[derive(Clone, Copy, Debug)]
pub struct Strike {
    /// The call, counted from the time that the operation begins; for [`Fault::Fail`] among the calls of its kinds.
    pub at: i64,
    pub fault: Fault,
}

#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Kill(KillHow),
    /// With the seed of what is left of the bytes that were not forced.
    PowerCut(u64),
    /// An fsync fails with EIO, and then the power is cut, with a seed as above.
    SyncFailsThenPowerCut(u64),
    /// Calls of these kinds fail with this error, for [`FAILS_FOR`].
    Fail {
        kinds: i64,
        error: i32,
    },
}

/// An error of the disk itself, as Linux numbers it.
pub const EIO: i32 = 5;

/// A disk that fails is mended after this.
const FAILS_FOR: Duration = Duration::from_millis(500);

/// The directory that an operation starts from, and the ledger that goes with it.
pub struct Template {
    dir: TempDir,
    ledger: Ledger,
}

/// The result of a run.
pub struct Run {
    pub account: Account,
    /// Calls on files from the time that it was armed.
    pub calls: i64,
    pub fired: bool,
}

impl Run {
    /// A run whose fault did not fire says nothing: it made fewer calls than the one that counted them.
    pub fn add_to(&self, row: &mut Row) {
        if self.fired {
            row.runs += 1;
            row.fired += 1;
            row.acknowledged += self.account.acknowledged;
            row.lost += self.account.lost.len();
            row.add_duplicates("death before the record", self.account.repeated_after_death);
        }
    }
}

/// Strikes of a row at most: `RECADO_MATRIX` of them, all if that says `full`.
pub fn strikes_max() -> usize {
    const USUAL: usize = 2;
    match std::env::var("RECADO_MATRIX").as_deref() {
        Err(_) => USUAL,
        Ok("full") => usize::MAX,
        Ok(count) => count.parse().expect("RECADO_MATRIX is a number, or `full`"),
    }
}

impl Scene {
    pub fn new(ledger: Ledger) -> Self {
        Scene::with(ledger, None)
    }

    /// One whose servers keep their jobs in this Redis.
    pub fn on_store(ledger: Ledger, url: String) -> Self {
        Scene::with(ledger, Some(url))
    }

    fn with(ledger: Ledger, store: Option<String>) -> Self {
        let address = ([127, 0, 0, 1], 0).into();
        let far_end = FarEnd::start();
        let place = Place::with(&far_end.lane());
        Scene { place, far_end, faults: Arc::new(Faults::new()), ledger: ledger.into(), address, store }
    }

    pub fn configure(&self, more: &str) {
        self.place.write("recado.toml", &(self.far_end.lane() + more));
    }

    /// Asks this server from now on.
    pub fn is_at(&mut self, server: &Server) {
        self.address = server.address;
    }

    pub fn data(&self) -> PathBuf {
        self.place.path().join(DATA)
    }

    /// A server that no fault strikes.
    pub fn serve(&self) -> Server {
        let mut command = self.serve_command();
        command.env("LIFE", AFTER);
        self.place.start(command)
    }

    fn serve_command(&self) -> Command {
        let mut command = self.place.serve_command();
        command.args(self.store.iter().flat_map(|url| ["--store", url]));
        command
    }

    /// A server that these faults strike, perhaps before it is ready.
    pub fn serve_struck(&self) -> Result<Server, String> {
        let mut command = self.serve_command();
        command.envs(self.faults.variables_on(&self.data())).env("LIFE", STRUCK);
        self.place.try_start(command)
    }

    pub fn arm(&self, strike: Option<Strike>) {
        match strike.map(|strike| (strike.at, strike.fault)) {
            None => self.faults.arm(None),
            Some((at, Fault::Kill(how))) => self.faults.arm(Some((at, how))),
            Some((at, Fault::PowerCut(_))) => self.faults.arm(Some((at, KillHow::Before))),
            Some((at, Fault::Fail { kinds, error })) => {
                self.faults.arm(None);
                self.faults.fail(kinds, error, at - 1);
            }
            Some((at, Fault::SyncFailsThenPowerCut(_))) => {
                self.faults.arm(None);
                self.faults.fail(calls::SYNC, EIO, at - 1);
            }
        }
    }

    /// Starts a server that is struck in the middle of an operation. Returns its calls on files; it is dead afterwards.
    fn act(&mut self, operation: &Operation, strike: Option<Strike>) -> i64 {
        if operation.is_armed_from_start {
            self.arm(strike);
        }
        let Ok(mut server) = self.serve_struck() else { return 0 };
        self.is_at(&server);
        if !operation.is_armed_from_start {
            self.arm(strike);
        }
        (operation.act)(self, &mut server);
        let calls = self.faults.calls();
        if let Some(strike) = strike {
            self.strike_at_last(&mut server);
            if matches!(strike.fault, Fault::SyncFailsThenPowerCut(_)) {
                // A server that has not ended by itself is cut off at its next call.
                self.faults.arm(Some((1, KillHow::Before)));
                self.until(&mut server, || {
                    self.enqueue("last", "deliver", &Value::Null);
                    None
                });
            }
        }
        calls
    }

    /// The operation may be over with fewer calls than last time: the server goes on working until it is struck. One
    /// that stops by itself is not.
    fn strike_at_last(&self, server: &mut Server) {
        for nth in 0..WORK_MAX {
            if !server.is_alive() || self.faults.fired("fail") > 0 {
                return;
            }
            self.enqueue(&format!("poke-{nth}"), "deliver", &Value::Null);
        }
    }

    /// A request to a server that may be dead by now.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        ask(self.address, method, path, body).ok()
    }

    /// Enqueues a job, and keeps what was said. Its path decides what the far end says.
    pub fn enqueue(&self, id: &str, path: &str, more: &Value) {
        let mut job = job(id, path);
        for (key, value) in more.as_object().into_iter().flatten() {
            job[key] = value.clone();
        }
        let answer = self.ask("POST", "/v1/jobs", &job);
        let mut ledger = self.ledger.lock();
        match answer {
            Some((200 | 202, _)) => {
                ledger.acknowledged.insert(id.to_owned());
                let Ledger { sent, seen_sent, .. } = &mut *ledger;
                sent.append(seen_sent);
            }
            Some((422, _)) => {
                ledger.refused.insert(id.to_owned());
            }
            // It refuses while it ends, or while its disk fails.
            Some((500..=599, _)) | None => ledger.unanswered += 1,
            Some((status, body)) => panic!("unexpected answer {status}: {body}"),
        }
    }

    /// Waits until the condition holds, or the server is dead.
    pub fn until(&self, server: &mut Server, mut condition: impl FnMut() -> Option<bool>) {
        eventually(|| condition() == Some(true) || !server.is_alive());
    }

    /// Posts a request until it is answered well or refused for good, or the server is dead.
    pub fn insist(&self, server: &mut Server, path: &str, body: &Value) {
        self.until(server, || Some(self.ask("POST", path, body)?.0 < 500));
    }

    /// The state of a job, as far as the server still says it.
    pub fn status(&self, id: &str) -> Option<String> {
        let (_, job) = self.ask("GET", &format!("/v1/jobs/{id}"), &Value::Null)?;
        let status = job["status"].as_str()?.to_owned();
        if status == "sent" {
            self.ledger.lock().seen_sent.insert(id.to_owned());
        }
        Some(status)
    }
}

pub fn job(id: &str, path: &str) -> Value {
    json!({ "jobId": id, "route": "sink", "companyId": "acme", "data": { "path": path, "body": { "id": id } } })
}

impl Template {
    /// Prepares what an operation needs, and stops the server the usual way.
    pub fn of(operation: &Operation) -> Self {
        let mut scene = Scene::new(Ledger::default());
        let dir = tempfile::tempdir().expect("a directory");
        if let Some(prepare) = operation.prepare {
            let server = scene.serve();
            scene.is_at(&server);
            prepare(&scene, &server);
            match operation.is_at_rest {
                true => server.stop(),
                // As `kill -9`: the next one finds the log as it was, with leases in it.
                false => drop(server),
            }
            copy(&scene.data(), &dir.path().join(DATA));
        }
        let ledger = scene.ledger.lock().clone();
        assert_eq!(ledger.unanswered, 0, "no fault was there yet");
        Template { dir, ledger }
    }

    /// A scene with a copy of the directory.
    pub fn scene(&self) -> Scene {
        let scene = Scene::new(self.ledger.clone());
        let from = self.dir.path().join(DATA);
        if from.exists() {
            copy(&from, &scene.data());
        }
        scene
    }

    /// Runs the operation in a copy of the directory, struck or not, and accounts for every job.
    pub fn run(&self, operation: &Operation, strike: Option<Strike>) -> Run {
        let mut scene = self.scene();
        scene.configure(operation.config);
        let image = match strike {
            Some(Strike { fault: Fault::PowerCut(seed) | Fault::SyncFailsThenPowerCut(seed), .. }) => {
                scene.faults.keep_journal();
                Some((power::Image::of(&scene.data()), seed))
            }
            _ => None,
        };
        let ended = AtomicBool::new(false);
        let calls = std::thread::scope(|threads| {
            let (faults, ended) = (scene.faults.clone(), &ended);
            threads.spawn(move || mend_after_a_while(&faults, ended));
            let calls = scene.act(operation, strike);
            ended.store(true, Ordering::SeqCst);
            calls
        });
        let fired = match strike.map(|strike| strike.fault) {
            Some(Fault::Fail { .. } | Fault::SyncFailsThenPowerCut(_)) => scene.faults.fired("fail") > 0,
            _ => scene.faults.fired("kill") > 0,
        };
        if let Some((image, seed)) = image {
            image.cut_power(&scene.faults.journal(), seed);
            // Of these the outcome may not have been on disk yet.
            scene.ledger.lock().seen_sent.clear();
        }
        scene.far_end.lets_go();
        let mut server = scene.serve();
        scene.is_at(&server);
        (operation.finish)(&scene, &mut server);
        let account = Account::of(&scene.ledger.lock(), &scene.far_end, &server);
        server.stop();
        let verified = scene.place.run(&["audit", "verify", "--json"]).json();
        assert_eq!(verified["findings"], json!([]), "{}: {verified}", operation.name);
        Run { account, calls, fired }
    }
}

fn mend_after_a_while(faults: &Faults, ended: &AtomicBool) {
    while faults.fired("fail") == 0 && !ended.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(5));
    }
    if faults.fired("fail") > 0 {
        std::thread::sleep(FAILS_FOR);
    }
    faults.mend();
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(copied.expect("cp").success());
}
