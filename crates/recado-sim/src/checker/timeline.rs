//! A history sorted by what checks ask of it.

use std::collections::{BTreeMap, BTreeSet};

use super::terms::{CUT, LATE_REQUEST, LEASE};
use crate::history::{Answer, Call, Entry, Event, NodeChange};

/// A stretch of time in which something was broken.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    pub kind: &'a str,
    pub node: Option<&'a str>,
    pub from: u64,
    pub to: u64,
}

impl Span<'_> {
    /// A request may be under way for as long as this.
    fn is_standing(&self) -> bool {
        matches!(self.kind, "server stalls" | "server away" | "bad network" | "standstill" | "partition")
    }
}

/// A request to a provider, with what became of it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub at: u64,
    pub call: &'a Call,
    /// The caller's answer, when it came, and the wait that it imposes.
    pub answer: Option<(u64, Answer, u64)>,
}

impl Request<'_> {
    /// The caller cannot know whether the provider took it.
    pub fn is_uncertain(&self) -> bool {
        matches!(self.answer, None | Some((_, Answer::Lost | Answer::Timeout, _)))
    }
}

#[derive(Debug)]
pub struct Timeline<'a> {
    pub entries: &'a [Entry],
    pub by_job: BTreeMap<&'a str, Vec<(u64, &'a Event)>>,
    pub requests: BTreeMap<&'a str, Vec<Request<'a>>>,
    pub faults: Vec<Span<'a>>,
    /// Losses of the server's last writes: since when they are lost, and when they were.
    pub losses: Vec<(u64, u64)>,
    pub moves: Vec<u64>,
    /// Several nodes share the store: one that is cut off for too long loses its leases to another.
    is_shared: bool,
    pub ended_at: u64,
}

impl<'a> Timeline<'a> {
    pub fn new(entries: &'a [Entry]) -> Self {
        let mut timeline = Timeline {
            entries,
            by_job: BTreeMap::new(),
            requests: BTreeMap::new(),
            faults: Vec::new(),
            losses: Vec::new(),
            moves: Vec::new(),
            is_shared: false,
            ended_at: entries.last().map_or(0, |entry| entry.at),
        };
        let mut answers = BTreeMap::new();
        let mut nodes = BTreeSet::new();
        for Entry { at, event } in entries {
            if let Event::Answered { call, answer, wait_ms } = event {
                answers.insert(*call, (*at, *answer, *wait_ms));
            }
        }
        let mut lost_since = 0;
        for Entry { at, event } in entries {
            if let Some(job) = job_of(event) {
                timeline.by_job.entry(job).or_default().push((*at, event));
            }
            match event {
                // A process that starts again may have another name: the node's, and a number.
                Event::Node { node, .. } => drop(nodes.insert(node.split('.').next())),
                Event::Leased { leases, .. } => {
                    for lease in leases {
                        timeline.by_job.entry(&lease.job).or_default().push((*at, event));
                    }
                }
                Event::Called(call) => {
                    let request = Request { at: *at, call, answer: answers.get(&call.call).copied() };
                    timeline.requests.entry(&call.job).or_default().push(request);
                }
                Event::Fault { kind: "writes lost since", until, .. } => lost_since = until.unwrap_or(*at),
                Event::Fault { kind, node, until } => {
                    let to = until.unwrap_or(*at);
                    timeline.faults.push(Span { kind, node: node.as_deref(), from: *at, to });
                    match *kind {
                        "server loses writes" => timeline.losses.push((lost_since, *at)),
                        "move" => timeline.moves.push(*at),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        timeline.is_shared = nodes.len() > 1;
        timeline
    }

    /// Returns true if the server lost writes, or its store was moved, between these times.
    pub fn has_lost_writes(&self, from: u64, to: u64) -> bool {
        self.losses.iter().any(|(since, at)| *at >= from && *since <= to)
    }

    pub fn has_moved(&self, from: u64, to: u64) -> bool {
        self.moves.iter().any(|at| (from..=to).contains(at))
    }

    /// Returns true if a write at this time was lost later.
    pub fn is_lost(&self, written_at: u64) -> bool {
        self.losses.iter().any(|(since, at)| (*since..=*at).contains(&written_at))
    }

    /// Returns true if the clocks of nodes did not agree, or were set, between these times, or if a request that was under
    /// way when they were set may have brought the time of before.
    pub fn has_clock_trouble(&self, from: u64, to: u64) -> bool {
        self.spans("clock").any(|step| {
            let covers = |span: &&Span<'_>| span.from <= step.to && span.to >= step.from;
            let stood = self.faults.iter().filter(|span| span.is_standing()).filter(covers);
            let ends = stood.map(|span| self.standing_until(span) + LATE_REQUEST).max().unwrap_or(0);
            step.from <= to && step.to.max(ends) >= from
        })
    }

    /// Returns the end of a time in which requests stood, with those of the same node, or of the server, that began before
    /// it was over.
    fn standing_until(&self, first: &Span<'_>) -> u64 {
        let concerns =
            |span: &&Span<'_>| first.node.is_none() || span.node.is_none() || span.node == first.node;
        let standing = self.faults.iter().filter(|span| span.is_standing()).filter(concerns);
        // They are in order of their beginnings.
        standing.fold(
            first.to,
            |end, span| {
                if (first.from..=end).contains(&span.from) { end.max(span.to) } else { end }
            },
        )
    }

    pub fn spans(&self, kind: &'static str) -> impl Iterator<Item = &Span<'a>> {
        self.faults.iter().filter(move |span| span.kind.starts_with(kind))
    }

    /// Returns the end of the last trouble before `at` between this node and the server.
    pub fn troubled_until(&self, node: &str, at: u64) -> u64 {
        let concerns = |span: &&Span<'_>| match span.kind {
            "partition" | "standstill" => span.node == Some(node),
            kind => kind.starts_with("server") || kind == "bad network",
        };
        let ends = self.faults.iter().filter(concerns).filter(|span| span.from <= at).map(|span| span.to);
        let starts =
            self.entries.iter().filter(|entry| entry.at <= at).filter_map(|entry| match &entry.event {
                Event::Node { node: name, what: NodeChange::Started, .. } if name == node => Some(entry.at),
                _ => None,
            });
        ends.chain(starts).max().unwrap_or(0)
    }

    /// Returns true if this node was cut off, or stood still, for so long that a lease of it may have run out between
    /// these times.
    pub fn was_cut_off(&self, node: &str, from: u64, to: u64) -> bool {
        let from = from.saturating_sub(LEASE);
        let overlaps = |span: &&Span<'_>| span.from <= to && span.to >= from;
        let length = |span: &Span<'_>| span.to - span.from;
        let own = |span: &&Span<'_>| {
            matches!(span.kind, "partition" | "standstill") && span.node == Some(node) && overlaps(span)
        };
        let own: u64 = self.faults.iter().filter(own).map(length).sum();
        let server = |span: &&Span<'_>| {
            (span.kind.starts_with("server") || span.kind == "bad network") && overlaps(span)
        };
        let server: u64 = self.faults.iter().filter(server).map(length).sum();
        self.is_shared && own > 0 && own + server >= CUT
    }
}

fn job_of(event: &Event) -> Option<&str> {
    match event {
        Event::Stored { job, .. }
        | Event::Acknowledged { job, .. }
        | Event::Refused { job, .. }
        | Event::Settled { job, .. }
        | Event::Cancelled { job }
        | Event::Replayed { job, .. }
        | Event::Discarded { job, .. }
        | Event::Found { job, .. }
        | Event::FoundDead { job, .. } => Some(job),
        Event::Called(call) => Some(&call.job),
        _ => None,
    }
}
