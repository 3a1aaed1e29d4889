//! Claims of many jobs, and calls that settle many leases.

use recado_core::{AttemptResult, AuditEvent, AuditKind, Lease, NewJob, Payload, Transition};
use recado_store::prelude::*;
use recado_store::{Claim, Pick, Settled, Settlement};
use recado_store_redis::{RedisOptions, RedisStore};
use recado_testkit::redis::RedisServer;

use crate::given::{HOUR, T0, claim, delivered, job, random};
use crate::place::Place;

const JOBS: usize = 60;

fn data(nth: usize) -> Payload {
    Payload::trusted(format!(r#"{{"nth":{nth}}}"#))
}

#[tokio::test]
async fn a_large_claim_has_the_data_of_new_moved_and_retried_jobs() {
    let place = Place::single();
    let store = place.store().await;
    let all = (0..JOBS).map(|nth| NewJob { data: data(nth), ..job(&format!("job-{nth}")) });
    store.enqueue(all.clone().collect()).await.unwrap();
    // Retried ones lie aside, with keys of their own.
    for lease in store.claim(claim(3)).await.unwrap().leases {
        let attempt = recado_core::Attempt::ended(lease.attempt, T0, T0, AttemptResult::Sent);
        let again = Transition::RetryAt { at: T0, attempt };
        let settlement = Settlement { transition: again, ..delivered(&lease) };
        assert_eq!(store.settle(vec![settlement]).await.unwrap(), [Settled::Done]);
    }
    // A record about a new job moves it out of the stream; it stays in its line.
    let leases = store.claim(claim(1)).await.unwrap().leases;
    let moved = recado_core::Job::from(all.clone().nth(20).unwrap());
    store.record(vec![AuditEvent::about(&moved, AuditKind::Delivered, T0)]).await.unwrap();

    let leases: Vec<_> = leases.into_iter().chain(store.claim(claim(JOBS)).await.unwrap().leases).collect();
    assert_eq!(leases.len(), JOBS);
    let mut found: Vec<_> =
        leases.iter().map(|lease| (lease.job.id.clone(), lease.job.data.clone())).collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let mut expected: Vec<_> = all.map(|new| (new.id, new.data)).collect();
    expected.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(found, expected);
    let in_order: Vec<_> = leases[4..].iter().map(|lease| lease.job.id.as_str()).collect();
    let expected: Vec<_> = (4..JOBS).map(|nth| format!("job-{nth}")).collect();
    assert_eq!(in_order, expected, "those that came later are in the order in which they came");
    let settled = store.settle(leases.iter().map(delivered).collect()).await.unwrap();
    assert_eq!(settled, [Settled::Done; JOBS]);
}

#[tokio::test]
async fn stale_leases_of_a_call_change_nothing_about_the_current_ones() {
    let place = Place::single();
    let store = place.store().await;
    store.enqueue(crate::given::jobs(0..4)).await.unwrap();
    let leases = store.claim(claim(4)).await.unwrap().leases;
    assert_eq!(store.settle(vec![delivered(&leases[1])]).await.unwrap(), [Settled::Done]);
    let late = Settlement { transition: Transition::Postpone { until: T0 }, ..delivered(&leases[1]) };
    let call = vec![
        delivered(&leases[0]),
        late,
        delivered(&leases[2]),
        delivered(&leases[2]),
        Settlement { transition: Transition::Postpone { until: T0 }, ..delivered(&leases[3]) },
    ];
    let settled = store.settle(call).await.unwrap();
    let (done, stale) = (Settled::Done, Settled::Stale);
    assert_eq!(settled, [done, stale, done, done, done], "the same words twice are one settlement");
    for lease in &leases {
        let records = store.audit(&lease.job.id).await.unwrap().len();
        assert_eq!(records, 1, "of {}", lease.job.id);
    }
    let counts = store.counts(T0).await.unwrap();
    assert_eq!((counts.leased, counts.ended, counts.ready), (0, 3, 1));
}

/// Names and data of the jobs that were leased.
fn leased(leases: &[Lease]) -> Vec<(String, Payload)> {
    leases.iter().map(|lease| (lease.job.id.to_string(), lease.job.data.clone())).collect()
}

fn numbered(names: impl IntoIterator<Item = usize>) -> Vec<(String, Payload)> {
    names.into_iter().map(|nth| (format!("job-{nth}"), data(nth))).collect()
}

#[tokio::test]
async fn jobs_that_a_claim_leaves_to_be_read_are_the_ones_that_it_leased() {
    let place = Place::single();
    let store = place.store().await;
    let all = (0..JOBS).map(|nth| NewJob { data: data(nth), ..job(&format!("job-{nth}")) });
    store.enqueue(all.clone().collect()).await.unwrap();
    let first = store.claim(claim(10)).await.unwrap().leases;
    assert_eq!(leased(&first), numbered(0..10));
    // From here on the node reads ahead. These two are not where it reads: one was moved out of the stream, and one was
    // retried at another node.
    let moved = recado_core::Job::from(all.clone().nth(15).unwrap());
    store.record(vec![AuditEvent::about(&moved, AuditKind::Delivered, T0)]).await.unwrap();
    let second = store.claim(claim(10)).await.unwrap().leases;
    assert_eq!(leased(&second), numbered(10..20));
    let other = place.store().await;
    let elsewhere = other.claim(claim(1)).await.unwrap().leases;
    let again = Transition::Release { at: T0, lost: None };
    other.settle(vec![Settlement { transition: again, ..delivered(&elsewhere[0]) }]).await.unwrap();
    let third = store.claim(claim(10)).await.unwrap().leases;
    assert_eq!(leased(&third), numbered(20..30));
    let rest = store.claim(claim(JOBS)).await.unwrap().leases;
    assert_eq!(leased(&rest), numbered(30..JOBS));
    for leases in [first, second, third, rest] {
        let settled = store.settle(leases.iter().map(delivered).collect()).await.unwrap();
        assert!(settled.iter().all(|one| *one == Settled::Done));
    }
    let late = Claim { pick: Pick::Overdue, now: T0.plus(HOUR * 24 * 365), ..claim(JOBS) };
    assert!(store.claim(late).await.unwrap().leases.is_empty(), "a job that has ended has no end of life");
}

#[tokio::test]
async fn jobs_that_were_left_to_be_read_and_were_not_are_read_by_another_call() {
    let server = RedisServer::start();
    let store = RedisStore::open(&RedisOptions::new(server.url()), random()).await.unwrap();
    let all = (0..20).map(|nth| NewJob { data: data(nth), ..job(&format!("job-{nth}")) });
    store.enqueue(all.collect()).await.unwrap();
    store.claim(claim(10)).await.unwrap();
    // The claim is sent again with its source, and the read that went with it came too early.
    server.ask::<()>(&["SCRIPT", "FLUSH"]);
    let leases = store.claim(claim(10)).await.unwrap().leases;
    assert_eq!(leased(&leases), numbered(10..20));
}
