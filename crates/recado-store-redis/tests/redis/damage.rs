//! Bytes that change in the server: what is damaged is found before it goes out, and stops nothing else.

use recado_core::{AuditEvent, AuditKind, Burial, Cause, Damage, Lease, NewJob, Payload, Transition};
use recado_store::prelude::*;
use recado_store::{
    AuditSpan, Claim, DeadLetterFilter, Discard, Discarded, GroupBy, JobFilter, KvWrite, Namespace,
    PageRequest, Settled, Settlement,
};
use recado_testkit::jobs::permanent_failure;

use crate::given::{HOUR, T0, claim, delivered, job};
use crate::place::Place;

const NAMESPACE: Namespace = Namespace::new("pauses");

fn buried(lease: &Lease) -> Settlement {
    let failure = permanent_failure(None, "no such user");
    let burial =
        Burial { cause: Cause::Permanent, failure, attempt: None, held_up: false, at: T0, ttl: HOUR * 24 };
    Settlement { transition: Transition::Bury(burial), ..delivered(lease) }
}

#[tokio::test]
async fn damaged_data_is_found_when_its_job_is_claimed_and_a_damaged_head_holds_nothing_back() {
    let place = Place::single();
    let store = place.store().await;
    let data = Payload::new(r#"{"amount":"AMOUNT-1000"}"#).unwrap();
    // One that is for later has keys of its own.
    let of = |name: &str| NewJob { data: data.clone(), due_at: T0.plus(HOUR / 2), ..job(name) };
    store.enqueue(vec![of("struck"), of("headless"), of("no-text"), of("whole")]).await.unwrap();
    let key = |what: &str, seq: u64| format!("{}:{{0}}:{what}:{seq}", place.options.prefix);
    let set = |key: &str, at: &str, byte: &str| place.server.ask::<u64>(&["SETRANGE", key, at, byte]);
    let stored: String = place.server.ask(&["GET", &key("data", 1)]);
    let at = stored.find("1000").expect("the data lies elsewhere").to_string();
    set(&key("data", 1), &at, "9");
    // A first byte that there is none of.
    set(&key("job", 2), "0", "\u{700}");
    place.server.ask::<String>(&[
        "EVAL",
        "return redis.call('SET', KEYS[1], '{\"amount\":\"\\255\"}')",
        "1",
        &key("data", 3),
    ]);

    let mut when_due = claim(10);
    when_due.now = T0.plus(HOUR / 2);
    let leases = store.claim(when_due).await.unwrap().leases;
    let mut found: Vec<_> = leases.iter().map(|lease| (lease.job.id.as_str(), lease.job.damage())).collect();
    found.sort_by_key(|(name, _)| *name);
    let damaged = Some(Damage::Data);
    assert_eq!(found, [("no-text", damaged), ("struck", damaged), ("whole", None)]);
}

#[tokio::test]
async fn what_cannot_be_read_is_shown_as_damaged_or_left_out_and_fails_no_list() {
    let place = Place::single();
    let store = place.store().await;
    store.enqueue(vec![job("whole"), job("torn"), job("headless"), job("gone")]).await.unwrap();
    let leases = store.claim(claim(10)).await.unwrap().leases;
    let settlements = leases.iter().map(buried).collect();
    store.settle(settlements).await.unwrap();
    let entry = |key: &str| KvWrite {
        namespace: NAMESPACE,
        key: key.into(),
        value: Some(Payload::trusted("1")),
        expect: None,
        expires_at: None,
        audit: Vec::new(),
    };
    store.kv_write(vec![entry("whole"), entry("torn")], T0).await.unwrap();
    let prefix = &place.options.prefix;
    let seq = |name: &str| leases.iter().position(|lease| lease.job.id.as_str() == name).unwrap() + 1;
    place.server.ask::<String>(&["SET", &format!("{prefix}:{{0}}:letter:{}", seq("torn")), "?"]);
    place.server.ask::<u64>(&["DEL", &format!("{prefix}:{{0}}:letter:{}", seq("gone"))]);
    let head = format!("{prefix}:{{0}}:job:{}", seq("headless"));
    place.server.ask::<u64>(&["SETRANGE", &head, "0", "\u{700}"]);
    place.server.ask::<u64>(&[
        "HSET",
        &format!("{prefix}:{{notes}}:shelf:{}", NAMESPACE.as_str()),
        "torn",
        "?",
    ]);
    place.server.ask::<String>(&["XADD", &format!("{prefix}:{{0}}:audit"), "*", "", "no JSON"]);

    let page = PageRequest { before: None, limit: 10 };
    let letters = store.dead_letters(DeadLetterFilter::default(), page).await.unwrap().items;
    let mut shown: Vec<_> = letters.iter().map(|entry| (entry.job_id.as_str(), entry.damage())).collect();
    shown.sort_by_key(|(name, _)| *name);
    let damaged = Some(Damage::Identity);
    assert_eq!(shown, [("gone", damaged), ("headless", damaged), ("torn", damaged), ("whole", None)]);
    assert_eq!(store.oldest_dead_letters(10).await.unwrap().len(), 4);
    assert!(store.dead_letter(&job("torn").id).await.unwrap().is_some());
    let filter = DeadLetterFilter { company: Some(job("torn").company), ..DeadLetterFilter::default() };
    assert_eq!(store.dead_letter_groups(GroupBy::Route, filter).await.unwrap()[0].count, 4);
    assert_eq!(store.jobs(JobFilter::default(), page, T0).await.unwrap().items.len(), 4);
    assert!(store.job(&job("headless").id, T0).await.unwrap().is_some());
    assert_eq!(store.snapshots(None, 10).await.unwrap().items.len(), 4);
    let entries = store.kv_list(NAMESPACE, T0).await.unwrap();
    assert_eq!(entries.iter().map(|entry| &*entry.key).collect::<Vec<_>>(), ["whole"]);
    assert_eq!(store.kv_get(NAMESPACE, "torn", T0).await.unwrap(), None);
    let span = AuditSpan { part: 0, after: 0, newest_first: false };
    assert_eq!(
        store.audit_records(span, 10).await.unwrap().len(),
        4,
        "a record of each burial, and not the damaged one"
    );
    // A person can give up what is damaged.
    for name in ["torn", "gone"] {
        let event = AuditEvent::about(&leases[seq(name) - 1].job, AuditKind::Discarded, T0);
        let discard = Discard { id: job(name).id, replays: None, audit: event, follow_ups: Vec::new() };
        assert_eq!(store.discard(discard).await.unwrap(), Discarded::Done, "{name}");
    }
    let left = store.dead_letters(DeadLetterFilter::default(), page).await.unwrap().items;
    assert_eq!(left.len(), 2);
}

/// Another node than the one that claimed has to read the heads first.
#[tokio::test]
async fn a_damaged_head_does_not_hold_up_what_is_settled_with_it() {
    let place = Place::single();
    let (store, other) = (place.store().await, place.store().await);
    // One that is for later has keys of its own.
    let of = |name: &str| NewJob { due_at: T0.plus(HOUR / 2), ..job(name) };
    store.enqueue(vec![of("headless"), of("whole")]).await.unwrap();
    let leases = store.claim(Claim { now: T0.plus(HOUR / 2), ..claim(2) }).await.unwrap().leases;
    let seq = leases.iter().position(|lease| lease.job.id.as_str() == "headless").unwrap() + 1;
    let key = format!("{}:{{0}}:job:{seq}", place.options.prefix);
    place.server.ask::<u64>(&["SETRANGE", &key, "0", "\u{700}"]);
    let tokens: Vec<_> = leases.iter().map(|lease| lease.token).collect();
    let read = other.leases(&tokens).await.unwrap();
    assert_eq!(read.iter().flatten().count(), 1, "the one that cannot be read is left out");
    let settlements = || leases.iter().map(delivered).collect::<Vec<_>>();
    let mut settled = other.settle(settlements()).await.unwrap();
    assert_eq!(settled.remove(seq - 1), Settled::Stale);
    assert_eq!(settled, [Settled::Done]);
    let again = other.settle(settlements()).await.unwrap();
    assert_eq!(again[2 - seq], Settled::Done, "the same words again find what is done");
}
