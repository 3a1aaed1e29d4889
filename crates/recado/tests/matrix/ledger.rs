//! Answers to callers, and what became of their jobs.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use serde_json::Value;

use super::far_end::{Arrival, FarEnd};
use super::given::{Server, eventually};

/// The answers that callers got about their jobs.
#[derive(Clone, Default)]
pub struct Ledger {
    pub acknowledged: BTreeSet<String>,
    pub refused: BTreeSet<String>,
    /// Acknowledged and then cancelled, and that was acknowledged, too: they are never sent.
    pub cancelled: BTreeSet<String>,
    /// Acknowledged, and then erased, moved to the archive, or forgotten after they were sent. They need not be in the store.
    pub removed: BTreeSet<String>,
    /// Said to be sent, and a write was acknowledged after that: they are not sent again, whatever strikes.
    pub sent: BTreeSet<String>,
    /// Said to be sent, and no write was acknowledged since: a power cut may take that back.
    pub seen_sent: BTreeSet<String>,
    pub unanswered: usize,
}

/// A ledger that several callers write to.
pub type SharedLedger = Mutex<Ledger>;

/// The result of one run.
#[derive(Debug, Default)]
pub struct Account {
    pub acknowledged: usize,
    pub lost: Vec<String>,
    /// Sent once more, where the process died before it could record the first.
    pub repeated_after_death: usize,
    pub faults: Vec<String>,
}

impl Account {
    /// Waits until the store has nothing left to do, then compares.
    pub fn of(ledger: &Ledger, far_end: &FarEnd, server: &Server) -> Self {
        nothing_is_open(server, ledger);
        let mut account = Account { acknowledged: ledger.acknowledged.len(), ..Account::default() };
        let mut delivered: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for Arrival { key, life, .. } in far_end.arrivals().into_iter().filter(|arrival| arrival.is_delivered)
        {
            delivered.entry(key).or_default().push(life);
        }
        for id in ledger.refused.iter().filter(|id| delivered.contains_key(*id)) {
            account.faults.push(format!("{id} was refused and sent all the same"));
        }
        for id in ledger.cancelled.iter().filter(|id| delivered.contains_key(*id)) {
            account.faults.push(format!("{id} was cancelled and sent all the same"));
        }
        for id in ledger.acknowledged.difference(&ledger.removed) {
            match state_of(server, id) {
                State::Ended => {}
                State::Sent if delivered.contains_key(id) => {}
                State::Sent => account.faults.push(format!("{id} is said to be sent and never came")),
                State::Lost(why) => account.lost.push(format!("{id}: {why}")),
            }
        }
        for (id, lives) in &delivered {
            for pair in lives.windows(2) {
                match pair[0] != pair[1] && !ledger.sent.contains(id) && !ledger.seen_sent.contains(id) {
                    true => account.repeated_after_death += 1,
                    false => {
                        account.faults.push(format!("{id} was sent twice without a cause, by {lives:?}"))
                    }
                }
            }
        }
        account
    }

    #[track_caller]
    pub fn holds(&self, what: &str) {
        assert!(self.lost.is_empty(), "{what}: acknowledged and lost: {:?}", self.lost);
        assert!(self.faults.is_empty(), "{what}: {:?}", self.faults);
    }
}

enum State {
    Sent,
    /// Dead with a reason, cancelled or discarded.
    Ended,
    Lost(String),
}

fn state_of(server: &Server, id: &str) -> State {
    let (status, job) = server.ask("GET", &format!("/v1/jobs/{id}"), &Value::Null);
    match job["status"].as_str() {
        Some("sent") => State::Sent,
        Some("cancelled" | "discarded") => State::Ended,
        Some("failed") => {
            let (status, entry) = server.ask("GET", &format!("/v1/dlq/{id}"), &Value::Null);
            let has_reason = entry["lastFailureReason"].as_str().is_some_and(|reason| !reason.is_empty());
            match status == 200 && has_reason {
                true => State::Ended,
                false => State::Lost(format!("dead without a reason: {status} {entry}")),
            }
        }
        _ => State::Lost(format!("{status} {job}")),
    }
}

/// Waits until nothing is left to do: no job is in an open state, and each that was acknowledged is in no open one.
/// Jobs change their state between two questions, so neither alone tells.
#[track_caller]
fn nothing_is_open(server: &Server, ledger: &Ledger) {
    const OPEN: [&str; 5] = ["queued", "scheduled", "parked", "retrying", "delivering"];
    let has_none = |status: &&str| {
        let (_, list) = server.ask("GET", &format!("/v1/jobs?status={status}&limit=1"), &Value::Null);
        list["items"].as_array().is_some_and(Vec::is_empty)
    };
    eventually(|| OPEN.iter().all(has_none));
    for id in ledger.acknowledged.difference(&ledger.removed) {
        eventually(|| {
            let (status, job) = server.ask("GET", &format!("/v1/jobs/{id}"), &Value::Null);
            status < 500 && !OPEN.iter().any(|open| job["status"] == *open)
        });
    }
}
