//! A slot of a Redis Cluster that moves to another master while jobs flow.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use recado_testkit::redis::{RedisCluster, RedisServer};
use serde_json::Value;

use super::ledger::{Account, Ledger};
use super::results::Row;
use super::scene::{Scene, job};

const CALLERS: usize = 3;

/// Jobs flow this long before the move, and again after it.
const AROUND: Duration = Duration::from_millis(500);

/// Answers of a master that send a client elsewhere or bid it wait.
fn redirections(master: &RedisServer) -> u64 {
    let errors: String = master.ask(&["INFO", "errorstats"]);
    let counts = errors.lines().filter_map(|line| {
        let (name, count) = line.trim().strip_prefix("errorstat_")?.split_once(":count=")?;
        ["MOVED", "ASK", "TRYAGAIN"].contains(&name).then(|| count.parse::<u64>().expect("a number"))
    });
    counts.sum()
}

/// Moves all keys of a slot to another master, a few at a time, as `redis-cli --cluster reshard` does. Returns their
/// count.
fn move_slot(cluster: &RedisCluster, slot: u16) -> usize {
    let (from, to) = cluster.holder_and_other(slot);
    cluster.begin_move(slot);
    let (number, port) = (slot.to_string(), to.port().to_string());
    let mut moved = 0;
    loop {
        let keys: Vec<String> = from.ask(&["CLUSTER", "GETKEYSINSLOT", &number, "10"]);
        if keys.is_empty() {
            break;
        }
        moved += keys.len();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        words.extend(keys.iter().map(String::as_str));
        from.ask::<String>(&words);
        std::thread::sleep(Duration::from_millis(2));
    }
    cluster.end_move(slot);
    moved
}

#[test]
fn a_slot_that_moves_while_jobs_flow_loses_and_repeats_nothing() {
    let cluster = RedisCluster::with(3, &["appendonly yes", "appendfsync always"]);
    let slot: u16 = cluster.masters[0].ask(&["CLUSTER", "KEYSLOT", "{0}"]);
    let mut scene = Scene::on_store(Ledger::default(), cluster.url());
    let server = scene.serve();
    scene.is_at(&server);
    let before: u64 = cluster.masters.iter().map(redirections).sum();
    let is_over = AtomicBool::new(false);
    let moved = std::thread::scope(|threads| {
        for caller in 0..CALLERS {
            let (scene, is_over) = (&scene, &is_over);
            threads.spawn(move || {
                for nth in 0_usize.. {
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    let id = format!("flows-{caller}-{nth}");
                    // One that is not answered well is repeated under its id.
                    while !matches!(scene.ask("POST", "/v1/jobs", &job(&id, "deliver")), Some((200 | 202, _)))
                    {
                        scene.ledger.lock().unanswered += 1;
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    scene.ledger.lock().acknowledged.insert(id);
                }
            });
        }
        std::thread::sleep(AROUND);
        let moved = move_slot(&cluster, slot);
        std::thread::sleep(AROUND);
        is_over.store(true, Ordering::SeqCst);
        moved
    });
    let redirected = cluster.masters.iter().map(redirections).sum::<u64>() - before;
    assert!(moved > 0, "the slot had no key");
    assert!(redirected > 0, "no request met the move");
    let account = Account::of(&scene.ledger.lock(), &scene.far_end, &server);
    account.holds("a slot that moves");
    assert_eq!(account.repeated_after_death, 0, "no process died");
    let (from, _) = cluster.holder_and_other(slot);
    let left: u64 = from.ask(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]);
    assert_eq!(left, 0, "the slot is at its new master alone");
    let (_, list) = server.ask("GET", "/v1/dlq?limit=1", &Value::Null);
    assert_eq!(list["items"], serde_json::json!([]), "a delivery failed for the move");
    server.stop();
    let row = Row {
        fault: "slot of a Redis Cluster moved",
        operation: "enqueue and settle",
        test: "matrix::cluster_slots",
        runs: 1,
        fired: usize::try_from(redirected).expect("a few"),
        acknowledged: account.acknowledged,
        lost: account.lost.len(),
        ..Row::default()
    };
    row.write();
}
