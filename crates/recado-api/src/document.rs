//! Finishes the API document: what holds for all of it and cannot be said type by type.
//!
//! - A field of a request that may be absent may also be `null`, which counts as absent; no other field is taken.
//! - A number of a request that has a maximum has no format: a generated client would send an `int64` as text.
//! - A field of an answer that may be absent is never `null`: either it is always there and may be `null`, or it is
//!   left out.
//! - A body, a parameter or a header that may be absent is never `null`.
//! - A type that is put together from parts is one object.
//! - Every response has a description.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

const SCHEMAS: &str = "#/components/schemas/";

/// The document as it is served.
pub(crate) fn finish(document: &OpenApi) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_default();
    join_parts(&mut document);
    let mut asked = BTreeSet::new();
    for operation in operations(&mut document) {
        let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten() {
            refuse_null(&mut parameter["schema"]);
        }
        let contents = operation.pointer_mut("/requestBody/content").into_iter().flat_map(members_mut);
        for content in contents {
            refuse_null(&mut content["schema"]);
            collect_references(&content["schema"], &mut asked);
        }
        describe_responses(&mut operation["responses"]);
    }
    let schemas = &mut document["components"]["schemas"];
    let asked = closure(asked, schemas);
    for (name, schema) in schemas.as_object_mut().into_iter().flatten() {
        if asked.contains(name) {
            take_no_other_field(schema);
        } else {
            leave_out_rather_than_null(schema);
        }
    }
    document
}

fn operations(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    members_mut(&mut document["paths"]).flat_map(members_mut)
}

fn members_mut(value: &mut Value) -> impl Iterator<Item = &mut Value> {
    value.as_object_mut().into_iter().flat_map(|members| members.values_mut())
}

/// Makes one object of each type that has the fields of another among its own.
fn join_parts(document: &mut Value) {
    let schemas = document["components"]["schemas"].clone();
    for schema in members_mut(&mut document["components"]["schemas"]) {
        let Some(Value::Array(parts)) = schema.as_object_mut().and_then(|schema| schema.remove("allOf"))
        else {
            continue;
        };
        let mut properties = Map::new();
        let mut required = Vec::new();
        for part in &parts {
            let part = referred(part).map_or(part, |name| &schemas[name]);
            properties.extend(part["properties"].as_object().cloned().unwrap_or_default());
            required.extend(part["required"].as_array().cloned().unwrap_or_default());
        }
        schema["type"] = json!("object");
        schema["properties"] = properties.into();
        if !required.is_empty() {
            schema["required"] = required.into();
        }
    }
}

fn describe_responses(responses: &mut Value) {
    for (status, response) in responses.as_object_mut().into_iter().flatten() {
        if response.get("description").and_then(Value::as_str).unwrap_or_default().is_empty() {
            let status = status.parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
            response["description"] = json!(status.and_then(|status| status.canonical_reason()));
        }
    }
}

/// The names of the schemas that these lead to.
fn closure(mut names: BTreeSet<String>, schemas: &Value) -> BTreeSet<String> {
    loop {
        let mut more = names.clone();
        for name in &names {
            collect_references(&schemas[name], &mut more);
        }
        if more.len() == names.len() {
            return names;
        }
        names = more;
    }
}

fn collect_references(schema: &Value, names: &mut BTreeSet<String>) {
    names.extend(referred(schema).map(str::to_owned));
    match schema {
        Value::Object(members) => members.values().for_each(|member| collect_references(member, names)),
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, names)),
        _ => {}
    }
}

fn referred(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix(SCHEMAS)
}

fn take_no_other_field(schema: &mut Value) {
    let Some(properties) = schema.get_mut("properties") else { return };
    for property in members_mut(properties).filter(|property| property.get("maximum").is_some()) {
        property.as_object_mut().map(|property| property.remove("format"));
    }
    schema["additionalProperties"] = json!(false);
}

fn leave_out_rather_than_null(schema: &mut Value) {
    for variant in schema.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
        leave_out_rather_than_null(variant);
    }
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| required.as_array().is_some_and(|names| names.contains(&json!(name)));
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (_, property) in properties.into_iter().flatten().filter(|(name, _)| !is_required(name)) {
        refuse_null(property);
    }
}

/// Takes `null` out of what a schema allows.
fn refuse_null(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            members.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(choices)) = members.get_mut("oneOf") {
        choices.retain(|one| one.get("type") != Some(&json!("null")));
        if let [Value::Object(one)] = choices.as_slice() {
            let one = one.clone();
            members.remove("oneOf");
            members.extend(one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_taken_out_of_each_form_that_allows_it() {
        let rows = [
            (json!({"type": ["string", "null"], "maxLength": 3}), json!({"type": "string", "maxLength": 3})),
            (json!({"type": "string"}), json!({"type": "string"})),
            (
                json!({"description": "x", "oneOf": [{"type": "null"}, {"$ref": "#/a"}]}),
                json!({"description": "x", "$ref": "#/a"}),
            ),
            (
                json!({"oneOf": [{"$ref": "#/a"}, {"$ref": "#/b"}]}),
                json!({"oneOf": [{"$ref": "#/a"}, {"$ref": "#/b"}]}),
            ),
            (json!({}), json!({})),
        ];
        for (mut schema, expected) in rows {
            refuse_null(&mut schema);
            assert_eq!(schema, expected);
        }
    }

    #[test]
    fn no_type_is_left_in_parts_and_no_response_without_words() {
        let document = crate::openapi();
        let text = document.to_string();
        assert!(!text.contains("\"allOf\""), "a type is in parts");
        assert!(!text.contains(":null"), "something is `null` that should be absent");
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                for (status, response) in operation["responses"].as_object().unwrap() {
                    assert!(response["description"].is_string(), "{method} {path} {status}: {response}");
                }
            }
        }
    }
}
