//! From submission to the end of a job.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use recado_core::{AttemptResult, AuditKind, Cause, Class, JobId, Payload, Status};
use recado_engine::dlq::operator::Replay;
use recado_engine::{Carrier, Clock, SubmitRefusal};

use crate::given::{Given, Scripted, route, submission, submit};

#[tokio::test(start_paused = true)]
async fn e7_a_job_that_is_taken_is_sent_on_its_first_attempt() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::default());
    let engine = given.mail(&far_end);
    let accepted = submit(&engine, submission("a")).await;
    assert_eq!((accepted.status, accepted.duplicate), (Status::Queued, false));
    let view = given.until("a", Status::Sent).await;
    assert_eq!(view.job.attempts.len(), 1);
    assert_eq!(view.job.attempts[0].result, AttemptResult::Sent);
    assert_eq!(far_end.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_fails_twice_waits_what_the_policy_says_each_time() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["421", "450", "ok"]));
    let engine = given.mail(&far_end);
    submit(&engine, submission("a")).await;
    let view = given.until("a", Status::Sent).await;
    let calls = far_end.calls.lock().clone();
    let gaps: Vec<_> = calls.windows(2).map(|pair| pair[1].2.since(pair[0].2)).collect();
    for (gap, nominal) in gaps.iter().zip([1, 2]) {
        let late = gap.saturating_sub(Duration::from_secs(nominal));
        assert!(
            *gap >= Duration::from_secs(nominal) && late < Duration::from_millis(20),
            "{gap:?} for {nominal} s"
        );
    }
    assert_eq!(view.job.attempts.len(), 3);
    assert_eq!(view.job.attempts[0].next_retry_delay_ms, Some(1_000));
    assert_eq!(view.job.attempts[0].rule.as_deref(), Some("smtp/421"));
    let kinds: Vec<_> =
        engine.inspect().audit(&view.job.id).await.unwrap().into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [AuditKind::RetryScheduled, AuditKind::RetryScheduled, AuditKind::Delivered]);
}

#[tokio::test(start_paused = true)]
async fn g3_a_permanent_failure_is_buried_after_one_attempt() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["550"]));
    let engine = given.mail(&far_end);
    submit(&engine, submission("a")).await;
    given.until("a", Status::Failed).await;
    let entry = engine.inspect().dead_letter(&JobId::new("a").unwrap()).await.unwrap().unwrap();
    assert_eq!(
        (entry.cause, entry.failure.class, entry.failed_attempts),
        (Cause::Permanent, Class::Permanent, 1)
    );
    assert_eq!(far_end.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn g7_an_exhausted_job_is_replayed_with_a_fresh_budget_and_leaves_the_queue_only_when_sent() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["421", "421", "421", "421", "421", "421", "ok"]));
    let engine = given.mail(&far_end);
    let id = JobId::new("a").unwrap();
    submit(&engine, submission("a")).await;
    given.until("a", Status::Failed).await;
    let entry = engine.inspect().dead_letter(&id).await.unwrap().unwrap();
    assert_eq!((entry.cause, entry.failed_attempts), (Cause::Exhausted, 5));

    let replay = engine.dlq.replay(&id, None, Some("the provider is back"), Some("ana")).await.unwrap();
    assert_eq!(replay, Replay::Started);
    // Attempt 6 fails: with a fresh budget that is a retry, not another burial.
    given.until("a", Status::Retrying).await;
    assert!(
        engine.inspect().dead_letter(&id).await.unwrap().is_some(),
        "the entry stays until the job is sent"
    );
    assert_eq!(engine.dlq.replay(&id, None, None, None).await.unwrap(), Replay::AlreadyReplaying);
    given.until("a", Status::Sent).await;
    assert!(engine.inspect().dead_letter(&id).await.unwrap().is_none());
    let replayed = engine
        .inspect()
        .audit(&id)
        .await
        .unwrap()
        .into_iter()
        .find(|event| event.kind == AuditKind::Replayed);
    assert_eq!(replayed.unwrap().actor.as_deref(), Some("ana"));
    assert_eq!(far_end.count(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_transport_costs_its_job_one_attempt_and_other_jobs_nothing() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["panic", "ok"]));
    let engine = given.mail(&far_end);
    submit(&engine, submission("a")).await;
    submit(&engine, submission("b")).await;
    for id in ["a", "b"] {
        let view = given.until(id, Status::Sent).await;
        assert_eq!(view.job.attempts.len(), 2);
        let reason = view.job.attempts[0].error_reason.as_ref().unwrap().as_str();
        assert!(reason.contains("the far end made us stumble"), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn f8_a_provider_that_hangs_is_cut_off_at_the_timeout_and_retried() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["hang", "ok"]));
    let engine = given.mail(&far_end);
    submit(&engine, submission("a")).await;
    let view = given.until("a", Status::Sent).await;
    let first = &view.job.attempts[0];
    assert_eq!(first.result, AttemptResult::Uncertain);
    assert_eq!(first.error_code.as_deref(), Some("TIMEOUT"));
    assert_eq!(first.ended_at.since(first.started_at), Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_job_starts_on_time_and_not_before() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::default());
    let engine = given.mail(&far_end);
    let due = given.clock.now().plus(Duration::from_secs(90));
    let mut later = submission("a");
    later.delay = Some(Duration::from_secs(90));
    assert_eq!(submit(&engine, later).await.status, Status::Scheduled);
    given.until("a", Status::Sent).await;
    let started = far_end.calls.lock()[0].2;
    assert!(started >= due && started.since(due) < Duration::from_millis(10), "{started} for {due}");
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_time_runs_out_while_it_waits_is_buried_as_expired_without_an_attempt() {
    let given = Given::new();
    let engine = given.engine([route("mail", Carrier::Workers)]);
    let mut brief = submission("a");
    brief.ttl = Some(Duration::from_secs(60));
    submit(&engine, brief).await;
    given.until("a", Status::Failed).await;
    let entry = engine.inspect().dead_letter(&JobId::new("a").unwrap()).await.unwrap().unwrap();
    assert_eq!((entry.cause, entry.failed_attempts), (Cause::Expired, 0));
    assert!(entry.failure.reason.as_str().contains("before it was tried"));
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_would_come_too_late_is_buried_as_expired_at_once() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["421"]));
    let engine = given.mail(&far_end);
    let mut brief = submission("a");
    brief.ttl = Some(Duration::from_secs(2));
    submit(&engine, brief).await;
    given.until("a", Status::Failed).await;
    let entry = engine.inspect().dead_letter(&JobId::new("a").unwrap()).await.unwrap().unwrap();
    assert_eq!((entry.cause, entry.failed_attempts), (Cause::Expired, 2));
    assert_eq!(entry.failure.code.as_deref(), Some("421"));
}

#[tokio::test(start_paused = true)]
async fn no_more_deliveries_run_at_once_than_the_route_allows() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::slow(Duration::from_secs(1)));
    let engine = given.mail(&far_end);
    for nth in 0..40 {
        submit(&engine, submission(&format!("job-{nth}"))).await;
    }
    let started = given.clock.now();
    for nth in 0..40 {
        given.until(&format!("job-{nth}"), Status::Sent).await;
    }
    assert_eq!(far_end.running_max.load(Ordering::SeqCst), 8);
    // Forty jobs, eight at a time, a second each: five rounds and no idle time between them.
    let took = given.clock.now().since(started);
    assert!(took < Duration::from_millis(5_100), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_submission_is_refused_with_every_fault_at_once() {
    let given = Given::new();
    let engine = given.mail(&Arc::new(Scripted::default()));
    let mut wrong = submission("not an id");
    wrong.company_id = String::new();
    wrong.priority = Some(12);
    wrong.ttl = Some(Duration::ZERO);
    wrong.run_at = Some(given.clock.now());
    wrong.delay = Some(Duration::from_secs(1));
    wrong.data = Payload::new(r#"{"text":"refuse me"}"#).unwrap();
    let Err(SubmitRefusal::Invalid(faults)) = engine.intake.submit(vec![wrong]).await.unwrap().remove(0)
    else {
        panic!("it was taken in");
    };
    let pointers: Vec<_> = faults.iter().map(|(pointer, _)| pointer.as_str()).collect();
    assert_eq!(pointers, ["/jobId", "/companyId", "/priority", "/delayMs", "/ttlMs", "/data/text"]);
}

#[tokio::test(start_paused = true)]
async fn g15_the_same_submission_again_is_a_duplicate_and_another_body_is_a_conflict() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::default());
    let engine = given.mail(&far_end);
    submit(&engine, submission("a")).await;
    given.until("a", Status::Sent).await;
    let again = submit(&engine, submission("a")).await;
    assert_eq!((again.status, again.duplicate), (Status::Sent, true));
    let mut other = submission("a");
    other.company_id = "globex".to_owned();
    let refused = engine.intake.submit(vec![other]).await.unwrap().remove(0);
    assert!(matches!(refused, Err(SubmitRefusal::Conflict { .. })));
    assert_eq!(far_end.count(), 1);
}
