//! The second generator of operations: a day's incidents, each a cluster of requests that race each other.
//!
//! Written apart from the first one, and in another manner: that one spreads independent draws over the run; here a few
//! moments are chosen, and everything of an incident happens within a second or two of its moment, at all nodes at once.

use recado_core::Random;

use crate::plan::{
    BulkKind, OPERATIONS_END_MS, Operation, Scope, Submission, Timed, WorkManner, Workload, between, chance,
};

/// A few incidents, one after another or on top of each other.
#[derive(Debug)]
pub struct Incidents;

impl Workload for Incidents {
    fn operations(&self, random: &Random, nodes: usize) -> Vec<Timed<Operation>> {
        let mut day = Day { random, nodes, jobs: 0, operations: Vec::new() };
        // Something to fail, to walk through and to replay, from the beginning.
        day.morning_batch();
        for _ in 0..between(random, 3, 6) {
            let at_ms = between(random, 4_000, OPERATIONS_END_MS - 8_000);
            match random.next_index(8) {
                0 => day.flood_beside_a_quiet_company(at_ms),
                1 => day.impatient_client(at_ms),
                2 => day.cancel_at_the_last_moment(at_ms),
                3 => day.appointment(at_ms),
                4 => day.short_lives(at_ms),
                5 => day.operator_who_changes_their_mind(at_ms),
                6 => day.two_operators_at_the_dead_letters(at_ms),
                _ => day.workers_that_come_and_go(at_ms),
            }
        }
        day.operations
    }
}

/// The operations so far, and the means to add more.
struct Day<'a> {
    random: &'a Random,
    nodes: usize,
    jobs: u64,
    operations: Vec<Timed<Operation>>,
}

impl Day<'_> {
    fn add(&mut self, at_ms: u64, what: Operation) {
        self.operations.push(Timed { at_ms: at_ms.min(OPERATIONS_END_MS), what });
    }

    fn any_node(&self) -> usize {
        self.random.next_index(self.nodes)
    }

    /// Returns a new job that nothing is special about.
    fn job(&mut self, route: &'static str, company: &str) -> Submission {
        self.jobs += 1;
        let receiver =
            (route == "hook").then(|| ["calm", "plain", "quick", "loud"][self.random.next_index(4)]);
        Submission {
            node: self.any_node(),
            job: format!("call-{}", self.jobs),
            route,
            company: company.to_owned(),
            receiver: receiver.map(str::to_owned),
            body: 0,
            delay_ms: 0,
            ttl_ms: 86_400_000,
            priority: 5,
            invalid: false,
        }
    }

    fn any_route(&self) -> &'static str {
        ["mail", "chat", "hook"][self.random.next_index(3)]
    }

    /// Every company hands in a batch at once.
    fn morning_batch(&mut self) {
        for company in ["acme", "globex", "initech"] {
            for _ in 0..between(self.random, 2, 8) {
                let job = self.job(self.any_route(), company);
                self.add(between(self.random, 0, 300), Operation::Enqueue(job));
            }
        }
    }

    /// One company sends thirty at once, the urgent ones last; another sends one a moment later.
    fn flood_beside_a_quiet_company(&mut self, at_ms: u64) {
        let route = self.any_route();
        for number in 0..30 {
            let mut job = self.job(route, "acme");
            job.priority = if number < 20 { 9 } else { 1 };
            self.add(at_ms + number % 3, Operation::Enqueue(job));
        }
        let job = self.job(route, "initech");
        self.add(at_ms + between(self.random, 1, 400), Operation::Enqueue(job));
    }

    /// The same request reaches every node at the same time, and once more with another body.
    fn impatient_client(&mut self, at_ms: u64) {
        for _ in 0..between(self.random, 1, 4) {
            let job = self.job(self.any_route(), "globex");
            for node in 0..self.nodes {
                for repeat in 0..2 {
                    let again = Submission { node, ..job.clone() };
                    self.add(at_ms + repeat * between(self.random, 0, 30), Operation::Enqueue(again));
                }
            }
            let other = Submission { node: self.any_node(), body: 1, ..job };
            self.add(at_ms + between(self.random, 0, 40), Operation::Enqueue(other));
        }
    }

    /// Jobs are called off while they are on their way.
    fn cancel_at_the_last_moment(&mut self, at_ms: u64) {
        for number in 0..between(self.random, 2, 6) {
            let mut job = self.job(self.any_route(), "acme");
            job.delay_ms = [0, 500][self.random.next_index(2)];
            let (id, due_ms) = (job.job.clone(), at_ms + job.delay_ms);
            self.add(at_ms, Operation::Enqueue(job));
            for _ in 0..2 {
                let node = self.any_node();
                let cancel = Operation::Cancel { node, job: id.clone() };
                self.add(due_ms + number * between(self.random, 0, 60), cancel);
            }
        }
    }

    /// Many jobs are due at one moment, enqueued over the seconds before it, while something is paused and resumed.
    fn appointment(&mut self, at_ms: u64) {
        let due_ms = at_ms + 5_000;
        for number in 0..12 {
            let mut job =
                self.job(["mail", "chat"][self.random.next_index(2)], ["acme", "globex"][number % 2]);
            let enqueued_ms = between(self.random, at_ms, due_ms - 1);
            job.delay_ms = due_ms - enqueued_ms;
            self.add(enqueued_ms, Operation::Enqueue(job));
        }
        let (node, name) = (self.any_node(), "mail".to_owned());
        self.add(due_ms - 1_000, Operation::Pause { node, scope: Scope::Route, name: name.clone() });
        let node = self.any_node();
        self.add(due_ms + 2_000, Operation::Resume { node, scope: Scope::Route, name });
    }

    /// Jobs that live about as long as a first or second retry takes.
    fn short_lives(&mut self, at_ms: u64) {
        for _ in 0..between(self.random, 3, 8) {
            let mut job = self.job(self.any_route(), "initech");
            job.ttl_ms = between(self.random, 1_000, 9_000);
            self.add(at_ms + between(self.random, 0, 500), Operation::Enqueue(job));
        }
    }

    /// Pauses and resumes of one thing follow each other closely, from different nodes; the last one resumes.
    fn operator_who_changes_their_mind(&mut self, at_ms: u64) {
        let (scope, name) = match self.random.next_index(3) {
            0 => (Scope::Provider, "chat"),
            1 => (Scope::Route, "hook"),
            _ => (Scope::Company, "acme"),
        };
        let mut at_ms = at_ms;
        for round in 0..between(self.random, 1, 3) {
            let (node, name) = (self.any_node(), name.to_owned());
            self.add(at_ms, Operation::Pause { node, scope, name: name.clone() });
            let job = self.job(self.any_route(), "acme");
            self.add(at_ms + 200, Operation::Enqueue(job));
            at_ms += between(self.random, 300, 6_000) * (round + 1);
            let node = self.any_node();
            self.add(at_ms, Operation::Resume { node, scope, name });
            at_ms += between(self.random, 100, 2_000);
        }
    }

    /// Single replays, discards, a bulk act and walks meet at the same entries.
    fn two_operators_at_the_dead_letters(&mut self, at_ms: u64) {
        for _ in 0..4 {
            let job = Submission { invalid: false, ..self.job("chat", "acme") };
            self.add(at_ms.saturating_sub(4_000), Operation::Enqueue(job));
        }
        let node = self.any_node();
        self.add(at_ms, Operation::Walk { node, page: 1 });
        let (node, kind) = (self.any_node(), BulkKind::draw(self.random, 200));
        let per_second = [1, 3, 50][self.random.next_index(3)];
        self.add(at_ms + 100, Operation::Bulk { node, kind, company: None, per_second });
        for _ in 0..between(self.random, 1, 5) {
            let (node, pick) = (self.any_node(), self.random.next_index(8));
            let act = match chance(self.random, 300) {
                true => Operation::Discard { node, pick },
                false => Operation::Replay { node, pick, corrected: chance(self.random, 500) },
            };
            self.add(at_ms + between(self.random, 0, 2_500), act);
        }
        let node = self.any_node();
        self.add(at_ms + between(self.random, 300, 3_000), Operation::Walk { node, page: 2 });
        self.add(at_ms + 3_500, Operation::LiftHolds { node });
    }

    /// Workers at several nodes ask for the same few jobs.
    fn workers_that_come_and_go(&mut self, at_ms: u64) {
        for _ in 0..between(self.random, 2, 6) {
            let job = self.job("work", "globex");
            self.add(at_ms, Operation::Enqueue(job));
        }
        let manners =
            [WorkManner::Succeed, WorkManner::Fail, WorkManner::Extend, WorkManner::Vanish, WorkManner::Late];
        for _ in 0..between(self.random, 3, 8) {
            let (node, manner) = (self.any_node(), manners[self.random.next_index(manners.len())]);
            let at_ms = at_ms + between(self.random, 0, 12_000);
            self.add(at_ms, Operation::Work { node, max: self.random.next_index(4) + 1, manner });
        }
    }
}
