//! Stops: what was taken is finished, what cannot be finished comes back.

use std::time::Duration;

use recado_testkit::camunda::{FakeCamunda, TaskStatus};

use super::given::{BOTH, Given, LOCK, Setup, claim};

#[tokio::test(flavor = "multi_thread")]
async fn t19_a_stop_finishes_what_was_taken_and_takes_no_more() {
    for version in BOTH {
        let setup = Setup { decisions: 0, ..Setup::default() };
        let mut given = Given::with(version, FakeCamunda::start(), setup);
        let taken = given.fake.add(claim("503", 0));
        given.asked_times(1).await;
        given.fake.until(|state| state.polls_waiting == 1);
        given.stop.cancel();
        given.fake.until(|state| state.polls_waiting == 0);
        let late = given.fake.add(claim("503", 0));
        assert!(!given.working.is_finished(), "{version:?}: a job is at hand");
        given.rule.may_decide.add_permits(10);
        assert_eq!((&mut given.working).await.expect("no panic"), 0, "nothing is left behind");
        assert_eq!(given.fake.job(&taken).status, TaskStatus::Completed);
        assert_eq!(given.fake.job(&late).handed_out, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t19_what_a_stop_cannot_finish_comes_back_with_all_its_retries() {
    for version in BOTH {
        let setup = Setup { decisions: 0, stop_grace: Duration::from_millis(10), ..Setup::default() };
        let mut given = Given::with(version, FakeCamunda::start(), setup);
        let key = given.fake.add(claim("503", 0));
        given.asked_times(1).await;
        let before = given.fake.job(&key);
        given.stop.cancel();
        assert_eq!((&mut given.working).await.expect("no panic"), 1, "{version:?}: it is told of");
        let after = given.fake.job(&key);
        assert_eq!((after.status, after.retries), (TaskStatus::Open, before.retries));

        let fake = std::mem::replace(&mut given.fake, FakeCamunda::start());
        fake.advance(LOCK);
        let next = Given::with(version, fake, Setup::default());
        assert_eq!(next.fake.ended(&key).status, TaskStatus::Completed);
    }
}
