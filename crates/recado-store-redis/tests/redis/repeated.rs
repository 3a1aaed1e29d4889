//! Requests that were carried out although the answer was lost, repeated.

use recado_core::{AuditKind, NewJob, Status};
use recado_store::prelude::*;
use recado_store::{Enqueued, KvWrite, KvWritten, Namespace, Settled, Settlement, StoreError};
use recado_store_redis::{RedisOptions, RedisStore};

use crate::given::{T0, claim, delivered, job, jobs, random};
use crate::place::Place;
use crate::server::{Mode, Proxy, Server};

/// A store whose answers can be lost on the way, beside one whose cannot.
struct Scene {
    _place: Place<Server>,
    proxy: Proxy,
    far: RedisStore,
    near: RedisStore,
}

impl Scene {
    async fn new() -> Self {
        let place = Place::single();
        let proxy = Proxy::to(place.server.port()).await;
        let near = place.store().await;
        // The server knows every script by now: what is lost is an answer, and not the word that it does not.
        near.enqueue(vec![job("before")]).await.unwrap();
        let lease = near.claim(claim(1)).await.unwrap().leases.remove(0);
        near.settle(vec![delivered(&lease)]).await.unwrap();
        near.kv_write(vec![new_entry("before")], T0).await.unwrap();
        let options = RedisOptions { url: proxy.url(), ..place.options.clone() };
        let far = RedisStore::open(&options, random()).await.unwrap();
        Scene { _place: place, proxy, far, near }
    }

    /// Does it with its answer lost, and lets answers through again.
    async fn lose<T: std::fmt::Debug>(&self, ask: impl Future<Output = Result<T, StoreError>>) {
        let before = self.proxy.hurt();
        self.proxy.set(Mode::CutAtAnswer);
        let answer = ask.await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "the answer came: {answer:?}");
        assert!(self.proxy.hurt() > before, "no answer was lost");
        self.proxy.set(Mode::Pass);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_asked_for_again_gives_the_same_leases() {
    let scene = Scene::new().await;
    scene.near.enqueue(jobs(0..5)).await.unwrap();
    scene.lose(scene.far.claim(claim(3))).await;
    assert_eq!(scene.near.counts(T0).await.unwrap().leased, 3, "it was carried out");
    let again = until_answered(|| scene.far.claim(claim(3))).await.leases;
    let names: Vec<_> = again.iter().map(|lease| lease.job.id.as_str()).collect();
    assert_eq!(names, ["job-0", "job-1", "job-2"]);
    assert_eq!(scene.near.counts(T0).await.unwrap().leased, 3, "none twice, and none more");
    assert!(again.iter().all(|lease| lease.lost.is_none()), "no holder vanished");
    let settled = scene.far.settle(again.iter().map(delivered).collect()).await.unwrap();
    assert_eq!(settled, [Settled::Done; 3]);
    let rest = scene.far.claim(claim(9)).await.unwrap().leases;
    assert_eq!(rest.len(), 2, "the next claim is one of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_repeated_claim_does_not_want_any_more_goes_back_in_line() {
    let scene = Scene::new().await;
    scene.near.enqueue(jobs(0..5)).await.unwrap();
    scene.lose(scene.far.claim(claim(5))).await;
    assert_eq!(until_answered(|| scene.far.claim(claim(2))).await.leases.len(), 2);
    let counts = scene.near.counts(T0).await.unwrap();
    assert_eq!((counts.leased, counts.ready), (2, 3));
    let rest = scene.near.claim(claim(9)).await.unwrap().leases;
    let names: Vec<_> = rest.iter().map(|lease| (lease.job.id.as_str(), lease.attempt)).collect();
    assert_eq!(names, [("job-2", 1), ("job-3", 1), ("job-4", 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_caller_gave_up_waiting_is_not_lost() {
    let scene = Scene::new().await;
    scene.near.enqueue(jobs(0..4)).await.unwrap();
    scene.proxy.set(Mode::LoseAnswers);
    let mut given_up = Box::pin(scene.far.claim(claim(2)));
    while scene.near.counts(T0).await.unwrap().leased < 2 {
        tokio::select! {
            biased;
            answer = &mut given_up => panic!("the answer came: {answer:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
    // Another caller that asks meanwhile is not taken for it.
    assert_eq!(scene.near.claim(claim(1)).await.unwrap().leases[0].job.id.as_str(), "job-2");
    drop(given_up);
    scene.proxy.cut();
    scene.proxy.set(Mode::Pass);
    let again = until_answered(|| scene.far.claim(claim(2))).await.leases;
    let names: Vec<_> = again.iter().map(|lease| lease.job.id.as_str()).collect();
    assert_eq!(names, ["job-0", "job-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_repeated_word_for_word_is_done() {
    let scene = Scene::new().await;
    scene.near.enqueue(jobs(0..1)).await.unwrap();
    let lease = scene.far.claim(claim(1)).await.unwrap().leases.remove(0);
    let settlement = || Settlement { follow_ups: vec![job("follows")], ..delivered(&lease) };
    scene.lose(scene.far.settle(vec![settlement()])).await;
    assert_eq!(
        scene.near.job(&lease.job.id, T0).await.unwrap().unwrap().status,
        Status::Sent,
        "it was carried out"
    );

    let again = until_answered(|| scene.far.settle(vec![settlement()])).await;
    assert_eq!(again, [Settled::Done], "and the one who did it hears so");
    let by_another = scene.near.settle(vec![settlement()]).await.unwrap();
    assert_eq!(by_another, [Settled::Done], "also over another node");
    let other = Settlement { follow_ups: vec![job("something-else")], ..delivered(&lease) };
    assert_eq!(scene.far.settle(vec![other]).await.unwrap(), [Settled::Stale], "another one is not");
    let trail = scene.near.audit(&lease.job.id).await.unwrap();
    assert_eq!(
        trail.iter().map(|event| event.kind).collect::<Vec<_>>(),
        [AuditKind::Delivered],
        "recorded once"
    );
    assert_eq!(scene.near.counts(T0).await.unwrap().ready, 1, "followed up once");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_enqueued_again_are_duplicates() {
    let scene = Scene::new().await;
    scene.lose(scene.far.enqueue(jobs(0..3))).await;
    assert_eq!(scene.near.counts(T0).await.unwrap().ready, 3, "they were taken in");
    let again = until_answered(|| scene.far.enqueue(jobs(0..3))).await;
    assert_eq!(again, vec![Enqueued::Duplicate { status: Status::Queued }; 3]);
    let other: Vec<NewJob> =
        jobs(0..1).into_iter().map(|new| NewJob { body_hash: recado_core::BodyHash(2), ..new }).collect();
    assert_eq!(scene.far.enqueue(other).await.unwrap(), [Enqueued::Conflict]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_written_again_meets_its_own_version() {
    let scene = Scene::new().await;
    scene.lose(scene.far.kv_write(vec![new_entry("acme")], T0)).await;
    let version = scene.near.kv_get(NAMESPACE, "acme", T0).await.unwrap().unwrap().version;
    let again = until_answered(|| scene.far.kv_write(vec![new_entry("acme")], T0)).await;
    assert_eq!(again, [KvWritten::Conflict { version }], "a reader finds what it wrote");
}

const NAMESPACE: Namespace = Namespace::new("pauses");

/// Writes an entry that is not there yet.
fn new_entry(key: &str) -> KvWrite {
    let value = Some(recado_core::Payload::trusted("1"));
    KvWrite {
        namespace: NAMESPACE,
        key: key.into(),
        value,
        expect: Some(0),
        expires_at: None,
        audit: Vec::new(),
    }
}

/// The connection that lost an answer is given up, and another one takes a moment.
async fn until_answered<T, F: Future<Output = Result<T, StoreError>>>(ask: impl Fn() -> F) -> T {
    for _ in 0..100 {
        match ask().await {
            Ok(answer) => return answer,
            Err(StoreError::Unavailable(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("a hundred times no answer");
}
