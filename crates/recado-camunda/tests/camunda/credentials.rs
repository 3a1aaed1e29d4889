//! The worker's credentials, which only the engine may learn.

use recado_camunda::{Auth, OAuth, Rest, Secret};
use recado_testkit::camunda::{FakeCamunda, Guard, TaskStatus};
use serde_json::json;

use super::given::{BOTH, Given, Setup, Version, claim};

const SECRET: &str = "s3cr3t";

fn oauth(fake: &FakeCamunda, secret: &str) -> Auth {
    let audience = Some("zeebe-api".to_owned());
    Auth::OAuth(
        OAuth::new(&fake.url("/oauth/token"), "recado", Secret::new(secret), audience).expect("a URL"),
    )
}

fn guarded(lives_seconds: u64) -> FakeCamunda {
    let fake = FakeCamunda::start();
    fake.guard(Guard::OAuth { secret: SECRET.to_owned(), lives_seconds, revoked: 0 });
    fake
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_and_a_user_are_sent_as_http_wants_them() {
    for version in BOTH {
        let basic = Auth::Basic { user: "demo".to_owned(), password: Secret::new("demo") };
        for (auth, due) in
            [(Auth::Bearer(Secret::new(SECRET)), "Bearer s3cr3t"), (basic, "Basic ZGVtbzpkZW1v")]
        {
            let fake = FakeCamunda::start();
            fake.guard(Guard::Exactly(due.to_owned()));
            let given = Given::with(version, fake, Setup { auth, ..Setup::default() });
            let job = given.fake.ended(&given.fake.add(claim("503", 0)));
            assert_eq!(job.status, TaskStatus::Completed, "{version:?}");
            assert_eq!(given.fake.answered("", 401), 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oauth_token_serves_many_requests() {
    let fake = guarded(3_600);
    let auth = oauth(&fake, SECRET);
    let given = Given::with(Version::Eight, fake, Setup { auth, ..Setup::default() });
    for _ in 0..5 {
        given.fake.ended(&given.fake.add(claim("503", 0)));
    }
    assert_eq!(given.fake.tokens_granted(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oauth_token_that_has_expired_is_not_sent() {
    let fake = guarded(0);
    let auth = oauth(&fake, SECRET);
    let given = Given::with(Version::Eight, fake, Setup { auth, ..Setup::default() });
    given.fake.ended(&given.fake.add(claim("503", 0)));
    assert!(given.fake.tokens_granted() >= 2, "one to take the job, one to report");
    assert_eq!(given.fake.answered("", 401), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oauth_token_that_is_refused_is_renewed_at_once() {
    let fake = guarded(3_600);
    let auth = oauth(&fake, SECRET);
    let given = Given::with(Version::Eight, fake, Setup { auth, ..Setup::default() });
    given.fake.until(|state| state.polls_waiting == 1);
    given.fake.revoke_tokens();
    let job = given.fake.ended(&given.fake.add(claim("503", 0)));
    assert_eq!(job.status, TaskStatus::Completed);
    // The next poll may meet the refusal, too, or on a busy machine instead.
    let refused = given.fake.answered("/completion", 401) + given.fake.answered("/activation", 401);
    assert_ne!(refused, 0, "the fault fired");
    assert_eq!(given.fake.tokens_granted(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_show_up_in_no_message() {
    let fake = guarded(3_600);
    let rest = Rest::new(&fake.url(""), oauth(&fake, SECRET)).expect("an address");
    let basic = Auth::Basic { user: "demo".to_owned(), password: Secret::new(SECRET) };
    let shown = format!("{rest:?} {basic:?} {:?}", Auth::Bearer(Secret::new(SECRET)));
    assert!(!shown.contains(SECRET), "{shown}");
    let refused = Rest::new("http://demo:s3cr3t@localhost:8080", Auth::None).expect_err("credentials");
    assert!(!refused.to_string().contains(SECRET), "{refused}");
}

#[test]
fn an_address_has_to_be_one() {
    for wrong in ["localhost:8080", "ftp://localhost", "", "data:x"] {
        let refused = Rest::new(wrong, Auth::None).expect_err(wrong).to_string();
        assert!(refused.contains("http://localhost:8080"), "no example in {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_told_with_what_to_check_and_cost_no_job() {
    use recado_camunda::{Camunda8, EngineError, ProcessEngine, Subscription};
    let fake = guarded(3_600);
    let key = fake.add(json!({}));
    let subscription = Subscription {
        kind: recado_camunda::TYPE_DEFAULT.to_owned(),
        worker: "tester".to_owned(),
        lock: super::given::LOCK,
        poll: std::time::Duration::from_secs(1),
    };
    let engine =
        |auth| Camunda8::new(Rest::new(&fake.url("/v2/"), auth).expect("an address"), subscription.clone());
    let error = engine(oauth(&fake, "wrong")).take(1).await.expect_err("no token");
    assert!(matches!(error, EngineError::Token { .. }) && !error.to_string().contains("wrong"), "{error}");
    let error = engine(Auth::Bearer(Secret::new("wrong"))).take(1).await.expect_err("no entry");
    assert!(matches!(error, EngineError::NotAllowed { .. }) && !error.is_lasting(), "{error}");
    assert_eq!(fake.job(&key).handed_out, 0);
    let taken = engine(oauth(&fake, SECRET)).take(1).await.expect("the address may end in /v2");
    assert_eq!(taken[0].key, key);
}
