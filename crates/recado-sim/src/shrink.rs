//! Makes a failing plan smaller: leaves faults and operations out as long as the same invariant breaks.

use crate::checker::check;
use crate::plan::{Mode, Plan};
use crate::world;

/// Runs at most for one failing seed.
const RUNS_MAX: usize = 400;

/// The items of a seed's plan that are left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub operations: Vec<usize>,
    pub faults: Vec<usize>,
}

impl Kept {
    pub fn all(plan: &Plan) -> Self {
        Kept { operations: (0..plan.operations.len()).collect(), faults: (0..plan.faults.len()).collect() }
    }

    /// Returns the plan of a seed with these items alone.
    pub fn plan(&self, seed: u64) -> Plan {
        let mut plan = Plan::from_seed(seed);
        plan.keep(Some(&self.operations), Some(&self.faults));
        plan
    }

    /// Writes the command that repeats the run.
    pub fn command(&self, seed: u64) -> String {
        let list = |places: &[usize]| match places.is_empty() {
            true => "none".to_owned(),
            false => places.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
        };
        format!(
            "cargo run -p recado-sim -- --seed {seed} --faults {} --operations {} --trace",
            list(&self.faults),
            list(&self.operations)
        )
    }
}

/// Returns true if this plan breaks the invariant.
pub fn breaks(plan: &Plan, invariant: &str) -> bool {
    let verdict = check(&world::run(plan), plan.mode == Mode::Liveness);
    verdict.violations.iter().any(|violation| violation.invariant == invariant)
}

/// Leaves out as much of a seed's plan as it can while the invariant breaks.
pub fn shrink(seed: u64, invariant: &str) -> Kept {
    let mut kept = Kept::all(&Plan::from_seed(seed));
    let mut runs = RUNS_MAX;
    shrink_list(&mut kept, |kept| &mut kept.faults, seed, invariant, &mut runs);
    shrink_list(&mut kept, |kept| &mut kept.operations, seed, invariant, &mut runs);
    shrink_list(&mut kept, |kept| &mut kept.faults, seed, invariant, &mut runs);
    kept
}

/// Leaves out halves, then quarters, down to single items.
fn shrink_list(
    kept: &mut Kept,
    list: fn(&mut Kept) -> &mut Vec<usize>,
    seed: u64,
    invariant: &str,
    runs: &mut usize,
) {
    let mut size = list(kept).len().div_ceil(2);
    while size > 0 {
        let mut from = 0;
        while from < list(kept).len() && *runs > 0 {
            *runs -= 1;
            let mut smaller = kept.clone();
            let items = list(&mut smaller);
            items.drain(from..(from + size).min(items.len()));
            match breaks(&smaller.plan(seed), invariant) {
                true => *kept = smaller,
                false => from += size,
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
}
