//! Engines that are away, busy or forgetful, locks that run out, and Recado without an answer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use recado_testkit::camunda::{CamundaAct, CamundaRequest, FakeCamunda, TaskStatus};

use super::given::{BOTH, Given, LOCK, Setup, Version, claim, outputs};

fn held() -> Setup {
    Setup { decisions: 0, ..Setup::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_a_job_that_another_worker_completed_is_forgotten() {
    for version in BOTH {
        let given = Given::with(version, FakeCamunda::start(), held());
        let key = given.fake.add(claim("503", 0));
        given.asked_times(1).await;
        given.fake.rival_completes(&key);
        given.rule.may_decide.add_permits(1);
        given.fake.until(|state| state.requests.iter().any(|request| request.status == 404));
        assert_eq!(outputs(&given.fake.job(&key))["by"], "rival", "{version:?}");

        given.rule.may_decide.add_permits(1);
        let next = given.fake.ended(&given.fake.add(claim("503", 0)));
        assert_eq!(next.status, TaskStatus::Completed, "the worker goes on");
        assert_eq!(given.fake.answered(version.completion(), 404), 1, "and has not insisted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_camunda_7_takes_no_report_from_a_worker_whose_lock_another_has() {
    let given = Given::with(Version::Seven, FakeCamunda::start(), held());
    let key = given.fake.add(claim("503", 0));
    given.asked_times(1).await;
    given.fake.rival_takes(&key);
    given.rule.may_decide.add_permits(1);
    given.fake.until(|state| state.requests.iter().any(|request| request.status == 400));
    let job = given.fake.job(&key);
    assert_eq!((job.status, job.retries), (TaskStatus::Open, None), "the rival still has it, unharmed");
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_a_job_that_is_handed_out_twice_is_completed_once() {
    for version in BOTH {
        let given = Given::with(version, FakeCamunda::start(), held());
        let key = given.fake.add(claim("503", 0));
        given.asked_times(1).await;
        given.fake.advance(LOCK);
        given.asked_times(2).await;
        assert_eq!(given.fake.job(&key).handed_out, 2, "{version:?}");
        given.rule.may_decide.add_permits(2);
        given.fake.until(|state| state.requests.iter().any(|request| request.status == 404));
        assert_eq!(given.fake.answered(version.completion(), 204), 1);
        assert_eq!(outputs(&given.fake.job(&key))["retryCount"], 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_without_a_decision_the_job_goes_back_with_all_its_retries() {
    for version in BOTH {
        let given = Given::usual(version);
        given.rule.away.store(true, Ordering::SeqCst);
        let key = given.fake.add(claim("503", 0));
        let (verb, retries) = match version {
            Version::Eight => ("/failure", Some(3)),
            Version::Seven => ("/unlock", None),
        };
        given.fake.until(|state| state.requests.iter().any(|request| request.path.ends_with(verb)));
        let job = given.fake.job(&key);
        assert_eq!((job.status, job.retries), (TaskStatus::Open, retries), "{version:?}");

        given.rule.away.store(false, Ordering::SeqCst);
        // Camunda 8 was asked for a short pause; without it the job would come back at once, and again.
        given.fake.advance(Duration::from_secs(10));
        let job = given.fake.ended(&key);
        assert_eq!((job.status, job.retries), (TaskStatus::Completed, retries));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_recado_is_away_one_job_at_a_time_is_taken() {
    let given = Given::usual(Version::Seven);
    given.rule.away.store(true, Ordering::SeqCst);
    let keys: Vec<_> = (0..6).map(|_| given.fake.add(claim("503", 0))).collect();
    let is_probe = |request: &CamundaRequest| request.body["maxTasks"] == 1;
    given.fake.until(|state| state.requests.iter().filter(|request| is_probe(request)).count() >= 3);
    let polls = given.fake.requests("/fetchAndLock");
    let probing: Vec<_> = polls.iter().skip_while(|poll| !is_probe(poll)).collect();
    assert!(probing.iter().all(|poll| is_probe(poll)), "{polls:?}");
    given.rule.away.store(false, Ordering::SeqCst);
    for key in keys {
        assert_eq!(given.fake.ended(&key).status, TaskStatus::Completed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_a_report_whose_answer_is_lost_is_repeated_and_found_done() {
    for version in BOTH {
        let given = Given::usual(version);
        given.fake.next(version.completion(), CamundaAct::LoseAnswer);
        let key = given.fake.add(claim("503", 0));
        given.fake.until(|state| state.requests.iter().any(|request| request.status == 404));
        assert_eq!(given.fake.answered(version.completion(), 502), 1, "the fault fired");
        assert_eq!(given.fake.job(&key).status, TaskStatus::Completed);
        assert_eq!(given.asked(), 1, "{version:?}: one decision");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_backpressure_costs_a_pause_and_nothing_else() {
    for version in BOTH {
        let fake = FakeCamunda::start();
        fake.next(version.taking(), CamundaAct::Refuse(503));
        fake.next(version.completion(), CamundaAct::Refuse(503));
        fake.next(version.completion(), CamundaAct::Refuse(429));
        let given = Given::with(version, fake, Setup::default());
        let job = given.fake.ended(&given.fake.add(claim("503", 0)));
        assert_eq!((job.status, job.handed_out), (TaskStatus::Completed, 1), "{version:?}");
        assert_eq!(given.fake.answered(version.taking(), 503), 1, "the faults fired");
        let (busy, too_many) = (version.completion(), version.completion());
        assert_eq!((given.fake.answered(busy, 503), given.fake.answered(too_many, 429)), (1, 1));
        assert_eq!(given.asked(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_a_job_that_comes_back_unreported_gets_the_decision_that_was_made() {
    let given = Given::usual(Version::Eight);
    given.fake.next("/completion", CamundaAct::Refuse(400));
    let key = given.fake.add(claim("503", 0));
    given.fake.until(|state| state.requests.iter().any(|request| request.status == 400));
    let job = given.fake.job(&key);
    assert_eq!((job.status, job.retries), (TaskStatus::Open, Some(3)), "its lock has to run out");
    given.fake.until(|state| state.polls_waiting == 1);
    given.fake.advance(LOCK);
    let job = given.fake.ended(&key);
    assert_eq!((job.status, job.handed_out), (TaskStatus::Completed, 2));
    assert_eq!(given.asked(), 1, "one claim and one count have one decision");
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_an_engine_that_goes_away_is_served_again_when_it_is_back() {
    for version in BOTH {
        let mut given = Given::usual(version);
        given.fake.ended(&given.fake.add(claim("503", 0)));
        given.fake.until(|state| state.polls_waiting == 1);
        given.fake.go_away();
        given.fake.until(|state| state.requests.iter().any(|request| request.status == 0));
        let key = given.fake.add(claim("503", 1));
        given.fake.come_back();
        assert_eq!(outputs(&given.fake.ended(&key))["retryCount"], 2, "{version:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_an_engine_that_goes_away_before_the_report_gets_it_when_it_is_back() {
    for version in BOTH {
        let mut given = Given::with(version, FakeCamunda::start(), held());
        let key = given.fake.add(claim("503", 0));
        given.asked_times(1).await;
        given.fake.go_away();
        given.rule.may_decide.add_permits(1);
        let lost =
            |request: &CamundaRequest| request.status == 0 && request.path.ends_with(version.completion());
        given.fake.until(|state| state.requests.iter().any(lost));
        given.fake.come_back();
        let job = given.fake.ended(&key);
        assert_eq!((job.status, job.handed_out), (TaskStatus::Completed, 1), "{version:?}");
    }
}
