//! The fault matrix: each row is a fault of the machine, the disk or a peer in the middle of an operation of the built
//! program.
//!
//! A ledger outside of the program keeps what callers were told and what the far end received. After the fault and a
//! restart nothing acknowledged is lost, nothing refused was sent, each duplicate has an allowed cause
//! (`docs/guarantees.md`), each dead letter has a reason and the audit trail verifies. Every row asserts that its fault
//! fired.
//!
//! The usual run strikes each row at two calls, by fixed seeds. `RECADO_MATRIX=8` strikes at eight, `full` at every call
//! (`cargo xtask matrix`).
//! `RECADO_RESULTS=FILE` has each row add a line of JSON to a file; `docs/proof.md` is made of them.

mod matrix {
    #[path = "../cli/given.rs"]
    #[expect(dead_code, reason = "the tests of the command line need more of it")]
    mod given;

    #[path = "../faults/mod.rs"]
    #[expect(dead_code, reason = "the tests of the cluster stall the disk")]
    mod faults;

    #[path = "../results/mod.rs"]
    mod results;

    mod far_end;
    mod ledger;
    mod operations;
    mod power;
    mod scene;

    mod cluster_slots;
    mod disk_errors;
    mod hostile_peers;
    mod kills;
    mod machine;
    mod moves;
    mod power_cuts;
    mod redis_commands;
    mod soak;
}
