//! Erasing a person reaches what Recado made of their jobs: callbacks and notices.

use recado_store::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use recado_audit::{Identity, MONTHS_KEPT, Subject};
use recado_core::{RouteName, Status};
use recado_engine::audit::{Erased, Erasing, ErasureOrder, TrailTerms};
use recado_engine::endpoint_admin::EndpointDraft;
use recado_engine::notify::notices::{Channel, Notices, Shape};
use recado_engine::{Carrier, Engine, Fallback, Parts, Random, Route, Routes, Settings, Submission};
use recado_store::{AuditSpan, DeadLetterFilter, JobFilter, PageRequest};
use recado_transport_webhook::{Guard, Webhook, WebhookConfig};
use tempfile::TempDir;

use crate::given::{Given, Scripted, route, settings, submission, submit};
use crate::trail::{pass, written};

/// An engine whose jobs die, with an endpoint of `acme` and two channels for notices without an answer.
async fn telling(given: &Given, dir: &Path) -> Engine {
    let (hook, mail) = (RouteName::new("webhook").unwrap(), RouteName::new("notices").unwrap());
    let channels = BTreeMap::from([
        ("hook".into(), Channel::Webhook { route: hook, endpoint: "ops".into(), shape: Shape::Event }),
        ("mail".into(), Channel::Email { route: mail, from: "r@x.test".into(), to: vec!["o@x.test".into()] }),
    ]);
    let notices = Notices { channels, default: Some("hook".into()), alerts: Vec::new() };
    let settings = Settings { notices, ..settings() };
    let mut parts =
        Parts::new(given.store.clone(), Routes::new([]), settings, given.clock.clone(), Random::from_seed(7));
    let guard = Guard { allowed: vec!["127.0.0.0/8".parse().unwrap()], ..Guard::default() };
    let config = WebhookConfig { guard, ..WebhookConfig::default() };
    let webhook = Arc::new(Webhook::new(config, parts.endpoints.clone()).unwrap());
    let dying = |name: &str| route(name, Carrier::Transport(Arc::new(Scripted::new(&["550"; 9]))));
    let by_mail = Fallback { notify: Some("mail".into()), ..Fallback::default() };
    let jobs = [dying("mail"), Route { fallback: by_mail, ..dying("told-by-mail") }, dying("notices")];
    let webhooks = route("webhook", Carrier::Transport(webhook.clone()));
    parts.routes = Routes::new(jobs.into_iter().chain([webhooks]));
    parts.webhook = Some(webhook);
    parts.trail = Some(TrailTerms { dir: dir.to_owned(), key: None, months_kept: MONTHS_KEPT });
    let engine = Engine::start(parts);
    let endpoint = EndpointDraft {
        company_id: Some("acme".to_owned()),
        url: Some("http://127.0.0.1:9/hooks".to_owned()),
        ..EndpointDraft::default()
    };
    engine.endpoint_admin.add(endpoint, "ana").await.unwrap();
    engine
}

/// Everything that the store can tell, in one text.
async fn all_in(given: &Given) -> String {
    let (store, now) = (&given.store, given.clock_now());
    let page = PageRequest { before: None, limit: 1_000 };
    let jobs = store.jobs(JobFilter::default(), page, now).await.unwrap().items;
    let dead = store.dead_letters(DeadLetterFilter::default(), page).await.unwrap().items;
    let span = AuditSpan { part: 0, after: 0, newest_first: false };
    let records = store.audit_records(span, 1_000).await.unwrap();
    let data: Vec<_> = jobs.iter().map(|view| view.job.data.as_str().to_owned()).collect();
    let letters: Vec<_> = dead.iter().map(|entry| entry.original_data.as_str().to_owned()).collect();
    format!("{jobs:?}\n{dead:?}\n{records:?}\n{data:?}\n{letters:?}")
}

fn of_maria(id: &str, on: &str) -> Submission {
    let (user_id, correlation_id) = (Some("maria".into()), Some("order-1".into()));
    Submission { user_id, correlation_id, route: on.to_owned(), ..submission(id) }
}

fn erasure(identity: Identity) -> ErasureOrder {
    let subject = Subject { identity, company: Some("acme".into()) };
    ErasureOrder { subject, reason: "LGPD 17".into(), actor: "ana".into(), with_jobs: false }
}

async fn erased(engine: &Engine, identity: Identity) -> Erased {
    for _ in 0..100 {
        match engine.audit.erase(erasure(identity.clone())).await.unwrap() {
            Erasing::Done(erased) => return erased,
            Erasing::JobsUnderWay(_) => pass(1).await,
            other => panic!("{other:?}"),
        }
    }
    panic!("something is under way for ever");
}

/// Two dead jobs of Maria's and one of another person, each told to the endpoint and to a channel.
async fn dead_jobs(given: &Given, engine: &Engine) {
    let joao = Submission { user_id: Some("joao".into()), ..submission("others") };
    for job in [of_maria("dead-1", "mail"), of_maria("dead-2", "told-by-mail"), joao] {
        let id = job.job_id.clone().unwrap();
        submit(engine, job).await;
        given.until(&id, Status::Failed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn callbacks_and_notices_that_wait_go_with_the_person() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let engine = telling(&given, dir.path()).await;
    drop(engine.notifier.events.listen(None));
    dead_jobs(&given, &engine).await;
    let before = all_in(&given).await;
    assert!(before.contains(r#"\"userId\":\"maria\""#) && before.contains("userId: maria"), "{before}");
    let done = erased(&engine, Identity::User("maria".into())).await;
    assert_eq!((done.jobs_forgotten, done.follow_ups), (2, 4), "two callbacks, two notices: {done:?}");
    let after = all_in(&given).await;
    assert!(!after.contains("maria") && !after.contains("order-1"), "{after}");
    assert!(after.contains(r#"\"userId\":\"joao\""#), "another person's callback is gone: {after}");
    let kept = format!("{:?}", engine.notifier.events.listen(Some("none")).missed);
    assert!(kept.contains("joao") && !kept.contains("maria"), "{kept}");
}

#[tokio::test(start_paused = true)]
async fn callbacks_and_notices_that_died_go_with_the_person_from_store_and_files() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let engine = telling(&given, dir.path()).await;
    dead_jobs(&given, &engine).await;
    // No receiver answers: after their five attempts all of them have died, too.
    pass(600).await;
    let page = PageRequest { before: None, limit: 1_000 };
    let dead = given.store.dead_letters(DeadLetterFilter::default(), page).await.unwrap().items;
    let of_maria = dead.iter().filter(|entry| entry.original_data.as_str().contains("maria"));
    assert_eq!(of_maria.count(), 6, "two callbacks, two notices of her jobs, two of the callbacks: {dead:?}");
    let done = erased(&engine, Identity::User("maria".into())).await;
    assert_eq!((done.dead_letters_discarded, done.follow_ups), (2, 6), "{done:?}");
    let after = all_in(&given).await;
    assert!(!after.contains("maria") && !after.contains("order-1"), "{after}");
    assert!(!written(dir.path()).is_empty());
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("maria") && !text.contains("order-1"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_tells_of_one_job_goes_with_that_job() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let engine = telling(&given, dir.path()).await;
    dead_jobs(&given, &engine).await;
    let done = erased(&engine, Identity::Job("dead-1".into())).await;
    assert_eq!((done.jobs_forgotten, done.follow_ups), (1, 2), "{done:?}");
    let after = all_in(&given).await;
    assert!(!after.contains("dead-1") && after.contains("dead-2"), "{after}");
}
