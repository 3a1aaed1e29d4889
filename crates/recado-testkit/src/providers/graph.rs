//! Instagram's Graph API.

use serde_json::json;

use crate::http::{Act, Request, json};

pub const TOKEN: &str = "IGQV-token-0123456789";

pub fn provider(url: &str) -> String {
    format!("[providers.instagram]\nurl = \"{url}\"\nheaders = {{ Authorization = \"Bearer {TOKEN}\" }}\n")
}

/// Its usual answer.
pub fn manners(request: &Request) -> Act {
    if request.header("authorization") != format!("Bearer {TOKEN}") {
        return error(401, 190, "OAuthException", "Invalid OAuth access token.");
    }
    match &*request.method {
        "GET" => json(200, json!({ "data": [{ "name": "impressions", "values": [{ "value": 7 }] }] })),
        _ => json(200, json!({ "id": "17889455560051444" })),
    }
}

/// A refusal as Graph writes all of them.
pub fn error(status: u16, code: u32, kind: &str, message: &str) -> Act {
    let error = json!({ "message": message, "type": kind, "code": code, "fbtrace_id": "AXyz123" });
    json(status, json!({ "error": error }))
}

pub fn token_expired() -> Act {
    let message = "Error validating access token: Session has expired on Sunday, 15-Nov-26 04:00:00 PST.";
    let error = json!({
        "message": message, "type": "OAuthException", "code": 190, "error_subcode": 463, "fbtrace_id": "AXyz123",
    });
    json(400, json!({ "error": error }))
}

/// Answers that the limit of requests is reached, under a status that means a bad request.
pub fn request_limit() -> Act {
    error(400, 4, "OAuthException", "(#4) Application request limit reached")
}

pub fn transient() -> Act {
    let error = json!({
        "message": "Please retry your request later.", "type": "OAuthException", "is_transient": true,
        "code": 9_007, "fbtrace_id": "AXyz123",
    });
    json(400, json!({ "error": error }))
}

pub fn unknown_problem() -> Act {
    error(500, 2, "OAuthException", "An unexpected error has occurred. Please retry your request later.")
}

pub fn duplicate_post() -> Act {
    error(400, 506, "OAuthException", "(#506) Duplicate status message")
}

pub fn wrong_parameter() -> Act {
    error(400, 100, "OAuthException", "(#100) The parameter image_url is required")
}
