//! The connection while something is wrong. Every call ends, says what to do, and is carried out at most once.

use recado_store::prelude::*;
use std::time::Duration;

use recado_core::{CompanyId, NewJob};
use recado_store::StoreError;
use recado_store_redis::RedisStore;
use recado_store_redis::link::{Link, RedisOptions, Script};
use recado_testkit::PATIENCE;
use recado_testkit::fault_proxy::{Mode, Proxy};
use recado_testkit::redis::{RedisCluster, RedisServer, Sentinels, ask, until};
use redis::{Cmd, Value};
use tokio::time::{Instant, sleep, timeout};

use crate::given::{job, random};

async fn open(url: String) -> Link {
    Link::open(&RedisOptions::new(url), random()).await.expect("the link opens")
}

fn incr() -> Cmd {
    redis::cmd("INCR").arg("k").clone()
}

/// Ends, whatever happens: a call that hangs fails the test.
async fn call(link: &Link, command: &Cmd) -> Result<Value, StoreError> {
    timeout(PATIENCE, link.command(command)).await.expect("a call hangs")
}

async fn refused(link: &Link, command: &Cmd) -> String {
    match call(link, command).await {
        Err(StoreError::Unavailable(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// Asks again until it works, as the engine does.
async fn recovers(link: &Link, command: &Cmd) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        match call(link, command).await {
            Ok(value) => return value,
            Err(StoreError::Unavailable(why)) => assert!(Instant::now() < end, "it never recovers: {why}"),
            Err(other) => panic!("{other}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f13_a_server_that_is_gone_is_told_and_found_again_when_it_is_back() {
    let mut server = RedisServer::durable();
    let link = open(server.url()).await;
    assert_eq!(call(&link, &incr()).await.unwrap(), Value::Int(1));
    server.kill();
    // The first finds the connection dead, the second none to use.
    refused(&link, &incr()).await;
    let why = refused(&link, &incr()).await;
    assert!(why.contains(&server.port().to_string()) && why.contains("is it running?"), "{why}");
    server.restart();
    assert_eq!(
        recovers(&link, &incr()).await,
        Value::Int(2),
        "an acknowledged write is lost, or one was repeated"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_that_fits_into_a_calls_time_is_a_delay_and_no_error() {
    let mut server = RedisServer::durable();
    let mut options = RedisOptions::new(server.url());
    options.timeout = PATIENCE;
    let link = Link::open(&options, random()).await.unwrap();
    server.kill();
    let get = redis::cmd("GET").arg("k").clone();
    let waiting = tokio::spawn(async move {
        // The request that finds the connection dead fails; later ones wait.
        match link.command::<Value>(&get).await {
            Err(_) => link.command::<Value>(&get).await,
            answer => answer,
        }
    });
    server.restart();
    assert_eq!(waiting.await.unwrap().unwrap(), Value::Nil);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_answer_was_cut_off_is_not_repeated() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let link = open(proxy.url()).await;
    proxy.set(Mode::CutAtAnswer);
    let why = refused(&link, &incr()).await;
    assert!(proxy.hurt() > 0, "nothing was cut");
    assert!(why.contains("not known"), "{why}");
    proxy.set(Mode::Pass);
    until(server.port(), &["GET", "k"], |count: &Option<u64>| count.is_some());
    assert_eq!(recovers(&link, &incr()).await, Value::Int(2), "it was repeated");
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_connections_are_opened_again() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let link = open(proxy.url()).await;
    let mut cut = 0;
    for _ in 0..10 {
        recovers(&link, &incr()).await;
        cut += proxy.cut();
    }
    assert!(cut >= 10, "only {cut} connections were cut");
    recovers(&link, &incr()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f13_a_wire_that_is_held_ends_the_call_and_the_connection() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let mut options = RedisOptions::new(proxy.url());
    options.timeout = Duration::from_secs(1);
    let link = Link::open(&options, random()).await.unwrap();
    for mode in [Mode::Stall, Mode::LoseAnswers] {
        let before = proxy.hurt();
        proxy.set(mode);
        let why = refused(&link, &incr()).await;
        assert!(why.contains("did not answer within 1000 ms"), "{mode:?}: {why}");
        assert!(proxy.hurt() > before, "nothing was held");
        let why = refused(&link, &incr()).await;
        assert!(why.contains("no connection"), "the dead connection is still in use: {why}");
        proxy.set(Mode::Pass);
        recovers(&link, &incr()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f13_a_server_that_stands_still_ends_the_call() {
    let server = RedisServer::start();
    let link = open(server.url()).await;
    assert_eq!(RedisOptions::new("").timeout, Duration::from_secs(2), "the required bound");
    server.pause();
    let why = refused(&link, &incr()).await;
    assert!(why.contains("did not answer within 2000 ms"), "{why}");
    server.resume();
    recovers(&link, &incr()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_reads_its_data_is_waited_for() {
    let mut server = RedisServer::durable();
    let link = open(server.url()).await;
    server.ask::<()>(&["EVAL", "for key = 1, 10000 do redis.call('SET', 'fill:' .. key, 'x') end", "0"]);
    // Microseconds for each key, so that the reading takes a while.
    server.configure("key-load-delay 200");
    server.restart_without_waiting();
    let end = Instant::now() + PATIENCE;
    loop {
        match call(&link, &incr()).await {
            Err(StoreError::Unavailable(why)) if why.contains("still reading its data") => break,
            Err(_) if Instant::now() < end => {}
            other => panic!("it never said that it was loading: {other:?}"),
        }
    }
    server.wait_for_log("Ready to accept connections");
    recovers(&link, &incr()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g14_a_full_server_refuses_new_work_and_lets_running_work_end() {
    let server = RedisServer::start();
    let link = open(server.url()).await;
    call(&link, redis::cmd("RPUSH").arg("k").arg("running")).await.unwrap();
    server.ask::<()>(&["SET", "ballast", &"x".repeat(4 << 20)]);
    server.ask::<()>(&["CONFIG", "SET", "maxmemory", "3mb"]);
    let enqueue = Script::new("enqueue", "return redis.call('RPUSH', KEYS[1], 'new')");
    let settle = Script::new(
        "settle",
        "#!lua flags=allow-oom\nredis.call('RPUSH', KEYS[2], 'record') return redis.call('LPOP', KEYS[1])",
    );
    match link.run::<Value>(&enqueue.on(&[b"k"])).await {
        Err(StoreError::Full(why)) => assert!(why.contains("raise maxmemory"), "{why}"),
        other => panic!("{other:?}"),
    }
    let settled = link.run::<Value>(&settle.on(&[b"k", b"audit"])).await.unwrap();
    assert_eq!(settled, Value::BulkString(b"running".to_vec()));
    server.ask::<()>(&["DEL", "ballast"]);
    assert_eq!(
        link.run::<Value>(&enqueue.on(&[b"k"])).await.unwrap(),
        Value::Int(1),
        "nothing else was ever written"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_becomes_a_replica_is_told_and_used_again_as_a_master() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    let link = open(server.url()).await;
    server.ask::<()>(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    let why = refused(&link, &incr()).await;
    assert!(why.contains("is a replica"), "{why}");
    let error = Link::open(&RedisOptions::new(server.url()), random()).await.unwrap_err().to_string();
    assert!(error.contains("replica"), "{error}");
    server.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
    recovers(&link, &incr()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_script_of_another_program_is_reported() {
    let server = RedisServer::with(&["busy-reply-threshold 50"]);
    let link = open(server.url()).await;
    let port = server.port();
    let endless = std::thread::spawn(move || {
        let _ = recado_testkit::redis::try_ask::<Value>(port, &["EVAL", "while true do end", "0"]);
    });
    let end = Instant::now() + PATIENCE;
    loop {
        match call(&link, &incr()).await {
            Err(StoreError::Unavailable(why)) if why.contains("busy with a script") => break,
            _ => assert!(Instant::now() < end, "it never said that it was busy"),
        }
    }
    ask::<()>(port, &["SCRIPT", "KILL"]);
    endless.join().unwrap();
    recovers(&link, &incr()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_by_sentinel_leads_to_the_new_master() {
    let mut set = Sentinels::start();
    let link = open(set.url()).await;
    call(&link, &incr()).await.unwrap();
    until(set.replica.port(), &["GET", "k"], |count: &Option<u64>| *count == Some(1));
    set.fail_over();
    assert_eq!(recovers(&link, &incr()).await, Value::Int(2));
    assert_eq!(set.replica.ask::<u64>(&["GET", "k"]), 2, "another server was written to");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_gone_is_told_and_the_others_are_not_held_up_by_it() {
    let mut cluster =
        RedisCluster::with(3, &["appendonly yes", "appendfsync always", "cluster-require-full-coverage no"]);
    let link = open(cluster.url()).await;
    let slot: u16 = cluster.masters[0].ask(&["CLUSTER", "KEYSLOT", "k"]);
    let at = usize::from(slot / (16_384 / 3)).min(2);
    let elsewhere = (0..).map(|number| format!("k{number}")).find(|key| {
        let other: u16 = cluster.masters[0].ask(&["CLUSTER", "KEYSLOT", key]);
        usize::from(other / (16_384 / 3)).min(2) != at
    });
    let elsewhere = elsewhere.unwrap();
    assert_eq!(call(&link, &incr()).await.unwrap(), Value::Int(1));
    cluster.masters[at].kill();
    refused(&link, &incr()).await;
    let other = link.command::<Value>(redis::cmd("SET").arg(&elsewhere).arg(1)).await;
    assert_eq!(other.unwrap(), Value::Okay);
    cluster.masters[at].restart();
    assert_eq!(recovers(&link, &incr()).await, Value::Int(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_does_not_open_where_no_server_listens_and_says_so() {
    let mut server = RedisServer::start();
    server.kill();
    for scheme in ["redis", "redis+cluster"] {
        let options = RedisOptions::new(format!("{scheme}://127.0.0.1:{}", server.port()));
        let opened = timeout(PATIENCE, Link::open(&options, random())).await.expect("it hangs");
        let error = opened.unwrap_err().to_string();
        assert!(error.contains(&server.port().to_string()) && error.contains("refused"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_lost_a_shard_says_which_partitions_are_away_and_serves_the_others() {
    let mut cluster = RedisCluster::with(3, &["appendonly no", "cluster-require-full-coverage no"]);
    let options =
        RedisOptions { partitions: 6, timeout: Duration::from_secs(1), ..RedisOptions::new(cluster.url()) };
    let store = RedisStore::open(&options, random()).await.unwrap();
    assert_eq!(store.report().await.unwrap().unanswered, None);
    cluster.masters[1].kill();
    let unanswered = store.report().await.unwrap().unanswered.expect("a shard is gone");
    assert!(unanswered.starts_with("of 6 partitions these do not answer: "), "{unanswered}");
    let mut accepted = 0;
    for nth in 0..12 {
        let company = CompanyId::new(format!("company-{nth}")).unwrap();
        let new = NewJob { company, ..job(&format!("job-{nth}")) };
        accepted += usize::from(store.enqueue(vec![new]).await.is_ok());
    }
    assert!((1..12).contains(&accepted), "{accepted} of 12");
    cluster.masters[0].kill();
    cluster.masters[2].kill();
    assert!(store.report().await.is_err(), "nothing is left");
}
