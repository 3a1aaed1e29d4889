//! Acts and reads on the audit trail: who, what and when.

use std::time::Duration;

use recado_core::{AuditEvent, AuditKind};
use recado_testkit::far_end::FarEnd;
use recado_wire::accounts::AccountQuery;
use recado_wire::calls::CallRequest;
use recado_wire::endpoints::{EndpointChange, EndpointRequest};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::given::{Answer, Kind, PATIENCE, Server, Setup, http_route, ms};

/// Kind, actor, and which endpoint or job, of each record of these kinds.
async fn acts(server: &Server, is_wanted: impl Fn(&AuditEvent) -> bool) -> Vec<(AuditKind, String, String)> {
    let shown = |act: AuditEvent| {
        (act.kind, act.actor.as_deref().unwrap_or_default().to_owned(), act.claim_id.to_string())
    };
    server.records().await.into_iter().filter(is_wanted).map(shown).collect()
}

#[tokio::test]
async fn every_act_on_an_endpoint_is_on_record_with_who_did_it() {
    for kind in [Kind::Memory, Kind::Embedded] {
        let server = crate::endpoints::server(kind).await;
        let receiver = FarEnd::agreeable();
        let client = server.client().with_actor("ana").unwrap();
        let made =
            client.add_endpoint(&EndpointRequest::new("acme", receiver.url_of::<String>("/"))).await.unwrap();
        let change = |text: &str| serde_json::from_str::<EndpointChange>(text).unwrap();
        let secret = made.secret.as_ref().unwrap().reveal().to_owned();
        let other = change(&json!({"events": ["JobSent"], "secret": secret, "enabled": false}).to_string());
        client.change_endpoint(&made.id, &other).await.unwrap();
        client.enable_endpoint(&made.id).await.unwrap();
        client.test_endpoint(&made.id).await.unwrap();
        client.remove_endpoint(&made.id).await.unwrap();
        assert!(client.remove_endpoint(&made.id).await.is_err(), "what is not done leaves no record");
        let expected = [
            AuditKind::EndpointAdded,
            AuditKind::EndpointChanged,
            AuditKind::EndpointSecretRotated,
            AuditKind::EndpointDisabled,
            AuditKind::EndpointEnabled,
            AuditKind::EndpointTested,
            AuditKind::EndpointRemoved,
        ];
        let expected = expected.map(|kind| (kind, "ana".to_owned(), made.id.to_string()));
        assert_eq!(acts(&server, |_| true).await, expected);
        let records = server.records().await;
        assert!(records.iter().all(|act| act.company_id.as_deref() == Some("acme")), "{records:?}");
        assert!(!format!("{records:?}").contains("whsec_"), "a secret is on record");
        server.stop().await;
    }
}

#[tokio::test]
async fn an_accounts_mark_is_on_record_when_it_comes_and_when_a_person_takes_it_off() {
    let provider = FarEnd::agreeable();
    let routes = vec![http_route("instagram", &provider.url_of::<String>("/"), "social")];
    let server = Server::start(Setup { routes, ..Setup::default() }).await;
    let client = server.client().with_actor("ana").unwrap();
    provider.says(401, "");
    let data = recado_core::Payload::new(r#"{"path": "/"}"#).unwrap();
    client.call_provider(&CallRequest::new("instagram", "acme", data)).await.unwrap_err();
    let marked = async {
        while client.accounts(&AccountQuery::default()).await.unwrap().items.is_empty() {
            tokio::time::sleep(ms(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, marked).await.expect("no account is marked");
    client.clear_account("instagram", "acme").await.unwrap();
    client.clear_account("instagram", "acme").await.unwrap_err();
    let records = server.records().await;
    let shown: Vec<_> = records.iter().map(|act| (act.kind, act.actor.as_deref().unwrap_or(""))).collect();
    assert_eq!(shown, [(AuditKind::AccountMarked, "recado"), (AuditKind::AccountCleared, "ana")]);
    for act in &records {
        assert_eq!((act.provider.as_deref(), act.company_id.as_deref()), (Some("instagram"), Some("acme")));
    }
}

#[tokio::test]
async fn a_read_of_one_persons_jobs_is_on_record_by_whichever_number_it_was() {
    for kind in [Kind::Memory, Kind::Embedded] {
        let server = Server::start(Setup { kind, ..Setup::default() }).await;
        server
            .enqueue(
                json!({"jobId": "a", "route": "patient", "companyId": "acme", "correlationId": "order-7",
                "data": {"script": ["ok"]}, "delayMs": 600_000}),
            )
            .await;
        for path in [
            "/v1/jobs/a/audit",
            "/v1/jobs?correlationId=order-7&companyId=acme",
            // The same again is covered, and what shows nothing is no read.
            "/v1/jobs/a/audit",
            "/v1/jobs?correlationId=order-8",
        ] {
            let request = server.http.get(server.url(path)).header("x-recado-actor", "ana");
            assert_eq!(request.send().await.unwrap().status(), 200, "{path}");
        }
        let reads: Vec<_> = server.records().await.into_iter().filter(|act| act.kind.is_read()).collect();
        let [by_job, by_correlation] = reads.as_slice() else { panic!("{reads:?}") };
        for act in [by_job, by_correlation] {
            assert_eq!((act.kind, act.actor.as_deref()), (AuditKind::PersonalDataRead, Some("ana")));
        }
        assert_eq!((by_job.job_id.as_deref(), by_job.correlation_id.as_deref()), (Some("a"), None));
        let numbers = (by_correlation.correlation_id.as_deref(), by_correlation.company_id.as_deref());
        assert_eq!(numbers, (Some("order-7"), Some("acme")), "on {kind:?}");
        server.stop().await;
    }
}

#[tokio::test]
async fn a_name_that_cannot_be_read_is_no_actor() {
    let server = Server::plain().await;
    for name in [&b"ana\trui"[..], "ana\u{85}rui".as_bytes(), b" ", b"\xff"] {
        let request = server.http.get(server.url("/v1/dlq")).header("x-recado-actor", name);
        let answer = Answer::of(request.send().await.unwrap()).await;
        answer.faults_at(&["X-Recado-Actor"]);
    }
    let request = server.http.get(server.url("/v1/dlq")).header("x-recado-actor", "Ana Conceição".as_bytes());
    assert_eq!(request.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn each_read_that_shows_payloads_is_on_record_and_no_other() {
    for kind in [Kind::Memory, Kind::Embedded] {
        let server = Server::start(Setup { kind, ..Setup::default() }).await;
        for name in ["a", "b"] {
            let job = json!({"jobId": name, "route": "sandbox", "companyId": "acme", "userId": "u-81",
                "data": {"script": ["550 no"]}});
            server.enqueue(job).await;
            let dead = async {
                let id = recado_core::JobId::new(name).unwrap();
                while server.engine.inspect().dead_letter(&id).await.unwrap().is_none() {
                    tokio::time::sleep(ms(5)).await;
                }
            };
            tokio::time::timeout(PATIENCE, dead).await.expect("it does not die");
        }
        let read = async |path: &str, actor: &str| {
            let request = server.http.get(server.url(path)).header("x-recado-actor", actor);
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 200, "{path}");
            response.text().await.unwrap()
        };
        let reads = async || acts(&server, |act| act.kind.is_read()).await;
        for quiet in ["/v1/jobs", "/v1/dlq/stats", "/v1/jobs?companyId=acme", "/v1/providers", "/metrics"] {
            read(quiet, "ana").await;
        }
        assert_eq!(reads().await, [], "nothing of a payload was shown");
        let one = |kind, actor: &str, claim: &str| (kind, actor.to_owned(), claim.to_owned());
        read("/v1/jobs/a", "ana").await;
        read("/v1/jobs/a", "ana").await;
        read("/v1/dlq/b", "ana").await;
        read("/v1/dlq/b", "rui").await;
        read("/v1/dlq?companyId=acme", "ana").await;
        read("/v1/dlq/export?companyId=acme", "ana").await;
        read("/v1/dlq/export?companyId=acme", "ana").await;
        let expected = [
            one(AuditKind::PayloadRead, "ana", "a"),
            one(AuditKind::PayloadRead, "ana", "b"),
            one(AuditKind::PayloadRead, "rui", "b"),
            one(AuditKind::PayloadRead, "ana", ""),
            one(AuditKind::DeadLettersExported, "ana", ""),
            one(AuditKind::DeadLettersExported, "ana", ""),
        ];
        assert_eq!(reads().await, expected, "on {kind:?}");
        let records = server.records().await;
        let of_a = records.iter().find(|act| act.kind == AuditKind::PayloadRead).unwrap();
        assert_eq!(of_a.user_id.as_deref(), Some("u-81"), "it is erased with the person");
        let page = records.iter().filter(|act| act.kind == AuditKind::PayloadRead).nth(3).unwrap();
        let words = page.decision.retry_reason.as_deref();
        assert_eq!(words, Some("2 dead letters shown: company acme"), "one record for a page");
        server.stop().await;
    }
}

/// The import below is made of many steps of the store. Its client goes away after the first.
#[tokio::test]
async fn an_act_is_finished_when_its_caller_hangs_up() {
    const LINES: u64 = 1_000;
    const IMPORT_ENDS: Duration = Duration::from_secs(60);
    let server = Server::start(Setup { kind: Kind::Embedded, ..Setup::default() }).await;
    let job = json!({"jobId": "seed-0000", "route": "sandbox", "companyId": "acme", "data": {"script": ["550 no"]}});
    server.enqueue(job).await;
    server.until("seed-0000", "failed").await;
    tokio::time::sleep(ms(2)).await;
    let line = server.http.get(server.url("/v1/dlq/export")).send().await.unwrap().text().await.unwrap();
    // A line of the first version has no checksum, so other ids may be written into it.
    let line = line.trim_end().replace("\"version\":2", "\"version\":1");
    assert!(line.contains("seed-0000") && line.contains("\"version\":1"), "{line}");
    let body: String =
        (0..LINES).map(|n| line.replace("seed-0000", &format!("back-{n:04}")) + "\n").collect();
    let dead = async || server.engine.inspect().counts(server.engine.now()).await.unwrap().dead_letters;

    let mut caller = server.connect().await;
    let head = format!(
        "POST /v1/dlq/import HTTP/1.1\r\nhost: {}\r\ncontent-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n",
        server.address,
        body.len()
    );
    caller.write_all(head.as_bytes()).await.unwrap();
    caller.write_all(body.as_bytes()).await.unwrap();
    let began = async {
        while dead().await == 1 {
            tokio::time::sleep(ms(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, began).await.expect("the import does not begin");
    drop(caller);
    let there = dead().await;
    assert!(there < LINES, "it had ended before the caller went away");
    let done = async {
        while dead().await < LINES + 1 {
            tokio::time::sleep(ms(20)).await;
        }
    };
    let finished = tokio::time::timeout(IMPORT_ENDS, done).await;
    assert!(finished.is_ok(), "{} of {LINES} came back, {there} when the caller went away", dead().await - 1);
    server.stop().await;
}
