//! All counts in one place: what the sheets are carried over to, and what is read.

use std::collections::HashMap;

use recado_core::Timestamp;

use crate::OTHER;
use crate::counters::{
    CodeTally, CompanyTally, IncidentTally, NumberTally, RouteTally, RouteTotals, StoreTally, Sum,
};
use crate::history::History;
use crate::shard_counters::{PathTally, RouteSheet, Sheet, named};
use crate::top_k::Seats;

/// Patterns of the API, and providers, that are told apart. Both come from configuration; this is for the
/// day when they do not.
const NAMES_MAX: usize = 200;

#[derive(Debug)]
pub struct Book {
    /// As [`crate::ledger::Routes`] orders them.
    pub routes: Vec<(History<RouteTally>, RouteTotals)>,
    pub numbers: History<NumberTally>,
    pub companies: Seats<CompanyTally>,
    pub codes: Seats<CodeTally>,
    pub incidents: History<IncidentTally>,
    pub store: StoreTally,
    pub swings: HashMap<Box<str>, [u64; 3]>,
    pub paths: HashMap<Box<str>, PathTally>,
}

impl Book {
    pub fn new(routes: usize) -> Self {
        Book {
            routes: vec![Default::default(); routes],
            numbers: History::default(),
            companies: Seats::default(),
            codes: Seats::default(),
            incidents: History::default(),
            store: StoreTally::default(),
            swings: HashMap::new(),
            paths: HashMap::new(),
        }
    }

    /// Carries a sheet over, and leaves it blank.
    pub fn enter(&mut self, sheet: &mut Sheet, at: Timestamp) {
        for (sheet, (history, totals)) in sheet.routes.iter_mut().zip(&mut self.routes) {
            if sheet.touched {
                history.enter(at, &sheet.tally);
                totals.add(&sheet.totals);
                *sheet = RouteSheet::default();
            }
        }
        enter(&mut self.numbers, &mut sheet.numbers, at);
        enter(&mut self.incidents, &mut sheet.incidents, at);
        self.store.add(&std::mem::take(&mut sheet.store));
        for (name, tally) in sheet.companies.drain() {
            self.companies.enter(&name, at, &tally, tally.attempts + tally.buried);
        }
        for (name, tally) in sheet.codes.drain() {
            self.codes.enter(&name, at, &tally, tally.errors + tally.buried);
        }
        for (provider, swings) in sheet.swings.drain() {
            bounded(&mut self.swings, &provider).add(&swings);
        }
        for (path, tally) in sheet.paths.drain() {
            bounded(&mut self.paths, &path).add(&tally);
        }
    }
}

fn enter<C: Sum + PartialEq>(history: &mut History<C>, counts: &mut C, at: Timestamp) {
    let counts = std::mem::take(counts);
    if counts != C::default() {
        history.enter(at, &counts);
    }
}

fn bounded<'m, V: Default>(map: &'m mut HashMap<Box<str>, V>, name: &str) -> &'m mut V {
    let known = map.contains_key(name) || map.len() < NAMES_MAX;
    named(map, if known { name } else { OTHER })
}
