//! The audit trail from outside: what is recorded gets to the files, is found, proved whole, and forgotten when asked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::given::{Place, Server, eventually};

const CONFIG: &str = "[routes.email]\ntransport = \"sandbox\"\npolicy = { base = \"20ms\", max_attempts = 3 }\n\
                      [routes.sandbox]\npolicy = { base = \"20ms\" }\n";

const DIR: &str = "recado-data/audit";

fn items(list: &Value) -> &Vec<Value> {
    list["items"].as_array().expect("a list")
}

/// Records, newest first, once all of them are in the files and there are this many.
#[track_caller]
fn archived(server: &Server, query: &str, at_least: usize) -> Vec<Value> {
    let mut seen = Value::Null;
    eventually(|| {
        seen = server.get(&format!("/v1/audit?limit=1000{query}"));
        items(&seen).len() >= at_least && items(&seen).iter().all(|item| item["sequence"].is_u64())
    });
    items(&seen).clone()
}

fn kinds(items: &[Value]) -> Vec<&str> {
    items.iter().filter_map(|item| item["kind"].as_str()).collect()
}

/// Every record of the files, oldest first, read without a server.
fn in_files(place: &Place) -> Vec<Value> {
    let out = place.run(&["audit", "export", "--dir", DIR]).done();
    out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn segment(place: &Place) -> PathBuf {
    let entries = std::fs::read_dir(place.path().join(DIR)).expect("a directory");
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    paths.find(|path| path.extension().is_some_and(|ending| ending == "jsonl")).expect("a segment")
}

/// A job that fails once, a decision, and what a person did.
fn busy(server: &Server, place: &Place) {
    server.enqueue(json!({"jobId": "order-1", "route": "sandbox", "companyId": "acme", "userId": "u-81",
        "correlationId": "c-1", "data": {"script": ["503 busy", "ok"]}}));
    // A list shows no payload: looking at the job itself would be on record.
    eventually(|| items(&server.get("/v1/jobs?status=sent")).len() == 1);
    let failure = json!({"claimId": "guia-17", "submissionError": "SERVICE_UNAVAILABLE"});
    assert_eq!(server.ask("POST", "/v1/decisions", &failure).0, 200);
    server.run(place, &["routes", "pause", "email", "--reason", "maintenance"]).done();
}

#[test]
fn t14_a_failure_a_decision_and_an_act_are_in_the_files_and_found_by_everything_they_are_about() {
    let place = Place::with(CONFIG);
    let server = place.serve();
    busy(&server, &place);
    let all = archived(&server, "", 10);
    assert_eq!(kinds(&all[..2]), ["ROUTE_PAUSED", "CLAIM_RETRY"], "newest first");
    assert_eq!((&all[0]["actor"], &all[0]["retryReason"]), (&json!("tester"), &json!("maintenance")));

    let retry = archived(&server, "&userId=u-81&kind=RETRY_SCHEDULED&order=oldest", 4);
    let steps: Vec<_> = retry.iter().map(|item| item["event"].as_str().unwrap()).collect();
    assert_eq!(steps, ["ERROR_ANALYSED", "BACKOFF_CALCULATED", "RETRY_SCHEDULED", "RETRY_DECIDED"]);
    let nine = [
        "timestamp",
        "claimId",
        "errorMessage",
        "retryCount",
        "errorClassification",
        "backoffMinutes",
        "nextRetryTime",
        "shouldRetry",
        "retryReason",
    ];
    for field in nine.into_iter().chain(["companyId", "userId", "correlationId", "recordedAt", "hash"]) {
        assert!(!retry[0][field].is_null(), "{field} is missing from {}", retry[0]);
    }
    for (query, count) in [
        ("&jobId=order-1", 5),
        ("&claimId=guia-17", 4),
        ("&companyId=acme", 5),
        ("&correlationId=c-1", 5),
        ("&actor=tester", 1),
        ("&kind=DELIVERED", 1),
        ("&userId=unknown", 0),
        ("&until=2020-01-01T00:00:00Z", 0),
    ] {
        assert_eq!(archived(&server, query, count).len(), count, "{query}");
    }
    let (status, problem) = server.ask("GET", "/v1/audit?kind=BURRIED", &Value::Null);
    assert_eq!(status, 422, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("did you mean `BURIED`?"), "{problem}");

    let shown = server.run(&place, &["audit", "show", "--job", "order-1"]).done();
    assert!(
        shown.contains("retry_scheduled") && shown.contains("delivered") && shown.contains("acme"),
        "{shown}"
    );
    assert_eq!(shown.lines().count(), 4, "a row a record, the read by its number among them: {shown}");
    server.stop();

    let mut files = in_files(&place);
    files.retain(|item| item["kind"] != "PERSONAL_DATA_READ");
    assert_eq!(files.len(), all.len(), "nothing came twice, nothing is missing");
    let report = place.run(&["audit", "verify", "--json"]).json();
    assert_eq!((&report["records"], &report["findings"]), (&json!(9), &json!([])), "{report}");
    let shown = place.run(&["audit", "show", "--dir", DIR, "--user", "u-81", "--json"]).json();
    assert_eq!(items(&shown).len(), 6, "and that her records were asked for");
}

#[test]
fn a_store_from_an_older_backup_archives_nothing_into_newer_files_and_says_so() {
    let place = Place::with(CONFIG);
    // A list shows no payload: looking at the job itself would be on record.
    let deliver = |server: &Server, name: &str, count: usize| {
        server.enqueue(json!({"jobId": name, "route": "sandbox", "companyId": "acme", "data": {}}));
        eventually(|| items(&server.get("/v1/jobs?status=sent")).len() == count);
    };
    let with_a_job = |name: &str, count: usize| {
        let server = place.serve();
        deliver(&server, name, count);
        archived(&server, "", count);
        server.stop();
    };
    with_a_job("a", 1);
    let store = place.path().join("recado-data/recado.db");
    let backup = place.path().join("backup.db");
    std::fs::copy(&store, &backup).expect("a backup");
    with_a_job("b", 2);
    std::fs::copy(&backup, &store).expect("a backup put back");

    let refused = "Cannot write the audit trail; its records stay in the store, and it is tried again";
    // The first start has fewer records than the files; the second has others under the same numbers.
    for (name, count) in [("c", 2), ("d", 3)] {
        let server = place.serve();
        deliver(&server, name, count);
        let why = server.logged(refused, 1)[0]["error"].clone();
        assert!(why.as_str().is_some_and(|why| why.contains("older backup")), "{why}");
        drop(server);
    }
    let report = place.run(&["audit", "verify", "--json"]).json();
    assert_eq!((&report["records"], &report["findings"]), (&json!(2), &json!([])), "{report}");

    place.write("recado.toml", &format!("{CONFIG}[audit]\ndir = \"new-audit\"\n"));
    let server = place.serve();
    assert_eq!(archived(&server, "", 3).len(), 3, "what the store has is copied to new files");
}

/// The whole trail, a page after the other.
fn in_pages(server: &Server, limit: usize, order: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/audit?limit={limit}&order={order}{cursor}"));
        assert!(items(&page).len() <= limit.max(4), "{page}");
        all.extend(items(&page).clone());
        let Some(next) = page["nextCursor"].as_str() else { return all };
        let other = if order == "newest" { "oldest" } else { "newest" };
        let turned = server.ask("GET", &format!("/v1/audit?order={other}&cursor={next}"), &Value::Null);
        assert_eq!(turned.0, 422, "a walk does not turn round");
        cursor = format!("&cursor={next}");
    }
}

#[test]
fn t14_a_page_has_no_more_items_than_asked_for_and_the_pages_are_the_whole_trail() {
    let place = Place::with(CONFIG);
    let server = place.serve();
    busy(&server, &place);
    let mut all = archived(&server, "", 10);
    for limit in [1, 4, 5, 7, 100] {
        assert_eq!(in_pages(&server, limit, "newest"), all, "{limit} at a time");
    }
    all.reverse();
    assert_eq!(in_pages(&server, 5, "oldest"), all);
}

#[test]
fn each_read_of_one_persons_records_is_on_record_by_whichever_number_it_was() {
    let place = Place::with(CONFIG);
    let server = place.serve();
    busy(&server, &place);
    archived(&server, "", 10);
    let reads = || archived(&server, "&kind=PERSONAL_DATA_READ&order=oldest", 0);
    assert_eq!(reads().len(), 0, "no person was asked for");
    for arguments in [
        &["audit", "show", "--user", "u-81"][..],
        &["audit", "show", "--correlation-id", "c-1"],
        &["audit", "show", "--job", "order-1"],
        &["audit", "show", "--claim", "guia-17"],
        // The same again is covered, and what shows nothing is no read.
        &["audit", "export", "--subject", "claim=guia-17"],
        &["audit", "show", "--claim", "guia-18"],
    ] {
        server.run(&place, arguments).done();
    }
    let reads = reads();
    let numbers = ["userId", "correlationId", "jobId", "claimId"];
    let given = [json!("u-81"), json!("c-1"), json!("order-1"), json!("guia-17")];
    assert_eq!(reads.len(), 4, "{reads:?}");
    for ((read, number), id) in reads.iter().zip(numbers).zip(given) {
        assert_eq!((&read[number], &read["actor"]), (&id, &json!("tester")), "{read}");
    }
}

#[test]
fn t14_verify_names_the_record_in_which_one_byte_was_changed() {
    let place = Place::with(CONFIG);
    let server = place.serve();
    busy(&server, &place);
    archived(&server, "", 10);
    server.stop();
    let whole = place.run(&["audit", "verify"]).done();
    assert!(whole.contains("whole") && whole.contains("newest signed"), "{whole}");

    let path = segment(&place);
    let text = std::fs::read_to_string(&path).expect("text");
    let second = text.lines().nth(1).expect("a second record");
    let edited = second.replacen("\"kind\":\"DELIVERED\"", "\"kind\":\"DELIVERES\"", 1);
    assert_ne!(second, edited, "the fault is in place");
    std::fs::write(&path, text.replacen(second, &edited, 1)).expect("written");
    let said = place.run(&["audit", "verify", "--dir", DIR]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("line 2, sequence 2: the record was edited"), "{}", said.out);
    assert!(said.err.contains("the trail is not whole"), "{}", said.err);

    let without: Vec<&str> =
        text.lines().enumerate().filter(|(nth, _)| *nth != 1).map(|(_, line)| line).collect();
    std::fs::write(&path, without.join("\n") + "\n").expect("written");
    let said = place.run(&["audit", "verify", "--dir", DIR]);
    assert!(said.code == 1 && said.out.contains("record 2 is missing"), "{said:?}");
    let nowhere = place.run(&["audit", "verify", "--dir", "nowhere"]).failed_with(1);
    assert!(nowhere.contains("there is no trail in nowhere"), "{nowhere}");

    let head = place.path().join(DIR).join("head.json");
    for removed in [path, head] {
        std::fs::remove_file(removed).expect("the fault is in place");
    }
    let said = place.run(&["audit", "verify", "--dir", DIR]);
    assert!(said.out.contains("nothing is here") && !said.out.contains("whole"), "{}", said.out);
    let why = said.failed_with(1);
    assert!(why.contains("there is no trail") && why.contains("or all of its files were removed"), "{why}");
    let known = place.run_on_store(&["audit", "verify"]).failed_with(1);
    assert!(known.contains("the store says that records were archived"), "{known}");
}

#[test]
fn t14_verify_tells_a_trail_that_was_not_begun_from_one_that_was_removed() {
    let place = Place::with(CONFIG);
    place.serve().stop();
    let fresh = place.run_on_store(&["audit", "verify"]).done();
    assert!(fresh.contains("nothing was archived yet") && !fresh.contains("whole"), "{fresh}");
    assert_eq!(place.run_on_store(&["audit", "verify", "--json"]).json()["records"], 0);
    std::fs::remove_dir_all(place.path().join(DIR)).expect("a removal");
    assert_eq!(place.run_on_store(&["audit", "verify", "--json"]).json()["records"], 0);
}

#[test]
fn t14_a_server_that_is_killed_again_and_again_archives_each_record_once() {
    let place = Place::with(CONFIG);
    let mut ids = Vec::new();
    for life in 0..4 {
        let server = place.serve();
        for nth in 0..20 {
            let id = format!("job-{life}-{nth}");
            server.enqueue(json!({"jobId": id, "route": "sandbox", "companyId": "acme", "data": {"script": ["503", "ok"]}}));
            ids.push(id);
        }
        // At another point of the archiver's round each time: none, some or all of it has been marked.
        eventually(|| items(&server.get("/v1/audit?limit=1000&kind=DELIVERED")).len() > life * 20);
        std::thread::sleep(std::time::Duration::from_millis(life as u64 * 330));
        server.signal("KILL");
        server.ended();
    }
    let server = place.serve();
    for id in &ids {
        server.job_once(id, "sent");
    }
    // Where a store is shared, the dead one's right to archive must run out first.
    archived(&server, "&kind=DELIVERED", ids.len());
    server.stop();
    assert_eq!(place.run(&["audit", "verify", "--json"]).json()["findings"], json!([]));
    let mut delivered: BTreeMap<String, usize> = BTreeMap::new();
    for item in in_files(&place).iter().filter(|item| item["kind"] == "DELIVERED") {
        *delivered.entry(item["jobId"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let once: BTreeMap<String, usize> = ids.into_iter().map(|id| (id, 1)).collect();
    assert_eq!(delivered, once);
    let text = std::fs::read_to_string(segment(&place)).expect("text");
    let mut numbers: Vec<_> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .map(|line| (line["source"].to_string(), line["sourceSequence"].as_u64()))
        .collect();
    let count = numbers.len();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "no record of the store came twice");
}

#[test]
fn one_persons_data_is_exported_and_erased_and_the_trail_stays_whole() {
    let place = Place::with(CONFIG);
    let server = place.serve();
    for (id, user) in [("dead-1", "u-81"), ("dead-2", "u-82")] {
        server.enqueue(json!({"jobId": id, "route": "email", "companyId": "acme", "userId": user,
            "data": {"script": ["550 5.1.1 no such user"], "text": "for Maria"}}));
        server.job_once(id, "failed");
    }
    server.enqueue(json!({"jobId": "later-1", "route": "email", "companyId": "acme", "userId": "u-81",
        "data": {"script": ["ok"]}, "delayMs": 600_000}));
    let out = server.run(&place, &["audit", "export", "--subject", "user=u-81", "--company", "acme"]).done();
    assert!(out.lines().count() >= 3 && out.lines().all(|line| line.contains("dead-1")), "{out}");
    server.run(&place, &["dlq", "export", "--out", "before.ndjson"]).done();

    let erase = ["audit", "erase", "--subject", "user=u-81", "--company", "acme", "--reason", "LGPD 17"];
    let with = |more: &[&'static str]| [&erase[..], more].concat();
    let asked = server.run(&place, &erase).failed_with(2);
    assert!(asked.contains("add --yes"), "{asked}");
    let waits = server.run(&place, &with(&["--yes"])).failed_with(1);
    assert!(waits.contains("this person has 1 job waiting to be sent"), "{waits}");
    assert_eq!(server.get("/v1/dlq/dead-1")["userId"], "u-81", "nothing was touched");

    let done = server.run(&place, &with(&["--yes", "--with-jobs", "--json"])).json();
    assert_eq!((&done["jobsCancelled"], &done["deadLettersDiscarded"]), (&json!(1), &json!(1)), "{done}");
    // Her dead letter was read, and her records were.
    assert_eq!((&done["records"], &done["jobsForgotten"]), (&json!(5), &json!(2)), "{done}");
    for gone in ["/v1/dlq/dead-1", "/v1/jobs/dead-1", "/v1/jobs/later-1", "/v1/jobs/dead-1/audit"] {
        assert_eq!(server.ask("GET", gone, &Value::Null).0, 404, "{gone}");
    }
    assert_eq!(server.get("/v1/dlq/dead-2")["userId"], "u-82", "another one's stays");
    let act = &archived(&server, "&kind=PERSONAL_DATA_ERASED", 1)[0];
    assert_eq!((&act["actor"], &act["retryReason"]), (&json!("tester"), &json!("LGPD 17")), "{act}");
    let left = server.run(&place, &["audit", "export", "--subject", "user=u-81"]).done();
    assert_eq!(left, "");
    let shown = server.run(&place, &["audit", "show"]).done();
    assert!(shown.lines().any(|line| line.contains("  erased  ")), "{shown}");
    a_file_brings_back_only_what_came_after(&server, &place);
    server.stop();

    let report = place.run(&["audit", "verify", "--json"]).json();
    assert_eq!((&report["erased"], &report["findings"]), (&json!(5), &json!([])), "{report}");
    let text = std::fs::read_to_string(segment(&place)).expect("text");
    assert!(!text.contains("dead-1") && text.contains("u-82"), "{text}");
}

#[test]
fn callbacks_about_a_person_leave_the_store_and_its_file_with_their_jobs() {
    let place = Place::with(&format!("{CONFIG}[webhooks]\nallow = [\"127.0.0.1\"]\n"));
    let server = place.serve();
    // No server listens there: the callback waits to be sent again.
    let endpoint = json!({"companyId": "acme", "url": "http://127.0.0.1:9/hooks"});
    assert_eq!(server.ask("POST", "/v1/endpoints", &endpoint).0, 201);
    for (id, user) in [("dead-1", "u-81"), ("dead-2", "u-82")] {
        server.enqueue(json!({"jobId": id, "route": "email", "companyId": "acme", "userId": user,
            "correlationId": format!("visit-{user}"), "data": {"script": ["550 5.1.1 no such user"]}}));
        server.job_once(id, "failed");
    }
    let callbacks = || items(&server.get("/v1/jobs?route=webhook")).clone();
    eventually(|| callbacks().len() == 2 && callbacks().iter().all(|job| job["status"] == "retrying"));
    let erase = ["audit", "erase", "--subject", "user=u-81", "--reason", "LGPD 17", "--yes", "--json"];
    let done = server.run(&place, &erase).json();
    assert_eq!((&done["jobsForgotten"], &done["followUpsErased"]), (&json!(1), &json!(1)), "{done}");
    let left = callbacks();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0]["userId"], "u-82", "{left:?}");
    server.stop();
    for file in ["recado.db", "recado.db-wal"].map(|name| place.path().join("recado-data").join(name)) {
        let bytes = std::fs::read(&file).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("u-81"), "{} still names the person", file.display());
    }
}

#[test]
fn acts_and_reads_are_on_record_with_who_did_them() {
    let place = Place::with(&format!("{CONFIG}[webhooks]\nallow = [\"127.0.0.1\"]\n"));
    let server = place.serve();
    server.run(&place, &["endpoints", "add", "--company", "acme", "--to", "http://127.0.0.1:9/hooks"]).done();
    server.enqueue(json!({"jobId": "dead-1", "route": "email", "companyId": "acme",
        "data": {"script": ["550 5.1.1 no such user"]}}));
    server.job_once("dead-1", "failed");
    server.run(&place, &["dlq", "show", "dead-1"]).done();
    server.run(&place, &["dlq", "export", "--out", "out.ndjson"]).done();
    let acts = archived(&server, "&actor=tester", 3);
    for kind in ["ENDPOINT_ADDED", "PAYLOAD_READ", "DEAD_LETTERS_EXPORTED"] {
        assert!(kinds(&acts).contains(&kind), "{kind} is not among {acts:#?}");
    }
    server.stop();
}

/// A person may come again: what is from after the erasure is not under it.
fn a_file_brings_back_only_what_came_after(server: &Server, place: &Place) {
    let refused = server.run(place, &["dlq", "import", "before.ndjson"]).failed_with(1);
    assert!(refused.contains("1 line was refused"), "the other is here: {refused}");
    assert!(refused.contains("is about a person whose data was erased, as record "), "{refused}");
    assert_eq!(server.ask("GET", "/v1/jobs/dead-1", &Value::Null).0, 404, "it stays forgotten");

    server.enqueue(json!({"jobId": "dead-3", "route": "email", "companyId": "acme", "userId": "u-81",
        "data": {"script": ["550 5.1.1 no such user"]}}));
    server.job_once("dead-3", "failed");
    eventually(|| {
        let exported = server.run(place, &["dlq", "export"]).done();
        std::fs::write(place.path().join("after.ndjson"), &exported).expect("written");
        exported.contains("dead-3")
    });
    server.run(place, &["dlq", "discard", "dead-3", "--reason", "by mistake", "--yes"]).done();
    let back = server.run(place, &["dlq", "import", "after.ndjson"]).done();
    assert!(back.starts_with("1 came back"), "{back}");
}
