//! The connection while all is well: where calls go, what they answer, what the server says of itself.

use std::time::Duration;

use recado_store::{Durability, StoreError};
use recado_store_redis::check::{Checkup, FindingState};
use recado_store_redis::link::{Hint, Link, OpenError, RedisOptions, Script};
use recado_testkit::fault_proxy::Proxy;
use recado_testkit::free_port;
use recado_testkit::redis::{RedisCluster, RedisServer, Sentinels, ask};
use redis::Value;

use crate::given::random;

async fn open(url: String) -> Link {
    Link::open(&RedisOptions::new(url), random()).await.expect("the link opens")
}

fn text(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

fn error_count(port: u16, code: &str) -> u64 {
    let stats: String = ask(port, &["INFO", "errorstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("errorstat_{code}:count=")));
    line.map_or(0, |count| count.trim().parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_is_known_by_its_hash_and_loaded_again_when_the_server_forgot_it() {
    let server = RedisServer::start();
    let link = open(server.url()).await;
    let script = Script::new("add", "return redis.call('INCRBY', KEYS[1], ARGV[1]) .. ARGV[2]");
    let run = async || link.run::<Value>(script.on(&[b"sum"]).arg(5).arg("!")).await.unwrap();
    assert_eq!(run().await, text("5!"));
    assert_eq!(run().await, text("10!"));
    assert_eq!(error_count(server.port(), "NOSCRIPT"), 1, "it was loaded once");
    server.ask::<()>(&["SCRIPT", "FLUSH"]);
    assert_eq!(run().await, text("15!"));
    assert_eq!(error_count(server.port(), "NOSCRIPT"), 2, "the server had not forgotten it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_can_say_that_what_it_found_is_impossible() {
    let server = RedisServer::start();
    let link = open(server.url()).await;
    let script = Script::new("claim", "return redis.error_reply('BROKEN a lease without a job')");
    match link.run::<Value>(&script.on(&[b"k"])).await {
        Err(StoreError::Broken(why)) => assert_eq!(why, "BROKEN a lease without a job (claim)"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_never_repeats_what_was_sent() {
    let server = RedisServer::with(&["rename-command EVALSHA NOTHING"]);
    let link = open(server.url()).await;
    let script = Script::new("claim", "return 1");
    let refused =
        link.run::<Value>(script.on(&[b"key-of-ana"]).arg("hunter2")).await.unwrap_err().to_string();
    assert!(refused.contains("claim") && refused.contains("unknown command"), "{refused}");
    assert!(!refused.contains("ana") && !refused.contains("hunter"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_is_the_servers_and_never_runs_backwards() {
    let server = RedisServer::start();
    let link = open(server.url()).await;
    let server_millis = || {
        let (seconds, micros): (i64, i64) = server.ask(&["TIME"]);
        seconds * 1_000 + micros / 1_000
    };
    // However slow this machine is, ours lies between two readings of the server's, but for half a round
    // trip of the best measurement.
    let (before, ours, after) = (server_millis(), link.clock().now().as_millis(), server_millis());
    let slack = 1_000;
    assert!((before - slack..=after + slack).contains(&ours), "{before} ≤ {ours} ≤ {after}");
    let mut last = link.clock().now();
    for _ in 0..10_000 {
        let now = link.clock().now();
        assert!(now >= last);
        last = now;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_reaches_every_node_and_a_lost_connection_is_told() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let (speaker, listener) = (open(server.url()).await, open(proxy.url()).await);
    let mut hints = listener.subscribe();
    // Said until it is heard: what is said before the listener listens is lost.
    let mut hears = async |wanted: Hint, say: Option<&str>| {
        let heard = async {
            loop {
                say.inspect(|text| speaker.publish(text));
                let next = tokio::time::timeout(Duration::from_millis(200), hints.recv()).await;
                if next.is_ok_and(|hint| hint.unwrap() == wanted) {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), heard).await.expect("it is heard");
    };
    hears(Hint::Said("work on email".into()), Some("work on email")).await;
    let script = Script::new("tell", "return redis.call('PUBLISH', ARGV[1], 'from a script')");
    speaker.run::<Value>(script.on(&[b"k"]).arg(speaker.channel())).await.unwrap();
    hears(Hint::Said("from a script".into()), None).await;
    assert!(proxy.cut() > 0, "there was no connection to cut");
    hears(Hint::Missed, None).await;
    hears(Hint::Said("again".into()), Some("again")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_and_a_login_are_taken_from_the_url() {
    let server = RedisServer::with(&["user default on nopass ~* &* +@all", "user ana on >p@ss ~* &* +@all"]);
    let host = format!("127.0.0.1:{}", server.port());
    let link = open(format!("redis://ana:p%40ss@{host}/3")).await;
    link.command::<Value>(redis::cmd("SET").arg("k").arg("v")).await.unwrap();
    let who = link.command::<Value>(redis::cmd("ACL").arg("WHOAMI")).await.unwrap();
    assert_eq!(who, text("ana"));
    let keyspace: String = server.ask(&["INFO", "keyspace"]);
    assert!(keyspace.contains("db3:keys=1") && !keyspace.contains("db0"), "{keyspace}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_told_without_the_password() {
    let server = RedisServer::with(&["requirepass right"]);
    let options = RedisOptions::new(format!("redis://:hunter2@127.0.0.1:{}", server.port()));
    let error = Link::open(&options, random()).await.unwrap_err().to_string();
    assert!(error.contains("refuses the login"), "{error}");
    assert!(!error.contains("hunter") && !format!("{options:?}").contains("hunter"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_spoken_with_servers_whose_authority_is_trusted_and_with_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (dir.path().join("server.crt"), dir.path().join("server.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let port = free_port();
    let server = RedisServer::with(&[
        &format!("tls-port {port}"),
        &format!("tls-cert-file {}", certificate.display()),
        &format!("tls-key-file {}", key.display()),
        &format!("tls-ca-cert-file {}", certificate.display()),
        "tls-auth-clients no",
    ]);
    let mut options = RedisOptions::new(format!("rediss://localhost:{port}"));
    options.trusted_roots_pem = Some(made.cert.pem());
    let link = Link::open(&options, random()).await.unwrap();
    link.command::<Value>(redis::cmd("SET").arg("k").arg("v")).await.unwrap();
    assert_eq!(server.ask::<String>(&["GET", "k"]), "v");

    options.trusted_roots_pem = None;
    let error = Link::open(&options, random()).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    options.trusted_roots_pem = Some("no certificate".to_owned());
    assert!(matches!(Link::open(&options, random()).await, Err(OpenError::TrustedRoots)));
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_every_key_is_found_and_so_is_the_clock() {
    let cluster = RedisCluster::start(3);
    let link = open(cluster.url()).await;
    for number in 0..100 {
        let key = format!("recado:{{{number}}}:k");
        link.command::<Value>(redis::cmd("SET").arg(&key).arg(number)).await.unwrap();
        let read = link.command::<Value>(redis::cmd("GET").arg(&key)).await.unwrap();
        assert_eq!(read, text(&number.to_string()));
    }
    for master in &cluster.masters {
        assert!(master.ask::<u64>(&["DBSIZE"]) > 0, "a shard got nothing");
        assert_eq!(error_count(master.port(), "MOVED"), 0, "the map was wrong");
    }
    let alone =
        Link::open(&RedisOptions::new(cluster.masters[0].url()), random()).await.unwrap_err().to_string();
    assert!(alone.contains("redis+cluster://"), "{alone}");
    assert_eq!(link.checkup().findings().iter().filter(|finding| finding.what == "store version").count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_on_the_move_are_followed() {
    let cluster = RedisCluster::start(3);
    let link = open(cluster.url()).await;
    let key = "recado:{7}:k";
    let slot: u16 = cluster.masters[0].ask(&["CLUSTER", "KEYSLOT", key]);
    let (from, to) = cluster.holder_and_other(slot);
    let get = redis::cmd("INCR").arg(key).clone();

    cluster.begin_move(slot);
    assert_eq!(link.command::<Value>(&get).await.unwrap(), Value::Int(1));
    assert!(error_count(from.port(), "ASK") > 0, "no request was redirected for a moment");
    assert_eq!(link.command::<Value>(&get).await.unwrap(), Value::Int(2));
    assert_eq!(link.command::<Value>(&get).await.unwrap(), Value::Int(3));

    cluster.end_move(slot);
    assert_eq!(link.command::<Value>(&get).await.unwrap(), Value::Int(4));
    assert!(error_count(from.port(), "MOVED") > 0, "no request was redirected for good");
    assert_eq!(to.ask::<u64>(&["GET", key]), 4, "it was carried out somewhere else, or twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_are_asked_for_the_master_even_if_some_are_dead() {
    let set = Sentinels::start();
    let url = set.url().replace("redis+sentinel://", "redis+sentinel://127.0.0.1:1,");
    let link = open(url).await;
    link.command::<Value>(redis::cmd("SET").arg("k").arg("v")).await.unwrap();
    assert_eq!(set.master.ask::<String>(&["GET", "k"]), "v");
}

#[tokio::test(flavor = "multi_thread")]
async fn g13_a_server_that_evicts_is_refused_with_the_command_that_mends_it() {
    let server = RedisServer::with(&["maxmemory 100mb", "maxmemory-policy allkeys-lru"]);
    let error = Link::open(&RedisOptions::new(server.url()), random()).await.unwrap_err();
    assert!(matches!(error, OpenError::Unfit(_)), "{error:?}");
    let told = error.to_string();
    assert!(told.contains("allkeys-lru"), "{told}");
    assert!(told.contains("redis-cli CONFIG SET maxmemory-policy noeviction"), "{told}");
    server.ask::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    open(server.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g13_the_promise_is_what_the_settings_make_it() {
    for (settings, durability, state) in [
        (&["appendonly yes", "appendfsync always"][..], Durability::Fsync, FindingState::Good),
        (&["appendonly yes", "appendfsync everysec"], Durability::EverySecond, FindingState::Note),
        (&["appendonly yes", "appendfsync no"], Durability::Eventually, FindingState::Note),
        (&["appendonly no"], Durability::Memory, FindingState::Note),
    ] {
        let server = RedisServer::with(settings);
        let checkup = Checkup::of(&RedisOptions::new(server.url()), random()).await.unwrap();
        assert_eq!(checkup.durability(), durability, "{settings:?}");
        let finding =
            checkup.findings().into_iter().find(|finding| finding.what == "store durability").unwrap();
        assert_eq!(
            (finding.state, finding.fix.is_some()),
            (state, state == FindingState::Note),
            "{finding:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g13_what_a_managed_server_hides_is_read_elsewhere_or_said_to_be_unknown() {
    let server = RedisServer::with(&[
        "maxmemory 100mb",
        "maxmemory-policy volatile-ttl",
        "appendonly yes",
        "user default on nopass ~* &* +@all -config",
    ]);
    let checkup = Checkup::of(&RedisOptions::new(server.url()), random()).await.unwrap();
    assert!(error_count(server.port(), "NOPERM") > 0, "nothing was forbidden");
    assert_eq!(checkup.durability(), Durability::Unknown);
    let found = |what: &str| checkup.findings().into_iter().find(|finding| finding.what == what).unwrap();
    assert_eq!(found("store eviction").state, FindingState::Bad, "INFO tells the policy");
    assert!(found("store durability").found.contains("hides"));
    assert_eq!(found("store memory").state, FindingState::Good);
}

#[tokio::test(flavor = "multi_thread")]
async fn g14_memory_is_read_with_its_limit() {
    let server = RedisServer::with(&["maxmemory 100mb"]);
    let link = open(server.url()).await;
    let reading = link.memory().latest().expect("a reading");
    assert_eq!(reading.max_bytes, Some(100 << 20));
    assert!(reading.used_bytes > 0 && reading.fraction().unwrap() < 0.5, "{reading:?}");

    let unlimited = RedisServer::start();
    let reading = open(unlimited.url()).await.memory().latest().expect("a reading");
    assert_eq!((reading.max_bytes, reading.fraction()), (None, None));
}
