//! The trail of what was decided and done.

use recado_core::{AuditEvent, AuditKind, NewJob};

use super::Home;
use super::given::{Desk, SECOND, T0, act, bury, deliver, id, job, retry_at};
pub async fn a_trail_tells_a_whole_life_in_order(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a"), NewJob { due_at: T0.plus(SECOND), ..job("other") }]).await;
    let lease = desk.only(T0).await;
    desk.done(&lease, retry_at(&lease, T0, T0), T0).await;
    let lease = desk.only(T0).await;
    desk.done(&lease, bury(&lease, Some("550"), "no", T0), T0).await;
    desk.redrive("a", None, T0).await;
    let lease = desk.only(T0).await;
    desk.done(&lease, deliver(&lease, T0), T0).await;
    use AuditKind::{Buried, Delivered, Replayed, RetryScheduled};
    assert_eq!(desk.audit_kinds("a").await, [RetryScheduled, Buried, Replayed, Delivered]);
    assert_eq!(desk.audit_kinds("other").await, []);
}

pub async fn what_is_recorded_about_a_job_is_found_on_its_trail(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a"), job("b")]).await;
    let about = |name: &str, reason: &str| act(name, AuditKind::ClaimRetry, T0).reason(reason.to_owned());
    let events = vec![about("a", "one"), about("b", "two"), about("a", "três")];
    desk.0.record(events.clone()).await.unwrap();
    assert_eq!(
        desk.0.audit(&id("a")).await.unwrap(),
        [events[0].clone(), events[2].clone()],
        "every field, in order"
    );
    assert_eq!(desk.0.audit(&id("b")).await.unwrap(), [events[1].clone()]);
}

pub async fn a_record_about_no_job_is_taken_in_and_belongs_to_none(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("CLM-1")]).await;
    desk.0
        .record(vec![AuditEvent::claim("CLM-1", "tiss-claims", AuditKind::ClaimRefused, T0)])
        .await
        .unwrap();
    desk.0.record(vec![act("nobody", AuditKind::ClaimRetry, T0)]).await.unwrap();
    assert_eq!(desk.audit_kinds("CLM-1").await, [], "a claim is not the job that happens to share its name");
    assert_eq!(desk.audit_kinds("nobody").await, []);
}

pub async fn a_settlement_keeps_its_record_word_for_word(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a")]).await;
    let lease = desk.only(T0).await;
    let event = AuditEvent::about(&lease.job, AuditKind::RetryScheduled, T0)
        .attempt(1)
        .retry_count(1)
        .backoff(SECOND * 90, T0.plus(SECOND * 90))
        .reason("Retry 1 of 4: \"até já\"".to_owned());
    let transition = retry_at(&lease, T0.plus(SECOND * 90), T0);
    let settlement = crate::Settlement {
        token: lease.token,
        transition,
        audit: Some(event.clone()),
        now: T0,
        follow_ups: Vec::new(),
    };
    desk.0.settle(vec![settlement]).await.unwrap();
    assert_eq!(desk.0.audit(&id("a")).await.unwrap(), [event]);
}
