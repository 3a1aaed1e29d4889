//! Several nodes on one Redis, as processes: killed, stopped, cut off and restarted while they work, and agreed on
//! what a provider gets.
//!
//! A client enqueues at one node and moves on to the next when it gets no answer; a far end notes every request, with
//! its key and the node that sent it. In the end every acknowledged job is accounted for. Each test asserts that its
//! fault struck while work was in flight.
//!
//! `RECADO_CHAOS` multiplies the rounds of chaos: `cargo xtask chaos` kills a node each second for a minute.

mod cluster {
    #[path = "../cli/given.rs"]
    #[expect(dead_code, reason = "the tests of the command line need more of it")]
    mod given;

    #[path = "../faults/mod.rs"]
    #[expect(dead_code, reason = "the fault matrix needs more of it")]
    mod faults;

    #[path = "../results/mod.rs"]
    mod results;

    mod far_end;
    mod ledger;
    mod nodes;

    mod agreed;
    mod chaos;
    mod clock_and_disk;
    mod handover;
    mod redis_faults;
    mod visible;
}
