//! The typed client, call by call.

use std::time::Duration;

use recado_client::wire::Code;
use recado_client::wire::accounts::AccountQuery;
use recado_client::wire::calls::CallRequest;
use recado_client::wire::decisions::{DecisionErrorCode, DecisionRequest};
use recado_client::wire::dlq::{DeadLetterFilter, DeadLetterQuery, DeadLetterStatsQuery, ReplayRequest};
use recado_client::wire::endpoints::{Endpoint, EndpointChange, EndpointQuery, EndpointRequest};
use recado_client::wire::events::EventKind;
use recado_client::wire::health::Ready;
use recado_client::wire::jobs::{JobQuery, WaitingFor};
use recado_client::wire::leases::{FailRequest, LeaseRequest, SettleRequest, SucceedRequest};
use recado_client::{Client, ClientError, JobRequest, Payload};
use recado_core::dead_letter::GroupBy;
use recado_core::{Class, CompanyId, DeadLetterState, Status};
use recado_testkit::far_end::FarEnd;
use recado_testkit::fault_proxy::Proxy;
use recado_testkit::free_port;
use recado_testkit::http::raw;
use tokio::net::TcpListener;

use crate::endpoints;
use crate::given::{Kind, PATIENCE, Server, Setup, http_route, ms, on_each_store};

pub fn job(route: &str, data: &str) -> JobRequest {
    JobRequest::new(route, "acme", Payload::new(data).unwrap())
}

fn leasing() -> LeaseRequest {
    let routes = vec!["work".to_owned()];
    LeaseRequest { routes, max: Some(10), wait_ms: None, lease_ms: None, worker_id: "w".to_owned() }
}

async fn until(client: &Client, id: &str, status: Status) {
    let reached = async {
        while client.job(id).await.unwrap().status != status {
            tokio::time::sleep(ms(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("{id} is not {status}"));
}

#[tokio::test]
async fn a_job_goes_in_is_looked_at_listed_and_cancelled() {
    on_each_store(async |server: &Server| {
        let client = server.client().with_actor("cli:ana").unwrap();
        let accepted = client.enqueue(job("work", r#"{"n": 1}"#).with_id("j1")).await.unwrap();
        assert_eq!(
            (accepted.job_id.as_str(), accepted.status, accepted.duplicate),
            ("j1", Status::Queued, false)
        );
        let shown = client.job("j1").await.unwrap();
        assert_eq!(
            (shown.wait.waiting_for, shown.data.unwrap().as_str()),
            (Some(WaitingFor::Turn), r#"{"n": 1}"#)
        );
        let batch = client.enqueue_batch((0..3).map(|_| job("work", "[1,\n 2]"))).await.unwrap();
        assert_eq!((batch.accepted, batch.items.len()), (3, 3));
        let query = JobQuery {
            company_id: Some(CompanyId::new("acme").unwrap()),
            limit: Some(2),
            ..JobQuery::default()
        };
        let page = client.jobs(&query).await.unwrap();
        assert_eq!(page.items.len(), 2);
        let rest = client.jobs(&JobQuery { cursor: page.next_cursor, ..query }).await.unwrap();
        assert_eq!((rest.items.len(), rest.next_cursor), (2, None));
        assert_eq!(client.cancel("j1").await.unwrap().status, Status::Cancelled);
        let trail = client.audit("j1").await.unwrap();
        assert_eq!(trail.items[0].actor.as_deref(), Some("cli:ana"));
    })
    .await;
}

#[tokio::test]
async fn endpoints_are_added_changed_tried_out_and_removed() {
    let server = endpoints::server(Kind::Memory).await;
    let receiver = FarEnd::agreeable();
    let client = server.client();
    let made =
        client.add_endpoint(&EndpointRequest::new("acme", receiver.url_of::<String>("/"))).await.unwrap();
    assert!(made.secret.as_ref().unwrap().reveal().starts_with("whsec_"));
    assert!(!format!("{made:?}").contains("whsec_"), "{made:?}");
    let listed = client.endpoints(&EndpointQuery::default()).await.unwrap().items;
    assert_eq!(listed, [Endpoint { secret: None, ..made.clone() }]);
    let change = EndpointChange {
        events: Some(vec!["JobFailed".to_owned()]),
        enabled: Some(false),
        ..EndpointChange::default()
    };
    let changed = client.change_endpoint(&made.id, &change).await.unwrap();
    assert_eq!((changed.events, changed.enabled), (vec![EventKind::JobFailed], false));
    assert!(client.enable_endpoint(&made.id).await.unwrap().enabled);
    let tested = client.test_endpoint(&made.id).await.unwrap();
    assert_eq!((tested.ok, tested.status), (true, Some(200)));
    client.remove_endpoint(&made.id).await.unwrap();
    assert_eq!(client.endpoint(&made.id).await.unwrap_err().code(), Some(Code::NotFound));
    assert_eq!(client.remove_endpoint(&made.id).await.unwrap_err().code(), Some(Code::NotFound));
}

#[tokio::test]
async fn a_provider_is_asked_and_an_account_cleared() {
    let provider = FarEnd::agreeable();
    let routes = vec![http_route("instagram", &provider.url_of::<String>("/"), "social")];
    let server = Server::start(Setup { routes, ..Setup::default() }).await;
    let client = server.client();
    provider.says(200, r#"{"followers": 1}"#);
    let question = CallRequest::new("instagram", "acme", Payload::new(r#"{"path": "/"}"#).unwrap());
    let answer = client.call_provider(&question).await.unwrap();
    assert_eq!((answer.answer.unwrap().as_str(), answer.fallback), (r#"{"followers": 1}"#, None));
    provider.says(401, "");
    let error = client.call_provider(&question).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::ProviderRefused));
    let ClientError::Problem(problem) = error else { panic!("{error}") };
    assert_eq!(
        (problem.error_code.as_deref(), problem.error_classification),
        (Some("401"), Some(Class::Permanent))
    );

    let marked = async {
        loop {
            if let Some(account) = client.accounts(&AccountQuery::default()).await.unwrap().items.pop() {
                return account;
            }
            tokio::time::sleep(ms(5)).await;
        }
    };
    let account = tokio::time::timeout(PATIENCE, marked).await.expect("no account is marked");
    assert_eq!(&*account.provider, "instagram");
    assert!(account.job_id.starts_with("call-"), "{account:?}");
    client.clear_account("instagram", "acme").await.unwrap();
    let again = client.clear_account("instagram", "acme").await.unwrap_err();
    assert_eq!(again.code(), Some(Code::NotFound));
}

#[tokio::test]
async fn leases_are_taken_extended_and_settled() {
    on_each_store(async |server: &Server| {
        let client = server.client();
        for id in ["1", "2", "3", "4"] {
            client.enqueue(job("work", "1").with_id(id)).await.unwrap();
        }
        let leases = client.lease(&leasing()).await.unwrap().leases;
        let tokens: Vec<&str> = leases.iter().map(|lease| lease.lease_token.as_str()).collect();
        assert!(client.extend(tokens[0], 120_000).await.unwrap().expires_at > leases[0].expires_at);
        assert!(client.succeed(tokens[0], Some(Payload::new("7").unwrap())).await.unwrap().settled);
        assert_eq!(client.job("1").await.unwrap().answer.unwrap().as_str(), "7");
        let failure = FailRequest { code: Some("550".to_owned()), ..FailRequest::new("no such user") };
        assert!(client.fail(tokens[1], &failure).await.unwrap().settled);
        assert_eq!(client.job("2").await.unwrap().status, Status::Failed);
        let report = |token: &str, fail| {
            let succeed = if fail { None } else { Some(SucceedRequest::default()) };
            let fail = fail.then(|| FailRequest::new("550 no"));
            SettleRequest { lease_token: token.to_owned(), succeed, fail }
        };
        let reports = [report(tokens[2], false), report(tokens[3], true), report(tokens[0], false)];
        let settled = client.settle(&reports).await.unwrap();
        assert_eq!((settled.settled, settled.refused), (2, 1));
        assert_eq!(settled.items[2].error.as_ref().unwrap().known_code(), Some(Code::StaleLease));
        let stale = client.succeed(tokens[0], None).await.unwrap_err();
        assert_eq!(stale.code(), Some(Code::StaleLease));
    })
    .await;
}

#[tokio::test]
async fn dead_letters_are_found_counted_replayed_and_discarded() {
    on_each_store(async |server: &Server| {
        let client = server.client();
        for id in ["a", "b"] {
            client.enqueue(job("sandbox", r#"{"script": ["550 no such user"]}"#).with_id(id)).await.unwrap();
            until(&client, id, Status::Failed).await;
        }
        let filter = DeadLetterFilter { reason: Some("SUCH".to_owned()), ..Default::default() };
        let found = client.dead_letters(&DeadLetterQuery { filter, ..Default::default() }).await;
        assert_eq!(found.unwrap().items.len(), 2);
        assert_eq!(client.dead_letter("a").await.unwrap().last_failure.last_failure_reason, "no such user");
        let query = DeadLetterStatsQuery { by: Some(GroupBy::Company), ..Default::default() };
        let stats = client.dead_letter_stats(&query).await.unwrap();
        assert_eq!(
            (stats.by, stats.total, stats.items[0].key.as_deref()),
            (GroupBy::Company, 2, Some("acme"))
        );
        let data = Some(Payload::new(r#"{"script": ["ok"]}"#).unwrap());
        let replayed = client.replay("a", &ReplayRequest { data, ..Default::default() }).await.unwrap();
        assert_eq!(replayed.state, DeadLetterState::Replaying);
        until(&client, "a", Status::Sent).await;
        assert_eq!(client.discard("b", "test").await.unwrap().status, Status::Discarded);
        assert_eq!(client.dead_letter("b").await.unwrap_err().code(), Some(Code::NotFound));
    })
    .await;
}

#[tokio::test]
async fn decisions_probes_and_the_document_are_typed_too() {
    let server = Server::plain().await;
    let client = server.client();
    let decision = client.decide(&DecisionRequest::new("c", "DUPLICATE_CLAIM")).await.unwrap();
    assert_eq!(
        (decision.should_retry, decision.error_code),
        (false, Some(DecisionErrorCode::PermanentError))
    );
    assert_eq!(client.health().await.unwrap().status, "alive");
    assert_eq!(client.ready().await.unwrap().status, Ready::Ready);
    assert!(client.openapi().await.unwrap()["paths"].is_object());
    server.engine.stop().await.unwrap();
    let unready = client.ready().await.unwrap();
    assert_eq!((unready.status, unready.reasons.len()), (Ready::NotReady, 1), "not ready is an answer, too");
}

#[tokio::test]
async fn a_problem_is_told_whole() {
    let server = Server::plain().await;
    let mut bad = job("nowhere", "1");
    bad.priority = Some(77);
    let error = server.client().enqueue(bad).await.unwrap_err();
    let ClientError::Problem(problem) = &error else { panic!("{error:?}") };
    assert_eq!(
        (problem.status, problem.known_code(), problem.errors.len()),
        (422, Some(Code::ValidationFailed), 2)
    );
    let said = error.to_string();
    assert!(said.contains("/route there is no route `nowhere`") && said.contains("/priority "), "{said}");
}

#[tokio::test]
async fn the_token_is_sent_and_kept_out_of_sight() {
    let server = Server::start(Setup { token: Some("s3cret"), ..Setup::default() }).await;
    assert_eq!(
        server.client().jobs(&JobQuery::default()).await.unwrap_err().code(),
        Some(Code::Unauthorized)
    );
    let client = Client::new(&server.url("/"), Some("s3cret")).unwrap();
    assert!(client.jobs(&JobQuery::default()).await.is_ok());
    assert!(!format!("{client:?}").contains("s3cret"), "{client:?}");
}

#[tokio::test]
async fn no_answer_raises_the_question_whether_the_server_runs() {
    let free = format!("127.0.0.1:{}", free_port());
    let error = Client::new(&format!("http://{free}"), None).unwrap().health().await.unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains(&format!("is `recado serve` running at http://{free}?")), "{said}");
    for wrong in ["127.0.0.1:7400", "ftp://x", "nonsense", "mailto:a@b"] {
        assert!(matches!(Client::new(wrong, None), Err(ClientError::Setup(_))), "{wrong}");
    }
}

#[tokio::test]
async fn silence_is_a_timeout_and_another_protocol_is_not_understood() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", silent.local_addr().unwrap()), None).unwrap();
    let error = client.with_timeout(ms(200)).health().await.unwrap_err();
    assert!(matches!(error, ClientError::Timeout { after, .. } if after == ms(200)), "{error:?}");

    let other = FarEnd::scripted([raw("200 OK", "", "<html>hello</html>"), raw("502 Bad Gateway", "", "{}")]);
    let client = Client::new(&other.url(), None).unwrap();
    for _ in 0..2 {
        let error = client.health().await.unwrap_err();
        assert!(matches!(error, ClientError::Decode { .. }), "{error:?}");
    }
}

/// Passes requests on to the server, but hangs up instead of the first answer.
fn forgetful_proxy(server: &Server) -> (Proxy, Client) {
    let proxy = Proxy::to(server.address.port());
    proxy.cut_answers(1);
    let client = Client::new(&format!("http://{}", proxy.address()), None).unwrap();
    (proxy, client)
}

#[tokio::test]
async fn g15_an_enqueue_whose_answer_was_lost_is_sent_again_and_enqueued_once() {
    on_each_store(async |server: &Server| {
        let (_proxy, client) = forgetful_proxy(server);
        let accepted = client.enqueue(job("work", "1")).await.unwrap();
        assert!(accepted.duplicate, "the first one had arrived");
        let found = server.client().jobs(&JobQuery::default()).await.unwrap().items;
        assert_eq!((found.len(), &found[0].job_id), (1, &accepted.job_id));
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_repeated_safely_is_not_repeated() {
    let server = Server::plain().await;
    server.client().enqueue(job("work", "1").with_id("once")).await.unwrap();
    let (_proxy, client) = forgetful_proxy(&server);
    let client = client.with_timeout(Duration::from_secs(5));
    let error = client.lease(&leasing()).await.unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error:?}");
    let shown = server.client().job("once").await.unwrap();
    assert_eq!(
        (shown.status, shown.attempts.len()),
        (Status::Delivering, 0),
        "one lease, lost with its answer"
    );
}
