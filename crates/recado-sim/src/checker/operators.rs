//! Invariants of operators' acts.

use std::collections::{BTreeMap, BTreeSet};

use super::Verdict;
use super::terms::{ACT_MAX, AGREE_BOUND, PAUSE_BOUND, STOP_MAX};
use super::timeline::Timeline;
use crate::history::{Act, Entry, Event, NodeChange, Settlement};

/// A pause from an operator's answer to the next request to resume, or until the server lost it.
struct Pause<'a> {
    act: Act,
    subject: &'a str,
    from: u64,
    to: u64,
}

fn pauses<'a>(timeline: &Timeline<'a>) -> Vec<Pause<'a>> {
    let resumes = |act: Act| match act {
        Act::PauseProvider => Some(Act::ResumeProvider),
        Act::PauseRoute => Some(Act::ResumeRoute),
        Act::PauseCompany => Some(Act::ResumeCompany),
        _ => None,
    };
    let mut pauses = Vec::new();
    for (place, Entry { at, event }) in timeline.entries.iter().enumerate() {
        let Event::Acted { act, subject } = event else { continue };
        let Some(resume) = resumes(*act) else { continue };
        // A request to resume that began before this answer may still take effect.
        let is_resumed = |entry: &&Entry| matches!(&entry.event, Event::Asked { act, subject: name } if *act == resume && name == subject);
        let mut asked = timeline.entries[..place].iter().rev().take_while(|entry| entry.at + ACT_MAX >= *at);
        if asked.any(|entry| is_resumed(&entry)) {
            continue;
        }
        let resumed =
            timeline.entries[place..].iter().find(is_resumed).map_or(timeline.ended_at, |entry| entry.at);
        // The write was made some time before the answer.
        let lost =
            timeline.losses.iter().filter(|(_, lost)| lost + ACT_MAX >= *at).map(|(_, lost)| *lost).min();
        let to = resumed.min(lost.unwrap_or(u64::MAX));
        pauses.push(Pause { act: *act, subject, from: *at, to });
    }
    pauses
}

/// A paused subject is claimed and sent by no node, from a bound after the operator's answer on.
pub fn pauses_are_obeyed(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for pause in pauses(timeline) {
        let name = pause.subject;
        for entry in timeline.entries.iter().filter(|entry| (pause.from..pause.to).contains(&entry.at)) {
            let (node, what) = match &entry.event {
                Event::Leased { route, node, leases, .. } if !route.starts_with('(') => {
                    let breaks = |lease: &&crate::history::Lease| match pause.act {
                        Act::PauseRoute => route == name,
                        Act::PauseCompany => lease.company == name,
                        _ => lease.provider.as_deref() == Some(name),
                    };
                    let Some(lease) = leases.iter().find(breaks) else { continue };
                    (node, &lease.job)
                }
                _ => continue,
            };
            if entry.at > pause.from.max(timeline.troubled_until(node, entry.at)) + PAUSE_BOUND {
                let words = format!("{name} is paused since {} ms, and {node} claimed {what}", pause.from);
                verdict.violate("pauses are obeyed", entry.at, words);
                break;
            }
        }
    }
}

/// All nodes take the same for paused as the store, a bound after the last trouble.
pub fn nodes_agree(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for entry in timeline.entries {
        let Event::View { node, paused, in_store } = &entry.event else { continue };
        let changed = timeline.entries.iter().filter(|other| other.at <= entry.at).rev().find_map(|other| {
            matches!(&other.event, Event::Asked { .. } | Event::Acted { .. }).then_some(other.at)
        });
        let last = timeline.troubled_until(node, entry.at).max(changed.unwrap_or(0));
        if paused != in_store && entry.at > last + AGREE_BOUND {
            let words = format!("{node} takes {paused:?} for paused, and the store says {in_store:?}");
            verdict.violate("nodes agree", entry.at, words);
        }
    }
}

/// Each act that an operator was told is done, and each outcome that the store took, has its record.
pub fn acts_and_outcomes_are_on_record(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    let (mut records, mut expected) = (BTreeMap::new(), BTreeMap::new());
    let mut last = 0;
    for Entry { at, event } in timeline.entries {
        match event {
            Event::Audit { number, kind, job, subject } => {
                if *number <= last {
                    verdict.violate("acts are on record", *at, format!("record {number} comes after {last}"));
                }
                last = *number;
                let about = job.as_deref().unwrap_or(subject);
                *records.entry((kind.as_str(), about)).or_insert(0_u64) += 1;
            }
            // The trail was read before.
            _ if last > 0 => {}
            _ if timeline.has_lost_writes(at.saturating_sub(ACT_MAX), *at + 1) => {}
            Event::Acted { act, subject } => {
                let kind = match act {
                    Act::PauseProvider => "PROVIDER_PAUSED",
                    Act::ResumeProvider => "PROVIDER_RESUMED",
                    Act::PauseRoute => "ROUTE_PAUSED",
                    Act::ResumeRoute => "ROUTE_RESUMED",
                    Act::PauseCompany => "TENANT_PAUSED",
                    Act::ResumeCompany => "TENANT_RESUMED",
                    Act::Cancel => "CANCELLED",
                    Act::LiftHold => "HOLD_LIFTED",
                    // Counted where the store did them.
                    Act::Replay | Act::Discard => continue,
                };
                *expected.entry((kind, subject.as_str())).or_insert(0) += 1;
            }
            Event::Settled { job, what, done: true, .. } => {
                let kind = match what {
                    Settlement::Deliver => "DELIVERED",
                    Settlement::Retry => "RETRY_SCHEDULED",
                    Settlement::Bury => "BURIED",
                    Settlement::Lost => "LEASE_LOST",
                    Settlement::Postpone | Settlement::Release => continue,
                };
                *expected.entry((kind, job.as_str())).or_insert(0) += 1;
            }
            Event::Replayed { job, .. } => *expected.entry(("REPLAYED", job.as_str())).or_insert(0) += 1,
            Event::Discarded { job, .. } => *expected.entry(("DISCARDED", job.as_str())).or_insert(0) += 1,
            _ => {}
        }
    }
    for ((kind, about), count) in expected {
        let found = records.get(&(kind, about)).copied().unwrap_or(0);
        if found < count {
            let words = format!("{count} times {kind} of {about}, and {found} records of it");
            verdict.violate("acts are on record", timeline.ended_at, words);
        }
    }
}

/// The times at which a job was in the dead letter queue, and at which it was dead there, not on its way again.
fn times_in_queue<'a>(timeline: &Timeline<'a>) -> BTreeMap<&'a str, Vec<(u64, u64)>> {
    let mut times: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for (job, events) in &timeline.by_job {
        let mut since = None;
        for (at, event) in events {
            match event {
                Event::Settled { what: Settlement::Bury, done: true, .. } => since = since.or(Some(*at)),
                Event::Settled { what: Settlement::Deliver, done: true, .. } | Event::Discarded { .. } => {
                    times.entry(job).or_default().extend(since.take().map(|since| (since, *at)));
                }
                _ => {}
            }
        }
        times.entry(job).or_default().extend(since.map(|since| (since, timeline.ended_at)));
    }
    times
}

/// A walk through all pages shows each entry once that was there from its beginning to its end.
pub fn walks_show_everything_once(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    let mut walks: BTreeMap<u64, (u64, Vec<&str>)> = BTreeMap::new();
    let in_queue = times_in_queue(timeline);
    for Entry { at, event } in timeline.entries {
        match event {
            Event::WalkBegan { walk } => drop(walks.insert(*walk, (*at, Vec::new()))),
            Event::WalkShowed { walk, job } => {
                if let Some((_, shown)) = walks.get_mut(walk) {
                    shown.push(job);
                }
            }
            Event::WalkEnded { walk } => {
                let Some((began_at, shown)) = walks.remove(walk) else { continue };
                if timeline.has_lost_writes(began_at, *at) || timeline.has_moved(began_at, *at) {
                    continue;
                }
                for (job, times) in &in_queue {
                    let was_there = times.iter().any(|(from, to)| *from < began_at && *to > *at);
                    let count = shown.iter().filter(|one| *one == job).count();
                    if was_there && count != 1 && !timeline.has_lost_writes(0, began_at) {
                        let words = format!(
                            "{job} was in the queue all along, and walk {walk} showed it {count} times"
                        );
                        verdict.violate("walks show everything once", *at, words);
                    }
                }
            }
            _ => {}
        }
    }
}

/// A bulk act that says that it is done has visited each entry that was dead when it was asked for.
pub fn bulk_acts_visit_every_entry(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    if timeline.spans("clock").next().is_some() || !timeline.losses.is_empty() {
        return;
    }
    let mut companies: BTreeMap<&str, &str> = BTreeMap::new();
    let mut running = BTreeMap::new();
    let in_queue = times_in_queue(timeline);
    for Entry { at, event } in timeline.entries {
        match event {
            Event::Stored { job, company, .. } => drop(companies.insert(job, company)),
            Event::BulkBegan { bulk, company, asked_at } => {
                running.insert(bulk, (company, *asked_at));
            }
            Event::BulkEnded { bulk, state, .. } => {
                let Some((company, asked_at)) = running.remove(bulk) else { continue };
                if state != "done" {
                    continue;
                }
                for (job, times) in &in_queue {
                    let is_chosen =
                        company.as_deref().is_none_or(|company| companies.get(job) == Some(&company));
                    let was_there = times.iter().any(|(from, to)| *from + 1_000 < asked_at && *to > *at);
                    if is_chosen && was_there && !was_touched(timeline, job, asked_at, *at) {
                        let words =
                            format!("{job} was dead before bulk act {bulk} and was not touched by it");
                        verdict.violate("bulk acts visit every entry", *at, words);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns true if a dead letter was replayed between these times, or on its way when they began.
fn was_touched(timeline: &Timeline<'_>, job: &str, from: u64, to: u64) -> bool {
    let mut is_replaying = false;
    for (at, event) in timeline.by_job.get(job).into_iter().flatten().filter(|(at, _)| *at <= to) {
        match event {
            Event::Replayed { .. } if *at >= from => return true,
            Event::Replayed { .. } => is_replaying = true,
            Event::Settled { what: Settlement::Bury, done: true, .. } | Event::Cancelled { .. }
                if *at < from =>
            {
                is_replaying = false;
            }
            _ => {}
        }
    }
    is_replaying
}

/// A stop ends within its bound.
pub fn stops_end(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    let mut asked: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    let mut killed = BTreeSet::new();
    for Entry { at, event } in timeline.entries {
        let Event::Node { node, life, what } = event else { continue };
        match what {
            NodeChange::StopAsked => drop(asked.insert((node, *life), *at)),
            NodeChange::Killed => drop(killed.insert((node.as_str(), *life))),
            NodeChange::Stopped { .. } => {
                let Some(since) = asked.remove(&(node.as_str(), *life)) else { continue };
                if at - since > STOP_MAX {
                    let words = format!("the stop of {node} took {} ms", at - since);
                    verdict.violate("stops end", *at, words);
                }
            }
            NodeChange::Started => {}
        }
    }
    for ((node, life), since) in asked {
        if !killed.contains(&(node, life)) && timeline.ended_at - since > STOP_MAX {
            let words = format!("the stop of {node} that was asked for at {since} ms has not ended");
            verdict.violate("stops end", timeline.ended_at, words);
        }
    }
}
