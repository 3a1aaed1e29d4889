//! An OpenTelemetry collector that takes spans by OTLP over HTTP in JSON.

use serde_json::{Value, json};

use super::{Act, FarEnd, Request, json};
use crate::systems::given::eventually;

pub fn start() -> FarEnd {
    FarEnd::start(manners)
}

pub fn config(far_end: &FarEnd) -> String {
    format!("[traces]\nendpoint = \"{}\"\n", far_end.url())
}

fn manners(request: &Request) -> Act {
    match (&*request.method, &*request.path, request.header("content-type")) {
        ("POST", "/v1/traces", "application/json") => json(200, json!({ "partialSuccess": {} })),
        ("POST", "/v1/traces", _) => json(415, json!({ "message": "unsupported media type" })),
        _ => json(404, json!({ "message": "not found" })),
    }
}

/// Every span that has come so far, in its order.
pub fn spans(far_end: &FarEnd) -> Vec<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let requests = far_end.ledger();
    let resources = requests.iter().flat_map(|request| list(&request.json()["resourceSpans"]));
    let scopes = resources.flat_map(|resource| list(&resource["scopeSpans"]));
    scopes.flat_map(|scope| list(&scope["spans"])).collect()
}

/// The spans of this name about this job, once there are so many.
#[track_caller]
pub fn spans_of(far_end: &FarEnd, name: &str, job: &str, count: usize) -> Vec<Value> {
    let mut found = Vec::new();
    eventually(|| {
        found = spans(far_end);
        found.retain(|span| span["name"] == name && attribute(span, "jobId") == job);
        found.len() >= count
    });
    found
}

/// A span's value under this key, whatever its type.
pub fn attribute(span: &Value, key: &str) -> Value {
    let attributes = span["attributes"].as_array().expect("attributes").iter();
    let mut of_key = attributes.filter(|attribute| attribute["key"] == key);
    let value = of_key.next().and_then(|attribute| attribute["value"].as_object()?.values().next().cloned());
    value.unwrap_or_default()
}
