//! Peers that answer without end, very slowly, or with garbage: memory stays bounded, other routes are served, and the
//! job is tried again with the reason on record.

use std::time::{Duration, Instant};

use recado_testkit::eventually;
use recado_testkit::fault_proxy::{Mode, Proxy};
use recado_testkit::http::Act;
use recado_testkit::redis::RedisServer;
use recado_testkit::smtp::{self, Greeting, SmtpAct, SmtpServer};
use serde_json::{Value, json};

use super::far_end::HOSTILE;
use super::given::Server;
use super::ledger::{Account, Ledger};
use super::results::Row;
use super::scene::Scene;
use super::soak::resident_kib;

/// Jobs for the hostile peer, all at once.
const JOBS: usize = 8;

/// Memory that the server may take for it.
const GROWTH_MAX_KIB: f64 = 64.0 * 1_024.0;

/// The peer misbehaves for this long at least.
const HOSTILE_FOR: Duration = Duration::from_secs(4);

const POLICY: &str = "timeout = \"2s\"\npolicy = { base = \"50ms\", cap = \"200ms\", max_attempts = 100 }\n";

fn ids() -> impl Iterator<Item = String> {
    (0..JOBS).map(|nth| format!("struck-{nth}"))
}

/// Serves another route while the peer misbehaves, until each job of the peer has a failed attempt. Returns failed
/// attempts with a reason.
fn endure(scene: &Scene, server: &mut Server) -> usize {
    let (began, before, mut most) = (Instant::now(), resident_kib(server), 0.0_f64);
    let failed = |id: &String| {
        let (_, job) = server.ask("GET", &format!("/v1/jobs/{id}"), &Value::Null);
        let attempts = job["attempts"].as_array().cloned().unwrap_or_default();
        attempts
            .iter()
            .filter(|attempt| attempt["errorReason"].as_str().is_some_and(|why| !why.is_empty()))
            .count()
    };
    let mut nth = 0;
    eventually(|| {
        let id = format!("other-{nth}");
        nth += 1;
        let asked = Instant::now();
        scene.enqueue(&id, "deliver", &Value::Null);
        eventually(|| scene.status(&id).as_deref() == Some("sent"));
        assert!(asked.elapsed() < Duration::from_secs(5), "another route waited for {:?}", asked.elapsed());
        most = most.max(resident_kib(server));
        began.elapsed() > HOSTILE_FOR && ids().all(|id| failed(&id) > 0)
    });
    assert!(most - before < GROWTH_MAX_KIB, "memory grew by {} KiB", most - before);
    for id in ids() {
        let status = scene.status(&id);
        assert!(
            matches!(status.as_deref(), Some("retrying" | "queued" | "delivering" | "parked")),
            "{id}: {status:?}"
        );
    }
    ids().map(|id| failed(&id)).sum()
}

fn account_for(scene: &Scene, server: Server, fault: &'static str, operation: &'static str, fired: usize) {
    let account = Account::of(&scene.ledger.lock(), &scene.far_end, &server);
    account.holds(fault);
    assert_eq!(account.repeated_after_death, 0, "no process died");
    server.stop();
    let row = Row {
        fault,
        operation,
        test: "matrix::hostile_peers",
        runs: 1,
        fired,
        acknowledged: account.acknowledged,
        lost: account.lost.len(),
        ..Row::default()
    };
    row.write();
}

fn http_receiver(fault: &'static str, act: Act) {
    let mut scene = Scene::new(Ledger::default());
    let address = scene.far_end.address;
    scene.configure(&format!(
        "[providers.peer]\ntransport = \"http\"\nurl = \"http://{address}/\"\nheaders = {{ X-Life = \"${{LIFE}}\" }}\n\
         [routes.peer]\nprovider = \"peer\"\n{POLICY}"
    ));
    scene.far_end.misbehaves(Some(act));
    let mut server = scene.serve();
    scene.is_at(&server);
    ids().for_each(|id| scene.enqueue(&id, HOSTILE, &json!({ "route": "peer" })));
    endure(&scene, &mut server);
    let fired = scene.far_end.arrivals().iter().filter(|arrival| !arrival.is_delivered).count();
    assert!(fired >= JOBS, "each job met the peer");
    scene.far_end.misbehaves(None);
    account_for(&scene, server, fault, "deliver over HTTP", fired);
}

#[test]
fn headers_without_end_take_no_memory_and_no_other_routes_turn() {
    http_receiver("HTTP headers without end", Act::Flood("HTTP/1.1 200 OK\r\nx-long: ".to_owned()));
}

#[test]
fn a_body_of_ten_gigabytes_takes_no_memory_and_no_other_routes_turn() {
    let head = "HTTP/1.1 503 Busy\r\ncontent-length: 10000000000\r\n\r\n";
    http_receiver("HTTP body of 10 GB", Act::Flood(head.to_owned()));
}

#[test]
fn a_byte_a_second_takes_no_other_routes_turn() {
    http_receiver("HTTP answer, a byte a second", Act::Dribble("HTTP/1.1 200 O".to_owned()));
}

#[test]
fn an_smtp_reply_without_end_takes_no_memory_and_no_other_routes_turn() {
    let relay = SmtpServer::start(Greeting::of_relay());
    relay.always("MAIL", SmtpAct::Flood("250-"));
    let mut scene = Scene::new(Ledger::default());
    scene.configure(&format!("{}[routes.email]\n{POLICY}", smtp::provider(relay.address())));
    let mut server = scene.serve();
    scene.is_at(&server);
    for id in ids() {
        let mail = json!({ "from": "a@example.com", "to": "b@example.com", "subject": id, "text": "hello" });
        scene.enqueue(&id, "", &json!({ "route": "email", "data": mail }));
    }
    endure(&scene, &mut server);
    let fired = relay.fired();
    relay.recovers();
    ids().for_each(|id| drop(server.job_once(&id, "sent")));
    // The relay's own ledger: each message came once.
    assert_eq!(relay.taken().len(), JOBS, "{:?}", relay.taken());
    scene.ledger.lock().removed.extend(ids());
    account_for(&scene, server, "SMTP reply without end", "deliver by SMTP", fired);
}

#[test]
fn a_redis_that_answers_garbage_takes_no_memory_and_loses_nothing() {
    let redis = RedisServer::durable();
    let wire = Proxy::to(redis.port());
    let mut scene = Scene::on_store(Ledger::default(), wire.url());
    let server = scene.serve();
    scene.is_at(&server);
    let before = resident_kib(&server);
    ids().for_each(|id| scene.enqueue(&id, "deliver", &Value::Null));
    wire.set(Mode::Garbage);
    let began = Instant::now();
    let mut most = before;
    for nth in 0.. {
        scene.enqueue(&format!("meanwhile-{nth}"), "deliver", &Value::Null);
        most = most.max(resident_kib(&server));
        if began.elapsed() > HOSTILE_FOR {
            break;
        }
    }
    let fired = usize::try_from(wire.hurt()).expect("a few");
    wire.mend();
    wire.cut();
    assert!(most - before < GROWTH_MAX_KIB, "memory grew by {} KiB", most - before);
    assert!(scene.ledger.lock().unanswered > 0, "garbage was taken for an answer");
    account_for(&scene, server, "Redis answers garbage", "enqueue and settle", fired);
}
