//! `kill -9` at every call that an operation makes on the files of its store.

use super::faults::KillHow;
use super::operations::{Operation, for_each_operation};
use super::results::Row;
use super::scene::{Fault, Strike, Template, strikes_max};

const SEED: u64 = 2_026;

/// Runs the operation once to count its calls, then again and again, killed at one call after another.
fn kill_at_every_call(operation: &Operation) {
    let template = Template::of(operation);
    let whole = template.run(operation, None);
    whole.account.holds(operation.name);
    assert!(!whole.fired && whole.calls > 0, "{} makes no call on a file", operation.name);
    let mut row = Row {
        fault: "kill -9 at a write",
        operation: operation.name,
        test: "matrix::kills",
        seed: SEED,
        ..Row::default()
    };
    for strike in kills(whole.calls, SEED) {
        let run = template.run(operation, Some(strike));
        run.account.holds(&format!("{} {strike:?} of {}", operation.name, whole.calls));
        run.add_to(&mut row);
    }
    row.write();
}

/// Kills at every call in each way, or at a few by chance.
pub fn kills(calls: i64, seed: u64) -> Vec<Strike> {
    let hows = [KillHow::Before, KillHow::Half, KillHow::After];
    let all = (1..=calls).flat_map(|at| hows.map(|how| Strike { at, fault: Fault::Kill(how) }));
    chosen(&all.collect::<Vec<_>>(), seed)
}

/// All strikes, or a few by chance: one of each part of the operation.
pub fn chosen<T: Copy>(strikes: &[T], seed: u64) -> Vec<T> {
    let count = strikes_max().min(strikes.len());
    let mut chance = fastrand::Rng::with_seed(seed);
    let part = |nth: usize| nth * strikes.len() / count.max(1);
    (0..count).map(|nth| strikes[chance.usize(part(nth)..part(nth + 1))]).collect()
}

for_each_operation! { embedded_store: kill_at_every_call }
