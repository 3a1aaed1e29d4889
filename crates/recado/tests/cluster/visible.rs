//! Redis as people see it with its own tools, and its documented configuration.

use std::process::Command;

use recado_testkit::redis::RedisServer;

use super::far_end::FarEnd;
use super::given::{Place, eventually};
use super::nodes::{Nodes, enqueue};

/// The key of a failure count that expires within a minute.
const FAILURES_LAST_MS: i64 = 60_000;

fn redis_cli(redis: &RedisServer, words: &[&str]) -> String {
    let output =
        Command::new("redis-cli").args(["-u", &redis.url()]).args(words).output().expect("redis-cli");
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8").trim_end().to_owned()
}

#[test]
fn f4_while_a_breaker_is_open_its_circuit_keys_say_so_to_redis_cli() {
    let (redis, far_end) = (RedisServer::start(), FarEnd::start());
    let terms = "concurrency = 1\nbreaker = { failures = 3, reset = \"1h\" }\n";
    let nodes = Nodes::start(&far_end.lane(terms), &redis.url());
    let get = |name: &str| redis_cli(&redis, &["GET", &format!("circuit:sink:{name}")]);
    far_end.breaks();
    enqueue(nodes.at(0), "acme", 20);
    eventually(|| get("state") == "OPEN");
    // A node may still tell of what was on its way.
    let known = || nodes.at(1).get("/v1/providers/sink")["failuresInWindow"].as_u64();
    eventually(|| get("failures").parse().ok() == known());
    let last_failure: recado_core::Timestamp = get("last_failure").parse().expect("a time");
    assert!(last_failure.as_millis() > 0);
    for (name, most) in [("failures", FAILURES_LAST_MS), ("state", i64::MAX), ("last_failure", i64::MAX)] {
        let lasts: i64 =
            redis_cli(&redis, &["PTTL", &format!("circuit:sink:{name}")]).parse().expect("a number");
        assert!((1..=most).contains(&lasts), "{name} lasts {lasts} ms");
    }

    far_end.recovers();
    let close = serde_json::json!({ "action": "close", "reason": "mended" });
    assert_eq!(nodes.at(2).ask("POST", "/v1/providers/sink/breaker", &close).0, 200);
    eventually(|| get("state") == "CLOSED");
    far_end.once_come(23);
}

#[test]
fn g13_the_configuration_that_the_page_gives_makes_a_redis_that_the_doctor_calls_fit() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating");
    let settings_of = |page: &str| {
        let page = std::fs::read_to_string(docs.join(page)).expect("a page");
        let block = page.split("```ini\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
        let setting = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
        block.lines().map(setting).collect::<Vec<_>>()
    };
    let settings = settings_of("redis.md");
    assert_eq!(settings, settings_of("redis.pt-BR.md"), "both pages say the same");
    for (name, value) in [
        ("appendonly", "yes"),
        ("appendfsync", "everysec"),
        ("maxmemory", "512mb"),
        ("maxmemory-policy", "noeviction"),
        ("aof-use-rdb-preamble", "yes"),
        ("auto-aof-rewrite-percentage", "100"),
        ("auto-aof-rewrite-min-size", "64mb"),
    ] {
        assert!(
            settings.contains(&format!("{name} {value}")),
            "the required {name} is missing: {settings:?}"
        );
    }
    let redis = RedisServer::with(&settings.iter().map(String::as_str).collect::<Vec<_>>());
    let said = Place::new().run(&["doctor", "--url", "http://127.0.0.1:9", "--store", &redis.url()]).done();
    for fit in ["✓ store eviction", "✓ store memory", "! store durability"] {
        assert!(said.contains(fit), "{said}");
    }
}
