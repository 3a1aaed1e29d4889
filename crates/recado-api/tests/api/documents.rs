//! The API document and the API agree, in both directions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use recado_core::name::NAME_LEN_MAX;
use recado_engine::accept::{AHEAD_MAX, ID_CHARACTERS, TTL_MAX, TTL_MIN};
use recado_engine::endpoint_admin::DESCRIPTION_LEN_MAX;
use recado_wire::bulk::{CANARY_MAX, JOB_IDS_MAX, RATE_MAX};
use recado_wire::calls::{CACHE_KEY_LEN_MAX, TIMEOUT_MAX_MS};
use recado_wire::decisions::CLAIM_ID_LEN_MAX;
use recado_wire::dlq::WORDS_LEN_MAX;
use recado_wire::kpis::{WINDOW_MAX_MS, WINDOW_MIN_MS};
use recado_wire::leases::{
    CODE_LEN_MAX, LEASE_MAX_MS, LEASE_MIN_MS, LEASES_MAX, ROUTES_MAX, STACK_TRACE_MAX_BYTES, WAIT_MAX_MS,
    WORKER_ID_LEN_MAX,
};
use recado_wire::tenants::WEIGHT_MAX;
use recado_wire::{Code, INT32_MAX, PAGE_ITEMS_MAX};
use serde_json::Value;

use crate::given::{Answer, Server};

/// The contract's calls that exist so far.
const CONTRACT: [(&str, &str); 60] = [
    ("POST", "/v1/jobs"),
    ("GET", "/v1/jobs"),
    ("POST", "/v1/jobs/batch"),
    ("GET", "/v1/jobs/{jobId}"),
    ("DELETE", "/v1/jobs/{jobId}"),
    ("GET", "/v1/jobs/{jobId}/audit"),
    ("POST", "/v1/leases"),
    ("POST", "/v1/leases/settle"),
    ("POST", "/v1/leases/{leaseToken}/succeed"),
    ("POST", "/v1/leases/{leaseToken}/fail"),
    ("POST", "/v1/leases/{leaseToken}/extend"),
    ("POST", "/v1/decisions"),
    ("GET", "/v1/dlq"),
    ("GET", "/v1/dlq/stats"),
    ("GET", "/v1/dlq/export"),
    ("POST", "/v1/dlq/import"),
    ("POST", "/v1/dlq/replay"),
    ("POST", "/v1/dlq/discard"),
    ("GET", "/v1/replays"),
    ("GET", "/v1/replays/{id}"),
    ("DELETE", "/v1/replays/{id}"),
    ("GET", "/v1/dlq/{jobId}"),
    ("POST", "/v1/dlq/{jobId}/replay"),
    ("POST", "/v1/dlq/{jobId}/discard"),
    ("POST", "/v1/endpoints"),
    ("GET", "/v1/endpoints"),
    ("GET", "/v1/endpoints/{id}"),
    ("PATCH", "/v1/endpoints/{id}"),
    ("DELETE", "/v1/endpoints/{id}"),
    ("POST", "/v1/endpoints/{id}/enable"),
    ("POST", "/v1/endpoints/{id}/test"),
    ("GET", "/v1/events"),
    ("POST", "/v1/calls"),
    ("GET", "/v1/accounts"),
    ("DELETE", "/v1/accounts/{provider}/{companyId}"),
    ("GET", "/v1/providers"),
    ("GET", "/v1/providers/{name}"),
    ("POST", "/v1/providers/{name}/breaker"),
    ("POST", "/v1/providers/{name}/pause"),
    ("POST", "/v1/providers/{name}/resume"),
    ("POST", "/v1/providers/{name}/permit"),
    ("POST", "/v1/providers/{name}/success"),
    ("POST", "/v1/providers/{name}/failure"),
    ("GET", "/v1/holds"),
    ("DELETE", "/v1/holds/{id}"),
    ("GET", "/v1/routes"),
    ("POST", "/v1/routes/{name}/pause"),
    ("POST", "/v1/routes/{name}/resume"),
    ("GET", "/v1/rules/suggestions"),
    ("POST", "/v1/simulations"),
    ("GET", "/v1/tenants"),
    ("GET", "/v1/tenants/{companyId}"),
    ("PUT", "/v1/tenants/{companyId}"),
    ("GET", "/v1/audit"),
    ("POST", "/v1/audit/erasures"),
    ("GET", "/v1/alerts"),
    ("GET", "/v1/kpis"),
    ("GET", "/metrics"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
];

fn methods_by_path(document: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let paths = document["paths"].as_object().unwrap();
    let methods =
        |path: &Value| path.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect();
    paths.iter().map(|(path, described)| (path.clone(), methods(described))).collect()
}

#[tokio::test]
async fn the_document_lists_every_call_of_the_contract() {
    let server = Server::plain().await;
    let answer = server.get("/openapi.json").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    let documented = methods_by_path(&answer.body);
    for (method, path) in CONTRACT {
        assert!(documented.get(path).is_some_and(|methods| methods.contains(method)), "{method} {path}");
    }
    assert!(answer.body["openapi"].as_str().unwrap().starts_with("3."));
}

#[tokio::test]
async fn every_path_of_the_document_takes_exactly_the_methods_it_lists() {
    let server = Server::plain().await;
    let documented = methods_by_path(&server.get("/openapi.json").await.body);
    for (path, mut methods) in documented {
        if methods.contains("GET") {
            methods.insert("HEAD".to_owned());
        }
        let filled: Vec<&str> =
            path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
        let url = server.url(&filled.join("/"));
        let answer = Answer::of(server.http.request(reqwest::Method::TRACE, url).send().await.unwrap()).await;
        answer.is_problem(405, "method_not_allowed");
        let allowed: BTreeSet<String> = answer.header("allow").split(',').map(str::to_owned).collect();
        assert_eq!(allowed, methods, "{path}");
    }
}

#[test]
fn routes_are_only_added_with_their_description() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut described = 0;
    let files = |folder: &Path| std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    for file in files(&source).chain(files(&source.join("handlers"))).filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(file).unwrap();
        for undescribed in [".route(", ".route_service(", ".nest_service(", ".nest("] {
            assert!(!text.contains(undescribed), "a route without a description: {undescribed}");
        }
        described += text.matches(".routes(routes!(").count();
    }
    assert!(described > 10, "routes are added in another way now: amend this test");
}

#[tokio::test]
async fn every_route_has_words_and_every_reference_leads_somewhere() {
    let server = Server::plain().await;
    let document = server.get("/openapi.json").await.body;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, call) in methods.as_object().unwrap() {
            let words = call["summary"].as_str().unwrap_or_default();
            assert!(!words.is_empty(), "{method} {path} has no summary");
            assert!(!call["responses"].as_object().unwrap().is_empty(), "{method} {path} has no responses");
        }
    }
    let text = document.to_string();
    let mut references = BTreeSet::new();
    for part in text.split("\"$ref\":\"").skip(1) {
        references.insert(part.split('"').next().unwrap().to_owned());
    }
    assert!(references.len() > 10, "{references:?}");
    for reference in references {
        let pointer = reference.trim_start_matches('#');
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

#[tokio::test]
async fn a_status_in_the_document_is_one_of_the_contracts() {
    let server = Server::plain().await;
    let document = server.get("/openapi.json").await.body;
    let statuses = document["components"]["schemas"]["Status"]["enum"].clone();
    let expected = [
        "scheduled",
        "queued",
        "delivering",
        "retrying",
        "parked",
        "sent",
        "failed",
        "cancelled",
        "discarded",
    ];
    assert_eq!(statuses, serde_json::json!(expected));
    let codes = document["components"]["schemas"]["ProblemCode"]["enum"].as_array().unwrap().len();
    assert_eq!(codes, Code::ALL.len());
}

/// Every bound that a number or a text has, where the document says it and what the code enforces.
const BOUNDS: [(&str, &str, &str, u64); 28] = [
    ("DurationMs", "", "maximum", AHEAD_MAX.as_secs() * 1_000),
    ("TimeToLiveMs", "", "minimum", TTL_MIN.as_secs() * 1_000),
    ("TimeToLiveMs", "", "maximum", TTL_MAX.as_secs() * 1_000),
    ("JobRequest", "priority", "minimum", 1),
    ("JobRequest", "priority", "maximum", 9),
    ("PersonId", "", "maxLength", *ID_CHARACTERS.end() as u64),
    ("Name", "", "maxLength", NAME_LEN_MAX as u64),
    ("Note", "", "maxLength", WORDS_LEN_MAX as u64),
    ("Reason", "", "maxLength", WORDS_LEN_MAX as u64),
    ("CallRequest", "timeoutMs", "maximum", TIMEOUT_MAX_MS),
    ("CallRequest", "cacheKey", "maxLength", CACHE_KEY_LEN_MAX as u64),
    ("BulkFilter", "jobIds", "maxItems", JOB_IDS_MAX as u64),
    ("BulkRequest", "ratePerSecond", "maximum", RATE_MAX as u64),
    ("BulkRequest", "canary", "maximum", CANARY_MAX as u64),
    ("DecisionRequest", "claimId", "maxLength", CLAIM_ID_LEN_MAX as u64),
    ("DecisionRequest", "retryCount", "maximum", INT32_MAX as u64),
    ("EndpointRequest", "description", "maxLength", DESCRIPTION_LEN_MAX as u64),
    ("EndpointChange", "description", "maxLength", DESCRIPTION_LEN_MAX as u64),
    ("LeaseRequest", "routes", "maxItems", ROUTES_MAX as u64),
    ("LeaseRequest", "max", "maximum", LEASES_MAX as u64),
    ("LeaseRequest", "waitMs", "maximum", WAIT_MAX_MS),
    ("LeaseRequest", "leaseMs", "minimum", LEASE_MIN_MS),
    ("LeaseRequest", "leaseMs", "maximum", LEASE_MAX_MS),
    ("LeaseRequest", "workerId", "maxLength", WORKER_ID_LEN_MAX as u64),
    ("FailRequest", "code", "maxLength", CODE_LEN_MAX as u64),
    ("FailRequest", "stackTrace", "maxLength", STACK_TRACE_MAX_BYTES as u64),
    ("TenantChange", "weight", "maximum", WEIGHT_MAX as u64),
    ("TenantChange", "maxPerMinute", "maximum", INT32_MAX as u64),
];

#[test]
fn a_bound_in_the_document_is_the_one_that_is_enforced() {
    let document = recado_api::openapi();
    for (schema, property, keyword, enforced) in BOUNDS {
        let mut described = &document["components"]["schemas"][schema];
        if !property.is_empty() {
            described = &described["properties"][property];
        }
        assert_eq!(described[keyword], enforced, "{schema} {property} {keyword}: {described}");
    }
    for path in ["/v1/jobs", "/v1/dlq", "/v1/tenants", "/v1/audit"] {
        let parameters = document["paths"][path]["get"]["parameters"].as_array().unwrap();
        let limit = parameters.iter().find(|parameter| parameter["name"] == "limit").unwrap();
        let (least, most) = (&limit["schema"]["minimum"], &limit["schema"]["maximum"]);
        assert_eq!((least, most), (&1.into(), &PAGE_ITEMS_MAX.into()), "{path}: {limit}");
    }
    let window = &document["paths"]["/v1/kpis"]["get"]["parameters"][1]["schema"];
    assert_eq!((&window["minimum"], &window["maximum"]), (&WINDOW_MIN_MS.into(), &WINDOW_MAX_MS.into()));
}

#[tokio::test]
async fn what_lies_beyond_a_bound_of_the_document_is_refused() {
    let server = Server::plain().await;
    let decision = r#"{"claimId":"c","submissionError":"TIMEOUT","retryCount":2147483648}"#;
    server.post("/v1/decisions", decision).await.faults_at(&["/retryCount"]);
    let tenant = serde_json::json!({"maxPerMinute": 2_147_483_648_u64});
    server.put("/v1/tenants/acme", tenant).await.faults_at(&["/maxPerMinute"]);
    for outcome in ["success", "failure"] {
        let path = format!("/v1/providers/sandbox/{outcome}");
        server.post(&path, r#"{"tookMs":9223372036854775808}"#).await.faults_at(&["/tookMs"]);
    }
}

#[test]
fn every_call_has_a_name_of_its_own() {
    let document = recado_api::openapi();
    let mut names = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, call) in methods.as_object().unwrap() {
            let name = call["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{method} {path} is called `{name}`, and another one is");
        }
    }
}

#[tokio::test]
async fn a_path_that_is_not_utf_8_leads_nowhere() {
    let server = Server::plain().await;
    server.delete("/v1/accounts/%FF/acme").await.is_problem(404, "not_found");
    server.get("/dashboard/%FF/x.js").await.is_problem(404, "not_found");
}

#[tokio::test]
async fn the_stream_of_events_is_described_with_what_it_carries() {
    let server = Server::plain().await;
    let document = server.get("/openapi.json").await.body;
    let answer = &document["paths"]["/v1/events"]["get"]["responses"]["200"];
    assert!(answer["content"]["text/event-stream"].is_object(), "{answer}");
    let event = &document["components"]["schemas"]["Event"]["properties"];
    assert!(event["type"]["enum"].as_array().unwrap().contains(&"token_expired".into()), "{event}");
    assert!(document["components"]["schemas"]["Gap"].is_object());
    let asked = &document["components"]["schemas"]["EndpointRequest"]["required"];
    assert_eq!(asked, &serde_json::json!(["companyId", "url"]));
}

#[test]
fn every_error_code_has_its_page_and_every_page_its_code() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    let mut found = BTreeSet::new();
    for page in std::fs::read_dir(&pages).unwrap() {
        let page = page.unwrap().path();
        let name = page.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&page).unwrap();
        if name == "README" {
            continue;
        }
        let code = Code::parse(&name).unwrap_or_else(|| panic!("{name}.md is about no code"));
        assert!(text.starts_with(&format!("# {name}")), "{name}.md has another title");
        assert!(text.contains(&code.status().to_string()), "{name}.md does not name its status");
        assert!(text.contains("## What to do"), "{name}.md does not say what to do");
        found.insert(name);
    }
    let codes: BTreeSet<String> = Code::ALL.iter().map(|code| code.as_str().to_owned()).collect();
    assert_eq!(found, codes);
}

#[tokio::test]
async fn the_front_page_shows_the_way() {
    let server = Server::plain().await;
    let page = server.http.get(server.url("/")).send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert!(page.text().await.unwrap().contains("/openapi.json"));
    let health = server.get("/healthz").await;
    assert_eq!((health.status, health.body["status"].as_str()), (200, Some("alive")));
}
