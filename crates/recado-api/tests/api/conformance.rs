//! Validates every answer of a test's server against the API document, so that no test can pass on an answer that the
//! document does not describe.
//!
//! Stricter than a client has to be: a status, a content type or a field that the document does not name is a fault,
//! too. A keyword that is not known here is a fault of the document, so that none is passed over in silence.

use std::sync::{Arc, LazyLock, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use http_body_util::BodyExt;
use recado_core::Timestamp;
use serde_json::{Value, json};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::to_value(recado_api::openapi()).unwrap());

/// Keywords that say nothing about what is valid.
const ANNOTATIONS: [&str; 5] = ["description", "title", "example", "examples", "default"];

/// Faults that are shown when a test ends; the rest is more of the same.
const SHOWN_MAX: usize = 10;

/// Collects answers that the document contradicts. Fails the test when it is dropped with something in it.
#[derive(Debug, Default)]
pub struct AnswerCheck {
    faults: Arc<Mutex<Vec<String>>>,
}

impl AnswerCheck {
    /// Puts the check around a server's router: everything that a caller gets passes it.
    pub fn around(&self, router: Router) -> Router {
        let faults = self.faults.clone();
        router.layer(from_fn(move |path: Option<MatchedPath>, request: Request, next: Next| {
            let faults = faults.clone();
            async move {
                let method = request.method().clone();
                let response = next.run(request).await;
                let (response, found) = checked(&method, path.as_ref(), response).await;
                faults.lock().unwrap().extend(found);
                response
            }
        }))
    }
}

impl Drop for AnswerCheck {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let faults = self.faults.lock().unwrap();
        let shown = faults.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join("\n");
        assert!(faults.is_empty(), "{} answers contradict the document:\n{shown}", faults.len());
    }
}

async fn checked(
    method: &Method,
    path: Option<&MatchedPath>,
    response: Response,
) -> (Response, Option<String>) {
    let (parts, body) = response.into_parts();
    let kind = parts.headers.get(CONTENT_TYPE).map_or("", |kind| kind.to_str().unwrap());
    let (body, bytes) = if is_json(kind) {
        let bytes = body.collect().await.unwrap().to_bytes();
        (Body::from(bytes.clone()), bytes)
    } else {
        // Exports and the stream of events are not JSON, and may be without end.
        (body, Bytes::new())
    };
    let path = path.map(MatchedPath::as_str);
    let faults = match *method {
        Method::HEAD => Vec::new(),
        _ => contradictions(method.as_str(), path, parts.status.as_u16(), kind, &bytes),
    };
    let status = parts.status.as_u16();
    let said = faults.join("; ");
    let fault = (!faults.is_empty()).then(|| format!("{method} {} {status}: {said}", path.unwrap_or("?")));
    (Response::from_parts(parts, body), fault)
}

fn is_json(kind: &str) -> bool {
    essence(kind) == "application/json" || essence(kind).ends_with("+json")
}

fn essence(kind: &str) -> &str {
    kind.split(';').next().unwrap_or_default().trim()
}

/// Everything about an answer that the document says otherwise.
fn contradictions(method: &str, path: Option<&str>, status: u16, kind: &str, body: &[u8]) -> Vec<String> {
    let operation = path.map(|path| &DOCUMENT["paths"][path][method.to_lowercase()]);
    let response = match operation.filter(|operation| operation.is_object()) {
        Some(operation) => operation["responses"][status.to_string()].clone(),
        // Where there is no operation, every caller is refused in the same way.
        None => {
            json!({"content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}})
        }
    };
    if response.is_null() {
        return vec!["the status is not declared".to_owned()];
    }
    let Some(content) = response["content"].as_object() else {
        // What is unchanged is named with its type and not sent.
        let is_silent = kind.is_empty() || status == 304;
        return if is_silent { Vec::new() } else { vec![format!("`{kind}` where nothing is declared")] };
    };
    let Some(declared) = content.get(essence(kind)) else {
        return vec![format!("content type `{kind}` is not declared")];
    };
    if !is_json(kind) {
        return Vec::new();
    }
    match serde_json::from_slice(body) {
        Ok(value) => faults_of(&value, &declared["schema"]),
        Err(error) => vec![format!("the body is not JSON: {error}")],
    }
}

/// Everything about a value that its schema forbids.
pub fn faults_of(value: &Value, schema: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    validate(value, schema, "", &mut faults);
    faults
}

fn validate(value: &Value, schema: &Value, at: &str, faults: &mut Vec<String>) {
    let fault = |what: String| format!("{} {what}", if at.is_empty() { "the body" } else { at });
    for (keyword, rule) in schema.as_object().unwrap_or_else(|| panic!("{at}: {schema} is no schema")) {
        let number = || rule.as_f64().unwrap();
        let length = || usize::try_from(rule.as_u64().unwrap()).unwrap();
        let characters = value.as_str().map(|text| text.chars().count());
        let items = value.as_array().map(Vec::len);
        let holds = match keyword.as_str() {
            "$ref" => {
                let pointer = rule.as_str().unwrap().trim_start_matches('#');
                validate(value, DOCUMENT.pointer(pointer).unwrap(), at, faults);
                true
            }
            "type" => match rule.as_array() {
                Some(types) => types.iter().any(|one| is_of_type(value, one)),
                None => is_of_type(value, rule),
            },
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.as_f64().is_none_or(|found| found >= number()),
            "maximum" => value.as_f64().is_none_or(|found| found <= number()),
            "minLength" => characters.is_none_or(|found| found >= length()),
            "maxLength" => characters.is_none_or(|found| found <= length()),
            "minItems" => items.is_none_or(|found| found >= length()),
            "maxItems" => items.is_none_or(|found| found <= length()),
            "pattern" => {
                let pattern = regex::Regex::new(rule.as_str().unwrap()).unwrap();
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "format" => is_of_format(value, rule.as_str().unwrap()),
            "required" => {
                let names = rule.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                let missing: Vec<_> =
                    names.filter(|name| value.is_object() && value.get(name).is_none()).collect();
                faults.extend(missing.iter().map(|name| fault(format!("lacks `{name}`"))));
                true
            }
            "properties" => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    match rule.get(name) {
                        Some(rule) => validate(member, rule, &format!("{at}/{name}"), faults),
                        None => faults.push(fault(format!("has `{name}`, which is not declared"))),
                    }
                }
                true
            }
            // No field beside those of `properties` is taken for good in any case.
            "additionalProperties" => rule == &json!(false),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    validate(item, rule, &format!("{at}/{index}"), faults);
                }
                true
            }
            "oneOf" => {
                let fits = |one: &&Value| faults_of(value, one).is_empty();
                rule.as_array().unwrap().iter().filter(fits).count() == 1
            }
            annotation if ANNOTATIONS.contains(&annotation) => true,
            other => panic!("the document says `{other}`, which this check does not know"),
        };
        if !holds {
            faults.push(fault(format!("is {value}, against `{keyword}` {rule}")));
        }
    }
}

fn is_of_type(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("the document says type `{other}`"),
    }
}

fn is_of_format(value: &Value, format: &str) -> bool {
    match (format, value) {
        ("date-time", Value::String(text)) => text.ends_with('Z') && text.parse::<Timestamp>().is_ok(),
        ("int32", Value::Number(number)) => {
            number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
        }
        ("int64", Value::Number(number)) => number.as_i64().is_some(),
        ("date-time" | "int32" | "int64" | "double" | "uri", _) => true,
        (other, _) => panic!("the document says format `{other}`, which this check does not know"),
    }
}

#[test]
fn an_answer_that_the_document_does_not_describe_is_found() {
    let job = json!({"jobId": "1", "status": "queued", "duplicate": false, "durability": "fsync"});
    let found = |status: u16, kind: &str, body: &Value| {
        contradictions("POST", Some("/v1/jobs"), status, kind, body.to_string().as_bytes()).join("; ")
    };
    let with = |name: &str, value: Value| {
        let mut changed = job.clone();
        changed[name] = value;
        found(202, "application/json", &changed)
    };
    assert_eq!(found(202, "application/json", &job), "");
    assert_eq!(found(299, "application/json", &job), "the status is not declared");
    assert_eq!(found(202, "text/plain", &job), "content type `text/plain` is not declared");
    assert_eq!(with("more", json!(1)), "the body has `more`, which is not declared");
    assert!(with("jobId", Value::Null).starts_with("/jobId is null, against `type`"));
    assert!(with("status", json!("asleep")).starts_with("/status is \"asleep\", against `enum`"));
    let without = json!({"jobId": "1", "status": "queued", "duplicate": false});
    assert_eq!(found(202, "application/json", &without), "the body lacks `durability`");
}
