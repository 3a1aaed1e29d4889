//! Disks that refuse: an fsync that fails, no room, read-only all of a sudden.

use super::faults::calls;
use super::kills::chosen;
use super::operations::{self, Operation};
use super::results::Row;
use super::scene::{EIO, Fault, Strike, Template};

const SEED: u64 = 2_028;

/// Errors as Linux numbers them.
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;

/// An fsync that fails ends the server, since the kernel may have dropped what was written.
const FSYNC_FAILS: (&str, Fault) = ("fsync fails (EIO)", Fault::Fail { kinds: calls::SYNC, error: EIO });

const FULL: (&str, Fault) = (
    "disk full (ENOSPC)",
    Fault::Fail { kinds: calls::WRITE | calls::CREATE | calls::MAKE_DIR, error: ENOSPC },
);

const READ_ONLY: (&str, Fault) = (
    "disk read-only (EROFS)",
    Fault::Fail {
        kinds: calls::WRITE
            | calls::TRUNCATE
            | calls::CREATE
            | calls::UNLINK
            | calls::RENAME
            | calls::MAKE_DIR
            | calls::SYNC_DIR,
        error: EROFS,
    },
);

const FSYNC_FAILS_THEN_POWER_CUT: (&str, Fault) =
    ("fsync fails (EIO), then a power cut", Fault::SyncFailsThenPowerCut(SEED));

/// Has the disk fail from one call after another.
fn fail_at_calls(operation: &Operation, (fault, strike): (&'static str, Fault)) {
    let template = Template::of(operation);
    let mut row =
        Row { fault, operation: operation.name, test: "matrix::disk_errors", seed: SEED, ..Row::default() };
    let strikes = [1, 2, 3, 5, 8, 13].map(|at| Strike { at, fault: strike });
    for strike in chosen(&strikes, SEED) {
        let run = template.run(operation, Some(strike));
        run.account.holds(&format!("{} {strike:?}", operation.name));
        run.add_to(&mut row);
    }
    row.write();
}

#[test]
fn an_fsync_that_fails_takes_back_nothing_that_was_acknowledged() {
    for operation in [&operations::ENQUEUE, &operations::SETTLE, &operations::BULK, &operations::AUDIT_FILES]
    {
        fail_at_calls(operation, FSYNC_FAILS);
    }
}

#[test]
fn an_fsync_that_fails_before_a_power_cut_was_no_reason_to_acknowledge() {
    for operation in [&operations::ENQUEUE, &operations::SETTLE, &operations::BULK, &operations::AUDIT_FILES]
    {
        fail_at_calls(operation, FSYNC_FAILS_THEN_POWER_CUT);
    }
}

#[test]
fn a_disk_that_is_full_for_a_while_loses_nothing() {
    for operation in [&operations::ENQUEUE, &operations::SETTLE, &operations::BURY, &operations::DLQ_ARCHIVE]
    {
        fail_at_calls(operation, FULL);
    }
}

#[test]
fn a_disk_that_is_read_only_for_a_while_loses_nothing() {
    for operation in [&operations::ENQUEUE, &operations::REPLAY, &operations::ERASE, &operations::AUDIT_FILES]
    {
        fail_at_calls(operation, READ_ONLY);
    }
}
