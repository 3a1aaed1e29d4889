//! A server's log.

use serde_json::{Value, json};

use super::given::{FAST, Place, Server};

fn fields(line: &Value) -> Vec<&str> {
    line.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn one_retry(server: &Server) -> String {
    let id = server.enqueue(json!({"route": "sandbox", "companyId": "acme", "correlationId": "c-1", "data": {"script": ["421 Service temporarily unavailable", "ok"]}}));
    server.job_once(&id, "sent");
    id
}

#[test]
fn g19_e12_the_line_of_a_retry_has_every_required_field() {
    let server = Place::with(FAST).serve();
    let id = one_retry(&server);
    let lines = server.logged("Job failed, scheduling retry", 1);
    assert_eq!(lines.len(), 1);
    let line = &lines[0];
    for (field, value) in [
        ("level", json!("warn")),
        ("jobId", json!(id)),
        ("companyId", json!("acme")),
        ("attempt", json!(1)),
        ("maxAttempts", json!(5)),
        ("errorCode", json!("421")),
        ("errorReason", json!("Service temporarily unavailable")),
        ("isRetryable", json!(true)),
        ("correlationId", json!("c-1")),
        ("rule", json!("general/421")),
    ] {
        assert_eq!(line[field], value, "{field}");
    }
    assert!((15..=25).contains(&line["nextRetryDelay"].as_i64().unwrap()), "{line}");
    let at = line["timestamp"].as_str().unwrap();
    assert!(at.len() == "2025-10-19T10:30:00.000Z".len() && at.ends_with('Z'), "{at}");
    assert_eq!(server.logged("Job sent", 1).len(), 1, "and the attempt that succeeded has its line, too");
}

#[test]
fn t22_the_line_of_a_scheduled_retry_has_every_required_field() {
    let place = Place::with(&format!("{FAST}[routes.tiss-claims]\ntransport = \"sandbox\"\n"));
    let server = place.serve();
    let id = server.enqueue(
        json!({"route": "tiss-claims", "companyId": "acme", "data": {"script": ["SERVICE_UNAVAILABLE"]}}),
    );
    server.logged("Retry scheduled", 1);
    server
        .run(&place, &["decide", "--claim-id", "CLM-ENC-001-1234567890", "--error", "SERVICE_UNAVAILABLE"])
        .done();
    let lines = server.logged("Retry scheduled", 2);
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert_eq!(line["event"], "submission_retry_scheduled");
        for field in [
            "claimId",
            "submissionError",
            "retryCount",
            "errorClassification",
            "backoffMinutes",
            "nextRetryTime",
            "timestamp",
        ] {
            assert!(fields(line).contains(&field), "{field} is missing from {line}");
        }
    }
    assert_eq!(lines[0]["claimId"], json!(id));
    let claim = &lines[1];
    assert_eq!(
        (claim["claimId"].as_str(), claim["submissionError"].as_str()),
        (Some("CLM-ENC-001-1234567890"), Some("SERVICE_UNAVAILABLE"))
    );
    assert_eq!(
        (claim["retryCount"].as_i64(), claim["errorClassification"].as_str()),
        (Some(1), Some("TRANSIENT"))
    );
}

#[test]
fn only_claims_have_the_terms_of_claims_in_the_line_of_a_scheduled_retry() {
    let server = Place::with(FAST).serve();
    let id = one_retry(&server);
    let lines = server.logged("Retry scheduled", 1);
    let line = &lines[0];
    assert_eq!(
        (&line["event"], &line["jobId"], &line["errorReason"]),
        (&json!("delivery_retry_scheduled"), &json!(id), &json!("Service temporarily unavailable"))
    );
    assert!(!fields(line).iter().any(|field| ["claimId", "submissionError"].contains(field)), "{line}");
}

#[test]
fn e12_every_attempt_leaves_a_line_and_the_last_one_says_why_it_failed() {
    let server = Place::with(FAST).serve();
    let id = server.enqueue(
        json!({"route": "sandbox", "companyId": "acme", "userId": "ana", "data": {"script": ["503 busy"]}}),
    );
    server.job_once(&id, "failed");
    assert_eq!(server.logged("Job failed, scheduling retry", 4).len(), 4);
    let dead = server.logged("Job moved to the dead letter queue", 1).pop().unwrap();
    assert_eq!(
        (dead["level"].as_str(), dead["cause"].as_str(), dead["attempt"].as_i64()),
        (Some("error"), Some("EXHAUSTED"), Some(5))
    );
    assert_eq!(
        (dead["userId"].as_str(), dead["errorReason"].as_str(), dead["isRetryable"].as_bool()),
        (Some("ana"), Some("busy"), Some(false))
    );
}

#[test]
fn no_payload_reaches_the_log_at_any_level() {
    let server =
        Place::with("[log]\nlevel = \"trace\"\n[routes.sandbox]\npolicy = { base = \"20ms\" }\n").serve();
    let secret = "cpf-123.456.789-00";
    for script in [json!(["ok"]), json!(["503", "ok"]), json!(["550 no"]), json!(["panic", "ok"])] {
        let id = server.enqueue(
            json!({"route": "sandbox", "companyId": "acme", "data": {"script": script, "patient": secret}}),
        );
        server.job_when(&id, |job| job["status"] == "sent" || job["status"] == "failed");
    }
    assert_eq!(server.logged("Job sent", 3).len(), 3);
    server.logged("Job moved to the dead letter queue", 1);
    let log = server.log();
    assert!(log.iter().all(|line| !line.to_string().contains(secret)));
}

#[test]
fn people_get_words_when_they_ask_for_them() {
    let place = Place::with("[log]\nformat = \"human\"\n");
    let mut child = place
        .command(&["serve", "--listen", "127.0.0.1:0"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let ready = lines.find_map(|line| line.ok().filter(|line| line.contains("Recado is ready"))).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready.contains("Z INFO  Recado is ready address=http://127.0.0.1:"), "{ready}");
}

#[test]
fn g19_the_level_of_the_log_changes_while_the_server_runs() {
    let place = Place::with(FAST);
    let server = place.serve();
    one_retry(&server);
    assert_eq!(server.logged("Job sent", 1).len(), 1);
    place.write("recado.toml", &format!("{FAST}\n[log]\nlevel = \"warn\"\n"));
    server.signal("HUP");
    assert_eq!(server.logged("Log level reloaded", 1)[0]["logLevel"], "warn");
    one_retry(&server);
    server.logged("Job failed, scheduling retry", 2);
    assert_eq!(server.logged("Job sent", 1).len(), 1, "what went well is not told any more");
    place.write("recado.toml", "[log]\nlevel = \"loud\"\n");
    server.signal("HUP");
    let refused = server.logged("Cannot reload the log level; it stays as it is", 1);
    assert!(refused[0]["error"].as_str().unwrap().contains("loud"), "{refused:?}");
}
