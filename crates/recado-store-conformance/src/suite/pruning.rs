//! Forgetting what retention no longer keeps, and nothing else.

use std::time::Duration;

use recado_core::{AuditKind, NewJob, Status, Timestamp};
use recado_store::{Cancelled, Enqueued, Pruned, Retention, Settlement};

use super::audit_log::on_record;
use super::snapshot::Snapshot;
use crate::Home;
use crate::given::{
    DAY, DEAD_TTL, HOUR, OTHER_BODY, SECOND, Stage, T0, TestStore, company, deliver, job, jobs_of,
};

const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

fn older_than(ended_max_age: Duration) -> Retention {
    Retention { ended_max_age, ended_max_count: u64::MAX }
}

fn at_most(ended_max_count: u64) -> Retention {
    Retention { ended_max_age: FOR_EVER, ended_max_count }
}

/// Prunes until there is no more to prune.
async fn prune(store: &TestStore, retention: Retention, now: Timestamp) -> Pruned {
    let mut all = Pruned::default();
    for _ in 0..1_000 {
        let batch = store.0.prune(retention.clone(), now).await.unwrap();
        all.ended += batch.ended;
        all.dead_letters += batch.dead_letters;
        all.kv_entries += batch.kv_entries;
        if !batch.more {
            return all;
        }
    }
    panic!("a thousand batches and still more: {all:?}");
}

/// Delivers one job of each name, a second apart.
async fn send(store: &TestStore, names: &[&str]) {
    for (nth, name) in names.iter().enumerate() {
        store.accept(vec![job(name)]).await;
        let lease = store.only(T0).await;
        let now = T0.plus(SECOND * u32::try_from(nth).unwrap());
        store.done(&lease, deliver(&lease, now), now).await;
    }
}

async fn still_there(store: &TestStore, names: &[&str]) -> Vec<String> {
    let mut there = Vec::new();
    for name in names {
        if store.find(name, T0).await.is_some() {
            there.push((*name).to_owned());
        }
    }
    there
}

pub async fn ended_jobs_are_forgotten_at_their_age_and_not_before(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    send(&store, &["a", "b", "c"]).await;
    let before = Timestamp::from_millis(T0.plus(HOUR).as_millis() - 1);
    assert_eq!(prune(&store, older_than(HOUR), before).await.ended, 0);
    assert_eq!(prune(&store, older_than(HOUR), T0.plus(HOUR + SECOND)).await.ended, 2, "two are an hour old");
    assert_eq!(still_there(&store, &["a", "b", "c"]).await, ["c"]);
    assert_eq!(store.0.counts(T0).await.unwrap().ended, 1);
}

pub async fn only_the_newest_ended_jobs_are_kept_when_there_are_too_many(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    send(&store, &["a", "b", "c", "d"]).await;
    assert_eq!(prune(&store, at_most(4), T0.plus(HOUR)).await, Pruned::default());
    assert_eq!(prune(&store, at_most(2), T0.plus(HOUR)).await.ended, 2);
    assert_eq!(still_there(&store, &["a", "b", "c", "d"]).await, ["c", "d"]);
}

pub async fn the_newest_ended_jobs_of_all_companies_are_kept(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let names: Vec<String> = (0..12).map(|nth| format!("job-{nth}")).collect();
    for (nth, name) in names.iter().enumerate() {
        // The first six companies' jobs ended first.
        store.accept(vec![NewJob { company: company(&format!("company-{nth}")), ..job(name) }]).await;
        let (lease, now) = (store.only(T0).await, T0.plus(SECOND * u32::try_from(nth).unwrap()));
        store.done(&lease, deliver(&lease, now), now).await;
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(prune(&store, at_most(12), T0.plus(HOUR)).await.ended, 0);
    assert_eq!(prune(&store, at_most(5), T0.plus(HOUR)).await.ended, 7);
    assert_eq!(still_there(&store, &names).await, names[7..]);
}

/// The bound is far away, and jobs end all the time: those that are remembered stay.
pub async fn jobs_that_end_during_a_prune_push_out_no_others(home: &mut dyn Home) {
    const JOBS: usize = 200;
    let store = TestStore::at(home).await;
    let pruning = {
        let store = store.clone();
        async move {
            let (mut rounds, mut gone) = (0, 0);
            while store.0.counts(T0).await.unwrap().ended < JOBS as u64 && gone == 0 {
                gone += store.0.prune(at_most(1_000_000), T0.plus(HOUR)).await.unwrap().ended;
                rounds += 1;
                tokio::task::yield_now().await;
                assert!(rounds < 100_000, "the jobs do not end");
            }
            (rounds, gone)
        }
    };
    let pruning = tokio::spawn(pruning);
    for nth in 0..JOBS {
        let of = company(&format!("company-{}", nth % 7));
        store.accept(vec![NewJob { company: of, ..job(&format!("job-{nth}")) }]).await;
        let lease = store.only(T0).await;
        store.done(&lease, deliver(&lease, T0), T0).await;
    }
    let (rounds, gone) = pruning.await.unwrap();
    assert_eq!(gone, 0, "in {rounds} rounds");
    for nth in 0..JOBS {
        let of = company(&format!("company-{}", nth % 7));
        let again =
            store.0.enqueue(vec![NewJob { company: of, ..job(&format!("job-{nth}")) }]).await.unwrap();
        assert_eq!(again, [Enqueued::Duplicate { status: Status::Sent }], "job-{nth}");
    }
}

pub async fn jobs_that_ended_in_any_way_count(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for stage in [Stage::Sent, Stage::Cancelled, Stage::Discarded] {
        store.bring(&stage.name(), stage).await;
    }
    assert_eq!(prune(&store, older_than(HOUR), T0.plus(HOUR)).await.ended, 3);
}

pub async fn a_dead_letter_goes_at_the_end_of_its_time_and_leaves_a_record(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Dead).await;
    let end = T0.plus(DEAD_TTL);
    let before = Timestamp::from_millis(end.as_millis() - 1);
    assert_eq!(prune(&store, at_most(100), before).await, Pruned::default());
    assert_eq!(prune(&store, at_most(100), end).await.dead_letters, 1);
    assert_eq!(store.dead_letter("a").await, None);
    let view = store.view("a", end).await;
    assert_eq!((view.status, view.ended_at), (Status::Discarded, Some(end)));
    let events = store.0.audit(&view.job.id).await.unwrap();
    let last = events.last().unwrap();
    assert_eq!((last.kind, last.timestamp), (AuditKind::DeadLetterExpired, end));
    assert_eq!((last.company_id.as_deref(), &*last.route), (Some("acme"), "to-a"));
}

pub async fn jobs_that_have_not_ended_and_replays_are_never_pruned(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let live = Stage::ALL.into_iter().filter(|stage| stage.waits() || *stage == Stage::Delivering);
    for stage in live {
        store.bring(&stage.name(), stage).await;
    }
    let now = T0.plus(DEAD_TTL * 10);
    let before = Snapshot::of(&store, now).await;
    assert_eq!(
        prune(&store, Retention { ended_max_age: Duration::ZERO, ended_max_count: 0 }, now).await,
        Pruned::default()
    );
    before.assert_same(&Snapshot::of(&store, now).await, "after pruning");
}

pub async fn dead_letters_are_not_pruned_as_ended_jobs(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Dead).await;
    assert_eq!(prune(&store, at_most(0), T0.plus(DAY)).await, Pruned::default());
    assert!(store.dead_letter("a").await.is_some());
}

pub async fn a_replay_called_off_after_its_time_is_kept_for_a_day_and_pruned_then(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Replaying).await;
    let late = T0.plus(DEAD_TTL);
    assert_eq!(prune(&store, at_most(9), late).await, Pruned::default());
    assert_eq!(store.cancel("a", late).await, Cancelled::Done);
    let kept_until = late.plus(DAY);
    let almost = Timestamp::from_millis(kept_until.as_millis() - 1);
    assert_eq!(prune(&store, at_most(9), almost).await, Pruned::default(), "an operator has a day to see it");
    assert_eq!(store.dead_letter("a").await.unwrap().expires_at(), kept_until, "and is told so");
    assert_eq!(prune(&store, at_most(9), kept_until).await.dead_letters, 1);
}

pub async fn a_forgotten_id_is_a_new_job_with_a_trail_of_its_own(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    send(&store, &["a"]).await;
    assert_eq!(prune(&store, at_most(0), T0).await.ended, 1);
    assert_eq!(store.audit_kinds("a").await, [], "what is forgotten has no trail here");
    store
        .accept(vec![
            NewJob { body_hash: OTHER_BODY, ..job("a") },
            NewJob { company: company("b"), ..job("b") },
        ])
        .await;
    assert_eq!(store.audit_kinds("a").await, []);
    assert_eq!(store.audit_kinds("b").await, [], "the trail of a forgotten job went to another one");
}

pub async fn thousands_are_pruned_bite_by_bite(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(jobs_of("many", 2_500)).await;
    let leases = store.ready(2_500, T0).await;
    let settlements = leases.iter().map(|lease| Settlement {
        token: lease.token,
        transition: deliver(lease, T0),
        audit: None,
        now: T0,
        follow_ups: Vec::new(),
    });
    store.0.settle(settlements.collect()).await.unwrap();
    assert_eq!(prune(&store, at_most(7), T0).await.ended, 2_493);
    assert_eq!(store.0.counts(T0).await.unwrap().ended, 7);
}

pub async fn an_ended_job_is_forgotten_at_once_with_its_records_when_asked(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for stage in Stage::ALL {
        store.bring(&stage.name(), stage).await;
    }
    let all: Vec<_> = Stage::ALL.iter().map(|stage| crate::given::id(&stage.name())).collect();
    assert_eq!(store.0.forget(all.clone()).await.unwrap(), 3, "what has ended, and nothing else");
    for stage in Stage::ALL {
        let gone = matches!(stage, Stage::Sent | Stage::Cancelled | Stage::Discarded);
        assert_eq!(store.find(&stage.name(), T0).await.is_none(), gone, "{stage:?}");
    }
    let left = on_record(&store).await;
    let of_ended = |record: &&recado_store::AuditRecord| {
        ["sent", "cancelled", "discarded"].contains(&record.event.job_id.as_deref().unwrap_or_default())
    };
    assert_eq!(left.iter().find(of_ended), None);
    assert_eq!(store.0.forget(all).await.unwrap(), 0, "once is enough");
    let newest = left.last().map_or(0, |record| record.number);
    store.bring("sent", Stage::Sent).await;
    assert_eq!(store.audit_kinds("sent").await, [AuditKind::Delivered], "the id is a new job's");
    assert!(on_record(&store).await.last().unwrap().number > newest);
    assert_eq!(store.0.counts(T0).await.unwrap().ended, 1);
}
