//! Effects of an attempt: events, callbacks, notices, marks, counts.

use recado_store::prelude::*;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{EventKind, JobId, RouteName, Status};
use recado_engine::dlq::operator::Replay;
use recado_engine::endpoint_admin::EndpointDraft;
use recado_engine::notify::notices::{Channel, NOTICES_COMPANY, Notices};
use recado_engine::{Act, Carrier, Engine, Fallback, Parts, Route, Routes};
use recado_store::{JobFilter, PageRequest};
use recado_transport_webhook::{Guard, Webhook, WebhookConfig};

use crate::given::{Given, Scripted, route, settings, submission, submit};

/// An engine with route `mail`, and route `webhook` whose transport is real (and goes nowhere).
fn with_webhooks(given: &Given, mail: Route) -> Engine {
    let allowed = vec!["127.0.0.0/8".parse().unwrap()];
    let guard = Guard { allowed, ..Guard::default() };
    let mut parts = Parts::new(
        given.store.clone(),
        Routes::new([]),
        settings(),
        given.clock.clone(),
        recado_engine::Random::from_seed(7),
    );
    let config = WebhookConfig { guard, ..WebhookConfig::default() };
    let webhook = Arc::new(Webhook::new(config, parts.endpoints.clone()).unwrap());
    parts.routes = Routes::new([mail, route("webhook", Carrier::Transport(webhook.clone()))]);
    parts.webhook = Some(webhook);
    Engine::start(parts)
}

fn draft(events: &[&str]) -> EndpointDraft {
    EndpointDraft {
        company_id: Some("acme".to_owned()),
        url: Some("http://127.0.0.1:9/hooks".to_owned()),
        events: Some(events.iter().map(|name| (*name).to_owned()).collect()),
        ..EndpointDraft::default()
    }
}

async fn jobs_of(given: &Given, route: &str) -> Vec<recado_store::JobView> {
    let filter = JobFilter { route: Some(RouteName::new(route).unwrap()), ..JobFilter::default() };
    let page = PageRequest { before: None, limit: 100 };
    given.store.jobs(filter, page, recado_engine::Clock::now(&*given.clock)).await.unwrap().items
}

#[tokio::test(start_paused = true)]
async fn w6_a_listener_hears_what_became_of_a_job() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["421", "550"]));
    let engine = given.mail(&far_end);
    let mut listening = engine.notifier.events.listen(None);
    submit(&engine, submission("a")).await;
    given.until("a", Status::Failed).await;
    let first = listening.receiver.recv().await.unwrap();
    let second = listening.receiver.recv().await.unwrap();
    assert_eq!((first.kind, second.kind), (EventKind::JobRetryScheduled, EventKind::JobFailed));
    assert_eq!(second.data.job.job_id.as_deref(), Some("a"));
    assert_eq!(second.data.job.correlation_id, given.view("a").await.job.correlation_id);
    assert_eq!(
        engine.dlq.replay(&JobId::new("a").unwrap(), None, None, Some("ana")).await.unwrap(),
        Replay::Started
    );
    let third = listening.receiver.recv().await.unwrap();
    assert_eq!((third.kind, third.data.actor.as_deref()), (EventKind::JobReplayed, Some("ana")));
}

#[tokio::test(start_paused = true)]
async fn w6_a_subscribed_endpoint_gets_a_job_of_its_own_for_each_event_and_only_for_its_company() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["550"]));
    let engine = with_webhooks(&given, route("mail", Carrier::Transport(far_end)));
    let endpoint = engine.endpoint_admin.add(draft(&["JobFailed"]), "ana").await.unwrap();
    let other = EndpointDraft { company_id: Some("globex".to_owned()), ..draft(&[]) };
    engine.endpoint_admin.add(other, "ana").await.unwrap();
    submit(&engine, submission("a")).await;
    given.until("a", Status::Failed).await;
    let callbacks = jobs_of(&given, "webhook").await;
    assert_eq!(callbacks.len(), 1, "acme's endpoint, once");
    let job = &callbacks[0].job;
    assert_eq!(job.company.as_str(), "acme");
    let data: serde_json::Value = job.data.parse().unwrap();
    assert_eq!(data["endpointId"], *endpoint.id);
    assert_eq!((&data["event"], &data["payload"]["type"]), (&"JobFailed".into(), &"JobFailed".into()));
    assert_eq!(data["payload"]["data"]["jobId"], "a");
    assert!(job.id.as_str().ends_with(&*endpoint.id), "the same id however often it is told");
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_a_callback_is_told_to_no_endpoint() {
    let given = Given::new();
    let engine = with_webhooks(&given, route("mail", Carrier::Transport(Arc::new(Scripted::default()))));
    engine.endpoint_admin.add(draft(&[]), "ana").await.unwrap();
    submit(&engine, submission("a")).await;
    given.until("a", Status::Sent).await;
    // No server listens on port 9: the callback fails until it is dead.
    let callback = jobs_of(&given, "webhook").await.pop().unwrap();
    given.until(callback.job.id.as_str(), Status::Failed).await;
    assert_eq!(jobs_of(&given, "webhook").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn f12_an_endpoint_is_switched_off_after_ten_failures_in_a_row() {
    let given = Given::new();
    let engine = with_webhooks(&given, route("mail", Carrier::Transport(Arc::new(Scripted::default()))));
    let endpoint = engine.endpoint_admin.add(draft(&["JobSent"]), "ana").await.unwrap();
    let mut listening = engine.notifier.events.listen(None);
    for n in 0..3 {
        submit(&engine, submission(&format!("job-{n}"))).await;
    }
    let disabled = loop {
        let event = listening.receiver.recv().await.unwrap();
        if event.kind == EventKind::EndpointDisabled {
            break event;
        }
    };
    assert_eq!(
        (disabled.data.failures, disabled.data.endpoint_id.as_deref()),
        (Some(10), Some(&*endpoint.id))
    );
    let now = engine.notifier.endpoints.get(&endpoint.id).unwrap();
    assert!(!now.enabled);
    assert_eq!(now.disabled_reason.as_deref(), Some("10 deliveries in a row failed"));
    // The store knows as well: a restart does not switch it on again.
    let kept = given
        .store
        .kv_get(recado_engine::notify::endpoints::NAMESPACE, &endpoint.id, engine.now())
        .await
        .unwrap();
    assert!(kept.unwrap().value.as_str().contains("\"enabled\":false"));
    let on = EndpointDraft { enabled: Some(true), ..EndpointDraft::default() };
    let again = engine.endpoint_admin.change(&endpoint.id, on, "ana").await.unwrap();
    assert!(again.enabled && again.failures == 0 && again.disabled_reason.is_none());
}

#[tokio::test(start_paused = true)]
async fn no_company_can_switch_off_another_companys_endpoint_by_naming_it() {
    let given = Given::new();
    let engine = with_webhooks(&given, route("mail", Carrier::Transport(Arc::new(Scripted::default()))));
    let endpoint = engine.endpoint_admin.add(draft(&[]), "ana").await.unwrap();
    for n in 0..12 {
        let id = format!("evil-{n}");
        let data = format!("{{\"endpointId\":\"{}\",\"event\":\"x\",\"payload\":{{}}}}", endpoint.id);
        let evil = recado_engine::Submission {
            route: "webhook".to_owned(),
            company_id: "mallory".to_owned(),
            data: recado_core::Payload::trusted(data),
            ..submission(&id)
        };
        submit(&engine, evil).await;
        let view = given.until(&id, Status::Failed).await;
        assert_eq!(view.job.attempts[0].error_code.as_deref(), Some("ENDPOINT_UNKNOWN"));
    }
    let now = engine.notifier.endpoints.get(&endpoint.id).unwrap();
    assert!(now.enabled && now.failures == 0);
}

#[tokio::test(start_paused = true)]
async fn t12_t13_e7_a_dead_letter_is_told_to_the_routes_channel_and_the_notice_causes_no_other() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["550"]));
    let inbox = Arc::new(Scripted::new(&["550"]));
    let fallback = Fallback { notify: Some("billing".into()), ..Fallback::default() };
    let mail = Route { fallback, ..route("mail", Carrier::Transport(far_end)) };
    let email = Channel::Email {
        route: RouteName::new("notices").unwrap(),
        from: "recado@example.com".into(),
        to: vec!["billing@example.com".into()],
    };
    let channels = [("billing".into(), email)].into();
    let settings =
        recado_engine::Settings { notices: Notices { channels, ..Notices::default() }, ..settings() };
    let engine = given.engine_with([mail, route("notices", Carrier::Transport(inbox.clone()))], settings);
    submit(&engine, submission("a")).await;
    given.until("a", Status::Failed).await;
    let notices = jobs_of(&given, "notices").await;
    assert_eq!(notices.len(), 1);
    let notice = &notices[0].job;
    assert_eq!(notice.company.as_str(), NOTICES_COMPANY);
    let data: serde_json::Value = notice.data.parse().unwrap();
    assert_eq!(data["subject"], "Recado: JobFailed (route mail, company acme)");
    assert!(data["text"].as_str().unwrap().contains("recado dlq show a"));
    given.until(notice.id.as_str(), Status::Failed).await;
    assert_eq!(jobs_of(&given, "notices").await.len(), 1, "a dead notice is not told");
}

#[tokio::test(start_paused = true)]
async fn f12_a_refused_credential_marks_the_account_once() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["535"]));
    let engine = given.mail(&far_end);
    let mut listening = engine.notifier.events.listen(None);
    for id in ["a", "b"] {
        submit(&engine, submission(id)).await;
        given.until(id, Status::Failed).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let marked = engine.notifier.accounts.list(Some("acme"));
    assert_eq!(marked.len(), 1);
    assert_eq!(
        (&*marked[0].provider, &*marked[0].status, &*marked[0].job_id),
        ("mail", "token_expired", "a")
    );
    let mut marks = 0;
    while let Ok(event) = listening.receiver.try_recv() {
        marks += usize::from(event.kind == EventKind::TokenExpired);
    }
    assert_eq!(marks, 1, "told once");
}

#[tokio::test(start_paused = true)]
async fn f12_a_token_refresh_that_fails_for_good_marks_the_account_whatever_the_reason() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["550"]));
    let fallback = Fallback { act: Act::MarkAccount, ..Fallback::default() };
    let engine = given.engine([Route { fallback, ..route("mail", Carrier::Transport(far_end)) }]);
    submit(&engine, submission("a")).await;
    given.until("a", Status::Failed).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(engine.notifier.accounts.list(None).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn marks_and_endpoints_are_there_after_a_restart() {
    let given = Given::new();
    let engine = given.mail(&Arc::new(Scripted::new(&["535"])));
    submit(&engine, submission("a")).await;
    given.until("a", Status::Failed).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    engine.stop().await.unwrap();
    let routes = Routes::new([route("mail", Carrier::Transport(Arc::new(Scripted::default())))]);
    let chance = recado_engine::Random::from_seed(7);
    let mut parts = Parts::new(given.store.clone(), routes, settings(), given.clock.clone(), chance);
    parts.read_back().await.unwrap();
    let engine = Engine::start(parts);
    assert_eq!(engine.notifier.accounts.list(None).len(), 1);
    submit(&engine, submission("b")).await;
    given.until("b", Status::Sent).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(engine.notifier.accounts.list(None).is_empty(), "it works again");
}

#[tokio::test(start_paused = true)]
async fn names_that_are_our_own_are_refused_to_callers() {
    let given = Given::new();
    let engine = given.mail(&Arc::new(Scripted::default()));
    for (id, company, pointer) in [
        ("evt_00000000000000000000000000000000-ep_1", "acme", "/jobId"),
        ("refresh:63d4143780c957e69ab9a68fe1d59946:1", "acme", "/jobId"),
        ("fine", NOTICES_COMPANY, "/companyId"),
    ] {
        let given = recado_engine::Submission { company_id: company.to_owned(), ..submission(id) };
        let refused = engine.intake.submit(vec![given]).await.unwrap().remove(0).unwrap_err();
        let recado_engine::SubmitRefusal::Invalid(faults) = refused else { panic!("{refused:?}") };
        assert_eq!(faults.iter().map(|(pointer, _)| pointer.as_str()).collect::<Vec<_>>(), [pointer], "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn f12_what_tells_of_a_mark_or_a_switched_off_endpoint_is_settled_with_the_failure_itself() {
    let given = Given::new();
    let far_end = Arc::new(Scripted::new(&["535"]));
    let engine = with_webhooks(&given, route("mail", Carrier::Transport(far_end)));
    engine.endpoint_admin.add(draft(&["token_expired"]), "ana").await.unwrap();
    submit(&engine, submission("a")).await;
    given.until("a", Status::Failed).await;
    // The moment the failure is on record the callback is, too.
    let callbacks = jobs_of(&given, "webhook").await;
    assert_eq!(callbacks.len(), 1);
    assert!(callbacks[0].job.data.as_str().contains("token_expired"));
}
