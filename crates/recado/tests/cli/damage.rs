//! Bits that flip on disk: what was damaged never goes out, and says so.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use recado_demo::far_ends::http;
use serde_json::{Value, json};

use super::given::{Place, eventually};

const ACCEPTED: &str = "AMOUNT-1000";
const FLIPPED: &str = "AMOUNT-9000";

/// A provider that takes all it is sent and keeps the bodies.
struct Provider {
    bodies: Arc<Mutex<Vec<String>>>,
    place: Place,
}

impl Provider {
    fn start() -> Self {
        let bodies = Arc::<Mutex<Vec<String>>>::default();
        let kept = bodies.clone();
        let address = http::start(move |request: http::Request| {
            kept.lock().push(request.text());
            match request.mentions("refuse-it") {
                true => http::json(400, json!({"error": "no such account"})),
                false => http::json(200, json!({})),
            }
        })
        .expect("a free port");
        let place = Place::with(&format!(
            "[providers.bank]\ntransport = \"http\"\nurl = \"http://{address}/\"\n\n[routes.pay]\nprovider = \"bank\"\n"
        ));
        Provider { bodies, place }
    }

    fn got(&self, words: &str) -> bool {
        self.bodies.lock().iter().any(|body| body.contains(words))
    }
}

/// Changes a bit in each place of a closed file where the words stand.
fn flip(file: &Path, before: &str, after: &str) {
    let mut bytes = std::fs::read(file).expect("the file");
    let places: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(before.as_bytes())).collect();
    assert!(!places.is_empty(), "`{before}` is not in {}: nothing was flipped", file.display());
    for at in places {
        bytes[at..at + after.len()].copy_from_slice(after.as_bytes());
    }
    std::fs::write(file, bytes).expect("the file");
}

fn database(place: &Place) -> PathBuf {
    let file = place.path().join("recado-data/recado.db");
    assert!(!file.with_extension("db-wal").exists(), "the log was not folded into the file");
    file
}

fn pay(job_id: &str, delay_ms: u64, account: &str) -> Value {
    let data = json!({"body": {"amount": ACCEPTED, "account": account}});
    json!({"jobId": job_id, "route": "pay", "companyId": "acme", "delayMs": delay_ms, "data": data})
}

#[test]
fn a_flipped_bit_is_not_delivered_and_the_dead_letter_says_why() {
    let provider = Provider::start();
    let place = &provider.place;
    let server = place.serve();
    server.enqueue(pay("struck", 2_000, "1"));
    server.stop();
    flip(&database(place), ACCEPTED, FLIPPED);

    let server = place.serve();
    server.enqueue(
        json!({"jobId": "whole", "route": "pay", "companyId": "acme", "data": {"body": {"amount": "AMOUNT-7"}}}),
    );
    server.job_once("whole", "sent");
    server.job_once("struck", "failed");
    assert!(!provider.got(FLIPPED) && provider.got("AMOUNT-7"), "{:?}", provider.bodies.lock());
    let moved = server.logged("Job moved to the dead letter queue", 1);
    assert_eq!(moved[0]["attempt"], 0, "nothing was tried: {}", moved[0]);
    let entry = server.get("/v1/dlq/struck");
    assert_eq!(
        (&entry["lastFailureCode"], &entry["cause"]),
        (&json!("PAYLOAD_CORRUPT"), &json!("INVALID_PAYLOAD"))
    );
    assert_eq!(
        (&entry["damage"], &entry["originalData"]["body"]["amount"]),
        (&json!("data"), &json!(FLIPPED))
    );

    // Without correction it stays where it is; with it, it goes out.
    let (status, problem) = server.ask("POST", "/v1/dlq/struck/replay", &json!({}));
    assert_eq!(status, 409, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("replay it with corrected data"), "{problem}");
    let (status, problem) = server.ask("POST", "/v1/dlq/struck/replay", &json!({"original": true}));
    assert_eq!(status, 409, "{problem}");
    let corrected = json!({"data": {"body": {"amount": ACCEPTED}}});
    let (status, started) = server.ask("POST", "/v1/dlq/struck/replay", &corrected);
    assert_eq!(status, 202, "{started}");
    server.job_once("struck", "sent");
    assert!(provider.got(ACCEPTED) && !provider.got(FLIPPED));
    server.stop();
}

#[test]
fn a_flipped_bit_in_a_dead_letter_or_an_exported_line_does_not_come_back() {
    let provider = Provider::start();
    let place = &provider.place;
    let server = place.serve();
    server.enqueue(pay("dead", 0, "refuse-it"));
    server.job_once("dead", "failed");
    let exported = server.run(place, &["dlq", "export"]).done();
    assert!(exported.contains(ACCEPTED), "{exported}");
    server.stop();
    flip(&database(place), ACCEPTED, FLIPPED);

    let server = place.serve();
    assert_eq!(server.get("/v1/dlq/dead")["damage"], "data");
    let shown = server.run(place, &["dlq", "show", "dead"]).done();
    assert!(shown.contains("damaged"), "{shown}");
    let (status, problem) = server.ask("POST", "/v1/dlq/dead/replay", &json!({}));
    assert_eq!(status, 409, "{problem}");
    let bulk = server.run(place, &["dlq", "replay", "--all", "--yes", "--json"]);
    assert!(
        bulk.out.contains("damaged in the store") || bulk.err.contains("damaged in the store"),
        "{bulk:?}"
    );
    let discarded = server.run(place, &["dlq", "discard", "dead", "--reason", "damaged"]).done();
    assert!(discarded.contains("discarded"), "{discarded}");

    place.write("changed.ndjson", &exported.replace(ACCEPTED, FLIPPED));
    let refused = server.run(place, &["dlq", "import", "changed.ndjson"]);
    assert!(refused.err.contains("checksum") || refused.out.contains("checksum"), "{refused:?}");
    assert_eq!(server.ask("GET", "/v1/dlq/dead", &Value::Null).0, 404, "a changed line came back");
    place.write("whole.ndjson", &exported);
    server.run(place, &["dlq", "import", "whole.ndjson"]).done();
    eventually(|| server.ask("GET", "/v1/dlq/dead", &Value::Null).0 == 200);
    assert!(!provider.got(FLIPPED), "{:?}", provider.bodies.lock());
    server.stop();
}
