//! Events of each transition.

use std::time::Duration;

use recado_core::event::of_transition;
use recado_core::{Cause, Class, Event, EventKind, Fault, NetworkKind, Outcome, Transition, decide};
use serde_json::json;

use crate::given::{NOW, after, attempts, job, judged, minutes, set, smtp, terms};

fn heard(transition: &Transition) -> Vec<Event> {
    of_transition(&job(), transition, NOW)
}

fn kinds(events: &[Event]) -> Vec<EventKind> {
    events.iter().map(|event| event.kind).collect()
}

#[test]
fn t20_a_scheduled_retry_has_the_required_fields() {
    let mut policy = recado_core::Policy::exponential(minutes(5), minutes(240), 6);
    policy.jitter = recado_core::Jitter::None;
    let (transition, _) = after(job(), judged("tiss", smtp("X", "SERVICE_UNAVAILABLE")), &terms(policy));
    let events = heard(&transition);
    assert_eq!(kinds(&events), [EventKind::JobRetryScheduled]);
    let told = serde_json::to_value(&events[0]).unwrap();
    assert_eq!(told["type"], "JobRetryScheduled");
    assert_eq!(told["timestamp"], "2025-01-12T10:30:00.000Z");
    let data = &told["data"];
    assert_eq!(data["claimId"], "123e4567-e89b-12d3-a456-426614174000");
    assert_eq!((&data["retryCount"], &data["backoffMinutes"]), (&json!(1), &json!(5)));
    assert_eq!(data["errorClassification"], "TRANSIENT");
    assert_eq!(data["nextRetryTime"], "2025-01-12T10:35:00.040Z");
}

#[test]
fn t20_an_exhausted_retry_tells_how_many_there_were_and_the_last_error() {
    let mut job = job();
    job.progress.attempts_spent = 5;
    let (transition, _) = after(job.clone(), judged("tiss", smtp("X", "TIMEOUT")), &attempts(6));
    let events = of_transition(&job, &transition, NOW);
    assert_eq!(kinds(&events), [EventKind::JobRetryExhausted, EventKind::JobFailed]);
    assert_eq!(events[0].data.outcome.retry_count, Some(5));
    assert_eq!(events[0].data.outcome.last_error.as_deref(), Some("TIMEOUT"));
    assert_eq!(events[0].data.outcome.cause, Some(Cause::Exhausted));
}

#[test]
fn a_failed_job_that_may_have_arrived_says_so_to_an_operator_who_would_replay_it() {
    let lost = Fault::network(NetworkKind::Dropped, "gone");
    let once = after(job(), judged("http", lost), &attempts(1)).0;
    let data = heard(&once).pop().unwrap().data;
    assert_eq!(data.outcome.may_have_arrived, Some(1));
    assert!(data.outcome.advice.as_deref().unwrap().contains("a replay may deliver it again"));
    assert!(data.outcome.advice_pt.as_deref().unwrap().contains("reprocessar pode entregar de novo"));
    let refused = after(job(), judged("smtp", smtp("550", "no")), &attempts(3)).0;
    assert_eq!(heard(&refused)[0].data.outcome.may_have_arrived, None);
}

#[test]
fn f10_whatever_brings_a_job_to_the_dead_letter_queue_it_is_told_as_failed() {
    let permanent = after(job(), judged("smtp", smtp("550", "no")), &attempts(3)).0;
    assert_eq!(kinds(&heard(&permanent)), [EventKind::JobFailed]);
    let expired = decide::bury_expired(&job(), None, &attempts(3), NOW).0;
    assert_eq!(kinds(&heard(&expired)), [EventKind::JobExpired, EventKind::JobFailed]);
    assert_eq!(heard(&permanent)[0].data.status.as_deref(), Some("failed"), "w6: what a CRM shows");
}

#[test]
fn a_delivery_is_told_and_a_pause_is_not() {
    let sent = after(job(), set("smtp").verdict(Outcome::Accepted { answer: None }), &attempts(3)).0;
    assert_eq!(kinds(&heard(&sent)), [EventKind::JobSent]);
    assert!(heard(&Transition::Postpone { until: NOW }).is_empty());
    assert!(heard(&Transition::Release { at: NOW, lost: None }).is_empty());
}

#[test]
fn the_same_event_has_the_same_id_and_another_one_another() {
    let permanent = after(job(), judged("smtp", smtp("550", "no")), &attempts(3)).0;
    assert_eq!(heard(&permanent), heard(&permanent));
    let expired = heard(&decide::bury_expired(&job(), None, &attempts(3), NOW).0);
    assert_ne!(expired[0].id, expired[1].id, "two kinds at the same moment");
    let later = of_transition(&job(), &permanent, NOW.plus(Duration::from_millis(1)));
    assert_ne!(later[0].id, heard(&permanent)[0].id);
}

#[test]
fn an_event_never_holds_the_payload() {
    let permanent = after(job(), judged("smtp", smtp("550", "no")), &attempts(3)).0;
    assert!(!serde_json::to_string(&heard(&permanent)).unwrap().contains("ana@example.com"));
}

#[test]
fn an_events_data_is_written_flat_and_in_the_order_of_older_versions() {
    let exhausted = after(job(), judged("smtp", smtp("421", "busy")), &attempts(1)).0;
    let event = heard(&exhausted).pop().unwrap();
    let written = concat!(
        r#"{"jobId":"123e4567-e89b-12d3-a456-426614174000","claimId":"123e4567-e89b-12d3-a456-426614174000","#,
        r#""route":"email","userId":"user-7","correlationId":"corr-9","status":"failed","attempt":1,"#,
        r#""retryCount":0,"errorCode":"421","lastError":"busy","errorClassification":"TRANSIENT","#,
        r#""rule":"smtp/421","blame":"provider","cause":"EXHAUSTED"}"#
    );
    assert_eq!(serde_json::to_string(&event.data).unwrap(), written);
    assert_eq!(serde_json::from_str::<recado_core::EventData>(written).unwrap(), event.data);
}

#[test]
fn every_kind_is_found_by_its_name() {
    for kind in EventKind::ALL {
        assert_eq!(EventKind::parse(kind.as_str()), Some(kind));
    }
    assert_eq!(EventKind::parse("jobsent"), None);
}

#[test]
fn f12_a_route_that_starts_over_tries_again_after_its_last_attempt_but_never_after_a_permanent_failure() {
    let over = recado_core::decide::Terms { start_over_after: Some(minutes(15)), ..attempts(1) };
    let (transition, audit) = after(job(), judged("smtp", smtp("421", "later")), &over);
    let Transition::RetryAt { at, attempt } = transition else { panic!("given up") };
    assert_eq!(at, NOW.plus(crate::given::TOOK).plus(minutes(15)));
    assert_eq!(attempt.next_retry_delay_ms, Some(900_000));
    assert!(audit.decision.retry_reason.unwrap().contains("fallback"));
    let (buried, _) = after(job(), judged("smtp", smtp("550", "no")), &over);
    assert!(matches!(buried, Transition::Bury(burial) if burial.failure.class == Class::Permanent));
    let mut short = job();
    short.expires_at = NOW.plus(minutes(10));
    let (expired, _) = after(short, judged("smtp", smtp("421", "later")), &over);
    assert!(matches!(expired, Transition::Bury(burial) if burial.cause == Cause::Expired));
}
