//! Invariants of jobs and their deliveries.

use std::collections::BTreeSet;

use super::Verdict;
use super::terms::{HOLD_MAX, LEASE, PROMPT, RETRIED, SCHEDULED};
use super::timeline::{Request, Span, Timeline};
use crate::history::{Act, Answer, Entry, Event, NodeChange, Settlement};

/// An acknowledged job is in the store in the end, unless the server lost the writes of that time.
pub fn acknowledged_is_never_lost(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for (job, events) in &timeline.by_job {
        let mut acknowledged = events.iter().filter(|(_, event)| matches!(event, Event::Acknowledged { .. }));
        // Only the last write counts: what was lost may have been asked for again.
        let Some((at, _)) = acknowledged.next_back() else { continue };
        let is_found = events.iter().any(|(_, event)| matches!(event, Event::Found { .. }));
        let mut stored = events.iter().filter(|(_, event)| matches!(event, Event::Stored { .. }));
        let is_lost = stored.next_back().is_some_and(|(at, _)| timeline.is_lost(*at));
        if !is_found && !is_lost {
            verdict.violate("acknowledged is never lost", *at, format!("{job} was acknowledged and is gone"));
        }
    }
}

/// A delivery carries what was accepted under this id, with this data, or put in its place by a replay.
pub fn refused_is_never_sent(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for (job, requests) in &timeline.requests {
        let events = timeline.by_job.get(job).map(Vec::as_slice).unwrap_or_default();
        let accepted: BTreeSet<&str> = events
            .iter()
            .filter_map(|(_, event)| match event {
                Event::Stored { data, .. } | Event::Replayed { data: Some(data), .. } => Some(data.as_str()),
                _ => None,
            })
            .collect();
        for request in requests {
            if !accepted.contains(request.call.data.as_str()) {
                let words = format!("{job} went out with {}, which was not accepted", request.call.data);
                verdict.violate("refused is never sent", request.at, words);
            }
            if request.call.key != **job {
                let words = format!("{job} went out under the key {}", request.call.key);
                verdict.violate("refused is never sent", request.at, words);
            }
        }
    }
}

/// A job that was sent, cancelled or discarded is leased and sent no more.
pub fn terminal_is_final(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for (job, events) in &timeline.by_job {
        let (mut ended, mut is_dead) = (None, false);
        for (at, event) in events {
            match event {
                Event::Settled { what: Settlement::Bury, done: true, .. } => is_dead = true,
                Event::Settled { what: Settlement::Deliver, done: true, .. } | Event::Discarded { .. } => {
                    (ended, is_dead) = (Some(*at), false);
                }
                // A replay that is called off leaves a dead letter.
                Event::Cancelled { .. } if !is_dead => ended = Some(*at),
                Event::Stored { .. } => ended = None,
                _ => {}
            }
            let Some(since) = ended else { continue };
            let is_excused = timeline.has_lost_writes(since, *at);
            match event {
                Event::Leased { .. } if !is_excused => {
                    let words = format!("{job} ended at {since} ms and was leased again");
                    verdict.violate("terminal is final", *at, words);
                }
                // A worker that was late got its job before.
                Event::Called(call)
                    if !is_excused
                        && call.node != "worker"
                        && !timeline.was_cut_off(&call.node, since, *at) =>
                {
                    let words = format!("{job} ended at {since} ms and {} sent it again", call.node);
                    verdict.violate("terminal is final", *at, words);
                }
                _ => {}
            }
        }
    }
}

/// Each delivery that happened again has a cause of the closed list in docs/guarantees.md.
pub fn duplicates_have_an_allowed_cause(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for (job, requests) in &timeline.requests {
        for pair in requests.windows(2) {
            let (first, second) = (&pair[0], &pair[1]);
            if !first.call.takes {
                continue;
            }
            match cause(timeline, job, first, second) {
                Some(cause) => *verdict.duplicates.entry(cause).or_default() += 1,
                None => {
                    let (one, other) = (&first.call, &second.call);
                    let words = format!(
                        "{job} was delivered by {} at {} ms and sent again by {} at {} ms without an allowed cause",
                        one.node, first.at, other.node, second.at
                    );
                    verdict.violate("duplicates have an allowed cause", second.at, words);
                }
            }
        }
    }
}

fn cause(
    timeline: &Timeline<'_>,
    job: &str,
    first: &Request<'_>,
    second: &Request<'_>,
) -> Option<&'static str> {
    let call = first.call;
    let between = |at: u64| (first.at..=second.at).contains(&at);
    let of_its_process = |wanted: fn(&NodeChange) -> bool| {
        timeline.entries.iter().any(|entry| match &entry.event {
            Event::Node { node, life, what } => {
                *node == call.node && *life == call.life && between(entry.at) && wanted(what)
            }
            _ => false,
        })
    };
    let events = timeline.by_job.get(job)?;
    let was_replayed = |(at, event): &(u64, &Event)| between(*at) && matches!(event, Event::Replayed { .. });
    if events.iter().any(was_replayed) {
        return Some("replayed by a person");
    }
    if matches!(first.answer, Some((_, Answer::Lost | Answer::Timeout, _))) {
        return Some("answer lost");
    }
    if of_its_process(|what| *what == NodeChange::Killed) {
        return Some("process died");
    }
    if of_its_process(|what| *what == NodeChange::Stopped { clean: false }) {
        return Some("stop without an end");
    }
    if timeline.has_lost_writes(first.at, second.at) {
        return Some("server lost writes");
    }
    if had_lost_lease(timeline, events, first) {
        return Some("server lost the lease");
    }
    if timeline.has_moved(first.at, second.at) {
        return Some("moved");
    }
    if call.node == "worker" {
        return Some("worker lost its lease");
    }
    let cut_off =
        [&call.node, &second.call.node].iter().any(|node| timeline.was_cut_off(node, first.at, second.at));
    cut_off.then_some("node cut off")
}

/// Returns true if a request was made under a lease that the server lost before, with the writes of that time: it gives
/// the job to another claim, and the holder of the lost lease cannot know. A holder extends its lease before it ends, and
/// so sends nothing later than that.
fn had_lost_lease(timeline: &Timeline<'_>, events: &[(u64, &Event)], request: &Request<'_>) -> bool {
    events.iter().any(|(at, event)| {
        matches!(event, Event::Leased { node, .. } if *node == request.call.node)
            && (*at..=*at + LEASE).contains(&request.at)
            && timeline.is_lost(*at)
    })
}

/// A job that one provider may have goes to no other, until a person replays it.
pub fn what_may_have_arrived_stays_with_its_provider(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for (job, requests) in &timeline.requests {
        let mut held_by: Option<&Request<'_>> = None;
        for request in requests {
            let events = timeline.by_job.get(job).map(Vec::as_slice).unwrap_or_default();
            if let Some(earlier) = held_by {
                let between = earlier.at..=request.at;
                let is_freed = events
                    .iter()
                    .any(|(at, event)| between.contains(at) && matches!(event, Event::Replayed { .. }));
                if is_freed || timeline.has_lost_writes(earlier.at, request.at) {
                    held_by = None;
                } else if earlier.call.provider != request.call.provider {
                    let words = format!(
                        "{job} may be at {} since {} ms and was sent to {}",
                        earlier.call.provider, earlier.at, request.call.provider
                    );
                    verdict.violate("what may have arrived stays with its provider", request.at, words);
                }
            }
            if held_by.is_none() && request.is_uncertain() {
                held_by = Some(request);
            }
        }
    }
}

/// A retry waits as long as the policy and the provider's answer say.
pub fn retries_are_never_early(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for (job, requests) in &timeline.requests {
        let events = timeline.by_job.get(job).map(Vec::as_slice).unwrap_or_default();
        for pair in requests.windows(2) {
            let Some((answered_at, answer, wait)) = pair[0].answer else { continue };
            let next_at = pair[1].at;
            let between = answered_at..=next_at;
            let settled =
                events.iter().filter(|(at, _)| between.contains(at)).find_map(|(_, event)| match event {
                    Event::Settled { what, done: true, .. } => Some(*what),
                    _ => None,
                });
            let is_free = events
                .iter()
                .any(|(at, event)| between.contains(at) && matches!(event, Event::Replayed { .. }));
            let was_lifted = timeline.entries.iter().any(|entry| {
                between.contains(&entry.at)
                    && matches!(
                        &entry.event,
                        Event::Asked { act: Act::LiftHold, .. } | Event::Acted { act: Act::LiftHold, .. }
                    )
            });
            // A worker that lost its lease may still deliver: that is a repetition, not a retry.
            let is_of_old_lease = pair[1].call.attempt <= pair[0].call.attempt;
            if settled != Some(Settlement::Retry)
                || is_of_old_lease
                || is_free
                || was_lifted
                || timeline.has_clock_trouble(pair[0].at, next_at)
                || timeline.has_lost_writes(answered_at, next_at)
            {
                continue;
            }
            // A hold on a receiver has a longest time, counted from its first answer.
            let first_at = match answer {
                Answer::TooMany => first_of_hold(timeline, &pair[0], answered_at, wait),
                _ => answered_at,
            };
            // The wall clock has whole milliseconds.
            if next_at + 1 < first_at + wait {
                let words = format!(
                    "{job} was answered {answer:?} at {answered_at} ms, had to wait {wait} ms, and was sent at {next_at} ms"
                );
                verdict.violate("retries are never early", next_at, words);
            }
        }
    }
}

/// A job that failed for now is tried again within a bound when all faults are over, whatever held it back before. Runs in
/// which a clock was set are left out: what waits by the wall clock waits for longer or shorter then.
pub fn retries_are_never_late(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    let healed = timeline.entries.iter().find(|entry| entry.event == Event::Healed);
    let Some(healed) = healed.filter(|_| timeline.spans("clock").next().is_none()) else { return };
    let ends_the_wait = |event: &Event| {
        matches!(
            event,
            Event::Leased { .. }
                | Event::Settled { done: true, .. }
                | Event::Cancelled { .. }
                | Event::Replayed { .. }
                | Event::Discarded { .. }
        )
    };
    for (job, events) in &timeline.by_job {
        for (place, (at, event)) in events.iter().enumerate() {
            let is_retry = matches!(event, Event::Settled { what: Settlement::Retry, done: true, .. });
            if !is_retry || timeline.is_lost(*at) {
                continue;
            }
            let next = events[place + 1..].iter().find(|(_, event)| ends_the_wait(event));
            let waited = next.map_or(timeline.ended_at, |(at, _)| *at).saturating_sub(healed.at.max(*at));
            if waited > RETRIED {
                let words = format!("{job} failed at {at} ms and waited {waited} ms although all was well");
                verdict.violate("retries are never late", *at, words);
            }
        }
    }
}

/// A job that is due because all clocks were set forward is claimed soon, if nothing else is wrong.
pub fn scheduled_jobs_follow_the_clock(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    let steps = timeline.entries.iter().filter_map(|entry| match &entry.event {
        Event::ClockSet { node: None, by_ms } => Some((entry.at, *by_ms)),
        _ => None,
    });
    let steps: Vec<(u64, i64)> = steps.collect();
    let is_calm = |from: u64, to: u64| {
        let is_paused = |entry: &Entry| entry.at <= to && matches!(entry.event, Event::Asked { .. });
        let is_step_of_all = |span: &Span<'_>| span.kind.starts_with("clock") && span.node.is_none();
        let disturbs = |span: &Span<'_>| span.from <= to && span.to + SCHEDULED >= from;
        !timeline.entries.iter().any(is_paused)
            && !timeline.faults.iter().any(|span| !is_step_of_all(span) && disturbs(span))
    };
    for (job, events) in &timeline.by_job {
        let Some((stored_at, Event::Stored { route, delay_ms, .. })) = events.first().copied() else {
            continue;
        };
        for (set_at, by_ms) in steps.iter().filter(|(at, by_ms)| *at > stored_at && *by_ms > 0) {
            let sooner: i64 =
                steps.iter().filter(|(at, _)| *at > stored_at && at <= set_at).map(|(_, by)| *by).sum();
            let due_at = i64::try_from(stored_at + delay_ms).unwrap_or(i64::MAX);
            let (was_due, is_due) = (due_at - sooner + by_ms, due_at - sooner);
            let at = i64::try_from(*set_at).unwrap_or(i64::MAX);
            let end = set_at + SCHEDULED;
            if was_due <= at
                || is_due > at
                || end > timeline.ended_at
                || route == "work"
                || !is_calm(*set_at, end)
            {
                continue;
            }
            let moved = events.iter().any(|(at, event)| {
                *at <= end && matches!(event, Event::Leased { .. } | Event::Cancelled { .. })
            });
            if !moved {
                let words = format!("{job} was due when the clock was set at {set_at} ms, and waited on");
                verdict.violate("scheduled jobs follow the clock", end, words);
            }
        }
    }
}

/// Returns when the receiver of this request first asked for quiet in the time of one wait.
fn first_of_hold(timeline: &Timeline<'_>, request: &Request<'_>, answered_at: u64, wait: u64) -> u64 {
    let Some(receiver) = &request.call.receiver else { return answered_at };
    let others = timeline.requests.values().flatten();
    let same = others.filter(|other| {
        other.call.receiver.as_ref() == Some(receiver) && other.call.company == request.call.company
    });
    let asked = same.filter_map(|other| match other.answer {
        Some((at, Answer::TooMany, _)) if at <= answered_at && at + wait >= answered_at => Some(at),
        _ => None,
    });
    asked.min().unwrap_or(answered_at)
}

pub fn dead_letters_have_a_reason(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for entry in timeline.entries {
        let Event::FoundDead { job, reason, cause, attempts } = &entry.event else { continue };
        if reason.trim().is_empty() || cause.is_empty() {
            let words = format!("{job} is dead and does not say why: {reason:?}, {cause:?}");
            verdict.violate("dead letters have a reason", entry.at, words);
        }
        if *attempts == 0 && cause == "EXHAUSTED" {
            let words = format!("{job} is exhausted without an attempt");
            verdict.violate("dead letters have a reason", entry.at, words);
        }
    }
}

/// Each job is in the store once; the dead letters are those that failed or are on their way again.
pub fn counts_are_conserved(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    let mut seen = BTreeSet::new();
    for entry in timeline.entries {
        let Event::Found { job, status, is_listed, .. } = &entry.event else { continue };
        if !seen.insert(job) {
            verdict.violate("counts are conserved", entry.at, format!("{job} is in the store twice"));
        }
        let may_be_listed = !matches!(status.as_str(), "sent" | "cancelled" | "discarded");
        let must_be_listed = status == "failed";
        if (*is_listed && !may_be_listed) || (!*is_listed && must_be_listed) {
            let words = format!("{job} is {status}, and in the dead letter queue: {is_listed}");
            verdict.violate("counts are conserved", entry.at, words);
        }
    }
}

/// Every job that is due ends when all faults are over, and so does every bulk act.
pub fn everything_ends(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    let mut bulks = BTreeSet::new();
    for entry in timeline.entries {
        match &entry.event {
            Event::Found { job, status, is_due: true, .. } => {
                let ended = matches!(status.as_str(), "sent" | "cancelled" | "discarded" | "failed");
                if !ended {
                    let words = format!(
                        "{job} is due and still {status} {} s after the faults",
                        quiet(timeline) / 1_000
                    );
                    verdict.violate("everything ends", entry.at, words);
                }
            }
            Event::BulkBegan { bulk, .. } => drop(bulks.insert(bulk)),
            Event::BulkEnded { bulk, .. } => drop(bulks.remove(bulk)),
            _ => {}
        }
    }
    for bulk in bulks.into_iter().filter(|_| timeline.losses.is_empty()) {
        verdict.violate("everything ends", timeline.ended_at, format!("bulk act {bulk} has not ended"));
    }
}

fn quiet(timeline: &Timeline<'_>) -> u64 {
    let healed = timeline.entries.iter().find(|entry| entry.event == Event::Healed);
    healed.map_or(0, |healed| timeline.ended_at - healed.at)
}

/// When all work has ended, no node counts a delivery as running: a slot that is never given back is lost to its provider.
pub fn slots_are_given_back(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for Entry { at, event } in timeline.entries {
        let Event::Running { node, provider, deliveries: 1.. } = event else { continue };
        let words = format!("{node} counts a delivery to {provider} as running, and all jobs have ended");
        verdict.violate("slots are given back", *at, words);
    }
}

/// After all faults are over, a new job to a provider and a receiver that are well is tried soon: nothing that is broken
/// for good holds it back.
pub fn new_jobs_are_prompt(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    // A receiver's hold that a clock set back made longer is bounded when a job for it is next looked at.
    let longest = if timeline.spans("clock back").next().is_some() { PROMPT + HOLD_MAX } else { PROMPT };
    for (job, events) in timeline.by_job.iter().filter(|(job, _)| job.starts_with("probe-")) {
        let acknowledged = events.iter().find(|(_, event)| matches!(event, Event::Acknowledged { .. }));
        let Some((at, _)) = acknowledged else { continue };
        let called = timeline.requests.get(job).and_then(|requests| requests.first());
        let waited = called.map_or(timeline.ended_at, |request| request.at).saturating_sub(*at);
        if waited > longest {
            verdict.violate(
                "new jobs are prompt",
                *at,
                format!("{job} waited {waited} ms although all was well"),
            );
        }
    }
}
