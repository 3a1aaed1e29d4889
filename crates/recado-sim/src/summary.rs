//! Figures over many seeds.

use std::collections::BTreeMap;

use crate::checker::{Verdict, Violation};
use crate::history::{Entry, Event};

/// Every kind of fault that can fire.
pub const FAULT_KINDS: [&str; 19] = [
    "bad network",
    "clock back",
    "clock forward",
    "full",
    "kill",
    "kill after a call",
    "kill before a call",
    "late call",
    "lost answer",
    "lost request",
    "move",
    "outage",
    "partition",
    "repeated request",
    "server away",
    "server loses writes",
    "server stalls",
    "standstill",
    "stop",
];

/// Totals over many runs.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub seeds: u64,
    pub virtual_ms: u64,
    pub acknowledged: u64,
    pub calls: u64,
    pub delivered: u64,
    pub dead_letters: u64,
    pub faults: BTreeMap<&'static str, u64>,
    pub duplicates: BTreeMap<&'static str, u64>,
    /// Seeds that failed, each with its violations.
    pub violations: Vec<(u64, Vec<Violation>)>,
}

impl Summary {
    pub fn add(&mut self, seed: u64, entries: &[Entry], verdict: Verdict) {
        self.seeds += 1;
        self.virtual_ms += entries.last().map_or(0, |entry| entry.at);
        for entry in entries {
            match &entry.event {
                Event::Acknowledged { .. } => self.acknowledged += 1,
                Event::Called(_) => self.calls += 1,
                Event::Found { status, .. } if status == "sent" => self.delivered += 1,
                Event::FoundDead { .. } => self.dead_letters += 1,
                Event::Fault { kind, .. } if FAULT_KINDS.contains(kind) => {
                    *self.faults.entry(kind).or_default() += 1;
                }
                _ => {}
            }
        }
        for (cause, count) in verdict.duplicates {
            *self.duplicates.entry(cause).or_default() += count;
        }
        if !verdict.violations.is_empty() {
            self.violations.push((seed, verdict.violations));
        }
    }

    pub fn merge(&mut self, other: Summary) {
        self.seeds += other.seeds;
        self.virtual_ms += other.virtual_ms;
        self.acknowledged += other.acknowledged;
        self.calls += other.calls;
        self.delivered += other.delivered;
        self.dead_letters += other.dead_letters;
        for (kind, count) in other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for (cause, count) in other.duplicates {
            *self.duplicates.entry(cause).or_default() += count;
        }
        self.violations.extend(other.violations);
        self.violations.sort_by_key(|(seed, _)| *seed);
    }

    /// Returns the kinds of faults that fired in none of the runs.
    pub fn unfired(&self) -> Vec<&'static str> {
        FAULT_KINDS.into_iter().filter(|kind| !self.faults.contains_key(kind)).collect()
    }

    pub fn to_json(&self) -> serde_json::Value {
        let violations: Vec<_> = self
            .violations
            .iter()
            .flat_map(|(seed, all)| all.iter().map(move |one| (seed, one)))
            .map(|(seed, one)| serde_json::json!({"seed": seed, "invariant": one.invariant, "atMs": one.at, "words": one.words}))
            .collect();
        serde_json::json!({
            "seeds": self.seeds,
            "virtualMs": self.virtual_ms,
            "acknowledged": self.acknowledged,
            "calls": self.calls,
            "delivered": self.delivered,
            "deadLetters": self.dead_letters,
            "faults": self.faults,
            "duplicates": self.duplicates,
            "violations": violations,
        })
    }
}
