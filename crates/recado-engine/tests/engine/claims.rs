//! The three use cases of insurance claims, from submission to the end, with a worker and its clock.

use std::time::Duration;

use recado_core::decide::Terms;
use recado_core::{Cause, Class, Jitter, JobId, Policy, RouteName, Status, rules};
use recado_engine::attempt::worker_leases::{LeaseRequest, Report, Reported};
use recado_engine::{Carrier, Clock, Engine, Route};

use crate::given::{Given, route, submission, submit};

const MINUTE: Duration = Duration::from_secs(60);

fn tiss_claims() -> Route {
    let policy = Policy {
        jitter: Jitter::Symmetric(0.2),
        floor: Some(5 * MINUTE),
        ceiling: Some(240 * MINUTE),
        ..Policy::exponential(5 * MINUTE, 240 * MINUTE, 6)
    };
    let named = route("tiss-claims", Carrier::Workers);
    Route { classifier: rules::named("tiss").unwrap(), terms: Terms { policy, ..named.terms }, ..named }
}

/// A worker that waits until the claim is due and reports how its submission went.
async fn submit_claim(engine: &Engine, report: Report) {
    let request = LeaseRequest {
        routes: vec![RouteName::new("tiss-claims").unwrap()],
        max: 1,
        wait: MINUTE,
        lease: Duration::from_secs(30),
        worker_id: "tiss-worker".into(),
    };
    let lease = loop {
        if let Some(lease) = engine.attempts.lease(&request).await.unwrap().pop() {
            break lease;
        }
    };
    assert_eq!(engine.attempts.report(vec![(lease.token, report)]).await.unwrap(), [Reported::Done]);
}

fn failed(message: &str) -> Report {
    Report::Failed { code: None, message: message.into(), stack_trace: None, retry_after: None }
}

async fn given_a_claim() -> (Given, Engine) {
    let given = Given::new();
    let engine = given.engine([tiss_claims()]);
    let mut claim = submission("CLM-ENC-001-1234567890");
    claim.route = "tiss-claims".to_owned();
    submit(&engine, claim).await;
    (given, engine)
}

const CLAIM: &str = "CLM-ENC-001-1234567890";

#[tokio::test(start_paused = true)]
async fn t17_use_case_1_a_claim_that_meets_an_outage_is_submitted_again_after_5_to_6_minutes_and_gets_through()
 {
    let (given, engine) = given_a_claim().await;
    submit_claim(&engine, failed("SERVICE_UNAVAILABLE")).await;
    let failed_at = given.clock.now();
    submit_claim(&engine, Report::Succeeded { result: None }).await;
    let view = given.view(CLAIM).await;
    assert_eq!(view.status, Status::Sent);
    assert_eq!(view.job.attempts[0].error_classification, Some(Class::Transient));
    let waited = given.clock.now().since(failed_at);
    assert!((5 * MINUTE..=6 * MINUTE + Duration::from_secs(1)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn t17_use_case_2_a_claim_with_an_invalid_procedure_is_put_before_a_person_without_a_retry() {
    let (given, engine) = given_a_claim().await;
    submit_claim(&engine, failed("TISS said INVALID_PROCEDURE_CODE for item 3")).await;
    assert_eq!(given.view(CLAIM).await.status, Status::Failed);
    let entry = engine.inspect().dead_letter(&JobId::new(CLAIM).unwrap()).await.unwrap().unwrap();
    assert_eq!((entry.cause, entry.failed_attempts), (Cause::Permanent, 1));
    assert!(entry.failure.reason.as_str().contains("INVALID_PROCEDURE_CODE"));
}

#[tokio::test(start_paused = true)]
async fn t17_use_case_3_a_claim_that_meets_a_lasting_outage_is_given_up_after_five_retries_within_hours() {
    let (given, engine) = given_a_claim().await;
    let started = given.clock.now();
    for _ in 0..6 {
        submit_claim(&engine, failed("TIMEOUT")).await;
    }
    let entry = engine.inspect().dead_letter(&JobId::new(CLAIM).unwrap()).await.unwrap().unwrap();
    assert_eq!((entry.cause, entry.failed_attempts), (Cause::Exhausted, 6));
    // 5 + 10 + 20 + 40 + 80 minutes, a fifth more or less each, and the first never below five.
    let took = given.clock.now().since(started);
    assert!((125 * MINUTE..=187 * MINUTE).contains(&took), "{took:?}");
}
