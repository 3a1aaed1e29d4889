//! The JSON of OTLP's `ExportTraceServiceRequest`: ids in hexadecimal, times in nanoseconds as text.

use recado_engine::traces::{Attribute, Span, SpanKind};
use serde_json::{Value, json};

/// The origin of these spans.
pub fn resource(node: &str) -> Value {
    let attributes = [
        ("service.name", "recado".into()),
        ("service.version", env!("CARGO_PKG_VERSION").into()),
        ("service.instance.id", node.into()),
    ];
    json!({ "attributes": attributes.map(|(key, value)| attribute(key, &value)) })
}

/// One request with all of these.
pub fn request(resource: &Value, spans: &[Span]) -> Vec<u8> {
    let spans: Vec<_> = spans.iter().map(span).collect();
    let scope = json!({ "name": "recado", "version": env!("CARGO_PKG_VERSION") });
    let scoped = json!([{ "scope": scope, "spans": spans }]);
    json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": scoped }] }).to_string().into_bytes()
}

fn span(span: &Span) -> Value {
    let kind = match span.kind {
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    };
    let start = i128::from(span.started_at.as_millis()) * 1_000_000;
    let end = start + span.took.as_nanos().cast_signed();
    let attributes: Vec<_> = span.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    let mut written = json!({
        "traceId": format!("{:032x}", span.context.trace_id()),
        "spanId": format!("{:016x}", span.context.span_id()),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": start.to_string(),
        "endTimeUnixNano": end.to_string(),
        "attributes": attributes,
        "status": if span.failed { json!({ "code": 2 }) } else { json!({}) },
    });
    if let Some(parent) = span.parent {
        written["parentSpanId"] = format!("{parent:016x}").into();
    }
    written
}

fn attribute(key: &str, value: &Attribute) -> Value {
    let value = match value {
        Attribute::Text(text) => json!({ "stringValue": text }),
        Attribute::Number(number) => json!({ "intValue": number.to_string() }),
        Attribute::Flag(flag) => json!({ "boolValue": flag }),
    };
    json!({ "key": key, "value": value })
}
