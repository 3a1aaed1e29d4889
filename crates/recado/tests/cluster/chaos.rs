//! Nodes and Redis die, stand still and are cut off from each other under load, and every job is accounted for.

use std::time::{Duration, Instant};

use recado_testkit::fault_proxy::{Mode, Proxy};
use recado_testkit::redis::{DURABLE, RedisServer};
use serde_json::json;

use super::far_end::FarEnd;
use super::given::eventually;
use super::ledger::{Account, Clients, Ledger, Repeat, SETTLED_WITHIN};
use super::nodes::{Nodes, enqueue};
use super::results::Row;

/// Time that the far end takes over each delivery.
pub const SINK_TAKES: Duration = Duration::from_millis(30);

const SEED: u64 = 2_026;

pub const CLIENTS: usize = 6;

/// A request that a killed process had sent may reach the far end this long after the kill.
const IN_THE_PIPE: Duration = Duration::from_millis(100);

/// The loss that `appendfsync everysec` allows: Redis writes at most two seconds late.
const EVERYSEC_LOSES: Duration = Duration::from_millis(2_500);

/// A job may be in a node's hands at many kills.
pub const ENGINE: &str = "[engine]\npoison_after = 100\n";

fn rounds(short: usize) -> usize {
    let times: usize =
        std::env::var("RECADO_CHAOS").map_or(1, |times| times.parse().expect("RECADO_CHAOS is a number"));
    short * times
}

/// The cause of what a Redis loses that does not force each write to disk.
pub const LOST_BY_REDIS: &str = "Redis lost its last writes";

/// Writes a row down whose fault struck so often. All repeats have this cause, and so has what is lost.
pub fn write_row(fault: &'static str, test: &'static str, fired: usize, account: &Account, cause: &str) {
    let lost = account.lost.len();
    let (lost, lost_by_redis) = if cause == LOST_BY_REDIS { (0, lost) } else { (lost, 0) };
    let mut row = Row {
        fault,
        operation: "traffic on three nodes",
        test,
        seed: SEED,
        runs: fired,
        fired,
        acknowledged: account.acknowledged,
        lost,
        lost_by_redis,
        ..Row::default()
    };
    row.add_duplicates(cause, account.repeats.len());
    row.write();
}

/// Faults: the node each struck, and the time.
type Struck = Vec<(String, Instant)>;

/// Returns true if the life that sent it first was struck before it could write the outcome down.
fn explains(struck: &Struck, Repeat { before, again }: &Repeat) -> bool {
    struck.iter().any(|(life, at)| {
        let unsettled = before.answered.is_none_or(|answered| answered + SETTLED_WITHIN >= *at);
        *life == before.node && before.came <= *at + IN_THE_PIPE && *at <= again.came && unsettled
    })
}

#[test]
fn a_node_killed_each_second_loses_nothing_and_only_what_it_was_sending_is_repeated() {
    let kills = rounds(60);
    let (redis, far_end) = (RedisServer::durable(), FarEnd::slow(SINK_TAKES));
    let config = far_end.lane("concurrency = 8\n") + ENGINE + "lease = \"5s\"\n";
    let mut nodes = Nodes::start(&config, &redis.url());
    let clients = Clients::start(CLIENTS, &nodes.addresses);
    let mut struck = Struck::new();
    let mut chance = fastrand::Rng::with_seed(SEED);
    for _ in 0..kills {
        let second = Instant::now() + Duration::from_secs(1);
        std::thread::sleep(Duration::from_millis(chance.u64(300..900)));
        let at = chance.usize(..nodes.len());
        let life = nodes.life(at);
        far_end.once_sending(&life);
        nodes.kill(at);
        struck.push((life, Instant::now()));
        nodes.start_again(at);
        std::thread::sleep(second.saturating_duration_since(Instant::now()));
    }
    let ledger = clients.stop();
    let account = Account::of(&ledger, &far_end, nodes.at(0));
    println!("{kills} kills of a node that was sending: {account}");
    account.nothing_is_lost();
    for repeat in &account.repeats {
        assert!(explains(&struck, repeat), "no kill explains {repeat:#?}");
    }
    write_row("kill -9 of a node", "cluster::chaos", kills, &account, "death before the record");
}

/// Kills Redis under load; what came of it, and when it was killed.
fn kill_redis(settings: &[&str]) -> (Account, Vec<Instant>) {
    let kills = rounds(3);
    let (mut redis, far_end) = (RedisServer::with(settings), FarEnd::slow(SINK_TAKES));
    let nodes = Nodes::start(&(far_end.lane("concurrency = 8\n") + ENGINE), &redis.url());
    let clients = Clients::start(CLIENTS, &nodes.addresses);
    let mut killed_at = Vec::new();
    let mut chance = fastrand::Rng::with_seed(SEED);
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(chance.u64(700..1_500)));
        goes_on(&clients.ledger);
        assert!(clients.ledger.waiting(&far_end) > 0, "nothing waits in Redis");
        eventually(|| !far_end.in_flight().is_empty());
        redis.kill();
        killed_at.push(Instant::now());
        std::thread::sleep(Duration::from_millis(chance.u64(0..800)));
        redis.restart();
    }
    goes_on(&clients.ledger);
    let ledger = clients.stop();
    let account = Account::of(&ledger, &far_end, nodes.at(0));
    assert!(account.moved_on > 0, "no node noticed");
    (account, killed_at)
}

/// Clients get on again.
pub fn goes_on(ledger: &Ledger) {
    let before = ledger.acknowledged.lock().len();
    eventually(|| ledger.acknowledged.lock().len() > before + 2 * CLIENTS);
}

#[test]
fn a_redis_that_is_killed_and_forces_each_write_to_disk_loses_and_repeats_nothing() {
    let (account, killed_at) = kill_redis(&DURABLE);
    println!("{} kills of Redis with appendfsync always: {account}", killed_at.len());
    account.nothing_is_lost();
    account.nothing_is_repeated();
    write_row("kill -9 of Redis, appendfsync always", "cluster::chaos", killed_at.len(), &account, "");
}

#[test]
fn a_redis_that_is_away_for_longer_than_a_lease_repeats_nothing_of_what_was_being_sent() {
    const JOBS: usize = 12;
    let (mut redis, far_end) = (RedisServer::durable(), FarEnd::start());
    let config = far_end.lane("concurrency = 4\n") + ENGINE + "lease = \"5s\"\n";
    let nodes = Nodes::start(&config, &redis.url());
    far_end.holds();
    let ids = enqueue(nodes.at(0), "acme", JOBS);
    // All slots of all nodes.
    far_end.once_come(JOBS);
    redis.kill();
    std::thread::sleep(Duration::from_secs(7));
    redis.restart();
    // The far end takes longer still, and every lease has run out.
    std::thread::sleep(Duration::from_secs(7));
    far_end.recovers();
    for id in &ids {
        let job = nodes.at(0).job_once(id, "sent");
        assert_eq!(job["attempts"].as_array().map(Vec::len), Some(1), "{job:#}");
    }
    assert_eq!(far_end.count(), JOBS, "each came once");
}

#[test]
fn a_redis_that_is_killed_and_writes_every_second_loses_at_most_its_last_two() {
    let (account, killed_at) = kill_redis(&["appendonly yes", "appendfsync everysec"]);
    println!("{} kills of Redis with appendfsync everysec: {account}", killed_at.len());
    account.only_the_last_writes_are_gone(&killed_at, EVERYSEC_LOSES);
    write_row(
        "kill -9 of Redis, appendfsync everysec",
        "cluster::chaos",
        killed_at.len(),
        &account,
        LOST_BY_REDIS,
    );
}

#[test]
fn a_node_that_stands_still_beyond_its_lease_settles_nothing_and_another_delivers_under_the_same_key() {
    const JOBS: usize = 12;
    let (redis, far_end) = (RedisServer::durable(), FarEnd::start());
    let config = far_end.lane("concurrency = 4\n") + ENGINE + "lease = \"2s\"\n";
    let nodes = Nodes::start(&config, &redis.url());
    far_end.holds();
    let ids = enqueue(nodes.at(0), "acme", JOBS);
    // All slots of all nodes.
    far_end.once_come(JOBS);
    let life = nodes.life(1);
    let in_its_hands: Vec<_> = far_end
        .arrivals()
        .into_iter()
        .filter(|arrival| arrival.node == life)
        .map(|arrival| arrival.key)
        .collect();
    assert!(!in_its_hands.is_empty(), "it is sending");
    nodes.at(1).signal("STOP");
    far_end.holds_only(&life);
    for id in &ids {
        nodes.at(0).job_once(id, "sent");
    }
    far_end.recovers();
    nodes.at(1).signal("CONT");
    nodes.at(1).logged(
        "The lease was lost before the outcome was written; another attempt decides",
        in_its_hands.len(),
    );
    let arrivals = far_end.arrivals();
    for id in &ids {
        let came: Vec<_> = arrivals.iter().filter(|arrival| arrival.key == *id).collect();
        let job = nodes.at(1).get(&format!("/v1/jobs/{id}"));
        let results: Vec<_> =
            job["attempts"].as_array().unwrap().iter().map(|it| it["result"].clone()).collect();
        if in_its_hands.contains(id) {
            assert_eq!(came.len(), 2, "once more, under the same key: {came:?}");
            assert_ne!(came[1].node, life, "by another node");
            assert_eq!(results, [json!("lost"), json!("sent")], "{job:#}");
        } else {
            assert_eq!((came.len(), results), (1, vec![json!("sent")]), "{job:#}");
        }
    }
}

#[test]
fn connections_that_are_cut_or_stand_still_lose_and_repeat_nothing() {
    let cuts = rounds(8);
    let (redis, far_end) = (RedisServer::durable(), FarEnd::slow(SINK_TAKES));
    let proxies = [Proxy::to(redis.port()), Proxy::to(redis.port()), Proxy::to(redis.port())];
    let urls = proxies.each_ref().map(Proxy::url);
    let nodes =
        Nodes::with_stores(&(far_end.lane("concurrency = 8\n") + ENGINE), urls.iter().map(|url| &**url));
    let clients = Clients::start(CLIENTS, &nodes.addresses);
    goes_on(&clients.ledger);
    let mut chance = fastrand::Rng::with_seed(SEED);
    for round in 0..cuts {
        std::thread::sleep(Duration::from_millis(chance.u64(50..400)));
        let at = chance.usize(..proxies.len());
        far_end.once_sending(&nodes.life(at));
        if round.is_multiple_of(2) {
            eventually(|| proxies[at].cut() > 0);
        } else {
            let before = proxies[at].hurt();
            proxies[at].set(Mode::CutAtAnswer);
            eventually(|| proxies[at].hurt() > before);
            proxies[at].set(Mode::Pass);
        }
    }
    // Longer than a request to Redis may take, and what was held arrives after all.
    proxies[0].set(Mode::Stall);
    let before = proxies[0].hurt();
    std::thread::sleep(Duration::from_secs(3));
    assert!(proxies[0].hurt() > before, "something was held");
    proxies[0].set(Mode::Pass);
    goes_on(&clients.ledger);
    let ledger = clients.stop();
    let account = Account::of(&ledger, &far_end, nodes.at(0));
    println!("{cuts} cuts and a stall while the node was sending: {account}");
    account.nothing_is_lost();
    account.nothing_is_repeated();
    write_row("connections to Redis cut, one node cut off", "cluster::chaos", cuts + 1, &account, "");
}
