//! A node on Redis that is killed at every request to it: the wire breaks there, and with it the node dies.

use recado_testkit::fault_proxy::Proxy;
use recado_testkit::redis::RedisServer;

use super::given::eventually;
use super::kills::chosen;
use super::ledger::{Account, Ledger};
use super::operations::{Operation, for_each_operation};
use super::results::Row;
use super::scene::{Run, Scene};

const SEED: u64 = 2_030;

/// Leases of a dead node run out soon.
const LEASE: &str = "lease = \"2s\"\n";

/// Runs the operation on a fresh Redis. The node dies at this request, if one is named.
fn strike(operation: &Operation, at: Option<u64>) -> Run {
    let redis = RedisServer::durable();
    let wire = Proxy::to(redis.port());
    let mut scene = Scene::on_store(Ledger::default(), wire.url());
    scene.configure(&format!("{LEASE}{}", operation.config));
    let mut server = scene.serve_struck().expect("no fault yet");
    scene.is_at(&server);
    if let Some(prepare) = operation.prepare {
        prepare(&scene, &server);
    }
    let before = wire.requests();
    if let Some(at) = at {
        wire.break_after(at);
    }
    std::thread::scope(|threads| {
        let (wire, pid) = (&wire, server.pid());
        if at.is_some() {
            threads.spawn(move || {
                // Heartbeats are requests, too: it breaks in the end.
                eventually(|| wire.is_broken());
                let killed = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status();
                assert!(killed.expect("kill").success());
            });
        }
        (operation.act)(&scene, &mut server);
    });
    let (requests, fired) = (wire.requests() - before, wire.is_broken());
    drop(server);
    wire.mend();
    scene.far_end.lets_go();
    let mut server = scene.serve();
    scene.is_at(&server);
    (operation.finish)(&scene, &mut server);
    let account = Account::of(&scene.ledger.lock(), &scene.far_end, &server);
    server.stop();
    Run { account, calls: i64::try_from(requests).expect("a few"), fired }
}

fn kill_at_every_request(operation: &Operation) {
    let whole = strike(operation, None);
    whole.account.holds(operation.name);
    let mut row = Row {
        fault: "kill -9 at a request to Redis",
        operation: operation.name,
        test: "matrix::redis_commands",
        seed: SEED,
        ..Row::default()
    };
    let requests: Vec<_> = (0..whole.calls.unsigned_abs()).collect();
    for at in chosen(&requests, SEED) {
        let run = strike(operation, Some(at));
        run.account.holds(&format!("{} killed at request {at} of {}", operation.name, whole.calls));
        run.add_to(&mut row);
    }
    row.write();
}

for_each_operation! { any_store: kill_at_every_request }
