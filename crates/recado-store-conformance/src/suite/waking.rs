//! Wake-ups instead of polling.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use recado_core::NewJob;
use recado_store::Waker;

use crate::Home;
use crate::given::{HOUR, Stage, T0, TestStore, job, retry_at, route};

/// A wake-up that has not come by now never comes.
const WAKE_WAIT_MAX: Duration = Duration::from_secs(10);

pub async fn assert_woken(waker: &mut Waker, when: &str) {
    assert!(tokio::time::timeout(WAKE_WAIT_MAX, waker.wait()).await.is_ok(), "no wake-up {when}");
}

pub fn is_quiet(waker: &mut Waker) -> bool {
    pin!(waker.wait()).poll(&mut Context::from_waker(std::task::Waker::noop())) == Poll::Pending
}

pub async fn a_new_job_wakes_its_route_and_no_other(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let (mut email, mut sms) = (store.0.waker(&route("email")), store.0.waker(&route("sms")));
    assert!(is_quiet(&mut email), "it rang before anything happened");
    store.accept(vec![job("a"), job("b")]).await;
    assert_woken(&mut email, "on enqueue").await;
    assert!(is_quiet(&mut sms), "another route rang");
}

pub async fn a_wake_up_between_two_waits_is_not_lost(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let mut waker = store.0.waker(&route("email"));
    store.accept(vec![job("a")]).await;
    assert_woken(&mut waker, "for the first job").await;
    store.accept(vec![job("b")]).await;
    store.accept(vec![NewJob { due_at: T0.plus(HOUR), ..job("c") }]).await;
    assert_woken(&mut waker, "for a job that came while none waited").await;
}

pub async fn every_listener_of_a_route_is_woken(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let (mut one, mut two) = (store.0.waker(&route("email")), store.0.waker(&route("email")));
    store.accept(vec![job("a")]).await;
    assert_woken(&mut one, "for the first listener").await;
    assert_woken(&mut two, "for the second listener").await;
}

pub async fn a_retry_and_a_replay_wake_too(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("a", Stage::Dead).await;
    let mut waker = store.0.waker(&route("to-a"));
    store.redrive("a", None, T0).await;
    assert_woken(&mut waker, "on a replay").await;

    store.accept(vec![job("b")]).await;
    let lease = store.only(T0).await;
    let mut waker = store.0.waker(&route("email"));
    store.done(&lease, retry_at(&lease, T0.plus(HOUR), T0), T0).await;
    assert_woken(&mut waker, "on a retry, whose time may be the next").await;
}
