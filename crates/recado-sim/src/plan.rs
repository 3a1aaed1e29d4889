//! The plan of a run: plain lists of timed operations and faults, drawn from a seed.
//!
//! A failing run is made smaller by leaving items of these lists out; the rest keeps its times and its numbers.

use recado_core::Random;

use crate::{incidents, workload};

/// Operations end by this time of a run.
pub const OPERATIONS_END_MS: u64 = 60_000;

/// Every fault is over by this time.
pub const FAULTS_END_MS: u64 = 70_000;

/// End of a safety run, which has faults until here.
pub const SAFETY_END_MS: u64 = 75_000;

/// A run that checks liveness ends here at the latest.
pub const LIVENESS_END_MS: u64 = FAULTS_END_MS + 240_000;

/// A generator of operations. Even seeds use one, odd seeds the other, which was written independently of it, so that they
/// do not share blind spots.
pub trait Workload {
    fn operations(&self, random: &Random, nodes: usize) -> Vec<Timed<Operation>>;
}

/// An item of a plan and its time.
#[derive(Clone, Debug)]
pub struct Timed<T> {
    pub at_ms: u64,
    pub what: T,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Faults go on until the end.
    Safety,
    /// Faults stop, and everything that can move has to end.
    Liveness,
}

/// A request of a client, an operator or a worker to one node.
#[derive(Clone, Debug)]
pub enum Operation {
    Enqueue(Submission),
    Cancel {
        node: usize,
        job: String,
    },
    Pause {
        node: usize,
        scope: Scope,
        name: String,
    },
    Resume {
        node: usize,
        scope: Scope,
        name: String,
    },
    /// Acts on the dead letter at this place among all that there are then.
    Replay {
        node: usize,
        pick: usize,
        corrected: bool,
    },
    Discard {
        node: usize,
        pick: usize,
    },
    Bulk {
        node: usize,
        kind: BulkKind,
        company: Option<String>,
        per_second: u32,
    },
    Walk {
        node: usize,
        page: usize,
    },
    /// A worker leases jobs, and does this with them.
    Work {
        node: usize,
        max: usize,
        manner: WorkManner,
    },
    LiftHolds {
        node: usize,
    },
}

#[derive(Clone, Debug)]
pub struct Submission {
    pub node: usize,
    pub job: String,
    pub route: &'static str,
    pub company: String,
    /// The receiver, on the route whose jobs name one.
    pub receiver: Option<String>,
    /// Distinguishes bodies of the same id.
    pub body: u32,
    pub delay_ms: u64,
    pub ttl_ms: u64,
    pub priority: u8,
    /// The transport refuses such data.
    pub invalid: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Provider,
    Route,
    Company,
}

/// The act of a bulk act on each of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkKind {
    Replay,
    Discard,
}

impl BulkKind {
    /// Draws a discard in this many of 1,000 cases, and a replay in the others.
    pub fn draw(random: &Random, discards_per_mille: u64) -> Self {
        if chance(random, discards_per_mille) { BulkKind::Discard } else { BulkKind::Replay }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkManner {
    Succeed,
    Fail,
    /// It extends its lease, and succeeds after what would have been its end.
    Extend,
    /// It delivers, and is never heard of again.
    Vanish,
    /// It delivers, and reports after its lease has ended.
    Late,
}

/// Something that breaks.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The process dies wherever it is.
    Kill { node: usize, down_ms: u64 },
    /// The process dies at its next call of this kind, before or after the far end has it.
    KillAt { node: usize, moment: Moment, side: CallSide, down_ms: u64 },
    /// The process stands still: nothing of it reaches the outside, nor the outside it.
    Standstill { node: usize, for_ms: u64 },
    /// The node does not reach the server.
    Partition { node: usize, for_ms: u64 },
    /// A graceful stop.
    Stop { node: usize, down_ms: u64 },
    /// The wall clock of a node, or of all, is set; after a while one node's is right again.
    ClockStep { node: Option<usize>, by_ms: i64, for_ms: u64 },
    /// The server does not answer.
    Away { for_ms: u64 },
    /// The server works, and its answers wait.
    Stall { for_ms: u64 },
    /// The server is full: it takes no new jobs.
    Full { for_ms: u64 },
    /// The server loses its last writes and is away for a while.
    LoseWrites { of_last_ms: u64, for_ms: u64 },
    /// Calls of all nodes are lost, repeated and late on the way.
    BadNetwork { for_ms: u64, per_mille: u64 },
    /// A provider is down, silent, limits, or loses answers.
    Outage { provider: &'static str, how: Outage, for_ms: u64 },
    /// All nodes stop, the store moves to another one, and all nodes start there.
    Move,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Claim,
    Settle,
    KvWrite,
    Send,
}

/// A process dies before the far end has its call, or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallSide {
    Before,
    After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    Refuses,
    Hangs,
    Limits,
    LosesAnswers,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub mode: Mode,
    pub nodes: usize,
    /// Longest way of a request or an answer between a node and the server.
    pub latency_ms: u64,
    /// A process that starts again has another name.
    pub renames: bool,
    pub operations: Vec<Timed<Operation>>,
    pub faults: Vec<Timed<Fault>>,
}

/// A stream of random numbers for one purpose, so that one purpose's draws do not shift another's.
pub fn stream(seed: u64, purpose: &str) -> Random {
    let digest = recado_core::payload::digest_of(&[&seed.to_string(), purpose]);
    Random::from_seed((digest >> 64) as u64)
}

/// Returns a number from `low` to `high`, both included.
pub fn between(random: &Random, low: u64, high: u64) -> u64 {
    low + random.next_index(usize::try_from(high - low + 1).unwrap_or(usize::MAX)) as u64
}

/// Returns true this often.
pub fn chance(random: &Random, per_mille: u64) -> bool {
    between(random, 1, 1_000) <= per_mille
}

impl Plan {
    pub fn from_seed(seed: u64) -> Self {
        let random = stream(seed, "plan");
        let nodes = [1, 2, 2, 3][random.next_index(4)];
        let mode = if chance(&random, 600) { Mode::Liveness } else { Mode::Safety };
        // At least 1 ms: otherwise nodes whose clocks differ could loop without virtual time passing.
        let latency_ms = [1, 2, 2, 20, 80][random.next_index(5)];
        let renames = chance(&random, 500);
        let workloads: [&dyn Workload; 2] = [&workload::Companies, &incidents::Incidents];
        let workload = workloads[usize::from(!seed.is_multiple_of(2))];
        let mut operations = workload.operations(&stream(seed, "operations"), nodes);
        operations.sort_by_key(|operation| operation.at_ms);
        let mut faults = draw_faults(&stream(seed, "faults"), nodes);
        lose_pauses(&stream(seed, "lost pauses"), &operations, &mut faults);
        disturb_bulk_act(&stream(seed, "disturbed bulk acts"), nodes, &operations, &mut faults);
        faults.sort_by_key(|fault| fault.at_ms);
        Plan { seed, mode, nodes, latency_ms, renames, operations, faults }
    }

    /// Keeps only the items at these places.
    pub fn keep(&mut self, operations: Option<&[usize]>, faults: Option<&[usize]>) {
        fn retain<T>(items: &mut Vec<T>, places: Option<&[usize]>) {
            if let Some(places) = places {
                let mut place = 0..;
                items.retain(|_| place.next().is_some_and(|place| places.contains(&place)));
            }
        }
        retain(&mut self.operations, operations);
        retain(&mut self.faults, faults);
    }
}

const PROVIDERS: [&str; 4] = ["mail-a", "mail-b", "chat", "hook"];

fn draw_faults(random: &Random, nodes: usize) -> Vec<Timed<Fault>> {
    let count = between(random, 1, 6);
    let mut faults: Vec<Timed<Fault>> = (0..count)
        .map(|_| Timed { at_ms: between(random, 1_000, OPERATIONS_END_MS), what: draw_fault(random, nodes) })
        .collect();
    if chance(random, 40) {
        faults.push(Timed { at_ms: between(random, 25_000, 50_000), what: Fault::Move });
    }
    faults
}

fn draw_fault(random: &Random, nodes: usize) -> Fault {
    let fault = draw_any_fault(random, nodes);
    // A process that has its store to itself has no network to it, and what it was told is on its disk.
    let needs_network = matches!(
        fault,
        Fault::Partition { .. } | Fault::Away { .. } | Fault::LoseWrites { .. } | Fault::BadNetwork { .. }
    );
    if nodes == 1 && needs_network { Fault::Stall { for_ms: between(random, 500, 25_000) } } else { fault }
}

fn draw_any_fault(random: &Random, nodes: usize) -> Fault {
    let node = random.next_index(nodes);
    let long = || between(random, 500, 25_000);
    let down_ms = between(random, 0, 20_000);
    match random.next_index(15) {
        0 => Fault::Kill { node, down_ms },
        1 | 2 => {
            let moment = [Moment::Claim, Moment::Settle, Moment::KvWrite, Moment::Send][random.next_index(4)];
            let side = if chance(random, 500) { CallSide::After } else { CallSide::Before };
            Fault::KillAt { node, moment, side, down_ms }
        }
        3 => Fault::Standstill { node, for_ms: long() },
        4 => Fault::Partition { node, for_ms: long() },
        5 => Fault::Stop { node, down_ms },
        6 | 7 => draw_clock_step(random, node),
        8 => Fault::Away { for_ms: long() },
        9 => Fault::Stall { for_ms: long() },
        10 => Fault::Full { for_ms: long() },
        11 => Fault::LoseWrites { of_last_ms: between(random, 50, 1_000), for_ms: between(random, 0, 5_000) },
        12 => Fault::BadNetwork { for_ms: long(), per_mille: between(random, 5, 150) },
        _ => {
            let how = [Outage::Refuses, Outage::Hangs, Outage::Limits, Outage::LosesAnswers];
            let (provider, how) = (PROVIDERS[random.next_index(4)], how[random.next_index(4)]);
            Fault::Outage { provider, how, for_ms: long() }
        }
    }
}

/// Lets some losses of writes hit a pause or its end: by chance they hardly ever would.
fn lose_pauses(random: &Random, operations: &[Timed<Operation>], faults: &mut [Timed<Fault>]) {
    let is_pause = |one: &&Timed<Operation>| {
        matches!(one.what, Operation::Pause { .. } | Operation::Resume { .. })
            && one.at_ms < OPERATIONS_END_MS
    };
    let pauses: Vec<u64> = operations.iter().filter(is_pause).map(|one| one.at_ms).collect();
    for fault in faults {
        if let Fault::LoseWrites { of_last_ms, .. } = &fault.what
            && !pauses.is_empty()
            && chance(random, 700)
        {
            let pause = pauses[random.next_index(pauses.len())];
            fault.at_ms = pause.saturating_sub(between(random, 1, *of_last_ms));
        }
    }
}

/// Moves the store in the middle of a bulk act, or lets the act's node die before all clocks are set back: by chance they
/// hardly ever meet.
fn disturb_bulk_act(
    random: &Random,
    nodes: usize,
    operations: &[Timed<Operation>],
    faults: &mut Vec<Timed<Fault>>,
) {
    let bulk = operations.iter().find_map(|one| match one.what {
        Operation::Bulk { node, .. } => Some((node, one.at_ms)),
        _ => None,
    });
    let Some((node, begun_ms)) = bulk.filter(|_| chance(random, 400)) else { return };
    let killed_ms = begun_ms + between(random, 300, 2_500);
    if nodes == 1 || chance(random, 400) {
        return faults.push(Timed { at_ms: killed_ms, what: Fault::Move });
    }
    let what = Fault::Kill { node, down_ms: between(random, 8_000, 20_000) };
    faults.push(Timed { at_ms: killed_ms, what });
    let what = Fault::ClockStep { node: None, by_ms: -3_600_000, for_ms: 0 };
    faults.push(Timed { at_ms: killed_ms + between(random, 100, 3_000), what });
}

fn draw_clock_step(random: &Random, node: usize) -> Fault {
    const UNITS_MS: [u64; 4] = [1_000, 60_000, 3_600_000, 86_400_000];
    let by = UNITS_MS[random.next_index(4)] * between(random, 1, 3);
    let by = i64::try_from(by).unwrap_or(i64::MAX);
    let by_ms = if chance(random, 500) { by } else { -by };
    let node = chance(random, 500).then_some(node);
    Fault::ClockStep { node, by_ms, for_ms: between(random, 500, 20_000) }
}
