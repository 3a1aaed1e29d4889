//! Counters of one shard since they were last carried over: a fact lands here first.

use std::collections::HashMap;

use recado_core::breaker::Swing;
use recado_core::reason::clip;
use recado_core::{AttemptResult, Cause, Timestamp};

use crate::counters::{
    CLASSES, CodeTally, CompanyTally, DECILES, IncidentTally, NUMBERS, NumberTally, RESULTS, RouteTally,
    RouteTotals, StoreTally, Sum, place,
};
use crate::fact::{AttemptEnded, Backoff, Decided, Ending, Fact, Hold, Left, StoreWork};
use crate::histogram::{Spread, Talks};
use crate::ledger::Routes;

/// Names from outside that a sheet holds before it is carried over early.
const NAMES_MAX: usize = 1_000;

/// Bytes of an error code that are told apart: codes come from providers and workers.
const CODE_LEN_MAX_BYTES: usize = 64;

/// The code of a failure without one.
const NO_CODE: &str = "none";

#[derive(Debug, Default)]
pub struct Sheet {
    pub routes: Vec<RouteSheet>,
    pub numbers: NumberTally,
    pub companies: HashMap<Box<str>, CompanyTally>,
    pub codes: HashMap<Box<str>, CodeTally>,
    pub incidents: IncidentTally,
    pub store: StoreTally,
    pub swings: HashMap<Box<str>, [u64; 3]>,
    pub paths: HashMap<Box<str>, PathTally>,
}

#[derive(Clone, Debug, Default)]
pub struct RouteSheet {
    pub touched: bool,
    pub tally: RouteTally,
    pub totals: RouteTotals,
}

/// Answers given for one pattern of the API.
#[derive(Clone, Debug, Default)]
pub struct PathTally {
    /// By method and status; a handful.
    pub answers: Vec<((&'static str, u16), u64)>,
    pub talks: Spread<Talks>,
}

impl PathTally {
    fn answer(&mut self, method: &'static str, status: u16, count: u64) {
        match self.answers.iter_mut().find(|(kind, _)| *kind == (method, status)) {
            Some((_, known)) => *known += count,
            None => self.answers.push(((method, status), count)),
        }
    }

    pub fn add(&mut self, other: &Self) {
        other.answers.iter().for_each(|((method, status), count)| self.answer(method, *status, *count));
        self.talks.add(&other.talks);
    }
}

pub const SWINGS: [Swing; 3] = [Swing::Opened, Swing::HalfOpened, Swing::Closed];

impl Sheet {
    pub fn new(routes: usize) -> Self {
        Sheet { routes: vec![RouteSheet::default(); routes], ..Sheet::default() }
    }

    pub fn is_full(&self) -> bool {
        self.companies.len().max(self.codes.len()).max(self.paths.len()).max(self.swings.len()) >= NAMES_MAX
    }

    pub fn note(&mut self, fact: &Fact<'_>, routes: &Routes, now: Timestamp) {
        match *fact {
            Fact::Accepted { route, jobs } => self.route(routes, route).tally.accepted += jobs,
            Fact::AttemptEnded(ref attempt) => self.attempt(attempt, routes),
            Fact::JobEnded { route, company, ending, attempts, retried, since_first_try } => {
                let sheet = self.route(routes, route);
                let tally = &mut sheet.tally;
                match ending {
                    Ending::Sent => {
                        tally.sent += 1;
                        tally.attempts_of_sent += u64::from(attempts);
                        tally.retried_sent += u64::from(retried);
                        if let Some(since) = since_first_try.filter(|_| retried) {
                            tally.recoveries.note_time(since);
                        }
                    }
                    Ending::Buried { cause, code } => {
                        let exhausted = cause == Cause::Exhausted;
                        tally.buried += 1;
                        tally.exhausted += u64::from(exhausted);
                        tally.retried_buried += u64::from(retried);
                        tally.retried_exhausted += u64::from(retried && exhausted);
                        sheet.totals.causes[place(cause, &Cause::ALL)] += 1;
                        named(&mut self.companies, company).buried += 1;
                        named(&mut self.codes, code_label(code)).buried += 1;
                    }
                    Ending::Cancelled => tally.cancelled += 1,
                }
            }
            Fact::DeadLetterLeft { how, moved_at } => {
                self.store.left[place(how, &Left::ALL)] += 1;
                self.store.ages.note_time(now.since(moved_at));
                self.incidents.archived += u64::from(how == Left::Archived);
            }
            Fact::Decided { route, class, decided } => {
                let tally = &mut self.route(routes, route).tally;
                tally.decisions += 1;
                tally.classes[place(class, &CLASSES)] += 1;
                match decided {
                    Decided::Retry(backoff) => retry(tally, backoff),
                    Decided::MaxRetriesExceeded => tally.exhausted += 1,
                    Decided::PermanentError => {}
                }
            }
            Fact::BreakerSwung { provider, swing } => {
                named(&mut self.swings, provider)[place(swing, &SWINGS)] += 1;
            }
            Fact::HeldBack { route, why, lasted } => {
                let totals = &mut self.route(routes, route).totals;
                let why = place(why, &Hold::ALL);
                totals.holds[why] += 1;
                totals.held_micros[why] += u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX);
            }
            Fact::StoreWorked { work, took } => {
                self.store.works[place(work, &StoreWork::ALL)].note_time(took);
            }
            Fact::Committed { requests } => self.store.commits.note(requests),
            Fact::WritesRejected { writes } => self.incidents.writes_rejected += writes,
            Fact::Served { method, path, status, took } => {
                let path = named(&mut self.paths, path);
                path.answer(method_label(method), status, 1);
                path.talks.note_time(took);
            }
        }
    }

    fn attempt(&mut self, attempt: &AttemptEnded<'_>, routes: &Routes) {
        let sheet = self.route(routes, attempt.route);
        if attempt.result == AttemptResult::Lost {
            // The delivering process vanished: that says nothing about the provider.
            sheet.tally.lost += 1;
            return;
        }
        let sent = attempt.result == AttemptResult::Sent;
        let tally = &mut sheet.tally;
        tally.results[place(attempt.result, &RESULTS)] += 1;
        tally.processing.note_time(attempt.lag + attempt.took);
        sheet.totals.talks.note_time(attempt.took);
        if let Some(failure) = attempt.failure {
            tally.classes[place(failure.class, &CLASSES)] += 1;
        }
        if let Some(backoff) = attempt.retry {
            retry(tally, backoff);
        }
        if let Some(failure) = attempt.failure {
            named(&mut self.codes, code_label(failure.code)).errors += 1;
        }
        let number = (attempt.number.max(1) as usize).min(NUMBERS) - 1;
        self.numbers.ended[number] += 1;
        self.numbers.sent[number] += u64::from(sent);
        let company = named(&mut self.companies, attempt.company);
        company.attempts += 1;
        company.failed += u64::from(!sent);
    }

    fn route(&mut self, routes: &Routes, name: &str) -> &mut RouteSheet {
        let sheet = &mut self.routes[routes.place(name)];
        sheet.touched = true;
        sheet
    }
}

fn retry(tally: &mut RouteTally, backoff: Backoff) {
    tally.delays.note_time(backoff.delay);
    tally.at_cap += u64::from(backoff.at_cap);
    if let Some(position) = backoff.position {
        let decile = (position.clamp(0.0, 1.0) * DECILES as f64) as usize;
        tally.jitter[decile.min(DECILES - 1)] += 1;
    }
}

/// The entry of a name, which is copied only the first time.
pub fn named<'m, V: Default>(map: &'m mut HashMap<Box<str>, V>, name: &str) -> &'m mut V {
    if !map.contains_key(name) {
        map.insert(name.into(), V::default());
    }
    map.get_mut(name).expect("it was put there")
}

fn code_label(code: Option<&str>) -> &str {
    code.map(|code| clip(code, CODE_LEN_MAX_BYTES)).filter(|code| !code.is_empty()).unwrap_or(NO_CODE)
}

/// Callers may send any word as a method.
fn method_label(method: &str) -> &'static str {
    const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    METHODS.into_iter().find(|known| *known == method).unwrap_or(crate::OTHER)
}
