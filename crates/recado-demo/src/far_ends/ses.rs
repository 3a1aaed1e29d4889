//! AWS SES, version 2 of its API.

use serde_json::json;

use super::http::{Act, Request, json};

const KEY_ID: &str = "AKIAIOSFODNN7EXAMPLE";

pub fn provider(url: &str) -> String {
    format!(
        "[providers.ses]\nurl = \"{url}\"\nregion = \"sa-east-1\"\naccess_key_id = \"{KEY_ID}\"\n\
         secret_access_key = \"wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY\"\n"
    )
}

/// Its usual answer.
pub fn manners(request: &Request) -> Act {
    if !request.header("authorization").starts_with("AWS4-HMAC-SHA256 Credential=") {
        return error(403, "MissingAuthenticationTokenException", "Missing Authentication Token");
    }
    match (&*request.method, &*request.path) {
        ("POST", "/v2/email/outbound-emails") => json(200, json!({ "MessageId": "0100018f-ses-000000" })),
        _ => error(404, "NotFoundException", "Unable to determine service/operation name"),
    }
}

/// A refusal: its name is in a header, and the body has only words.
pub fn error(status: u16, name: &str, message: &str) -> Act {
    json(status, json!({ "message": message }))
        .with("x-amzn-requestid", "5f1c0000-0000-4000-8000-000000000000")
        .with("x-amzn-errortype", format!("{name}:http://internal.amazon.com/coral/com.amazonaws.ses/"))
}
