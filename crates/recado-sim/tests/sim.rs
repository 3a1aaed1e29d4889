//! Runs of the simulator that every change repeats.

use recado_sim::checker::check;
use recado_sim::plan::{Mode, Plan};
use recado_sim::world;

#[test]
fn a_seed_gives_the_same_history_again() {
    for seed in [3, 5, 11] {
        let (one, other) = (world::run(&Plan::from_seed(seed)), world::run(&Plan::from_seed(seed)));
        let differs = one.iter().zip(&other).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(one.len(), other.len(), "seed {seed}");
        assert!(one.len() > 100, "seed {seed} did next to nothing");
    }
}

/// Plans that found something once, each with what it was: the seed, its faults and its operations that matter.
const REGRESSIONS: [(u64, &str); 4] = [
    (
        8,
        "a node that stood still sent to a receiver before it read that another node held that receiver back",
    ),
    (44066, "the checker took a delivery for a repetition without a cause whose lease the server had lost"),
    (58448, "a hold took long to be saved, and its job was due before other nodes had read the hold"),
    (92651, "the same, because the process stood still while it saved the hold"),
];

#[test]
fn what_was_found_once_stays_mended() {
    for (seed, what) in REGRESSIONS {
        let plan = Plan::from_seed(seed);
        let verdict = check(&world::run(&plan), plan.mode == Mode::Liveness);
        assert!(verdict.violations.is_empty(), "seed {seed}, {what}: {:?}", verdict.violations);
    }
}
