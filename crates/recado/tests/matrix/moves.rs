//! `recado store migrate` from one directory to another, killed at every call on the files of either.

use serde_json::Value;

use super::kills::kills;
use super::ledger::Account;
use super::operations;
use super::results::Row;
use super::scene::{Run, Strike, Template};

const SEED: u64 = 2_029;

const MOVE: [&str; 6] = ["store", "migrate", "--from", "recado-data", "--to", "new"];

/// Moves a store, killed at this call or not; takes the move up again, and accounts for every job in the new place.
fn move_store(template: &Template, strike: Option<Strike>) -> Run {
    let mut scene = template.scene();
    scene.arm(strike);
    let mut command = scene.place.command(&MOVE);
    command.envs(scene.faults.variables_on(scene.place.path()));
    let said = command.output().expect("the binary runs");
    let fired = scene.faults.fired("kill") > 0;
    assert_eq!(said.status.success(), !fired, "{}", String::from_utf8_lossy(&said.stderr));
    let calls = scene.faults.calls();
    if fired {
        let again = scene.place.run(&MOVE);
        // A move that was killed at its very end is whole, and the source says where it went.
        assert!(again.code == 0 || again.err.contains("was moved to "), "{again:?}");
    }
    let mut source = scene.place.serve_command();
    source.env("LIFE", "after");
    let said = scene.place.try_start(source).err().expect("the source is not served");
    assert!(said.contains("was moved to "), "{said}");
    let server = scene.place.serve_with(&["--data-dir", "new"], &[("LIFE", "after")]);
    scene.is_at(&server);
    scene.ask("POST", "/v1/providers/sink/resume", &Value::Null);
    let account = Account::of(&scene.ledger.lock(), &scene.far_end, &server);
    server.stop();
    Run { account, calls, fired }
}

#[test]
fn a_move_that_is_killed_at_a_write_is_taken_up_again_and_loses_nothing() {
    let template = Template::of(&operations::CLAIM);
    let whole = move_store(&template, None);
    whole.account.holds("a move");
    let mut row = Row {
        fault: "kill -9 at a write",
        operation: "migrate",
        test: "matrix::moves",
        seed: SEED,
        ..Row::default()
    };
    for strike in kills(whole.calls, SEED) {
        let run = move_store(&template, Some(strike));
        run.account.holds(&format!("a move, {strike:?} of {}", whole.calls));
        assert_eq!(run.account.repeated_after_death, 0, "nothing was sent before");
        run.add_to(&mut row);
    }
    row.write();
}
