//! Dead letters by the command line: many at once, out and back, and at a glance.

use serde_json::{Value, json};

use super::given::{FAST, Place, Server, eventually};

/// Jobs that fail once for good and would go through after that.
fn bury(server: &Server, company: &str, names: &[&str]) {
    for name in names {
        let data = json!({"script": ["550 no such user", "ok"]});
        server.enqueue(json!({"jobId": name, "route": "sandbox", "companyId": company, "data": data}));
        // One after another, so that the first is the oldest.
        server.job_once(name, "failed");
    }
    // What moved to the queue at the very moment of a start would not count as before it.
    std::thread::sleep(std::time::Duration::from_millis(2));
}

#[test]
fn w3_many_are_counted_asked_about_replayed_and_watched() {
    let place = Place::with(FAST);
    let server = place.serve();
    bury(&server, "acme", &["a-1", "a-2", "a-3"]);
    bury(&server, "bolt", &["b-1"]);
    let counted = server.run(&place, &["dlq", "replay", "--company", "acme", "--dry-run"]).done();
    assert!(counted.starts_with("would replay 3 dead letters; nothing was touched"), "{counted}");
    assert!(counted.contains("a-2") && !counted.contains("b-1"), "{counted}");

    let unasked = server.run(&place, &["dlq", "replay", "--company", "acme"]).failed_with(2);
    assert!(unasked.contains("this would replay 3 dead letters; add --yes"), "{unasked}");
    let done = server
        .run(
            &place,
            &[
                "dlq",
                "replay",
                "--reason",
                "NO SUCH",
                "--company",
                "acme",
                "--canary",
                "1",
                "--rate",
                "100",
                "--yes",
                "--json",
            ],
        )
        .json();
    assert_eq!(
        (&done["state"], &done["done"], &done["actor"]),
        (&json!("done"), &json!(3), &json!("tester"))
    );
    server.job_once("a-3", "sent");
    let missing = server.run(&place, &["dlq", "bulk", "list"]).failed_with(1);
    assert!(missing.contains("there is no bulk act `list`; `recado dlq bulk`"), "{missing}");
    let bulks = server.run(&place, &["dlq", "bulk"]).done();
    assert!(bulks.contains("3 of 3") && bulks.contains("done"), "{bulks}");
    let one = server.run(&place, &["dlq", "bulk", done["id"].as_str().unwrap()]).done();
    assert!(one.contains("1 delivered") && one.contains("tester"), "{one}");
    assert_eq!(server.get("/v1/dlq/b-1")["state"], "dead");
}

#[test]
fn w3_a_discard_of_many_needs_a_reason_and_a_yes_and_one_alone_does_not() {
    let place = Place::with(FAST);
    let server = place.serve();
    bury(&server, "acme", &["a-1", "a-2"]);
    server.run(&place, &["dlq", "discard", "--all", "--yes"]).failed_with(2);
    for wrong in [
        &["dlq", "replay"][..],
        &["dlq", "replay", "--all", "--code", "550"],
        &["dlq", "replay", "a-1", "--all"],
        &["dlq", "replay", "--all", "--data", "{}"],
    ] {
        server.run(&place, wrong).failed_with(2);
    }
    let said = server.run(&place, &["dlq", "discard", "a-1", "--reason", "customer left"]).done();
    assert_eq!(said, "a-1 discarded\n");
    let shown = server
        .run(&place, &["dlq", "discard", "--reason-contains", "no such", "--reason", "customer left"])
        .done();
    assert!(shown.contains("1 of 1"), "one alone is not asked about: {shown}");
    let none = server.run(&place, &["dlq", "discard", "--all", "--reason", "r", "--yes"]).failed_with(1);
    assert!(none.contains("no dead letter matches; nothing was touched"), "{none}");
}

#[test]
fn a_canary_that_dies_ends_the_command_with_one_and_its_reason() {
    let place = Place::with(FAST);
    let server = place.serve();
    for name in ["a", "b", "c"] {
        let data = json!({"script": ["550 no such user"]});
        server.enqueue(json!({"jobId": name, "route": "sandbox", "companyId": "acme", "data": data}));
        server.job_once(name, "failed");
    }
    std::thread::sleep(std::time::Duration::from_millis(2));
    let said = server.run(&place, &["dlq", "replay", "--all", "--canary", "1", "--yes"]);
    assert!(said.out.contains("stopped") && said.out.contains("1 of 3"), "{}", said.out);
    assert!(said.failed_with(1).contains("failed again: no such user"));
}

#[test]
fn a_reason_that_begins_with_nul_is_a_reason_and_the_server_goes_on() {
    let place = Place::with(FAST);
    let server = place.serve();
    for (name, said) in [("all", "550 \0\0"), ("first", "550 \0no\0 such user")] {
        let data = json!({"script": [said]});
        server.enqueue(json!({"jobId": name, "route": "sandbox", "companyId": "acme", "data": data}));
        server.job_once(name, "failed");
    }
    let reason = |name: &str| server.get(&format!("/v1/dlq/{name}"))["lastFailureReason"].clone();
    assert_eq!(reason("all"), "\u{fffd}\u{fffd}");
    assert_eq!(reason("first"), "\u{fffd}no\u{fffd} such user");
}

#[test]
fn g1_at_one_more_than_the_bound_the_oldest_is_in_the_archive_and_import_brings_it_back() {
    let place = Place::with(&format!("[dlq]\nmax_size = 2\n[alerts]\nevery = \"1s\"\n{FAST}"));
    let server = place.serve();
    bury(&server, "acme", &["a", "b", "c"]);
    eventually(|| server.ask("GET", "/v1/dlq/a", &Value::Null).0 == 404);
    let full = "The dead letter queue is full; the oldest entries were moved to the archive, and `recado dlq import` \
                brings them back";
    let lines = server.logged(full, 1);
    let file = lines[0]["place"].as_str().unwrap().to_owned();
    assert!(file.contains("recado-data/dlq-archive/"), "{file}");
    let rings = || server.get("/v1/alerts")["items"].as_array().unwrap().clone();
    eventually(|| rings().iter().any(|alert| alert["name"] == "dlq_overflow"));
    let archived: Value = serde_json::from_str(place.read(&file).lines().next().unwrap()).unwrap();
    assert_eq!((&archived["jobId"], &archived["version"]), (&json!("a"), &json!(2)));

    let shown = server.run(&place, &["jobs", "show", "a"]).done();
    let way_back = format!("`recado dlq import {file}` brings it back");
    assert!(shown.contains("the queue was full: archived at") && shown.contains(&way_back), "{shown}");
    let asked = server.run(&place, &["dlq", "show", "a"]).failed_with(1);
    assert!(asked.contains("is in the archive since") && asked.contains(&way_back), "{asked}");
    let full = server.run(&place, &["dlq", "import", &file]).failed_with(1);
    assert!(full.contains("line 1 finds no room: the dead letter queue holds 2 entries"), "{full}");

    server.run(&place, &["dlq", "discard", "b", "--reason", "to make room"]).done();
    let back = server.run(&place, &["dlq", "import", &file]).done();
    assert_eq!(back, "1 came back\n");
    let again = server.run(&place, &["dlq", "import", &file]).done();
    assert_eq!(again, "0 came back; 1 left alone: already here, sent or given up\n");
    server.run(&place, &["dlq", "replay", "a"]).done();
    let job = server.job_once("a", "sent");
    assert_eq!(job["attempts"].as_array().unwrap().len(), 2, "with its history");

    place.write("wrong.ndjson", "{\"recado\":\"dead-letter\",\"version\":7}\n\nnot JSON\n");
    let refused = server.run(&place, &["dlq", "import", "wrong.ndjson"]).failed_with(1);
    assert!(refused.contains("line 1 has version 7") && refused.contains("line 3 is not JSON"), "{refused}");
}

#[test]
fn g21_the_queue_is_exported_to_a_file_or_a_pipe() {
    let place = Place::with(FAST);
    let server = place.serve();
    bury(&server, "acme", &["a", "b"]);
    bury(&server, "bolt", &["c"]);
    let table = server.run(&place, &["dlq", "export", "--format", "csv", "--company", "acme"]).done();
    let lines: Vec<_> = table.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("jobId,outboxId,companyId,originalData"), "{table}");
    let said = server.run(&place, &["dlq", "export", "--out", "dlq.ndjson"]).done();
    assert!(said.starts_with("dlq.ndjson holds "), "{said}");
    let entries: Vec<Value> =
        place.read("dlq.ndjson").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[0]["jobId"], "c", "newest first");
    server.run(&place, &["dlq", "discard", "a", "b", "--reason", "by mistake"]).done();
    let back = server.run(&place, &["dlq", "import", "dlq.ndjson"]).done();
    assert_eq!(back, "2 came back; 1 left alone: already here, sent or given up\n", "an export is a backup");
    server.run(&place, &["dlq", "replay", "a"]).done();
    server.job_once("a", "sent");
    let nowhere = server.run(&place, &["dlq", "export", "--out", "no/such/dir/x"]).failed_with(1);
    assert!(nowhere.contains("cannot write no/such/dir/x"), "{nowhere}");
}

#[test]
fn an_export_during_a_bulk_replay_has_every_entry_once_and_brings_all_back() {
    const ENTRIES: usize = 150;
    let place = Place::with(FAST);
    let server = place.serve();
    let job = |nth: usize| {
        let data = json!({"script": ["550 no such user"]});
        json!({"jobId": format!("e-{nth:03}"), "route": "sandbox", "companyId": "acme", "data": data})
    };
    let (_, taken) = server.ask("POST", "/v1/jobs/batch", &Value::Array((0..ENTRIES).map(job).collect()));
    assert_eq!(taken["accepted"], ENTRIES);
    let names: Vec<String> = (0..ENTRIES).map(|nth| format!("e-{nth:03}")).collect();
    names.iter().for_each(|name| drop(server.job_once(name, "failed")));
    std::thread::sleep(std::time::Duration::from_millis(2));
    let (_, begun) = server.ask("POST", "/v1/dlq/replay", &json!({"filter": {}, "ratePerSecond": 50}));
    let bulk = format!("/v1/replays/{}", begun["id"].as_str().unwrap());
    let mut between = 0;
    loop {
        let running = server.get(&bulk)["state"] == "running";
        server.run(&place, &["dlq", "export", "--out", "dlq.ndjson"]).done();
        let lines: Vec<Value> =
            place.read("dlq.ndjson").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut ids: Vec<&str> = lines.iter().map(|line| line["jobId"].as_str().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, names, "each entry once, {} of {ENTRIES}", ids.len());
        let replayed = lines.iter().filter(|line| line["replays"] == 1).count();
        between += usize::from(replayed > 0 && replayed < ENTRIES);
        if !running {
            break;
        }
    }
    assert!(between > 0, "an export ran while entries were replayed and failed again");
    names.iter().for_each(|name| drop(server.job_once(name, "failed")));
    server.run(&place, &["dlq", "discard", "--all", "--reason", "exported", "--yes"]).done();
    assert_eq!(server.get("/v1/dlq")["items"], json!([]));
    let back = server.run(&place, &["dlq", "import", "dlq.ndjson"]).done();
    assert_eq!(back, format!("{ENTRIES} came back\n"));
}

#[test]
fn g7_an_entry_shows_its_correction_beside_the_original() {
    let place = Place::with(FAST);
    let server = place.serve();
    let data = json!({"script": ["550 no such user", "550 moved away"], "to": "ana"});
    server.enqueue(json!({"jobId": "a", "route": "sandbox", "companyId": "acme", "data": data}));
    server.job_once("a", "failed");
    let attempts = |count: usize| {
        let entry = server.get("/v1/dlq/a");
        entry["state"] == "dead" && entry["attempts"].as_array().unwrap().len() == count
    };
    let corrected = r#"{"script":["550 no","550 no"],"to":"rui"}"#;
    server.run(&place, &["dlq", "replay", "a", "--data", corrected]).done();
    eventually(|| attempts(2));
    let shown = server.run(&place, &["dlq", "show", "a"]).done();
    assert!(
        shown.contains(r#""to":"ana""#) && shown.contains(&format!("corrected    {corrected}")),
        "{shown}"
    );
    server.run(&place, &["dlq", "replay", "a", "--original", "--rate", "5"]).failed_with(2);
    server.run(&place, &["dlq", "replay", "--all", "--original"]).failed_with(2);
    server.run(&place, &["dlq", "replay", "a", "--original"]).done();
    eventually(|| attempts(3));
    let shown = server.run(&place, &["dlq", "show", "a"]).done();
    assert!(!shown.contains("corrected"), "{shown}");
}

#[test]
fn g6_statistics_say_how_many_came_this_hour() {
    let place = Place::with(FAST);
    let server = place.serve();
    bury(&server, "acme", &["a", "b"]);
    let said = server.run(&place, &["dlq", "stats"]).done();
    assert!(said.contains("2 in all") && said.contains("2 in the last 24"), "{said}");
}

#[test]
fn top_without_a_terminal_is_one_snapshot() {
    let place = Place::with(FAST);
    let server = place.serve();
    bury(&server, "acme", &["a"]);
    server.run(&place, &["providers", "pause", "sandbox", "--reason", "invoice open"]).done();
    server.enqueue(json!({"jobId": "held", "route": "sandbox", "companyId": "acme", "data": {}}));
    let text = server.run(&place, &["top"]).done();
    for words in
        ["recado top", "sent 0/s", "queued 1", "dead 1 (+1 this hour)", "paused: invoice open", "acme"]
    {
        assert!(text.contains(words), "no {words}:\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let snapshot = server.run(&place, &["top", "--json"]).json();
    assert_eq!(
        (&snapshot["routes"]["sandbox"]["queued"], &snapshot["deadLetters"]["total"]),
        (&json!(1), &json!(1))
    );
}

#[test]
fn a_dead_letter_after_attempts_without_an_answer_says_that_it_may_have_arrived() {
    let place =
        Place::with("[routes.sandbox]\npolicy = { base = \"1ms\", cap = \"2ms\", max_attempts = 3 }\n");
    let server = place.serve();
    let bury = |id: &str, script: &[&str]| {
        let data = json!({ "script": script });
        server.enqueue(json!({ "jobId": id, "route": "sandbox", "companyId": "acme", "data": data }));
        server.job_once(id, "failed");
        (server.get(&format!("/v1/dlq/{id}")), server.run(&place, &["dlq", "show", id]).done())
    };
    let (entry, shown) = bury("open", &["drop", "drop", "550 no such user"]);
    assert_eq!(entry["mayHaveArrived"], 2);
    let advice = entry["advice"].as_str().unwrap();
    assert!(
        advice.contains("may have arrived 2 times") && advice.contains("a replay may deliver it again"),
        "{entry}"
    );
    assert!(entry["advicePt"].as_str().unwrap().contains("Pode ter chegado 2 vezes"), "{entry}");
    assert!(shown.contains("may have arrived 2 times") && shown.contains("after 3 attempts"), "{shown}");

    let (entry, shown) = bury("plain", &["550 no such user"]);
    assert!(entry.get("mayHaveArrived").is_none() && entry.get("advice").is_none(), "{entry}");
    assert!(
        !shown.contains("may have arrived") && shown.contains("failed for good after 1 attempt\n"),
        "{shown}"
    );
}
