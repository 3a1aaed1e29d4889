//! Wake-ups instead of polling.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use recado_core::NewJob;

use super::Home;
use super::given::{Desk, HOUR, Stage, T0, job, retry_at, route};
use recado_store::Waker;

/// A ring that has not come by now never comes.
const RING_WAIT_MAX: Duration = Duration::from_secs(10);

pub async fn assert_rung(bell: &mut Waker, when: &str) {
    assert!(tokio::time::timeout(RING_WAIT_MAX, bell.rung()).await.is_ok(), "no ring {when}");
}

pub fn is_quiet(bell: &mut Waker) -> bool {
    pin!(bell.rung()).poll(&mut Context::from_waker(std::task::Waker::noop())) == Poll::Pending
}

pub async fn a_new_job_rings_its_route_and_no_other(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    let (mut email, mut sms) = (desk.0.waker(&route("email")), desk.0.waker(&route("sms")));
    assert!(is_quiet(&mut email), "it rang before anything happened");
    desk.accept(vec![job("a"), job("b")]).await;
    assert_rung(&mut email, "on enqueue").await;
    assert!(is_quiet(&mut sms), "another route rang");
}

pub async fn a_ring_between_two_waits_is_not_lost(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    let mut bell = desk.0.waker(&route("email"));
    desk.accept(vec![job("a")]).await;
    assert_rung(&mut bell, "for the first job").await;
    desk.accept(vec![job("b")]).await;
    desk.accept(vec![NewJob { due_at: T0.plus(HOUR), ..job("c") }]).await;
    assert_rung(&mut bell, "for a job that came while none waited").await;
}

pub async fn every_listener_of_a_route_is_rung(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    let (mut one, mut two) = (desk.0.waker(&route("email")), desk.0.waker(&route("email")));
    desk.accept(vec![job("a")]).await;
    assert_rung(&mut one, "for the first listener").await;
    assert_rung(&mut two, "for the second listener").await;
}

pub async fn a_retry_and_a_replay_ring_too(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.bring("a", Stage::Dead).await;
    let mut bell = desk.0.waker(&route("to-a"));
    desk.redrive("a", None, T0).await;
    assert_rung(&mut bell, "on a replay").await;

    desk.accept(vec![job("b")]).await;
    let lease = desk.only(T0).await;
    let mut bell = desk.0.waker(&route("email"));
    desk.done(&lease, retry_at(&lease, T0.plus(HOUR), T0), T0).await;
    assert_rung(&mut bell, "on a retry, whose time may be the next").await;
}
