//! Everything from one store into another, and back.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use recado_testkit::fault_proxy::Proxy;
use recado_testkit::redis::RedisServer;
use serde_json::{Value, json};

use super::given::{FAST, Place, Server, eventually};

#[test]
fn everything_moves_to_redis_and_back_with_the_same_checksum() {
    let redis = RedisServer::durable();
    let place = Place::new();
    let server = place.serve_with(&["--data-dir", "old"], &[]);
    server.enqueue(json!({"jobId": "later", "route": "sandbox", "companyId": "acme",
        "data": {"script": ["ok"]}, "delayMs": 600_000}));
    server.enqueue(
        json!({"jobId": "done", "route": "sandbox", "companyId": "acme", "data": {"script": ["ok"]}}),
    );
    server.enqueue(json!({"jobId": "dead", "route": "sandbox", "companyId": "acme",
        "data": {"script": ["550 5.1.1 no such user", "ok"]}}));
    server.job_once("done", "sent");
    server.job_once("dead", "failed");
    server.run(&place, &["tenants", "set", "acme", "--weight", "3"]).done();

    let to_redis = ["store", "migrate", "--from", "old", "--to", &redis.url(), "--json"];
    let said = place.run(&to_redis).failed_with(1);
    assert!(said.contains("is in use"), "{said}");
    server.stop();
    let there = place.run(&to_redis).json();
    assert_eq!((&there["jobs"]["count"], &there["leasesEnded"]), (&json!(3), &json!(0)), "{there}");
    let said = place.run(&["serve", "--data-dir", "old", "--listen", "127.0.0.1:0"]).failed_with(1);
    assert!(said.contains("was moved to redis://"), "{said}");

    let server = place.serve_with(&["--store", &redis.url()], &[]);
    // Without payloads: reading one leaves a record, which would move along.
    assert_eq!(server.get("/v1/jobs?status=scheduled")["items"][0]["jobId"], "later");
    assert_eq!(server.get("/v1/dlq/stats?by=lastFailureCode")["items"][0]["key"], "550");
    assert_eq!(server.get("/v1/tenants/acme")["weight"], 3);
    let back = ["store", "migrate", "--from", &redis.url(), "--to", "new", "--json"];
    let said = place.run(&back).failed_with(1);
    assert!(said.contains("is in use by"), "{said}");
    server.stop();
    let here = place.run(&back).json();
    assert_eq!((&here["jobs"], &here["notes"]), (&there["jobs"], &there["notes"]));

    let server = place.serve_with(&["--data-dir", "new"], &[]);
    server.run(&place, &["dlq", "replay", "dead"]).done();
    server.job_once("dead", "sent");
    server.stop();
}

#[test]
fn a_move_from_nowhere_or_into_a_store_in_use_says_what_to_do() {
    let place = Place::new();
    let said = place.run(&["store", "migrate", "--from", "nowhere", "--to", "new"]).failed_with(1);
    assert!(said.contains("there is no store in nowhere"), "{said}");
    for dir in ["one", "two"] {
        let server = place.serve_with(&["--data-dir", dir], &[]);
        server.enqueue(json!({"jobId": dir, "route": "sandbox", "companyId": "acme",
            "data": {"script": ["ok"]}, "delayMs": 600_000}));
        server.stop();
    }
    let said = place.run(&["store", "migrate", "--from", "one", "--to", "two"]).failed_with(1);
    assert!(said.contains("holds 1 job and "), "{said}");
    let said = place.run(&["store", "migrate", "--from", "one", "--to", "one"]).failed_with(2);
    assert!(said.contains("the same store"), "{said}");
}

#[test]
fn a_move_from_a_prefix_without_a_store_is_refused_and_leaves_nothing_there() {
    let (redis, place) = (RedisServer::durable(), Place::new());
    let arguments = ["store", "migrate", "--from", &redis.url(), "--prefix", "typo", "--to", "new"];
    let said = place.run(&arguments).failed_with(1);
    assert!(said.contains("no store with the prefix typo") && said.contains("--from-prefix"), "{said}");
    assert_eq!(redis.ask::<u64>(&["DBSIZE"]), 0, "it left something in Redis");
    assert!(!place.path().join("new").exists(), "it left something on disk");
}

#[test]
fn a_store_in_redis_moves_to_another_prefix_with_more_partitions() {
    let (redis, place) = (RedisServer::durable(), Place::new());
    let (jobs, url) = (fill(&place), redis.url());
    migrate(&place, "old", &url);
    place.write("recado.toml", "[store]\npartitions = 3\n");
    let said = refusal(&place, &["--store", &url]).expect("the store has one partition");
    assert!(said.contains("--from-prefix and --prefix"), "{said}");
    std::fs::remove_file(place.path().join("recado.toml")).expect("a removal");

    let to_more =
        ["store", "migrate", "--from", &url, "--from-prefix", "recado", "--to", &url, "--prefix", "more"];
    place.run(&[&to_more[..], &["--partitions", "3"]].concat()).done();
    let said = refusal(&place, &["--store", &url]).expect("the source is not served");
    let again = format!("--from {url} --from-prefix recado --to {url} --prefix more --partitions 3`");
    assert!(said.contains(&again), "{said}");
    place.write("recado.toml", &format!("[store]\nurl = \"{url}\"\nprefix = \"more\"\npartitions = 3\n"));
    let server = place.serve();
    assert_eq!(all_jobs(&server).into_iter().collect::<BTreeSet<_>>(), jobs);
    server.stop();
    let said =
        place.run(&["store", "migrate", "--from", "old", "--to", &url, "--prefix", "more"]).failed_with(1);
    assert!(said.contains("write --partitions 3"), "{said}");
}

/// A store in `old` with jobs that wait, one that is dead, and a note.
fn fill(place: &Place) -> BTreeSet<String> {
    let server = place.serve_with(&["--data-dir", "old"], &[]);
    let job = |name: &str, script: &str, delay: u64| json!({"jobId": name, "route": "sandbox", "companyId": "acme", "data": {"script": [script]}, "delayMs": delay});
    let names: Vec<String> = (0..40).map(|nth| format!("later-{nth}")).collect();
    let jobs: Vec<Value> = names.iter().map(|name| job(name, "ok", 600_000)).collect();
    assert_eq!(server.ask("POST", "/v1/jobs/batch", &Value::Array(jobs)).1["accepted"], 40);
    server.enqueue(job("dead", "550 no such user", 0));
    server.job_once("dead", "failed");
    server.run(place, &["tenants", "set", "acme", "--weight", "3"]).done();
    server.stop();
    names.into_iter().chain(["dead".to_owned()]).collect()
}

fn copy(place: &Place, from: &str, to: &str) {
    let copied = Command::new("cp").args(["-r", from, to]).current_dir(place.path()).status();
    assert!(copied.expect("cp").success());
}

fn migrate(place: &Place, from: &str, to: &str) {
    place.run(&["store", "migrate", "--from", from, "--to", to]).done();
}

/// Moves, and kills the process where the wire breaks. Whether it did.
fn is_killed(place: &Place, wire: &Proxy, from: &str, to: &str) -> bool {
    is_killed_with(place, wire, &["store", "migrate", "--from", from, "--to", to])
}

fn is_killed_with(place: &Place, wire: &Proxy, arguments: &[&str]) -> bool {
    let mut command = place.command(arguments);
    let mut moving = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary runs");
    loop {
        if moving.try_wait().expect("a child").is_some() {
            return wire.is_broken();
        }
        if wire.is_broken() {
            moving.kill().expect("SIGKILL");
            moving.wait().expect("it ended");
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The words of a server that refuses to serve a store; none if it serves it.
fn refusal(place: &Place, store: &[&str]) -> Option<String> {
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.args(store).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = command.spawn().expect("the binary runs");
    // It ends or says that it is ready.
    let out = BufReader::new(server.stdout.take().expect("a pipe"));
    let is_ready = out.lines().map_while(Result::ok).any(|line| line.contains("Recado is ready"));
    if is_ready {
        server.kill().expect("SIGKILL");
    }
    let output = server.wait_with_output().expect("what it said");
    if is_ready {
        return None;
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let looked = place.run(&[&["doctor", "--url", "http://127.0.0.1:9"], store].concat());
    let fix = said.trim_start_matches("error: ").trim_start_matches("cannot open the store: ");
    let fix = fix.lines().next().unwrap_or_default();
    let sees_it = looked.code == 1 && looked.out.contains("✗ store") && looked.out.contains(fix);
    assert!(sees_it, "the doctor does not see it: {said}\n{}", looked.out);
    Some(said)
}

fn all_jobs(server: &Server) -> Vec<String> {
    let items = server.get("/v1/jobs?limit=100")["items"].as_array().expect("a list").clone();
    items.iter().map(|job| job["jobId"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn a_move_to_redis_that_is_killed_serves_neither_store_until_it_is_taken_up_again() {
    let (redis, place) = (RedisServer::durable(), Place::new());
    let (wire, jobs) = (Proxy::to(redis.port()), fill(&place));
    let to_redis = ["--store", &redis.url()];
    // Before the target's mark, among the jobs, among the notes, and before the last write of all.
    let cuts = [("\"done\":false", 0), ("later-20", 1), ("\"weight\":3", 2), ("\"done\":true", 3)];
    for (words, nth) in cuts {
        redis.ask::<()>(&["FLUSHALL"]);
        let source = format!("old-{nth}");
        copy(&place, "old", &source);
        wire.break_before(words);
        assert!(is_killed(&place, &wire, &source, &wire.url()), "the wire broke before {words}");
        let said = refusal(&place, &["--data-dir", &source]).expect("the source is not served");
        assert!(said.contains("being moved to redis://") || said.contains("was moved to redis://"), "{said}");
        if nth > 0 {
            let said = refusal(&place, &to_redis).expect("the target is not served");
            assert!(said.contains("being filled from") && said.contains(&source), "{said}");
        }
        wire.mend();
        migrate(&place, &source, &wire.url());
        let said = refusal(&place, &["--data-dir", &source]).expect("the source is not served");
        assert!(said.contains("was moved to redis://"), "{said}");
        let server = place.serve_with(&to_redis, &[]);
        let found = all_jobs(&server);
        assert_eq!((found.len(), found.into_iter().collect::<BTreeSet<_>>()), (jobs.len(), jobs.clone()));
        server.stop();
    }
}

#[test]
fn a_move_that_was_cut_off_goes_on_under_the_same_prefix_and_no_other() {
    let (redis, place) = (RedisServer::durable(), Place::new());
    let (wire, _) = (Proxy::to(redis.port()), fill(&place));
    let url = wire.url();
    let plain = ["store", "migrate", "--from", "old", "--to", &url];
    let prefixed = [&plain[..], &["--prefix", "zz", "--partitions", "2"]].concat();
    wire.break_before("later-20");
    assert!(is_killed_with(&place, &wire, &prefixed), "the wire broke");
    wire.mend();
    let said = refusal(&place, &["--data-dir", "old"]).expect("the source is not served");
    assert!(said.contains(&format!("--to {url} --prefix zz --partitions 2`")), "{said}");
    let said = place.run(&plain).failed_with(1);
    assert!(said.contains("--prefix zz"), "another prefix is another store: {said}");
    place.run(&prefixed).done();
    place.run(&plain).failed_with(1);
}

#[test]
fn a_move_from_redis_that_is_killed_is_taken_up_again_or_called_off_by_name() {
    let (redis, place) = (RedisServer::durable(), Place::new());
    let (wire, jobs) = (Proxy::to(redis.port()), fill(&place));
    let from_redis = ["--store", &redis.url()];
    // While everything is read, and before the source is marked as moved.
    for (words, target) in [("XRANGE", "new-0"), ("\"done\":true", "new-1")] {
        redis.ask::<()>(&["FLUSHALL"]);
        let copied = format!("old-{target}");
        copy(&place, "old", &copied);
        migrate(&place, &copied, &redis.url());
        wire.break_before(words);
        assert!(is_killed(&place, &wire, &wire.url(), target), "the wire broke before {words}");
        let said = refusal(&place, &from_redis).expect("the source is not served");
        assert!(said.contains("is being moved to") && said.contains(target), "{said}");
        let said = refusal(&place, &["--data-dir", target]).expect("the target is not served");
        assert!(said.contains("being filled from redis://"), "{said}");
        wire.mend();
        if target == "new-1" {
            migrate(&place, &wire.url(), target);
            let server = place.serve_with(&["--data-dir", target], &[]);
            assert_eq!(all_jobs(&server).into_iter().collect::<BTreeSet<_>>(), jobs);
            server.stop();
            continue;
        }
        let url = wire.url();
        let abort = |to: &str| place.run(&["store", "migrate", "--from", &url, "--to", to, "--abort"]);
        let said = abort("elsewhere").failed_with(1);
        assert!(said.contains("is being moved to") && said.contains(target), "by its name alone: {said}");
        assert!(abort(target).done().contains("cancelled"));
        let server = place.serve_with(&from_redis, &[]);
        assert_eq!(all_jobs(&server).into_iter().collect::<BTreeSet<_>>(), jobs);
        server.stop();
        let said = refusal(&place, &["--data-dir", target]).expect("what was half filled is never served");
        assert!(said.contains("If that move was cancelled, empty this store"), "{said}");
    }
}

#[test]
fn a_mover_that_stood_still_while_another_finished_writes_nothing_more() {
    let (source, target, place) = (
        RedisServer::durable(),
        RedisServer::durable(),
        Place::with("[retention]\nended_max_age = \"0s\"\n"),
    );
    fill(&place);
    migrate(&place, "old", &source.url());
    let wire = Proxy::to(target.port());
    let url = wire.url();
    let arguments = ["store", "migrate", "--from", &source.url(), "--to", &url, "--timeout", "1m"];

    wire.hold_before("later-20");
    let mut command = place.command(&arguments);
    let stopped = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    eventually(|| wire.is_holding());
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &stopped.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    };
    signal("-STOP");
    place.run(&arguments).done();

    // The target is served, its jobs end, and it forgets them.
    let server = place.serve_with(&["--store", &target.url()], &[]);
    for job in all_jobs(&server).iter().filter(|job| job.starts_with("later-")) {
        assert_eq!(server.ask("DELETE", &format!("/v1/jobs/{job}"), &Value::Null).0, 200);
    }
    eventually(|| all_jobs(&server) == ["dead"]);
    signal("-CONT");
    wire.mend();
    let ended = stopped.wait_with_output().expect("what it said");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(all_jobs(&server), ["dead"], "what was forgotten has come back: {said}");
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("has taken this move over"), "{said}");
    server.stop();
}

#[test]
fn a_server_that_was_taken_for_dead_ends_when_its_store_is_moved_away() {
    let (redis, place) = (RedisServer::durable(), Place::new());
    let server = place.serve_with(&["--store", &redis.url()], &[]);
    server
        .enqueue(json!({"jobId": "a", "route": "sandbox", "companyId": "acme", "data": {"script": ["ok"]}}));
    server.job_once("a", "sent");
    server.signal("STOP");
    // As after the minute that a silent node is remembered for.
    redis.ask::<()>(&["DEL", "recado:{notes}:shelf:nodes"]);
    migrate(&place, &redis.url(), "new");
    server.signal("CONT");
    let (status, said) = server.ended();
    assert!(!status.success() && said.contains("everything in this store was moved to"), "{status}: {said}");
}

#[test]
fn a_bulk_replay_goes_on_in_another_store_and_passes_no_entry_by() {
    const ENTRIES: usize = 60;
    let (redis, place) = (RedisServer::durable(), Place::with(FAST));
    let server = place.serve_with(&["--data-dir", "old"], &[]);
    let names: Vec<String> = (0..ENTRIES).map(|nth| format!("e-{nth:02}")).collect();
    // They die in another order than they come, and fail again when they are replayed: so all stay in the queue.
    let job = |nth: usize| {
        json!({"jobId": names[nth], "route": "sandbox", "companyId": format!("c-{nth}"),
            "data": {"script": ["550 no"]}, "delayMs": 20 * (ENTRIES - nth)})
    };
    let (_, taken) = server.ask("POST", "/v1/jobs/batch", &Value::Array((0..ENTRIES).map(job).collect()));
    assert_eq!(taken["accepted"], ENTRIES);
    names.iter().for_each(|name| drop(server.job_once(name, "failed")));
    std::thread::sleep(Duration::from_millis(2));
    let (status, begun) = server.ask("POST", "/v1/dlq/replay", &json!({"filter": {}, "ratePerSecond": 10}));
    assert_eq!(status, 202, "{begun}");
    let bulk = format!("/v1/replays/{}", begun["id"].as_str().expect("an id"));
    let done = |server: &Server| server.get(&bulk)["done"].as_u64().expect("a number");
    eventually(|| done(&server) >= 10);
    server.stop();
    migrate(&place, "old", &redis.url());
    let server = place.serve_with(&["--store", &redis.url()], &[]);
    let so_far = done(&server);
    assert!(so_far < ENTRIES as u64 - 20, "it was cut off in the middle: {so_far}");
    eventually(|| done(&server) >= so_far + 10);
    server.stop();
    migrate(&place, &redis.url(), "new");
    let server = place.serve_with(&["--data-dir", "new"], &[]);
    assert!(done(&server) < ENTRIES as u64, "and again");
    eventually(|| server.get(&bulk)["state"] != "running");
    let ended = server.get(&bulk);
    assert_eq!(
        (&ended["state"], &ended["done"], &ended["skipped"]),
        (&json!("done"), &json!(ENTRIES), &json!(0))
    );
    for name in &names {
        let job = server.job_once(name, "failed");
        assert_eq!(
            job["attempts"].as_array().expect("a list").len(),
            2,
            "it failed, and was replayed once: {job}"
        );
    }
    server.stop();
}

#[test]
fn the_order_of_dead_letters_is_the_same_in_every_store() {
    let (redis, place) = (RedisServer::durable(), Place::with(FAST));
    let server = place.serve_with(&["--data-dir", "old"], &[]);
    let job = |nth: u64| {
        json!({"jobId": format!("e-{nth}"), "route": "sandbox", "companyId": format!("c-{nth}"),
            "data": {"script": ["550 no"]}, "delayMs": 600 - 100 * nth})
    };
    let (_, taken) = server.ask("POST", "/v1/jobs/batch", &Value::Array((0..6).map(job).collect()));
    assert_eq!(taken["accepted"], 6);
    (0..6).for_each(|nth| drop(server.job_once(&format!("e-{nth}"), "failed")));
    let queue = |server: &Server| -> Vec<String> {
        let items = server.get("/v1/dlq?limit=100")["items"].as_array().expect("a list").clone();
        items.iter().map(|entry| entry["jobId"].as_str().expect("an id").to_owned()).collect()
    };
    let order = queue(&server);
    let arrived: Vec<String> = (0..6).rev().map(|nth| format!("e-{nth}")).collect();
    assert_ne!(order, arrived, "they died in another order than they came");
    server.stop();
    migrate(&place, "old", &redis.url());
    migrate(&place, &redis.url(), "new");
    let server = place.serve_with(&["--data-dir", "new"], &[]);
    assert_eq!(queue(&server), order);
    server.stop();
}
