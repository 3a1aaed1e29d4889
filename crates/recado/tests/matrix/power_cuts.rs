//! Power cuts: only bytes and names that were forced are sure to be there afterwards.

use super::kills::chosen;
use super::operations::{Operation, for_each_operation};
use super::results::Row;
use super::scene::{Fault, Strike, Template};

const SEED: u64 = 2_027;

/// Cuts the power at one call after another.
fn cut_power_at_every_call(operation: &Operation) {
    let template = Template::of(operation);
    let whole = template.run(operation, None);
    whole.account.holds(operation.name);
    let mut row = Row {
        fault: "power cut",
        operation: operation.name,
        test: "matrix::power_cuts",
        seed: SEED,
        ..Row::default()
    };
    // Also shortly after the operation, when all of it was acknowledged.
    let strikes = (1..=whole.calls + 5).map(|at| {
        let seed = SEED.wrapping_mul(1_000_003).wrapping_add(at.unsigned_abs());
        Strike { at, fault: Fault::PowerCut(seed) }
    });
    for strike in chosen(&strikes.collect::<Vec<_>>(), SEED) {
        let run = template.run(operation, Some(strike));
        run.account.holds(&format!("{} {strike:?} of {}", operation.name, whole.calls));
        run.add_to(&mut row);
    }
    row.write();
}

for_each_operation! { embedded_store: cut_power_at_every_call }
