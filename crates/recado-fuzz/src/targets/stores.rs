//! Stored records that were damaged, and values that scripts are given.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use recado_core::{
    Burial, Cause, Job, JobId, NewJob, Payload, Random, Reason, RouteName, Status, Transition,
};
use recado_store::prelude::*;
use recado_store::{
    Claim, DeadLetterFilter, JobFilter, PageRequest, Pick, Settled, Settlement, Store, Turns,
};
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore};
use recado_store_redis::{RedisOptions, RedisStore};
use recado_testkit::jobs::{T0, new_job, permanent_failure};
use recado_testkit::redis::RedisServer;
use tempfile::TempDir;

use super::RUNTIME;

pub const WORDS: &[&str] = &[
    "waiting",
    "failed",
    "[]",
    "[{\"attempt\":1}]",
    "{\"script\":[]}",
    "acme",
    "mail",
    "2026-01-01T00:00:00.000Z",
    "PERMANENT",
];

const HOUR: Duration = Duration::from_secs(3_600);
const PAGE: PageRequest = PageRequest { before: None, limit: 10 };

fn claim(max: usize) -> Claim {
    Claim {
        pick: Pick::Ready(RouteName::new("mail").unwrap()),
        max,
        now: T0,
        lease_until: T0.plus(HOUR),
        worker: "fuzz".into(),
        provider: None,
        outlives_process: true,
        turns: Turns::default(),
    }
}

fn bury(code: Option<&str>, reason: &str) -> Transition {
    let failure = permanent_failure(code, reason);
    Transition::Bury(Burial {
        cause: Cause::Permanent,
        failure,
        attempt: None,
        held_up: false,
        at: T0,
        ttl: HOUR,
    })
}

async fn settle(store: &dyn Store, token: recado_core::LeaseToken, transition: Transition) {
    let settlement = Settlement { token, transition, audit: None, now: T0, follow_ups: Vec::new() };
    assert!(matches!(store.settle(vec![settlement]).await.unwrap()[..], [Settled::Done]));
}

/// One job that waits, one that is leased, one that is dead.
async fn fill(store: &dyn Store) {
    let data = r#"{"text":"a payload"}"#;
    let jobs = ["dead", "leased", "waiting"].map(|id| new_job(id, "mail", data, T0));
    store.enqueue(jobs.into()).await.unwrap();
    let leases = store.claim(claim(2)).await.unwrap().leases;
    settle(store, leases[0].token, bury(Some("550"), "no such user")).await;
}

/// Looks at everything and takes what can be taken. Nothing that was damaged may look whole.
async fn look_at_all(store: &dyn Store) {
    for id in ["dead", "leased", "waiting"] {
        let id = JobId::new(id).unwrap();
        let _ = store.job(&id, T0).await;
        let _ = store.dead_letter(&id).await;
        let _ = store.audit(&id).await;
    }
    let _ = store.jobs(JobFilter::default(), PAGE, T0).await;
    let _ = store.jobs(JobFilter { status: Some(Status::Failed), ..JobFilter::default() }, PAGE, T0).await;
    let _ = store.dead_letters(DeadLetterFilter::default(), PAGE).await;
    let _ = store.counts(T0).await;
    for pick in [claim(9).pick, Pick::Overdue, Pick::Orphaned] {
        let claimed = store.claim(Claim { pick, now: T0.plus(2 * HOUR), ..claim(9) }).await;
        for lease in claimed.map(|claimed| claimed.leases).unwrap_or_default() {
            check_whole(&lease.job);
        }
    }
}

/// A job that looks whole has the data that it was given.
fn check_whole(job: &Job) {
    if job.checksum.is_some() && job.damage().is_none() {
        assert_eq!(job.data.as_str(), r#"{"text":"a payload"}"#, "{} was changed unnoticed", job.id);
    }
}

/// A store's file, made once.
static FILE: LazyLock<TempDir> = LazyLock::new(|| {
    let dir = TempDir::new().unwrap();
    let store = open_embedded(dir.path()).unwrap();
    RUNTIME.block_on(fill(&store));
    dir
});

fn open_embedded(dir: &Path) -> Option<EmbeddedStore> {
    let _inside = RUNTIME.enter();
    let options = EmbeddedOptions { reserve_bytes: 0, ..EmbeddedOptions::at(dir) };
    EmbeddedStore::open(&options, Arc::new(Random::from_seed(7))).ok()
}

/// The first two bytes choose a column and a row, the third a type; the rest is what is found there.
pub fn embedded_row(input: &[u8]) {
    let [column, row, kind, value @ ..] = input else { return };
    let dir = TempDir::new().unwrap();
    std::fs::copy(FILE.path().join("recado.db"), dir.path().join("recado.db")).unwrap();
    let file = rusqlite::Connection::open(dir.path().join("recado.db")).unwrap();
    let columns: Vec<(String, String)> = ["jobs", "dlq", "leases", "audit"]
        .iter()
        .flat_map(|table| {
            let mut listed = file.prepare(&format!("SELECT name FROM pragma_table_info('{table}')")).unwrap();
            let names = listed.query_map([], |row| row.get::<_, String>(0)).unwrap();
            names.map(|name| ((*table).to_owned(), name.unwrap())).collect::<Vec<_>>()
        })
        .collect();
    let (table, name) = &columns[usize::from(*column) % columns.len()];
    let sql = format!(
        "UPDATE {table} SET {name} = ?1 WHERE rowid IN (SELECT rowid FROM {table} LIMIT 1 OFFSET {})",
        row % 3
    );
    let text = String::from_utf8_lossy(value).into_owned();
    let changed = match kind % 4 {
        0 => file.execute(&sql, [text]),
        1 => file.execute(&sql, [value]),
        2 => file.execute(&sql, [text.trim().parse::<i64>().unwrap_or(-1)]),
        _ => file.execute(&sql, [rusqlite::types::Null]),
    };
    // A constraint of the table may refuse it.
    drop((changed, file));
    if let Some(store) = open_embedded(dir.path()) {
        RUNTIME.block_on(look_at_all(&store));
    }
}

/// A Redis for each target that empties it: they may run at the same time.
static RECORDS: LazyLock<RedisServer> = LazyLock::new(RedisServer::start);
static ARGUMENTS: LazyLock<RedisServer> = LazyLock::new(RedisServer::start);

fn open_redis(server: &RedisServer) -> RedisStore {
    server.ask::<()>(&["FLUSHALL"]);
    let options = RedisOptions { orphan_grace: Duration::ZERO, ..RedisOptions::new(server.url()) };
    RUNTIME.block_on(RedisStore::open(&options, Arc::new(Random::from_seed(7)))).unwrap()
}

/// The first two bytes choose a key and a member of it; the rest is what is found there.
pub fn redis_record(input: &[u8]) {
    let [key, member, value @ ..] = input else { return };
    let store = open_redis(&RECORDS);
    RUNTIME.block_on(fill(&store));
    let mut keys: Vec<Vec<u8>> = RECORDS.ask(&["KEYS", "*"]);
    keys.sort();
    let key = &keys[usize::from(*key) % keys.len()];
    let type_of: String = RECORDS.send(&redis_command("TYPE", &[key]));
    let is_replaced = match type_of.as_str() {
        "string" => {
            RECORDS.send::<()>(&redis_command("SET", &[key, value]));
            true
        }
        "hash" => {
            let mut fields: Vec<Vec<u8>> = RECORDS.send(&redis_command("HKEYS", &[key]));
            fields.sort();
            let field = &fields[usize::from(*member) % fields.len()];
            RECORDS.send::<()>(&redis_command("HSET", &[key, field, value]));
            true
        }
        _ => false,
    };
    if is_replaced {
        RUNTIME.block_on(look_at_all(&store));
        assert_eq!(RECORDS.ask::<String>(&["PING"]), "PONG");
    }
}

fn redis_command(name: &str, arguments: &[&[u8]]) -> redis::Cmd {
    let mut command = redis::cmd(name);
    for argument in arguments {
        command.arg(*argument);
    }
    command
}

/// The text goes through every script that takes one, and comes back as it was.
pub fn lua_arguments(input: &[u8]) {
    let text = String::from_utf8_lossy(input).into_owned();
    let store = open_redis(&ARGUMENTS);
    RUNTIME.block_on(async {
        let data = serde_json::to_string(&text).unwrap();
        let boxed: Box<str> = text.as_str().into();
        let given = NewJob {
            user_id: Some(boxed.clone()),
            correlation_id: Some(boxed.clone()),
            ..new_job("job-1", "mail", &data, T0)
        };
        store.enqueue(vec![given]).await.unwrap();
        let found =
            store.jobs(JobFilter { user_id: Some(boxed.clone()), ..JobFilter::default() }, PAGE, T0).await;
        assert_eq!(found.unwrap().items.len(), 1, "it is found by the text");
        let lease = store.claim(Claim { worker: boxed.clone(), ..claim(1) }).await.unwrap().leases.remove(0);
        assert_eq!(lease.job.user_id.as_deref(), Some(&*text));
        assert_eq!(lease.job.damage(), None);
        assert_eq!(lease.job.data, Payload::new(&data).unwrap());
        let reason = Reason::or(&text, format_args!("nothing"));
        settle(&store, lease.token, bury(Some(&text), reason.as_str())).await;
        let letter = store.dead_letter(&lease.job.id).await.unwrap().expect("a dead letter");
        assert_eq!((letter.failure.code.as_deref(), &letter.failure.reason), (Some(&*text), &reason));
        assert_eq!((letter.correlation_id.as_deref(), letter.damage()), (Some(&*text), None));
        let by_code = DeadLetterFilter { last_failure_code: Some(boxed), ..DeadLetterFilter::default() };
        assert_eq!(
            store.dead_letters(by_code, PAGE).await.unwrap().items.len(),
            1,
            "it is found by its code"
        );
    });
}
