//! The first generator of operations: several companies with uneven load on all routes, and operators at work.

use recado_core::Random;

use crate::plan::{
    BulkKind, OPERATIONS_END_MS, Operation, Scope, Submission, Timed, WorkManner, Workload, between, chance,
};

/// Routes, with how often each is chosen.
const ROUTES: [&str; 8] = ["mail", "mail", "mail", "chat", "chat", "hook", "hook", "work"];

const COMPANIES: [&str; 5] = ["acme", "acme", "acme", "globex", "initech"];

/// The first of them asks for quiet all the time.
const RECEIVERS: [&str; 4] = ["loud", "calm", "plain", "quick"];

/// Times to live: some jobs expire while they wait.
const TTLS_MS: [u64; 4] = [20_000, 86_400_000, 86_400_000, 86_400_000];

/// Delays, the last ones longer than a run: such a job is due only after the clock was set.
const DELAYS_MS: [u64; 10] = [0, 0, 0, 0, 0, 0, 500, 5_000, 20_000, 3_000_000];

/// Companies with uneven load.
#[derive(Debug)]
pub struct Companies;

impl Workload for Companies {
    fn operations(&self, random: &Random, nodes: usize) -> Vec<Timed<Operation>> {
        let mut operations = Vec::new();
        let jobs = between(random, 15, 60);
        for number in 0..jobs {
            let submission = draw_submission(random, nodes, number);
            let at_ms = between(random, 0, OPERATIONS_END_MS);
            if chance(random, 100) {
                // The same again, or another body under the same id.
                let mut again = submission.clone();
                again.node = random.next_index(nodes);
                again.body += u32::from(chance(random, 500));
                let at_ms = at_ms + between(random, 0, 5_000);
                operations.push(Timed { at_ms, what: Operation::Enqueue(again) });
            }
            if chance(random, 60) {
                let (node, job) = (random.next_index(nodes), submission.job.clone());
                let at_ms = at_ms + between(random, 0, 10_000);
                operations.push(Timed { at_ms, what: Operation::Cancel { node, job } });
            }
            operations.push(Timed { at_ms, what: Operation::Enqueue(submission) });
        }
        for _ in 0..between(random, 2, 12) {
            let at_ms = between(random, 5_000, OPERATIONS_END_MS);
            operations.push(Timed { at_ms, what: draw_act(random, nodes) });
        }
        for _ in 0..between(random, 0, 2) {
            draw_pause(random, nodes, &mut operations);
        }
        let mut at_ms = 1_000;
        while at_ms < OPERATIONS_END_MS {
            let manner = match between(random, 0, 9) {
                0 => WorkManner::Vanish,
                1 => WorkManner::Late,
                2 => WorkManner::Extend,
                3 | 4 => WorkManner::Fail,
                _ => WorkManner::Succeed,
            };
            let what = Operation::Work { node: random.next_index(nodes), max: 3, manner };
            operations.push(Timed { at_ms, what });
            at_ms += between(random, 2_000, 8_000);
        }
        operations
    }
}

fn draw_submission(random: &Random, nodes: usize, number: u64) -> Submission {
    let route = ROUTES[random.next_index(ROUTES.len())];
    let receiver = RECEIVERS[random.next_index(RECEIVERS.len())];
    Submission {
        node: random.next_index(nodes),
        job: format!("job-{number}"),
        route,
        company: COMPANIES[random.next_index(COMPANIES.len())].to_owned(),
        receiver: (route == "hook").then(|| receiver.to_owned()),
        body: 0,
        delay_ms: DELAYS_MS[random.next_index(DELAYS_MS.len())],
        ttl_ms: TTLS_MS[random.next_index(TTLS_MS.len())],
        priority: u8::try_from(between(random, 1, 9)).unwrap_or(5),
        invalid: chance(random, 20),
    }
}

fn draw_act(random: &Random, nodes: usize) -> Operation {
    let (node, pick) = (random.next_index(nodes), random.next_index(64));
    match random.next_index(8) {
        0 | 1 => Operation::Replay { node, pick, corrected: chance(random, 300) },
        2 => Operation::Discard { node, pick },
        3 | 4 => {
            let company = chance(random, 300).then(|| "acme".to_owned());
            let per_second = [1, 2, 20][random.next_index(3)];
            Operation::Bulk { node, kind: BulkKind::draw(random, 250), company, per_second }
        }
        5 | 6 => Operation::Walk { node, page: random.next_index(3) + 1 },
        _ => Operation::LiftHolds { node },
    }
}

/// Something is paused for a while.
fn draw_pause(random: &Random, nodes: usize, operations: &mut Vec<Timed<Operation>>) {
    let (scope, names): (Scope, &[&str]) = match random.next_index(3) {
        0 => (Scope::Provider, &["mail-a", "chat", "hook"]),
        1 => (Scope::Route, &["mail", "chat", "hook", "work"]),
        _ => (Scope::Company, &["acme", "globex"]),
    };
    let name = names[random.next_index(names.len())].to_owned();
    let at_ms = between(random, 2_000, OPERATIONS_END_MS - 5_000);
    let (node, then) = (random.next_index(nodes), random.next_index(nodes));
    let resumed_at = at_ms + between(random, 2_000, 40_000);
    operations.push(Timed { at_ms, what: Operation::Pause { node, scope, name: name.clone() } });
    operations.push(Timed { at_ms: resumed_at, what: Operation::Resume { node: then, scope, name } });
}
