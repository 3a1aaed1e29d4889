//! Requests to the HTTP API: bodies as they are read, and whole requests with their paths, cursors and answers.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body as HttpBody;
use axum::http::Request;
use http_body_util::BodyExt;
use recado_api::{ApiLimits, ApiOptions, ApiState, Hosts, router};
use recado_core::decide::Terms;
use recado_core::{Policy, Random, RouteName, rules};
use recado_engine::{Carrier, Engine, Fallback, Parts, Route, Routes, Settings, SystemClock};
use recado_store::Retention;
use recado_store::reference::ReferenceStore;
use recado_transport::Sandbox;
use recado_wire::bulk::BulkRequest;
use recado_wire::decisions::DecisionRequest;
use recado_wire::jobs::JobRequest;
use recado_wire::leases::{LeaseRequest, SettleRequest};
use recado_wire::read::{self, Body, FAULTS_MAX};
use recado_wire::tenants::TenantChange;
use serde::Serialize;
use tower::ServiceExt;

use super::RUNTIME;

pub const WORDS: &[&str] = &[
    "GET /v1/jobs?cursor=AQE",
    "POST /v1/jobs\n",
    "POST /v1/dlq/replay\n",
    "GET /v1/audit?cursor=",
    "&limit=1000",
    "?since=2026-01-01T00:00:00Z",
    "\"jobId\":",
    "\"route\":\"sandbox\"",
    "\"companyId\":\"acme\"",
    "\"data\":{}",
    "\"filter\":{}",
    "\"dryRun\":true",
    "\"waitMs\":0",
    "\"routes\":[\"work\"]",
    "/v1/tenants/acme",
    "%2F",
    "%",
];

/// Reads a body both ways: the fast one and the one that names every fault.
fn read_both_ways<T: Body + Serialize>(json: &str) {
    let shown = |value: &T| serde_json::to_string(value).unwrap();
    match (read::body::<T>(json), read::by_field::<T>(json)) {
        (Err(fast), Err(slow)) => assert_eq!(fast.0, slow.0),
        (Ok(fast), Ok(slow)) => match (fast.into_result(), slow.into_result()) {
            (Ok(fast), Ok(slow)) => {
                assert_eq!(shown(&fast), shown(&slow), "both ways read the same");
                let again = read::body::<T>(&shown(&fast)).unwrap().into_result();
                assert_eq!(
                    again.map(|value| shown(&value)).ok(),
                    Some(shown(&fast)),
                    "what is read can be written"
                );
            }
            (Err(faults), Err(_)) => {
                assert!(!faults.is_empty() && faults.len() <= FAULTS_MAX);
                for fault in faults {
                    assert!(
                        fault.pointer.is_empty() || fault.pointer.starts_with('/'),
                        "{fault:?} names no place"
                    );
                    assert!(!fault.message.trim().is_empty(), "{fault:?}");
                }
            }
            (fast, slow) => panic!("one way takes it: {} {}", fast.is_ok(), slow.is_ok()),
        },
        (fast, slow) => panic!("one way calls it JSON: {} {}", fast.is_ok(), slow.is_ok()),
    }
}

pub fn request_body(input: &[u8]) {
    let Ok(json) = std::str::from_utf8(input) else { return };
    read_both_ways::<JobRequest>(json);
    read_both_ways::<BulkRequest>(json);
    read_both_ways::<DecisionRequest>(json);
    read_both_ways::<LeaseRequest>(json);
    read_both_ways::<SettleRequest>(json);
    read_both_ways::<TenantChange>(json);
}

/// An API on a store in memory; nothing that it does leaves the process.
static API: LazyLock<Router> = LazyLock::new(|| {
    let _inside = RUNTIME.enter();
    let hour = Duration::from_secs(3_600);
    let route = |name: &str, carrier: Carrier| Route {
        name: RouteName::new(name).unwrap(),
        carrier,
        provider: name.into(),
        others: Vec::new(),
        classifier: rules::named("general").unwrap(),
        terms: Terms {
            policy: Policy::exponential(hour, hour, 3),
            dead_letter_ttl: hour,
            crashes_max: 3,
            start_over_after: None,
        },
        timeout: Duration::from_secs(5),
        concurrency: 4,
        fallback: Fallback::default(),
    };
    let routes = [route("sandbox", Carrier::Transport(Arc::new(Sandbox))), route("work", Carrier::Workers)];
    let settings = Settings {
        node: "fuzz".into(),
        lease: hour,
        stop_grace: hour,
        retention: Retention { ended_max_age: hour, ended_max_count: 1_000 },
        job_ttl: hour,
        dead_letter_ttl: hour,
        crashes_max: 3,
        notices: recado_engine::notify::notices::Notices::default(),
        turn_jobs: recado_core::fairness::TURN_JOBS,
    };
    let store = Arc::new(ReferenceStore::default());
    let engine = Engine::start(Parts::new(
        store,
        Routes::new(routes),
        settings,
        Arc::new(SystemClock),
        Random::from_seed(7),
    ));
    let options = ApiOptions {
        token: None,
        hosts: Hosts::at("127.0.0.1:7400".parse().unwrap(), &[]),
        limits: ApiLimits::default(),
        closing: tokio_util::sync::CancellationToken::new(),
        read_policy: None,
    };
    router(ApiState::new(engine, options))
});

/// The first line is method and path, the rest is the body.
pub fn api_request(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let head = String::from_utf8_lossy(&input[..end]);
    let Some((method, path)) = head.trim().split_once(' ') else { return };
    let body = input.get(end + 1..).unwrap_or_default().to_vec();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1:7400")
        .header("content-type", "application/json")
        .body(HttpBody::from(body));
    let Ok(request) = request else { return };
    RUNTIME.block_on(async {
        let asked = async {
            let answer = API.clone().oneshot(request).await.unwrap();
            let (head, body) = answer.into_parts();
            let kind = head.headers.get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
            let kind = kind.unwrap_or_default();
            assert_ne!(head.status.as_u16(), 500, "{method} {path}");
            if head.status.is_client_error() && !kind.is_empty() {
                let body = body.collect().await.unwrap().to_bytes();
                assert_eq!(kind, "application/problem+json", "{method} {path}");
                let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
                assert!(problem["code"].as_str().is_some_and(|code| !code.is_empty()), "{problem}");
                for fault in problem["errors"].as_array().into_iter().flatten() {
                    assert!(fault["pointer"].is_string() && fault["message"] != "", "{problem}");
                }
            }
        };
        // A long poll and a stream of events may take their time.
        let _ = tokio::time::timeout(Duration::from_millis(500), asked).await;
    });
}
