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

/// Seeds that found something once, each with what it was.
const REGRESSIONS: [(u64, &str); 10] = [
    (
        8,
        "a node that stood still sent to a receiver before it read that another node held that receiver back",
    ),
    (
        58_448,
        "a held job was due again by the time of its answer, not of its hold's save, which a bad network had made late",
    ),
    (
        92_651,
        "a held job was due at once, because its node stood still between the answer and the save of the hold",
    ),
    (
        44_066,
        "the checker did not know a lease that the server lost before its delivery began as a cause of a repetition",
    ),
    (
        107_577,
        "the checker did not know that a request of a wrong clock may stand still twice, without a gap, before it arrives",
    ),
    (
        123_848,
        "a node whose first read stood still at the server took what it found for fresh, and missed a newer hold",
    ),
    (
        133_583,
        "a job went to its route's other provider after five seconds, although the answer allowed it after twenty",
    ),
    (131_742, "the checker did not know that a request may stand still at the server and then with its node"),
    (77_949, "the checker counted outcomes that came after it had read the trail"),
    (88_215, "the checker counted outcomes that came after it had read the trail"),
];

#[test]
fn regressions_stay_fixed() {
    for (seed, what) in REGRESSIONS {
        let plan = Plan::from_seed(seed);
        let verdict = check(&world::run(&plan), plan.mode == Mode::Liveness);
        assert!(verdict.violations.is_empty(), "seed {seed}, {what}: {:?}", verdict.violations);
    }
}
