//! The engine's own back-off, long polls and the bound on jobs at hand.

use std::time::Duration;

use recado_camunda::{Mode, Rules};
use recado_testkit::camunda::{FakeCamunda, TaskStatus};

use super::given::{BOTH, Given, Setup, claim, outputs};

fn backing_off() -> Setup {
    Setup { rules: Rules { mode: Mode::Backoff, ..Rules::default() }, ..Setup::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_in_backoff_mode_the_engine_repeats_the_job_and_it_completes_then() {
    for version in BOTH {
        let given = Given::with(version, FakeCamunda::start(), backing_off());
        let key = given.fake.add(claim("TIMEOUT", 1));
        given.fake.until(|state| state.jobs[&key].message.is_some());
        let job = given.fake.job(&key);
        assert_eq!((job.status, job.retries), (TaskStatus::Open, Some(3)), "{version:?}: five less two");
        assert_eq!(job.locked_until_ms, 7 * 60_000, "the decided backoff");
        assert_eq!(job.handed_out, 1);

        given.fake.advance(Duration::from_secs(7 * 60 - 1));
        assert_eq!(given.fake.job(&key).handed_out, 1, "not yet");
        given.fake.advance(Duration::from_secs(1));
        let job = given.fake.ended(&key);
        assert_eq!((job.status.clone(), job.handed_out), (TaskStatus::Completed, 2));
        assert_eq!(outputs(&job)["retryCount"], 2);
        assert_eq!(given.asked(), 1, "one wait, one decision");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_backoff_mode_the_last_retry_is_no_incident() {
    for version in BOTH {
        let given = Given::with(version, FakeCamunda::start(), backing_off());
        let key = given.fake.add(claim("TIMEOUT", 4));
        given.fake.until(|state| state.jobs[&key].message.is_some());
        assert_eq!(given.fake.job(&key).retries, Some(1), "{version:?}");
        given.fake.advance(Duration::from_secs(7 * 60));
        assert_eq!(outputs(&given.fake.ended(&key))["retryCount"], 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_backoff_mode_refused_claims_do_not_wait() {
    for version in BOTH {
        let given = Given::with(version, FakeCamunda::start(), backing_off());
        let job = given.fake.ended(&given.fake.add(claim("TIMEOUT", 5)));
        assert_eq!((job.status, job.handed_out), (TaskStatus::Thrown, 1), "{version:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_another_task_left_behind_is_not_used() {
    for version in BOTH {
        let given = Given::with(version, FakeCamunda::start(), backing_off());
        let first = given.fake.add(claim("TIMEOUT", 0));
        given.fake.until(|state| state.jobs[&first].message.is_some());
        let note = given.fake.job(&first).local("recadoDecision");
        let mut variables = claim("TIMEOUT", 3);
        variables["recadoDecision"] = note;
        let second = given.fake.add(variables);
        given.fake.until(|state| state.jobs[&second].message.is_some());
        assert_eq!(given.fake.job(&second).retries, Some(1), "{version:?}: decided anew, from its own count");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_taken_by_the_poll_that_waits_for_it() {
    for version in BOTH {
        let given = Given::usual(version);
        given.fake.until(|state| state.polls_waiting == 1);
        assert!(given.fake.requests(version.taking()).is_empty(), "none is answered yet");
        given.fake.ended(&given.fake.add(claim("503", 0)));
        let polls = given.fake.requests(version.taking());
        assert_eq!(polls.len(), 1, "{polls:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_without_a_job_is_followed_by_the_next() {
    for version in BOTH {
        let setup = Setup { poll: Duration::from_millis(20), ..Setup::default() };
        let given = Given::with(version, FakeCamunda::start(), setup);
        given.fake.until(|state| state.requests.len() >= 3);
        assert_eq!(given.fake.answered(version.taking(), 200), given.fake.requests("").len());
        let job = given.fake.ended(&given.fake.add(claim("503", 0)));
        assert_eq!(job.status, TaskStatus::Completed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_jobs_are_at_hand_than_allowed() {
    for version in BOTH {
        let setup = Setup { tasks_max: 3, decisions: 0, ..Setup::default() };
        let given = Given::with(version, FakeCamunda::start(), setup);
        let keys: Vec<_> = (0..10).map(|_| given.fake.add(claim("503", 0))).collect();
        given.asked_times(3).await;
        for decided in 1..=7 {
            given.rule.may_decide.add_permits(1);
            given.asked_times(3 + decided).await;
            let jobs = keys.iter().map(|key| given.fake.job(key));
            let at_hand = jobs.filter(|job| job.handed_out == 1 && job.status == TaskStatus::Open).count();
            assert!(at_hand <= 3, "{version:?}: {at_hand} at a time");
        }
        given.rule.may_decide.add_permits(3);
        for key in keys {
            assert_eq!(given.fake.ended(&key).handed_out, 1);
        }
    }
}
