//! Dead letters on their way out and back.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use recado_core::Timestamp;
use recado_engine::DeadLetterTerms;
use recado_engine::dlq::archive::Archive;
use serde_json::{Value, json};

use crate::given::{Kind, PATIENCE, Server, Setup, ms, on_each_store};

/// An archive in memory.
#[derive(Debug, Default)]
struct Namespace(std::sync::Mutex<Vec<String>>);

impl Archive for Namespace {
    fn append(&self, lines: &[String], _: Timestamp) -> io::Result<String> {
        self.0.lock().unwrap().extend_from_slice(lines);
        Ok("the namespace".to_owned())
    }
}

async fn bury(server: &Server, name: &str, data: Value) {
    server.enqueue(json!({"jobId": name, "route": "sandbox", "companyId": "acme", "data": data})).await;
    server.until(name, "failed").await;
}

async fn exported(server: &Server, query: &str) -> (String, String) {
    let response = server.http.get(server.url(&format!("/v1/dlq/export{query}"))).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    (kind, response.text().await.unwrap())
}

#[tokio::test]
async fn g21_an_export_has_every_entry_once_over_many_pages() {
    on_each_store(async |server: &Server| {
        let jobs: Vec<_> = (0..120)
            .map(|n| json!({"jobId": format!("{n}"), "route": "sandbox", "companyId": "acme", "data": {"script": ["550 no"]}}))
            .collect();
        let taken = server.post("/v1/jobs/batch", Value::Array(jobs).to_string()).await;
        assert_eq!(taken.body["accepted"], 120);
        for n in 0..120 {
            server.until(&n.to_string(), "failed").await;
        }
        tokio::time::sleep(ms(2)).await;
        let (kind, text) = exported(server, "").await;
        assert_eq!(kind, "application/x-ndjson");
        let entries: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut ids: Vec<u32> = entries.iter().map(|entry| entry["jobId"].as_str().unwrap().parse().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..120).collect::<Vec<_>>());
        let id = entries[7]["jobId"].as_str().unwrap();
        let alone = server.get(&format!("/v1/dlq/{id}")).await.body;
        for (name, value) in alone.as_object().unwrap().iter().filter(|(name, _)| *name != "attempts") {
            assert_eq!(entries[7][name], *value, "{name} is not as it is shown alone");
        }
        assert_eq!(entries[7]["attempts"][0]["errorCode"], alone["attempts"][0]["errorCode"]);
        assert_eq!(exported(server, "?companyId=bolt").await.1, "");
        server.get("/v1/dlq/export?format=xml&limit=5").await.faults_at(&["/limit", "/format"]);
    })
    .await;
}

#[tokio::test]
async fn g4_a_table_has_the_required_columns_and_no_formula() {
    let server = Server::plain().await;
    bury(
        &server,
        "1",
        json!({"script": ["550 =HYPERLINK(\"http://evil\",\"click\")"], "note": "line\nline"}),
    )
    .await;
    tokio::time::sleep(ms(2)).await;
    let (kind, text) = exported(&server, "?format=csv").await;
    assert_eq!(kind, "text/csv");
    let mut lines = text.split("\r\n");
    let head = lines.next().unwrap();
    assert!(head.starts_with(
        "jobId,outboxId,companyId,originalData,failedAttempts,lastFailureReason,lastFailureCode,lastFailureTimestamp,\
         enqueuedAt,movedToDLQAt,ttl,"
    ));
    assert!(head.ends_with(",correctedData,damage"), "{head}");
    let row = lines.next().unwrap();
    assert!(row.starts_with("1,1,acme,\"{\"\""), "{row}");
    assert!(row.contains(",\"'=HYPERLINK(\"\"http://evil\"\",\"\"click\"\")\",550,"), "{row}");
    assert_eq!(lines.collect::<Vec<_>>(), [""]);
}

#[tokio::test]
async fn g1_what_was_too_much_is_archived_and_comes_back_by_import() {
    for kind in [Kind::Memory, Kind::Embedded] {
        let namespace = Arc::new(Namespace::default());
        let dead_letters =
            DeadLetterTerms { max_size: 1, archive: Some(namespace.clone()), ..DeadLetterTerms::default() };
        let server = Server::start(Setup { kind, dead_letters, ..Setup::default() }).await;
        bury(&server, "old", json!({"script": ["550 no", "ok"]})).await;
        bury(&server, "new", json!({"script": ["550 no"]})).await;
        let started = Instant::now();
        while server.get("/v1/dlq/old").await.status != 404 {
            assert!(started.elapsed() < PATIENCE, "it is not archived");
            tokio::time::sleep(ms(20)).await;
        }
        assert_eq!(server.get("/v1/dlq/new").await.status, 200, "the oldest goes");
        says_where_it_is(&server).await;
        let line = namespace.0.lock().unwrap().first().cloned().expect("it is in the archive");
        finds_no_room(&server, &line).await;
        let trail = server.get("/v1/jobs/old/audit").await.body;
        let last = trail["items"]
            .as_array()
            .unwrap()
            .iter()
            .rfind(|item| !item["event"].as_str().unwrap().ends_with("_READ"))
            .unwrap();
        assert_eq!((&last["event"], &last["actor"]), (&json!("DEAD_LETTER_ARCHIVED"), &json!("recado")));
        let discarded =
            server.post("/v1/dlq/new/discard", json!({"reason": "to make room"}).to_string()).await;
        assert_eq!(discarded.status, 200);

        let file = format!("{line}\n\n{{\"recado\":\"dead-letter\"\n{line}\n");
        let answer = server.post_as("/v1/dlq/import", "application/x-ndjson", file).await;
        assert_eq!(
            (answer.status, &answer.body["imported"], &answer.body["known"]),
            (200, &json!(1), &json!(1)),
            "{}",
            answer.body
        );
        assert_eq!(answer.body["items"][0], json!({"index": 0, "result": "imported", "jobId": "old"}));
        assert_eq!(answer.body["items"][1]["error"]["code"], "validation_failed");
        let entry = server.get("/v1/dlq/old").await.body;
        assert_eq!((&entry["state"], &entry["attempts"].as_array().unwrap().len()), (&json!("dead"), &1));
        assert_eq!(server.get("/v1/jobs/old").await.body.get("archived"), None, "it is back");
        server.post("/v1/dlq/old/replay", "{}").await;
        server.until("old", "sent").await;
        server.stop().await;
    }
}

/// The answer for an archived entry names its place and the way back.
async fn says_where_it_is(server: &Server) {
    let job = server.get("/v1/jobs/old").await.body;
    let archived = &job["archived"];
    assert_eq!((&job["status"], &archived["place"]), (&json!("discarded"), &json!("the namespace")));
    assert_eq!(
        (&archived["at"], &archived["bringBack"]),
        (&job["endedAt"], &json!("recado dlq import the namespace"))
    );
    let asked = [
        server.get("/v1/dlq/old").await,
        server.post("/v1/dlq/old/replay", "{}").await,
        server.post("/v1/dlq/old/discard", json!({"reason": "r"}).to_string()).await,
    ];
    for answer in asked {
        answer.is_problem(404, "not_found");
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(
            detail.contains("in the archive since") && detail.contains("`recado dlq import the namespace`"),
            "{detail}"
        );
    }
    let missing = server.get("/v1/dlq/unknown").await;
    assert_eq!(missing.body["detail"], "there is no dead letter `unknown`");
}

async fn finds_no_room(server: &Server, line: &str) {
    let answer = server.post_as("/v1/dlq/import", "application/x-ndjson", line.to_owned()).await;
    assert_eq!(
        (answer.status, &answer.body["imported"], &answer.body["refused"]),
        (200, &json!(0), &json!(1))
    );
    let item = &answer.body["items"][0];
    assert_eq!((&item["jobId"], &item["error"]["code"]), (&json!("old"), &json!("conflict")));
    let detail = item["error"]["detail"].as_str().unwrap();
    assert!(
        detail.contains("holds 1 entries, which is its max_size") && detail.contains("import it again"),
        "{detail}"
    );
}

#[tokio::test]
async fn g21_an_exported_entry_that_was_discarded_comes_back_by_import_and_is_replayed() {
    on_each_store(async |server: &Server| {
        bury(server, "1", json!({"script": ["550 no", "ok"]})).await;
        tokio::time::sleep(ms(2)).await;
        let (_, file) = exported(server, "").await;
        let before = server.get("/v1/dlq/1").await.body;
        server.post("/v1/dlq/1/discard", json!({"reason": "by mistake"}).to_string()).await;
        let answer = server.post_as("/v1/dlq/import", "application/x-ndjson", file.clone()).await;
        assert_eq!(answer.body["items"][0], json!({"index": 0, "result": "imported", "jobId": "1"}));
        let mut after = server.get("/v1/dlq/1").await.body;
        after["ttl"] = before["ttl"].clone();
        assert_eq!(after, before, "as it was, for as long again");
        let again = server.post_as("/v1/dlq/import", "application/x-ndjson", file).await;
        assert_eq!(again.body["known"], 1);
        server.post("/v1/dlq/1/replay", "{}").await;
        server.until("1", "sent").await;
    })
    .await;
}

#[tokio::test]
async fn a_line_that_is_no_archives_and_no_exports_hears_what_is_missing() {
    let server = Server::plain().await;
    bury(&server, "1", json!({"script": ["550 no"]})).await;
    tokio::time::sleep(ms(2)).await;
    let entry = server.get("/v1/dlq/1").await.body.to_string();
    let (_, line) = exported(&server, "").await;
    for (file, words) in [
        (
            entry,
            "line 1 is neither an archived nor an exported dead letter: it has no `recado` and `version`",
        ),
        (line.replace("\"bodyHash\"", "\"hash\""), "line 1 has `hash`, which no dead letter has"),
        (line.replace("\"outboxId\":\"1\"", "\"outboxId\":\"2\""), "an `outboxId` that is not its `jobId`"),
        (
            line.replace("\"failedAttempts\":1", "\"failedAttempts\":\"one\""),
            "`failedAttempts` is wrong, at column",
        ),
    ] {
        let answer = server.post_as("/v1/dlq/import", "application/x-ndjson", file).await;
        let detail = answer.body["items"][0]["error"]["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{detail}");
    }
}

#[tokio::test]
async fn a_dead_letter_of_a_route_that_is_gone_says_so_when_it_is_replayed() {
    let server = Server::plain().await;
    bury(&server, "1", json!({"script": ["550 no"]})).await;
    tokio::time::sleep(ms(2)).await;
    let (_, line) = exported(&server, "").await;
    let gone = line.replace("\"1\"", "\"2\"").replace("\"route\":\"sandbox\"", "\"route\":\"gone\"");
    // A line of the first version has no checksum.
    let gone = gone.replace("\"version\":2", "\"version\":1");
    let answer = server.post_as("/v1/dlq/import", "application/x-ndjson", gone).await;
    assert_eq!(answer.body["imported"], 1, "{}", answer.body);
    let refused = server.post("/v1/dlq/2/replay", "{}").await;
    refused.is_problem(422, "validation_failed");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.starts_with("there is no route `gone`; known routes: "), "{detail}");
}

#[tokio::test]
async fn an_import_is_bounded_and_says_what_it_wants() {
    let server = Server::plain().await;
    server.post("/v1/dlq/import", "[]").await.is_problem(415, "unsupported_media_type");
    let lines = "{}\n".repeat(10_001);
    server
        .post_as("/v1/dlq/import", "application/x-ndjson", lines)
        .await
        .is_problem(413, "payload_too_large");
    let not_text = server.post_as("/v1/dlq/import", "application/x-ndjson", vec![0xff_u8, 0xfe]).await;
    assert_eq!((not_text.status, &not_text.body["refused"]), (200, &json!(1)));
}

#[tokio::test]
async fn g6_statistics_tell_how_many_came_each_hour() {
    on_each_store(async |server: &Server| {
        bury(server, "1", json!({"script": ["550 no"]})).await;
        bury(server, "2", json!({"script": ["550 no"]})).await;
        server.post("/v1/dlq/2/discard", json!({"reason": "r"}).to_string()).await;
        let stats = server.get("/v1/dlq/stats").await.body;
        let hours = stats["perHour"].as_array().unwrap();
        assert_eq!((hours.len(), &stats["total"]), (24, &json!(1)));
        // The hour may have turned in between.
        let lately: u64 = hours[22..].iter().map(|hour| hour["count"].as_u64().unwrap()).sum();
        assert_eq!(lately, 2, "whatever became of them");
        assert!(hours[23]["hour"].as_str().unwrap().ends_with(":00:00.000Z"));
    })
    .await;
}
