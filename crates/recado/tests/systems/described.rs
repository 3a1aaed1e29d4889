//! The API document as others read it: schemathesis makes requests from it, and two strict generators make clients.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::scene::Scene;

const CONFIG: &str = r#"
[routes.sandbox]
policy = { base = "20ms" }

[routes.patient]
transport = "sandbox"
policy = { base = "1h", cap = "1h" }

[routes.work]
transport = "worker"

[webhooks]
allow = ["127.0.0.1"]
"#;

/// Files of these tests that are not Rust.
fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/systems/described")
}

/// A tool that `cargo xtask setup` installs.
fn peer(path: &str) -> PathBuf {
    let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers").join(path);
    assert!(peer.exists(), "{} is missing; run `cargo xtask setup`, which installs it", peer.display());
    peer
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}:\n{said}\n{complaint}", output.status);
    said
}

/// Puts something of everything on the server. Returns the ids of it, by the path parameter that takes them.
fn seed(scene: &Scene) -> Value {
    let job = |id: &str, route: &str, script: &[&str]| json!({"jobId": id, "route": route, "companyId": "acme", "userId": "u-1", "data": {"script": script}});
    scene.enqueue(job("sent-1", "sandbox", &["503 busy", "ok"]));
    scene.enqueue(job("retrying-1", "patient", &["503 busy"]));
    let dead = ["dead-0", "dead-1", "dead-2", "dead-3", "dead-4", "dead-5"];
    for id in dead {
        scene.enqueue(job(id, "sandbox", &["550 no such user"]));
    }
    for id in ["later-1", "cancelled-1"] {
        let mut later = job(id, "sandbox", &["ok"]);
        later["delayMs"] = json!(3_600_000);
        scene.enqueue(later);
    }
    scene.enqueue(job("work-1", "work", &[]));
    scene.enqueue(job("work-2", "work", &[]));
    scene.job_once("sent-1", "sent");
    scene.retrying("retrying-1", 1);
    for id in dead {
        scene.job_once(id, "failed");
    }
    let done = |method: &str, path: &str, body: Value, expected: u16| {
        let (status, answer) = scene.ask(method, path, &body);
        assert_eq!(status, expected, "{method} {path}: {answer}");
        answer
    };
    done("DELETE", "/v1/jobs/cancelled-1", Value::Null, 200);
    done("POST", "/v1/dlq/dead-0/discard", json!({"reason": "a test"}), 200);
    done("PUT", "/v1/tenants/acme", json!({"weight": 2, "maxPerMinute": 100_000}), 200);
    done("POST", "/v1/providers/sandbox/pause", Value::Null, 200);
    done("POST", "/v1/decisions", json!({"claimId": "claim-1", "submissionError": "TIMEOUT"}), 200);
    let lease = done("POST", "/v1/leases", json!({"routes": ["work"], "workerId": "w-1"}), 200);
    let (endpoint, _) = scene.endpoint("acme", "https://127.0.0.1:9/hook", &[]);
    let bulk = done("POST", "/v1/dlq/replay", json!({"filter": {"jobIds": ["dead-1"]}}), 202);
    json!({
        "jobId": ["sent-1", "retrying-1", "later-1", "work-1", "work-2", "cancelled-1", "dead-0", "dead-1", "dead-2", "dead-3"],
        "name": ["sandbox"],
        "companyId": ["acme"],
        "id": [endpoint, bulk["id"]],
        "leaseToken": [lease["leases"][0]["leaseToken"]],
    })
}

#[test]
fn schemathesis_finds_nothing_on_a_server_with_something_of_everything() {
    let scene = Scene::with(CONFIG);
    let seeded = seed(&scene);
    let mut schemathesis = Command::new(peer("venv/bin/schemathesis"));
    schemathesis
        .current_dir(scene.place.path())
        .env("PYTHONPATH", files())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("RECADO_SEEDED", seeded.to_string())
        .arg("--config-file")
        .arg(files().join("schemathesis.toml"))
        .args(["run", &format!("{}/openapi.json", scene.url())]);
    let said = run(&mut schemathesis);
    assert!(said.contains("No issues found"), "{said}");
}

#[test]
fn a_python_client_made_from_the_document_sends_reads_and_replays_jobs() {
    let scene = Scene::with(CONFIG);
    scene.place.write("openapi.json", &scene.get("/openapi.json").to_string());
    // Formatting the generated client takes longer than all the rest, and it is not read.
    scene.place.write("generator.yml", "post_hooks: []\n");
    let mut generate = Command::new(peer("venv/bin/openapi-python-client"));
    generate.current_dir(scene.place.path()).arg("generate");
    generate.args(["--path", "openapi.json", "--output-path", "generated", "--meta", "none"]);
    run(generate.args(["--config", "generator.yml"]));
    std::fs::copy(files().join("client.py"), scene.place.path().join("client.py")).expect("a copy");
    let mut client = Command::new(peer("venv/bin/python"));
    assert_eq!(run(client.current_dir(scene.place.path()).args(["client.py", &scene.url()])), "done\n");
}

#[test]
fn a_typescript_client_made_from_the_document_sends_reads_and_replays_jobs() {
    let scene = Scene::with(CONFIG);
    scene.place.write("openapi.json", &scene.get("/openapi.json").to_string());
    for name in ["openapi-ts.config.mjs", "tsconfig.json", "client.ts"] {
        let from = files().join("typescript").join(name);
        std::fs::copy(from, scene.place.path().join(name)).expect("a copy");
    }
    symlink(peer("typescript/node_modules"), scene.place.path().join("node_modules")).expect("a link");
    let node = |arguments: &[&str]| run(Command::new("node").current_dir(scene.place.path()).args(arguments));
    node(&["node_modules/@hey-api/openapi-ts/bin/run.js", "-f", "openapi-ts.config.mjs"]);
    node(&["node_modules/typescript/bin/tsc", "-p", "."]);
    assert_eq!(node(&["built/client.js", &scene.url()]), "done\n");
}
