//! Leases and turns, as the server gave them.

use std::collections::BTreeMap;

use super::Verdict;
use super::terms::TURN;
use super::timeline::Timeline;
use crate::history::Event;

/// A job has one lease at a time, and only its current token settles it.
pub fn a_job_has_one_lease(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    /// The token of a job's lease, and its end.
    type Current<'a> = BTreeMap<&'a str, (&'a str, u64)>;
    let mut current = Current::new();
    for entry in timeline.entries {
        match &entry.event {
            // What the server has now is not known here.
            Event::Fault { kind: "server loses writes" | "move", .. } => current.clear(),
            Event::Leased { leases, .. } => {
                for lease in leases {
                    let before = current.insert(&lease.job, (&lease.token, lease.until));
                    if let Some((token, until)) = before.filter(|(_, until)| *until > entry.at) {
                        let words = format!(
                            "{} was leased as {} while {token} lasted until {until} ms",
                            lease.job, lease.token
                        );
                        verdict.violate("a job has one lease", entry.at, words);
                    }
                }
            }
            Event::Extended { token, until } => {
                let held = current.values_mut().find(|(held, _)| held == token);
                held.into_iter().for_each(|(_, end)| *end = *until);
            }
            Event::Settled { job, token, done: true, .. } => match current.remove(job.as_str()) {
                Some((held, _)) if held != token => {
                    let words = format!("{job} was settled by {token} while {held} held it");
                    verdict.violate("a job has one lease", entry.at, words);
                }
                _ => {}
            },
            _ => {}
        }
    }
}

/// A company that waits with a job on a route waits for one turn of each other company at most, and for the claims that
/// were on their way when its job arrived.
pub fn companies_take_turns(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    if timeline.spans("clock").next().is_some() || !timeline.losses.is_empty() || !timeline.moves.is_empty() {
        return;
    }
    /// The job that waits, since when, and the jobs that each other company got meanwhile.
    type Waiting<'a> = (&'a str, u64, BTreeMap<&'a str, usize>);
    // By route and company.
    let mut waiting: BTreeMap<(&str, &str), Waiting<'_>> = BTreeMap::new();
    for entry in timeline.entries {
        match &entry.event {
            Event::Stored { job, company, route, delay_ms: 0, .. } => {
                waiting.entry((route, company)).or_insert((job, entry.at, BTreeMap::new()));
            }
            Event::Cancelled { job } => waiting.retain(|_, (waits, ..)| *waits != job.as_str()),
            Event::Leased { route, asked, held, leases, .. } => {
                for lease in leases {
                    // An overdue job is taken from all lanes.
                    waiting.retain(|_, (waits, ..)| *waits != lease.job.as_str());
                    waiting.remove(&(route.as_str(), lease.company.as_str()));
                    for ((lane, company), (job, since, turns)) in &mut waiting {
                        let is_held = held.iter().any(|held| held == company);
                        if *lane != route.as_str() || is_held || asked < since {
                            continue;
                        }
                        let turn = turns.entry(&lease.company).or_default();
                        *turn += 1;
                        if *turn == TURN + 1 {
                            let words = format!(
                                "{job} of {company} waits on {lane} while {} had more than a turn",
                                lease.company
                            );
                            verdict.violate("companies take turns", entry.at, words);
                        }
                    }
                }
            }
            _ => {}
        }
    }
}
