//! Answers that clients got about their jobs, and the result of each.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::{Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;

use super::far_end::{Arrival, FarEnd};
use super::given::{Server, ask};
use super::nodes::{Addresses, job};

/// Time that everything that was taken in may take to end: several leases.
const PATIENCE: Duration = Duration::from_secs(90);

/// Every other job has time until then, so that there is always something that only the store knows of.
const LATER_MS: u64 = 1_000;

/// An outcome is written this soon after the far end has answered, or the fault comes before.
pub const SETTLED_WITHIN: Duration = Duration::from_millis(1_500);

/// A job that was claimed before Redis died may reach the far end this long after.
const CLAIMED_BEFORE: Duration = Duration::from_millis(500);

/// Between two jobs of a client.
const CLIENT_RESTS: Duration = Duration::from_millis(8);

#[derive(Debug, Default)]
pub struct Ledger {
    pub acknowledged: Mutex<HashMap<String, Acknowledged>>,
    pub refused: Mutex<HashSet<String>>,
    /// Requests that got no answer, or 503.
    pub moved_on: AtomicUsize,
}

/// When the request that was acknowledged left, and when its answer was here.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledged {
    pub asked: Instant,
    pub answered: Instant,
}

impl Ledger {
    /// Jobs that were acknowledged and have not been sent yet.
    pub fn waiting(&self, far_end: &FarEnd) -> usize {
        let sent: HashSet<_> = far_end.arrivals().into_iter().map(|arrival| arrival.key).collect();
        self.acknowledged.lock().keys().filter(|id| !sent.contains(*id)).count()
    }
}

/// Clients that enqueue until they are told to stop.
pub struct Clients {
    pub ledger: Arc<Ledger>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    pub fn start(count: usize, addresses: &Addresses) -> Self {
        let (ledger, stop) = (Arc::new(Ledger::default()), Arc::new(AtomicBool::new(false)));
        let threads = (0..count).map(|client| {
            let (addresses, ledger, stop) = (addresses.clone(), ledger.clone(), stop.clone());
            std::thread::spawn(move || enqueue(client, &addresses, &ledger, &stop))
        });
        Clients { threads: threads.collect(), ledger, stop }
    }

    pub fn stop(self) -> Arc<Ledger> {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().expect("the client went on to the end");
        }
        self.ledger
    }
}

/// Mostly good jobs, now and then one that must be refused. A client without an answer asks the next node,
/// under the same id.
fn enqueue(client: usize, addresses: &Addresses, ledger: &Ledger, stop: &AtomicBool) {
    let (mut nth, mut node) = (0_usize, client);
    while !stop.load(Ordering::SeqCst) {
        nth += 1;
        let bad = nth.is_multiple_of(20);
        let id = format!("{}-{client}-{nth}", if bad { "bad" } else { "job" });
        let mut job = job(&id, &format!("company-{client}"), if bad { "../escape" } else { "deliver" });
        if nth.is_multiple_of(2) {
            job["delayMs"] = LATER_MS.into();
        }
        while !stop.load(Ordering::SeqCst) {
            let address = {
                let addresses = addresses.lock();
                addresses[node % addresses.len()]
            };
            let asked = Instant::now();
            match ask(address, "POST", "/v1/jobs", &job) {
                Ok((200 | 202, _)) => {
                    let acknowledged = Acknowledged { asked, answered: Instant::now() };
                    ledger.acknowledged.lock().insert(id, acknowledged);
                    break;
                }
                Ok((422, _)) => {
                    ledger.refused.lock().insert(id);
                    break;
                }
                Ok((503, _)) | Err(_) => {
                    ledger.moved_on.fetch_add(1, Ordering::SeqCst);
                    node += 1;
                    std::thread::sleep(CLIENT_RESTS);
                }
                Ok((status, body)) => panic!("unexpected answer {status}: {body}"),
            }
        }
        std::thread::sleep(CLIENT_RESTS);
    }
}

/// A job that came once more.
#[derive(Debug)]
pub struct Repeat {
    pub before: Arrival,
    pub again: Arrival,
}

/// The result of every job.
#[derive(Debug)]
pub struct Account {
    pub acknowledged: usize,
    pub refused: usize,
    pub moved_on: usize,
    pub delivered: usize,
    pub repeats: Vec<Repeat>,
    /// Acknowledged, and neither delivered nor dead.
    pub lost: Vec<Acknowledged>,
}

impl Account {
    /// Waits until the store has nothing left to do, then compares what clients were told with what the far end has.
    #[track_caller]
    pub fn of(ledger: &Ledger, far_end: &FarEnd, server: &Server) -> Self {
        ended(server);
        let mut by_key: BTreeMap<String, Vec<Arrival>> = BTreeMap::new();
        for arrival in far_end.arrivals() {
            by_key.entry(arrival.key.clone()).or_default().push(arrival);
        }
        let refused = ledger.refused.lock();
        assert!(!refused.is_empty(), "some jobs were refused");
        for id in refused.iter() {
            assert!(!by_key.contains_key(id), "{id} was refused and delivered all the same");
        }
        let acknowledged = ledger.acknowledged.lock();
        let missing = acknowledged.iter().filter(|(id, _)| !by_key.contains_key(*id));
        let lost =
            missing.filter(|(id, _)| !is_dead(server, id)).map(|(_, acknowledged)| *acknowledged).collect();
        let repeats = by_key.values().flat_map(|came| {
            came.windows(2).map(|pair| Repeat { before: pair[0].clone(), again: pair[1].clone() })
        });
        Account {
            acknowledged: acknowledged.len(),
            refused: refused.len(),
            moved_on: ledger.moved_on.load(Ordering::SeqCst),
            delivered: by_key.len(),
            repeats: repeats.collect(),
            lost,
        }
    }

    #[track_caller]
    pub fn nothing_is_lost(&self) {
        assert!(self.acknowledged > 0, "something was acknowledged");
        assert_eq!(self.lost.len(), 0, "acknowledged, and neither delivered nor dead");
    }

    /// Allows what a Redis takes back when it dies at these moments: what was written so long before.
    #[track_caller]
    pub fn only_the_last_writes_are_gone(&self, died_at: &[Instant], taken_back: Duration) {
        for acknowledged in &self.lost {
            let Acknowledged { asked, answered } = *acknowledged;
            // Redis writes between the two.
            let explained = died_at.iter().any(|died| asked <= *died && *died < answered + taken_back);
            assert!(explained, "lost: {acknowledged:?}, but Redis died at {died_at:?}");
        }
        // A lease or an outcome that was lost is found out again by another attempt.
        for Repeat { before, again } in &self.repeats {
            let lasts = before.answered.map(|answered| answered + SETTLED_WITHIN + taken_back);
            let until = lasts.map_or(again.came, |lasts| lasts.min(again.came));
            let explained =
                died_at.iter().any(|died| before.came <= *died + CLAIMED_BEFORE && *died <= until);
            assert!(explained, "no loss explains {again:#?} after {before:#?}; Redis died at {died_at:?}");
        }
    }

    #[track_caller]
    pub fn nothing_is_repeated(&self) {
        assert!(self.repeats.is_empty(), "delivered twice without a cause: {:#?}", self.repeats);
    }
}

impl Display for Account {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Account { acknowledged, refused, moved_on, delivered, repeats, lost } = self;
        write!(
            f,
            "{acknowledged} acknowledged, {refused} refused, {moved_on} asked the next node, {delivered} delivered, \
             {} repeated, {} lost",
            repeats.len(),
            lost.len()
        )
    }
}

/// Dead, and it says why.
fn is_dead(server: &Server, id: &str) -> bool {
    let (status, entry) = server.ask("GET", &format!("/v1/dlq/{id}"), &Value::Null);
    status == 200 && entry["lastFailureReason"].as_str().is_some_and(|reason| !reason.is_empty())
}

#[track_caller]
fn ended(server: &Server) {
    let started = Instant::now();
    let open = |status: &str| {
        let list = server.get(&format!("/v1/jobs?status={status}&limit=1"));
        list["items"].as_array().is_some_and(|jobs| !jobs.is_empty())
    };
    while ["queued", "scheduled", "parked", "retrying", "delivering"].into_iter().any(open) {
        assert!(started.elapsed() < PATIENCE, "jobs are left after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
