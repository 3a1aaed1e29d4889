//! One server on its own disk while the machine misbehaves: the disk stalls, the wall clock steps, the process stands
//! still. No crash, so no job may be sent twice, and none late.

use std::time::Duration;

use serde_json::{Value, json};

use super::far_end::FarEnd;
use super::faults::Faults;
use super::given::{Place, Server, eventually};
use super::nodes::{enqueue, job};

/// The lease of the servers here: each fault lasts several of these.
const LEASE: Duration = Duration::from_secs(1);

const HOUR_S: i64 = 3_600;

/// A server on its own disk that these faults can strike, and its far end.
struct Scene {
    faults: Faults,
    far_end: FarEnd,
    place: Place,
}

impl Scene {
    fn new(more: &str) -> Self {
        let far_end = FarEnd::start();
        let lane = far_end.lane("concurrency = 16\n");
        let place = Place::with(&format!("{lane}{more}[engine]\nlease = \"1s\"\n"));
        Scene { faults: Faults::new(), far_end, place }
    }

    fn serve(&self) -> Server {
        let mut variables = self.faults.variables();
        variables.push(("NODE", "0.1".to_owned()));
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.place.serve_with(&[], &variables)
    }

    /// Ten jobs on their way, whose far end does not answer.
    fn ten_under_way(&self, server: &Server) -> Vec<String> {
        self.far_end.holds();
        let ids = enqueue(server, "acme", 10);
        self.far_end.once_come(10);
        ids
    }

    /// Lets the far end answer; each of these jobs was sent once, and no attempt of it is lost.
    #[track_caller]
    fn each_was_sent_once(&self, server: &Server, ids: &[String]) {
        self.far_end.recovers();
        for id in ids {
            let job = server.job_once(id, "sent");
            assert_eq!(job["attempts"].as_array().map(Vec::len), Some(1), "{job:#}");
        }
        let mut came: Vec<_> = self.far_end.arrivals().into_iter().map(|arrival| arrival.key).collect();
        came.sort();
        let mut ids = ids.to_vec();
        ids.sort();
        assert_eq!(came, ids, "each job was requested once");
    }
}

#[test]
fn a_disk_that_stalls_for_several_leases_makes_no_delivery_happen_twice() {
    let scene = Scene::new("");
    let server = scene.serve();
    let mut ids = scene.ten_under_way(&server);
    scene.faults.stall_disk();
    std::thread::scope(|threads| {
        // It is taken in when the disk is back. Until then no answer leaves the store.
        threads.spawn(|| server.ask("POST", "/v1/jobs", &job("late", "acme", "deliver")));
        eventually(|| scene.faults.fired("stall") > 0);
        std::thread::sleep(LEASE * 4);
        scene.faults.free_disk();
    });
    ids.push("late".to_owned());
    // What would be taken over is taken over and sent now.
    std::thread::sleep(LEASE * 2);
    scene.each_was_sent_once(&server, &ids);
}

#[test]
fn a_wall_clock_that_steps_by_more_than_a_lease_takes_no_lease_away() {
    let scene = Scene::new("[routes.work]\ntransport = \"worker\"\n");
    let server = scene.serve();
    let ids = scene.ten_under_way(&server);
    let ask = json!({ "routes": ["work"], "max": 1, "waitMs": 0, "leaseMs": 60_000, "workerId": "w" });
    server.enqueue(json!({ "jobId": "outside", "route": "work", "companyId": "acme", "data": {} }));
    let (_, leased) = server.ask("POST", "/v1/leases", &ask);
    let token = leased["leases"][0]["leaseToken"].as_str().expect("a lease").to_owned();
    for (step, offset_s) in [(1, HOUR_S), (2, -HOUR_S), (3, 0)] {
        scene.faults.set_clock(offset_s);
        eventually(|| scene.faults.fired("step") >= step);
        std::thread::sleep(LEASE + LEASE / 2);
        assert_eq!(server.get("/v1/jobs/outside")["status"], "delivering", "the worker has it for a minute");
    }
    let (status, body) = server.ask("POST", &format!("/v1/leases/{token}/succeed"), &json!({}));
    assert_eq!(status, 200, "{body}");
    scene.each_was_sent_once(&server, &ids);
}

#[test]
fn a_process_that_stood_still_for_several_leases_sends_nothing_twice() {
    let scene = Scene::new("");
    let server = scene.serve();
    let ids = scene.ten_under_way(&server);
    // Which of its tasks is the first to go on is a matter of chance.
    for _ in 0..3 {
        server.signal("STOP");
        std::thread::sleep(LEASE * 2);
        server.signal("CONT");
        std::thread::sleep(LEASE);
    }
    scene.each_was_sent_once(&server, &ids);
}

#[test]
fn an_answer_that_came_while_the_process_stood_still_beyond_the_timeout_is_read() {
    let scene = Scene::new("timeout = \"2s\"\n");
    let server = scene.serve();
    let ids = scene.ten_under_way(&server);
    server.signal("STOP");
    scene.far_end.recovers();
    std::thread::sleep(Duration::from_secs(4));
    server.signal("CONT");
    scene.each_was_sent_once(&server, &ids);
}

#[test]
fn a_scheduled_job_starts_by_the_wall_clock_whatever_the_clock_did() {
    let scene = Scene::new("[routes.work]\ntransport = \"worker\"\n");
    let server = scene.serve();
    let in_an_hour = |id: &str, route: &str| {
        let mut job = job(id, "acme", "deliver");
        job["route"] = json!(route);
        job["delayMs"] = json!(HOUR_S * 1_000);
        job
    };
    server.enqueue(in_an_hour("sent", "sink"));
    server.enqueue(in_an_hour("leased", "work"));
    let ask = json!({ "routes": ["work"], "max": 1, "waitMs": 25_000, "workerId": "w" });
    let leased: Value = std::thread::scope(|threads| {
        let worker = threads.spawn(|| server.ask("POST", "/v1/leases", &ask).1);
        // Both wait by now, for an hour.
        std::thread::sleep(LEASE);
        assert_eq!(scene.far_end.count(), 0);
        scene.faults.set_clock(HOUR_S);
        scene.far_end.once_come(1);
        assert!(scene.faults.fired("step") > 0);
        server.job_once("sent", "sent");
        worker.join().expect("an answer")
    });
    assert_eq!(leased["leases"][0]["job"]["jobId"], "leased", "{leased}");
}

/// Everything on record is in the files.
fn all_is_archived(server: &Server, at_least: usize) -> bool {
    let found = server.get("/v1/audit?limit=1000");
    let items = found["items"].as_array().expect("a list");
    items.len() >= at_least && items.iter().all(|item| item["sequence"].is_u64())
}

#[test]
fn a_clock_that_is_put_back_and_a_restart_freeze_neither_bulk_acts_nor_the_archiver() {
    const ENTRIES: u64 = 20;
    let scene = Scene::new("[routes.email]\ntransport = \"sandbox\"\n");
    let server = scene.serve();
    for at in 0..ENTRIES {
        let data = json!({ "script": ["550 no such user", "ok"] });
        let id = format!("dead-{at}");
        server.enqueue(json!({ "jobId": id, "route": "email", "companyId": "acme", "data": data }));
        server.job_once(&id, "failed");
    }
    let order = json!({ "filter": {}, "ratePerSecond": 10 });
    let (status, bulk) = server.ask("POST", "/v1/dlq/replay", &order);
    assert_eq!(status, 202, "{bulk}");
    let path = format!("/v1/replays/{}", bulk["id"].as_str().expect("an id"));
    eventually(|| server.get(&path)["done"].as_u64() >= Some(1));
    // As `kill -9`.
    drop(server);
    scene.faults.set_clock(-HOUR_S);
    let server = scene.serve();
    let before = server.get(&path);
    assert_eq!(before["state"], "running", "it was cut off: {before}");
    eventually(|| server.get(&path)["state"] != "running");
    let bulk = server.get(&path);
    assert_eq!((&bulk["state"], &bulk["done"]), (&json!("done"), &json!(ENTRIES)), "{bulk}");
    assert!(scene.faults.fired("step") > 0);
    // Each failed and was replayed and delivered; the bulk act began and ended.
    eventually(|| all_is_archived(&server, 3 * ENTRIES as usize + 2));
}
