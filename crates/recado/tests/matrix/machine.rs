//! Faults of the machine around a server on its own disk: a clock that is set, memory that runs out, names that are not
//! resolved, callers that hold ten thousand sockets.

use std::net::TcpStream;
use std::process::{Command, Stdio};

use recado_testkit::eventually;
use serde_json::{Value, json};

use super::given::Server;
use super::ledger::{Account, Ledger};
use super::results::Row;
use super::scene::{Scene, job};

const DAY_S: i64 = 86_400;
const YEAR_S: i64 = 365 * DAY_S;

fn row(fault: &'static str, operation: &'static str) -> Row {
    Row { fault, operation, test: "matrix::machine", ..Row::default() }
}

/// Accounts for every job after a restart, and writes the row down. No process died, so nothing may be repeated.
#[track_caller]
fn nothing_is_lost_or_repeated(mut scene: Scene, server: Server, mut row: Row) {
    // What was repeated after a restart had been sent before it.
    let account = Account::of(&scene.ledger.lock(), &scene.far_end, &server);
    account.holds(row.fault);
    drop(server);
    let server = scene.serve();
    scene.is_at(&server);
    let account = Account::of(&scene.ledger.lock(), &scene.far_end, &server);
    account.holds(row.fault);
    assert_eq!(account.repeated_after_death, 0, "nothing was under way");
    row.runs = 1;
    row.acknowledged = account.acknowledged;
    row.lost = account.lost.len();
    row.write();
}

#[test]
fn a_wall_clock_that_is_set_by_seconds_to_years_loses_and_repeats_nothing() {
    let mut scene = Scene::new(Ledger::default());
    let mut server = scene.serve_struck().expect("no fault yet");
    scene.is_at(&server);
    let steps = [5, -5, DAY_S, -DAY_S, 10 * YEAR_S, -10 * YEAR_S, 0];
    for (nth, offset_s) in steps.into_iter().enumerate() {
        scene.far_end.holds();
        let ids: Vec<_> = (0..4).map(|job| format!("step-{nth}-{job}")).collect();
        ids.iter().for_each(|id| scene.enqueue(id, "deliver", &Value::Null));
        let came = 4 * (nth + 1);
        scene.until(&mut server, || Some(scene.far_end.arrivals().len() >= came));
        scene.faults.set_clock(offset_s);
        eventually(|| scene.faults.fired("step") > nth);
        scene.far_end.lets_go();
        scene.until(&mut server, || {
            let now = ids.iter().map(|id| scene.status(id)).collect::<Option<Vec<_>>>()?;
            Some(now.iter().all(|status| status == "sent"))
        });
        // By the next clock they may have ended years ago, and then they are forgotten.
        scene.ledger.lock().removed.extend(ids);
    }
    let mut row = row("wall clock set by 5 s, a day and 10 years, both ways", "enqueue and settle");
    row.fired = scene.faults.fired("step");
    nothing_is_lost_or_repeated(scene, server, row);
}

#[test]
fn names_that_are_not_resolved_hold_back_no_provider_but_their_own() {
    let mut scene = Scene::new(Ledger::default());
    let by_name = format!(
        "[providers.named]\ntransport = \"http\"\nurl = \"http://localhost:{}/\"\nheaders = {{ X-Life = \"${{LIFE}}\" }}\n\
         [routes.named]\nprovider = \"named\"\ntimeout = \"1s\"\npolicy = {{ base = \"50ms\", cap = \"200ms\", max_attempts = 50 }}\n",
        scene.far_end.address.port()
    );
    scene.configure(&by_name);
    let mut server = scene.serve_struck().expect("no fault yet");
    scene.is_at(&server);
    scene.faults.stall_names(true);
    for nth in 0..4 {
        scene.enqueue(&format!("named-{nth}"), "deliver", &json!({ "route": "named" }));
    }
    eventually(|| scene.faults.fired("names") > 0);
    for nth in 0..8 {
        let id = format!("other-{nth}");
        scene.enqueue(&id, "deliver", &Value::Null);
        scene.until(&mut server, || Some(scene.status(&id)? == "sent"));
    }
    assert!(
        scene.far_end.arrivals().iter().all(|arrival| arrival.key.starts_with("other")),
        "no name was resolved"
    );
    let mut row = row("resolver that does not answer", "deliver");
    row.fired = scene.faults.fired("names");
    scene.faults.stall_names(false);
    nothing_is_lost_or_repeated(scene, server, row);
}

/// Starts a server whose process may have this much address space and no more.
fn serve_with_memory(scene: &Scene, kib: u64) -> Server {
    let serve = scene.place.serve_command();
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("ulimit -v {kib}; exec \"$0\" \"$@\""));
    command.arg(serve.get_program()).args(serve.get_args());
    command.current_dir(scene.place.path()).env_clear().env("LIFE", "struck").stdin(Stdio::null());
    scene.place.start(command)
}

#[test]
fn a_server_that_runs_out_of_memory_loses_nothing_that_it_acknowledged() {
    const MORE_KIB: u64 = 24 << 10;
    const BODY_BYTES: usize = 900 << 10;
    // Bodies that are on their way together need more than there is.
    const CALLERS: usize = 64;
    let mut scene = Scene::new(Ledger::default());
    let server = scene.serve();
    let needs = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("a process");
    let needs = needs.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB"));
    let needs: u64 = needs.and_then(|kib| kib.parse().ok()).expect("its address space");
    server.stop();
    let mut server = serve_with_memory(&scene, needs + MORE_KIB);
    scene.is_at(&server);
    scene.far_end.holds();
    for nth in 0..8 {
        scene.enqueue(&format!("small-{nth}"), "deliver", &Value::Null);
    }
    let is_short = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for caller in 0..CALLERS {
            let (scene, is_short) = (&scene, &is_short);
            threads.spawn(move || {
                for nth in 0..40 {
                    let id = format!("large-{caller}-{nth}");
                    let mut large = job(&id, "deliver");
                    large["data"]["body"]["padding"] = "x".repeat(BODY_BYTES).into();
                    match scene.ask("POST", "/v1/jobs", &large) {
                        Some((202, _)) => drop(scene.ledger.lock().acknowledged.insert(id)),
                        _ => drop(is_short.fetch_add(1, std::sync::atomic::Ordering::SeqCst)),
                    }
                    if is_short.load(std::sync::atomic::Ordering::SeqCst) > 0 {
                        return;
                    }
                }
            });
        }
    });
    let died = !server.is_alive();
    let mut row = row("memory limit", "enqueue");
    row.fired = is_short.into_inner();
    println!("out of memory: {} refused or unanswered, died: {died}", row.fired);
    scene.far_end.lets_go();
    drop(server);
    let server = scene.serve();
    scene.is_at(&server);
    let account = Account::of(&scene.ledger.lock(), &scene.far_end, &server);
    account.holds(row.fault);
    row.runs = 1;
    row.acknowledged = account.acknowledged;
    row.add_duplicates("death before the record", account.repeated_after_death);
    row.write();
}

#[test]
fn ten_thousand_idle_sockets_keep_no_caller_out_and_hold_back_no_delivery() {
    const SOCKETS: usize = 10_000;
    let mut scene = Scene::new(Ledger::default());
    let mut server = scene.serve_struck().expect("no fault yet");
    scene.is_at(&server);
    // Silent ones, and every tenth says one letter of a request and no more.
    let idle: Vec<_> = (0..SOCKETS)
        .filter_map(|nth| {
            let mut stream = TcpStream::connect(server.address).ok()?;
            if nth.is_multiple_of(10) {
                std::io::Write::write_all(&mut stream, b"P").ok()?;
            }
            Some(stream)
        })
        .collect();
    for nth in 0..8 {
        let id = format!("meanwhile-{nth}");
        scene.enqueue(&id, "deliver", &Value::Null);
        scene.until(&mut server, || Some(scene.status(&id)? == "sent"));
    }
    assert_eq!(scene.ledger.lock().unanswered, 0, "a caller was kept out");
    let mut row = row("10,000 idle sockets", "enqueue and settle");
    row.fired = usize::from(idle.len() >= SOCKETS * 9 / 10);
    drop(idle);
    nothing_is_lost_or_repeated(scene, server, row);
}
