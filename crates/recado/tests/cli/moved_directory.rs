//! A data directory that is moved or removed under a running server.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use recado_demo::far_ends::http;
use recado_demo::far_ends::receiver::ALLOWED;
use serde_json::{Value, json};

use super::given::{Place, Server, ask, eventually};

fn data(place: &Place) -> PathBuf {
    place.path().join("recado-data")
}

fn later(job_id: &str) -> Value {
    json!({"jobId": job_id, "route": "sandbox", "companyId": "acme", "delayMs": 600_000, "data": {}})
}

/// Nothing is acknowledged from now on, and the server ends by itself.
fn refuses_and_ends(server: Server) -> String {
    let address = server.address;
    // No answer: it has ended already.
    if let Ok((status, problem)) = ask(address, "POST", "/v1/jobs", &later("after")) {
        assert_eq!((status, &problem["code"]), (503, &json!("store_broken")), "{problem}");
    }
    if let Ok((status, _)) = ask(address, "GET", "/readyz", &Value::Null) {
        assert_eq!(status, 503, "it still says that it is ready");
    }
    let (status, said) = server.ended();
    assert!(!status.success(), "{said}");
    said
}

#[test]
fn a_moved_data_directory_ends_the_server_and_keeps_what_was_acknowledged() {
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let keep = heard.clone();
    let ops = http::start(move |request: http::Request| {
        keep.lock().push(request.text());
        http::text(200, "ok")
    });
    let place = Place::with(&format!(
        "[notify.ops]\nwebhook = \"http://{}/alerts\"\nformat = \"slack\"\n{ALLOWED}[alerts]\nnotify = [\"ops\"]\n",
        ops.expect("a free port")
    ));
    let server = place.serve();
    server.enqueue(later("before"));
    let elsewhere = place.path().join("elsewhere");
    std::fs::rename(data(&place), &elsewhere).expect("a move");
    let said = refuses_and_ends(server);
    assert!(said.contains("was moved, removed or replaced") && said.contains("start there"), "{said}");
    assert!(!said.contains("it recovers"), "a start in the old place would begin a new store: {said}");
    let heard = heard.lock().join("\n");
    assert!(heard.contains("store_broken") && heard.contains("was moved, removed or replaced"), "{heard}");
    assert!(!data(&place).join("recado.db").exists(), "a second store was begun in the old place");

    let server = place.serve_with(&["--data-dir", elsewhere.to_str().unwrap()], &[]);
    assert_eq!(server.get("/v1/jobs/before")["status"], "scheduled");
    server.stop();
}

#[test]
fn a_removed_data_directory_ends_a_server_that_has_nothing_to_do() {
    let place = Place::new();
    let server = place.serve();
    std::fs::remove_dir_all(data(&place)).expect("a removal");
    // It notices by itself, without a request.
    eventually(|| ask(server.address, "GET", "/healthz", &Value::Null).is_err());
    let said = refuses_and_ends(server);
    assert!(said.contains("was moved, removed or replaced"), "{said}");
}
