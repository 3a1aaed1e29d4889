//! Redis forgets its scripts, is far away, fails over and loses its last second, under the traffic of three nodes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use recado_testkit::fault_proxy::{Mode, Proxy};
use recado_testkit::redis::{RedisServer, Sentinels};

use super::chaos::{CLIENTS, ENGINE, LOST_BY_REDIS, SINK_TAKES, goes_on, write_row};
use super::far_end::FarEnd;
use super::given::eventually;
use super::ledger::{Account, Clients};
use super::nodes::Nodes;

const TEST: &str = "cluster::redis_faults";

/// A failover or a lost second takes back what was written this long before, at most.
const TAKEN_BACK: Duration = Duration::from_millis(2_500);

#[test]
fn scripts_that_redis_forgets_under_load_lose_and_repeat_nothing() {
    const FLUSHES: usize = 10;
    let (redis, far_end) = (RedisServer::durable(), FarEnd::slow(SINK_TAKES));
    let nodes = Nodes::start(&(far_end.lane("concurrency = 8\n") + ENGINE), &redis.url());
    let clients = Clients::start(CLIENTS, &nodes.addresses);
    for _ in 0..FLUSHES {
        goes_on(&clients.ledger);
        redis.ask::<()>(&["SCRIPT", "FLUSH"]);
    }
    goes_on(&clients.ledger);
    eventually(|| !clients.ledger.refused.lock().is_empty());
    let ledger = clients.stop();
    let account = Account::of(&ledger, &far_end, nodes.at(0));
    account.nothing_is_lost();
    account.nothing_is_repeated();
    write_row("SCRIPT FLUSH", TEST, FLUSHES, &account, "");
}

#[test]
fn a_redis_that_is_far_away_loses_and_repeats_nothing() {
    let (redis, far_end) = (RedisServer::durable(), FarEnd::slow(SINK_TAKES));
    let wire = Proxy::to(redis.port());
    let nodes = Nodes::start(&(far_end.lane("concurrency = 8\n") + ENGINE), &wire.url());
    let clients = Clients::start(CLIENTS, &nodes.addresses);
    goes_on(&clients.ledger);
    wire.set(Mode::Late);
    goes_on(&clients.ledger);
    goes_on(&clients.ledger);
    let late = wire.hurt();
    wire.set(Mode::Pass);
    eventually(|| !clients.ledger.refused.lock().is_empty());
    let ledger = clients.stop();
    let account = Account::of(&ledger, &far_end, nodes.at(0));
    account.nothing_is_lost();
    account.nothing_is_repeated();
    write_row("200 ms to Redis and back", TEST, usize::try_from(late).expect("a few"), &account, "");
}

#[test]
fn a_failover_by_sentinel_under_load_takes_back_no_more_than_the_last_writes() {
    let (mut sentinels, far_end) = (Sentinels::start(), FarEnd::slow(SINK_TAKES));
    let nodes = Nodes::start(&(far_end.lane("concurrency = 8\n") + ENGINE), &sentinels.url());
    let clients = Clients::start(CLIENTS, &nodes.addresses);
    goes_on(&clients.ledger);
    let died_at = sentinels.fail_over();
    goes_on(&clients.ledger);
    eventually(|| !clients.ledger.refused.lock().is_empty());
    let ledger = clients.stop();
    let account = Account::of(&ledger, &far_end, nodes.at(0));
    assert!(account.moved_on > 0, "no node noticed");
    account.only_the_last_writes_are_gone(&[died_at], TAKEN_BACK);
    write_row("failover by Sentinel", TEST, 1, &account, LOST_BY_REDIS);
}

/// The file that Redis appends to.
fn appended_file(redis: &RedisServer) -> PathBuf {
    let settings: Vec<String> = redis.ask(&["CONFIG", "GET", "dir"]);
    let dir = PathBuf::from(&settings[1]).join("appendonlydir");
    let mut files = std::fs::read_dir(dir).expect("its files").map(|file| file.expect("a file").path());
    files.find(|path| path.to_string_lossy().ends_with(".incr.aof")).expect("the file that grows")
}

#[test]
fn an_append_only_file_without_its_last_second_takes_back_no_more_than_that() {
    let mut redis = RedisServer::with(&["appendonly yes", "appendfsync everysec"]);
    let far_end = FarEnd::slow(SINK_TAKES);
    let nodes = Nodes::start(&(far_end.lane("concurrency = 8\n") + ENGINE), &redis.url());
    let clients = Clients::start(CLIENTS, &nodes.addresses);
    goes_on(&clients.ledger);
    let file = appended_file(&redis);
    let (length, since) = (std::fs::metadata(&file).expect("a file").len(), Instant::now());
    std::thread::sleep(Duration::from_secs(1));
    redis.kill();
    let at = Instant::now();
    let cut = std::fs::metadata(&file).expect("a file").len() - length;
    assert!(cut > 0, "nothing was written in that second");
    std::fs::File::options()
        .write(true)
        .open(&file)
        .and_then(|file| file.set_len(length))
        .expect("a shorter file");
    redis.restart();
    goes_on(&clients.ledger);
    eventually(|| !clients.ledger.refused.lock().is_empty());
    let ledger = clients.stop();
    let account = Account::of(&ledger, &far_end, nodes.at(0));
    println!("{cut} bytes of the append-only file are gone: {account}");
    // A busy machine sleeps longer than it was asked to.
    account.only_the_last_writes_are_gone(&[at], TAKEN_BACK + at.duration_since(since));
    write_row("append-only file without its last second", TEST, 1, &account, LOST_BY_REDIS);
}
