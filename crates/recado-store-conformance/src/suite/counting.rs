//! Counts of jobs by state and kind.

use recado_core::NewJob;
use recado_store::{Cancelled, DeadLetterFilter, DeadLetterGroup, GroupBy, LeftOut, Pick};

use super::snapshot::counts;
use crate::Home;
use crate::given::{
    HOUR, SECOND, Stage, T0, TestStore, bury, company, deliver, id, job, priority, retry_at, route,
};

pub async fn counts_follow_each_job_from_place_to_place(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let now = async |seconds| counts(&store.0.counts(T0.plus(SECOND * seconds)).await.unwrap());
    assert_eq!(now(0).await, [0; 5]);
    store.accept(vec![job("a"), NewJob { due_at: T0.plus(SECOND), ..job("b") }]).await;
    assert_eq!(now(0).await, [1, 1, 0, 0, 0], "one is due later");
    assert_eq!(now(1).await, [0, 2, 0, 0, 0], "time alone makes it ready");
    let leases = store.ready(2, T0.plus(SECOND)).await;
    assert_eq!(now(1).await, [0, 0, 2, 0, 0]);
    store.done(&leases[0], deliver(&leases[0], T0), T0.plus(SECOND)).await;
    store.done(&leases[1], bury(&leases[1], None, "no", T0), T0.plus(SECOND)).await;
    assert_eq!(now(1).await, [0, 0, 0, 1, 1]);
    store.redrive("b", None, T0.plus(SECOND * 2)).await;
    assert_eq!(now(1).await, [1, 0, 0, 1, 1], "a replay waits, and its dead letter stays");
}

pub async fn the_oldest_job_that_is_due_is_told_for_each_route(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let at = |seconds| T0.plus(SECOND * seconds);
    let oldest = async |seconds| {
        let told = store.0.oldest_due(&LeftOut::new(), at(seconds)).await.unwrap();
        told.into_iter().map(|(route, since)| (route.to_string(), since)).collect::<Vec<_>>()
    };
    let email = |since| vec![("email".to_owned(), since)];
    assert_eq!(oldest(0).await, []);
    let later = |name, seconds| NewJob { due_at: at(seconds), ..job(name) };
    // The second in line and the other tenant's are older than the first that would go out.
    let urgent = NewJob { priority: priority(1), ..later("urgent", 3) };
    let other = NewJob { company: company("globex"), ..later("other", 1) };
    let elsewhere = NewJob { route: route("whatsapp"), ..later("elsewhere", 4) };
    store.accept(vec![urgent, later("usual", 2), other, elsewhere]).await;
    assert_eq!(oldest(0).await, [], "none is due yet");
    assert_eq!(oldest(3).await, email(at(1)));
    let without = async |route, name| {
        let told = store.0.oldest_due(&LeftOut::from([(route, company(name))]), at(3)).await.unwrap();
        told.into_iter().map(|(route, since)| (route.to_string(), since)).collect::<Vec<_>>()
    };
    assert_eq!(without(None, "globex").await, email(at(2)), "on every route");
    assert_eq!(without(Some(route("email")), "globex").await, email(at(2)));
    assert_eq!(without(Some(route("whatsapp")), "globex").await, email(at(1)), "on another route alone");
    assert_eq!(without(None, "acme").await, email(at(1)));
    let leases = store.ready(10, at(3)).await;
    assert_eq!((leases.len(), oldest(3).await), (3, Vec::new()), "they are leased");
    let usual = leases.iter().find(|lease| lease.job.id == id("usual")).unwrap();
    store.done(usual, retry_at(usual, at(5), at(3)), at(3)).await;
    assert_eq!(oldest(8).await, [email(at(5)), vec![("whatsapp".to_owned(), at(4))]].concat());
    assert_eq!(store.cancel("usual", at(8)).await, Cancelled::Done);
    assert_eq!(oldest(8).await, [("whatsapp".to_owned(), at(4))]);
}

pub async fn each_stage_is_counted_in_its_place(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for (stage, expected) in [
        (Stage::Scheduled, [1, 0, 0, 0, 0]),
        (Stage::Queued, [0, 1, 0, 0, 0]),
        (Stage::Delivering, [0, 0, 1, 0, 0]),
        (Stage::Retrying, [1, 0, 0, 0, 0]),
        (Stage::Postponed, [1, 0, 0, 0, 0]),
        (Stage::Sent, [0, 0, 0, 0, 1]),
        (Stage::Dead, [0, 0, 0, 1, 0]),
        (Stage::Replaying, [0, 1, 0, 1, 0]),
        (Stage::Cancelled, [0, 0, 0, 0, 1]),
        (Stage::Discarded, [0, 0, 0, 0, 1]),
    ] {
        let before = counts(&store.0.counts(T0).await.unwrap());
        store.bring(&stage.name(), stage).await;
        let after = counts(&store.0.counts(T0).await.unwrap());
        let added: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(added, expected, "{stage:?} adds (delayed, ready, leased, dead letters, ended)");
    }
}

pub async fn jobs_that_leave_the_line_by_another_door_are_not_counted_as_ready(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let short = |name| NewJob { expires_at: T0.plus(SECOND), ..job(name) };
    store.accept(vec![job("cancelled"), short("overdue"), job("stays")]).await;
    assert_eq!(counts(&store.0.counts(T0).await.unwrap()), [0, 3, 0, 0, 0]);
    store.cancel("cancelled", T0).await;
    assert_eq!(store.claim(Pick::Overdue, 10, T0.plus(SECOND)).await.leases.len(), 1);
    assert_eq!(counts(&store.0.counts(T0.plus(SECOND)).await.unwrap()), [0, 1, 1, 0, 1]);
    assert_eq!(store.ready(10, T0.plus(SECOND)).await.len(), 1);
}

async fn grouped(store: &TestStore, by: GroupBy, filter: DeadLetterFilter) -> Vec<(Option<String>, u64)> {
    let groups = store.0.dead_letter_groups(by, filter).await.unwrap();
    groups.into_iter().map(|group| (group.key.map(String::from), group.count)).collect()
}

/// Six dead letters of three companies, two routes and two codes; two of them of one shape.
async fn bury_six(store: &TestStore) {
    for (name, tenant, way, code, reason) in [
        ("1", "acme", "email", Some("550"), "mailbox 17 unknown"),
        ("2", "acme", "email", Some("550"), "mailbox 23 unknown"),
        ("3", "acme", "sms", Some("421"), "busy"),
        ("4", "apex", "email", Some("550"), "blocked"),
        ("5", "apex", "email", None, "lost"),
        ("6", "aura", "email", Some("421"), "busy"),
    ] {
        store.accept(vec![NewJob { company: company(tenant), route: route(way), ..job(name) }]).await;
        let lease = store.claim(Pick::Ready(route(way)), 1, T0).await.leases.remove(0);
        store.done(&lease, bury(&lease, code, reason, T0), T0).await;
    }
}

pub async fn dead_letters_are_grouped_by_each_key_largest_first(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    bury_six(&store).await;
    let all = DeadLetterFilter::default;
    let keyed = |expected: &[(&str, u64)]| -> Vec<(Option<String>, u64)> {
        expected.iter().map(|(key, count)| (Some((*key).to_owned()), *count)).collect()
    };
    let mut by_code = keyed(&[("550", 3), ("421", 2)]);
    by_code.push((None, 1));
    assert_eq!(grouped(&store, GroupBy::LastFailureCode, all()).await, by_code, "by code, one without");
    assert_eq!(
        grouped(&store, GroupBy::Company, all()).await,
        keyed(&[("acme", 3), ("apex", 2), ("aura", 1)])
    );
    assert_eq!(grouped(&store, GroupBy::Route, all()).await, keyed(&[("email", 5), ("sms", 1)]));
    let shapes: Vec<u64> =
        grouped(&store, GroupBy::Fingerprint, all()).await.into_iter().map(|(_, n)| n).collect();
    assert_eq!(shapes, [2, 1, 1, 1, 1], "two reasons differ in a number only");
}

pub async fn groups_obey_the_filter_and_show_a_reason(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    bury_six(&store).await;
    let filter = DeadLetterFilter { reason: Some("BUSY".into()), ..DeadLetterFilter::default() };
    let groups = store.0.dead_letter_groups(GroupBy::LastFailureCode, filter).await.unwrap();
    let expected = DeadLetterGroup { key: Some("421".into()), count: 2, example_reason: "busy".into() };
    assert_eq!(groups, [expected]);
    let missing = DeadLetterFilter { company: Some(company("unknown")), ..DeadLetterFilter::default() };
    assert_eq!(grouped(&store, GroupBy::Company, missing).await, []);
}

pub async fn groups_count_every_entry_and_lose_those_that_leave(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    bury_six(&store).await;
    store.discard("1", T0).await;
    store.redrive("2", None, T0).await;
    let by_company = grouped(&store, GroupBy::Company, DeadLetterFilter::default()).await;
    let expected = [("acme", 2), ("apex", 2), ("aura", 1)].map(|(key, count)| (Some(key.to_owned()), count));
    assert_eq!(by_company, expected, "a discarded entry is gone, a replaying one is not");
    assert_eq!(counts(&store.0.counts(T0.plus(HOUR)).await.unwrap())[3], 5);
}
