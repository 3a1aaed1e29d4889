//! Rules suggested from the trail: what is archived and what is not yet count alike, and nothing personal is said.

use std::time::Duration;

use recado_core::{Class, Payload, Status, Timestamp};
use recado_engine::audit::{Suggestion, Suggestions};
use recado_engine::{Engine, Submission};
use tempfile::TempDir;

use crate::given::{Given, submission, submit};
use crate::trail::{archiving, parts, pass};

/// Submits jobs, each of a company of its own, and waits until they have failed.
async fn fail(given: &Given, engine: &Engine, ids: std::ops::Range<u32>) {
    for id in ids.clone() {
        let company_id = format!("company-{id}");
        submit(engine, Submission { company_id, ..submission(&format!("job-{id}")) }).await;
    }
    for id in ids {
        given.until(&format!("job-{id}"), Status::Failed).await;
    }
}

async fn suggested(engine: &Engine) -> Suggestions {
    // What happens at the very moment of the question is not part of the answer.
    tokio::time::sleep(Duration::from_millis(5)).await;
    engine.audit.suggest_rules(None, Timestamp::from_millis(0)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn g24_archived_and_fresh_records_are_learned_from_alike_and_once() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let engine = archiving(&given, &["ODD"], dir.path());
    fail(&given, &engine, 0..4).await;
    assert!(suggested(&engine).await.found.is_empty(), "four jobs are too few");
    pass(5).await;
    fail(&given, &engine, 4..8).await;
    let learned = suggested(&engine).await;
    let [only] = &learned.found[..] else { panic!("{learned:?}") };
    assert_eq!((only.candidate.today, only.candidate.suggested), (Class::Unknown, Class::Permanent));
    assert_eq!((only.candidate.error.count, only.candidate.error.retried_in_vain), (8 * 5, 8));
    assert_eq!(only.effect.changed, 8 * 4, "four of five attempts of each job");
    assert_eq!((learned.records, learned.read_until), (8 * 5, None));
    pass(5).await;
    assert_eq!(suggested(&engine).await.records, 8 * 5, "all are archived now");
    let later = engine.audit.suggest_rules(None, engine.now().plus(Duration::from_secs(1))).await;
    assert_eq!(later.unwrap().records, 0);
}

/// Callers that ask meanwhile would wait for minutes, and keep from other readers the memory that their answers may take.
#[tokio::test(flavor = "multi_thread")]
async fn the_trail_is_read_for_one_caller_at_a_time_and_others_are_refused() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let engine = archiving(&given, &["ODD"], dir.path());
    let ask = || engine.audit.suggest_rules(None, Timestamp::from_millis(0));
    // Polled in this order: the first waits for a thread that reads the files.
    let (first, second) = tokio::join!(biased; ask(), ask());
    assert!(first.is_ok());
    let refused = second.unwrap_err().to_string();
    assert!(refused.contains("another caller"), "{refused}");
    assert!(ask().await.is_ok(), "it is over with the first");
}

#[tokio::test(start_paused = true)]
async fn g24_a_rule_that_was_pasted_since_is_not_suggested_again() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let engine = archiving(&given, &["ODD"], dir.path());
    fail(&given, &engine, 0..8).await;
    let rule = suggested(&engine).await.found.remove(0).rule.compile();
    engine.stop().await.unwrap();
    let mut parts = parts(&given, given.store.clone(), &["ODD"], dir.path());
    let mut route = (**parts.routes.get("mail").unwrap()).clone();
    route.classifier = route.classifier.preceded_by(vec![rule]);
    parts.routes = recado_engine::Routes::new([route]);
    let engine = Engine::start(parts);
    assert!(suggested(&engine).await.found.is_empty());
}

/// The suggestions after six jobs with this payload have failed with this code, each of a company of its own or all of
/// one.
async fn after_six(code: &'static str, data: &str, companies: u32) -> Vec<Suggestion> {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let engine = archiving(&given, &[code], dir.path());
    for id in 0..6 {
        let data = Payload::new(data).unwrap();
        let company_id = format!("company-{}", id % companies);
        submit(&engine, Submission { data, company_id, ..submission(&format!("job-{id}")) }).await;
    }
    for id in 0..6 {
        given.until(&format!("job-{id}"), Status::Failed).await;
    }
    suggested(&engine).await.found
}

#[tokio::test(start_paused = true)]
async fn g24_words_of_the_payload_are_in_no_suggestion() {
    for (code, data, companies, toml, example) in [
        ("ODD", r#"{"name":"Wilhelmina"}"#, 6, r#"code = "ODD", text = "said the", "#, Some("said the …")),
        ("Wilhelmina", r#"{"name":"Wilhelmina"}"#, 6, r#"text = "said the", "#, Some("said the …")),
        ("ODD", r#"{"note":"SAIDE"}"#, 6, r#"code = "ODD", "#, Some("… the …")),
    ] {
        let found = after_six(code, data, companies).await;
        let [only] = &found[..] else { panic!("{found:?}") };
        assert_eq!(only.rule.toml(), format!(r#"classify = [{{ {toml}as = "permanent" }}]"#));
        assert_eq!(only.example.as_deref(), example);
    }
    for (code, data, companies, why) in [
        (
            "Wilhelmina",
            r#"{"name":"Wilhelmina","note":"was said the far end"}"#,
            6,
            "nothing is left to make a rule of",
        ),
        ("ODD", r#"{"name":"Wilhelmina"}"#, 2, "the code alone is too wide for the trouble of two companies"),
        ("ODD", r#"{"name":"Wilhelmina","to":"ana@example.com"}"#, 6, "and for that of one recipient"),
    ] {
        let found = after_six(code, data, companies).await;
        assert!(found.is_empty(), "{why}: {found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn g24_the_user_and_the_correlation_id_are_in_no_suggestion() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let engine = archiving(&given, &["SAID_ODD"], dir.path());
    for id in 0..6 {
        let known = submission(&format!("job-{id}"));
        let company_id = format!("company-{id}");
        let (user_id, correlation_id) = (Some("said".into()), Some("far-away".into()));
        submit(&engine, Submission { company_id, user_id, correlation_id, ..known }).await;
    }
    for id in 0..6 {
        given.until(&format!("job-{id}"), Status::Failed).await;
    }
    assert!(suggested(&engine).await.found.is_empty(), "`said the far end`: nothing is left of it");
}
