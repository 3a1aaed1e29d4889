//! A provider asked while the caller waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use recado_core::{CompanyId, Fault, Outcome, Payload, Status};
use recado_engine::attempt::calls::{Call, CallRefused, Called};
use recado_engine::{Act, Carrier, Engine, Fallback, Route};
use recado_transport::{DataFault, Delivery, Transport, TransportKind, Wanted};

use crate::given::{Given, Scripted, route};

/// Answers with a number that grows, as long as it is well.
#[derive(Debug, Default)]
struct Counter {
    asked: AtomicUsize,
    fails_from: usize,
    fails_until: usize,
}

#[async_trait]
impl Transport for Counter {
    fn kind(&self) -> TransportKind {
        TransportKind::Custom("counter")
    }

    fn check(&self, data: &Payload) -> Result<(), Vec<DataFault>> {
        if data.as_str() == "{}" {
            return Ok(());
        }
        Err(vec![DataFault { pointer: "/x".to_owned(), message: "is wrong; leave it out".to_owned() }])
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        assert_eq!(delivery.answer, Wanted::Answer, "a caller waits for it, or it renews a caller's answer");
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        if (self.fails_from..self.fails_until).contains(&asked) {
            return Outcome::Failed(Fault::answer("421", "try later"));
        }
        Outcome::Accepted { answer: Some(Payload::trusted(format!("{{\"n\":{asked}}}"))) }
    }
}

fn call(key: Option<&str>) -> Call {
    Call {
        route: "mail".to_owned(),
        company_id: CompanyId::new("acme").unwrap(),
        data: Payload::trusted("{}"),
        timeout: None,
        cache_key: key.map(str::to_owned),
        traceparent: None,
    }
}

async fn called(engine: &Engine, call: Call) -> Called {
    engine.attempts.call(call).await.unwrap().unwrap()
}

fn engine(given: &Given, counter: Counter) -> Engine {
    given.engine([route("mail", Carrier::Transport(Arc::new(counter)))])
}

#[tokio::test(start_paused = true)]
async fn a_call_hears_the_providers_answer_and_leaves_no_job_behind() {
    let given = Given::new();
    let engine = engine(&given, Counter::default());
    let Called::Answered { answer, .. } = called(&engine, call(None)).await else { panic!("no answer") };
    assert_eq!(answer.unwrap().as_str(), "{\"n\":0}");
    let counts = engine.inspect().counts(engine.now()).await.unwrap();
    assert_eq!((counts.ready, counts.delayed, counts.ended), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn f12_a_failed_call_gets_the_last_good_answer_with_its_age_and_a_retry_renews_it() {
    let given = Given::new();
    let engine = engine(&given, Counter { fails_from: 1, fails_until: 3, ..Counter::default() });
    called(&engine, call(Some("followers"))).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    let Called::Cached { answer, age, failure, retry } = called(&engine, call(Some("followers"))).await
    else {
        panic!("not from the cache")
    };
    assert_eq!(answer.as_str(), "{\"n\":0}");
    assert_eq!(age.as_secs(), 100);
    assert_eq!(failure.code.as_deref(), Some("421"), "why is not hidden");
    // The retry fails once more, then renews the answer.
    given.until(retry.unwrap().as_str(), Status::Sent).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    engine.stop().await.unwrap();
    let down = given.mail(&Arc::new(Scripted::new(&["421"])));
    let Called::Cached { answer, .. } = called(&down, call(Some("followers"))).await else {
        panic!("not from the cache")
    };
    assert_eq!(answer.as_str(), "{\"n\":3}", "renewed, and kept over a restart");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_remembered_for_its_company_and_key_alone() {
    let given = Given::new();
    let engine = engine(&given, Counter { fails_from: 1, fails_until: 9, ..Counter::default() });
    called(&engine, call(Some("followers"))).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let other_company = Call { company_id: CompanyId::new("globex").unwrap(), ..call(Some("followers")) };
    for asked in [call(Some("likes")), other_company, call(None)] {
        assert!(matches!(called(&engine, asked).await, Called::Unavailable { .. }));
    }
}

#[tokio::test(start_paused = true)]
async fn f12_a_failed_call_without_an_older_answer_hears_when_to_come_back() {
    let given = Given::new();
    let engine = given.mail(&Arc::new(Scripted::new(&["421"])));
    let Called::Unavailable { failure, retry_after } = called(&engine, call(Some("x"))).await else {
        panic!("an answer from nowhere")
    };
    assert_eq!((failure.rule.as_ref(), retry_after), ("smtp/421", Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn f12_a_route_whose_fallback_is_503_never_answers_from_the_cache() {
    let given = Given::new();
    let counter = Arc::new(Counter { fails_from: 1, fails_until: 9, ..Counter::default() });
    let fallback = Fallback { act: Act::Unavailable, ..Fallback::default() };
    let engine = given.engine([Route { fallback, ..route("mail", Carrier::Transport(counter)) }]);
    called(&engine, call(Some("poem"))).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(matches!(called(&engine, call(Some("poem"))).await, Called::Unavailable { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_caller_waits_as_long_as_it_says_and_never_longer_than_the_route() {
    let given = Given::new();
    let engine = given.mail(&Arc::new(Scripted::slow(Duration::from_secs(3_600))));
    for (asked, waited) in
        [(Some(Duration::from_secs(2)), 2), (Some(Duration::from_secs(300)), 30), (None, 30)]
    {
        let started = engine.now();
        let outcome = called(&engine, Call { timeout: asked, ..call(None) }).await;
        assert!(
            matches!(outcome, Called::Unavailable { failure, .. } if failure.code.as_deref() == Some("TIMEOUT"))
        );
        assert_eq!(engine.now().since(started).as_secs(), waited);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_called_is_refused_with_the_reason() {
    let given = Given::new();
    let engine = given.engine([
        route("mail", Carrier::Transport(Arc::new(Counter::default()))),
        route("work", Carrier::Workers),
    ]);
    let to = |route: &str| Call { route: route.to_owned(), ..call(None) };
    for (asked, words) in [(to("work"), "workers"), (to("nowhere"), "no route `nowhere`")] {
        let refused = engine.attempts.call(asked).await.unwrap().unwrap_err();
        assert!(matches!(&refused, CallRefused::Route(why) if why.contains(words)), "{refused:?}");
    }
    let wrong = Call { data: Payload::trusted("{\"x\":1}"), ..call(None) };
    assert!(
        matches!(engine.attempts.call(wrong).await.unwrap().unwrap_err(), CallRefused::Data(faults) if faults.len() == 1)
    );
}
