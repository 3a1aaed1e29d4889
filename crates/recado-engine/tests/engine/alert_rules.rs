//! The rules as they come, at the pace that they come with, and the real engine: what no test could wait for.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{RouteName, Timestamp};
use recado_engine::notify::notices::{Channel, Notices};
use recado_engine::{Carrier, Engine, EngineError, Parts, Random, Route, Routes, Settings, Submission};
use recado_store::StoreError;
use recado_store_conformance::faulty::{FaultyStore, Verb};

use crate::flaky::sleep;
use crate::given::{Given, Scripted, route, settings, submission, submit};

fn rings(engine: &Engine) -> Vec<Box<str>> {
    engine.alerts.firing().into_iter().map(|alert| alert.alert).collect()
}

#[tokio::test(start_paused = true)]
async fn e10_a_job_that_is_not_claimed_rings_after_five_minutes_and_the_patience_and_not_before() {
    let given = Given::new();
    // The first job has the only slot for six and a half minutes.
    let slow = Arc::new(Scripted::slow(Duration::from_secs(390)));
    let lane = Route { timeout: Duration::from_secs(900), ..route("mail", Carrier::Transport(slow)) };
    let engine = given.engine([Route { concurrency: 1, ..lane }]);
    submit(&engine, submission("first")).await;
    submit(&engine, submission("a")).await;
    sleep(300).await;
    assert!(rings(&engine).is_empty());
    sleep(55).await;
    assert!(rings(&engine).is_empty(), "above its threshold for less than a minute");
    sleep(30).await;
    assert_eq!(rings(&engine), ["queue_age".into()]);
    sleep(280).await;
    assert_eq!(rings(&engine), ["queue_age".into()], "calm for less than five minutes");
    sleep(60).await;
    assert!(rings(&engine).is_empty());
}

#[tokio::test(start_paused = true)]
async fn e10_attempts_that_take_five_minutes_ring_and_a_little_less_does_not() {
    for (seconds, expected) in [(299, Vec::new()), (301, vec![Box::<str>::from("processing_time")])] {
        let given = Given::new();
        let slow = Arc::new(Scripted::slow(Duration::from_secs(seconds)));
        let lane = Route { timeout: Duration::from_secs(900), ..route("mail", Carrier::Transport(slow)) };
        let engine = given.engine([Route { concurrency: 20, ..lane }]);
        for number in 0..20 {
            submit(&engine, submission(&format!("job-{number:02}"))).await;
        }
        sleep(seconds + 180).await;
        assert_eq!(rings(&engine), expected, "{seconds} s");
    }
}

/// An engine that tells of alerts by this far end.
fn telling(given: &Given, store: Arc<FaultyStore>, far_end: &Arc<Scripted>) -> Engine {
    let email = Channel::Email {
        route: RouteName::new("notices").unwrap(),
        from: "recado@example.com".into(),
        to: vec!["ops@example.com".into()],
    };
    let notices = Notices {
        channels: [("ops".into(), email)].into(),
        alerts: vec!["ops".into()],
        ..Notices::default()
    };
    let routes =
        Routes::new([route("work", Carrier::Workers), route("notices", Carrier::Transport(far_end.clone()))]);
    let settings = Settings { notices, ..settings() };
    Engine::start(Parts::new(store, routes, settings, given.clock.clone(), Random::from_seed(7)))
}

#[tokio::test(start_paused = true)]
async fn g14_that_the_store_takes_nothing_is_told_past_it_and_the_notice_causes_no_other() {
    let given = Given::new();
    let store = Arc::new(FaultyStore::around(given.store.clone()));
    // The far end is not well at first: it is asked again, as for any other notice.
    let far_end = Arc::new(Scripted::new(&["421", "ok"]));
    let engine = telling(&given, store.clone(), &far_end);
    store.fail(Verb::Enqueue, 0, usize::MAX, StoreError::Full("no room".to_owned()));
    let refused =
        engine.intake.submit(vec![Submission { route: "work".to_owned(), ..submission("a") }]).await;
    assert!(matches!(refused, Err(EngineError::Store(StoreError::Full(_)))));
    sleep(60).await;
    assert_eq!(rings(&engine), ["rejected_writes".into()]);
    assert!(store.fired(Verb::Enqueue) >= 2, "the job and the notice were refused");
    let calls = far_end.calls.lock().clone();
    let tries: Vec<_> = calls.iter().map(|(id, attempt, _)| (id.as_str(), *attempt)).collect();
    assert!(matches!(tries[..], [(first, 1), (second, 2)] if first == second), "{tries:?}");

    // Nothing else is refused for ten minutes: it is over, although the notice of that is refused, too.
    sleep(900).await;
    assert!(rings(&engine).is_empty());
    assert_eq!(far_end.count(), 4, "one notice that it rings, one that it is over, two tries each");
    let last: Timestamp = far_end.calls.lock()[3].2;
    sleep(3_600).await;
    assert!(far_end.calls.lock().iter().all(|(_, _, at)| *at <= last), "it does not ring for its own notice");
}
