//! YouTube's Data API.

use serde_json::json;

use super::http::{Act, Request, json};

pub const TOKEN: &str = "ya29.youtube-token-0123456789";

pub fn provider(url: &str) -> String {
    format!("[providers.youtube]\nurl = \"{url}\"\nheaders = {{ Authorization = \"Bearer {TOKEN}\" }}\n")
}

/// Its usual answer.
pub fn manners(request: &Request) -> Act {
    if request.header("authorization") != format!("Bearer {TOKEN}") {
        return error(401, "authError", "Request had invalid authentication credentials.");
    }
    json(
        200,
        json!({ "kind": "youtube#video", "id": "dQw4w9WgXcQ", "status": { "uploadStatus": "uploaded" } }),
    )
}

/// A refusal, whose `code` only repeats the status.
pub fn error(status: u16, reason: &str, message: &str) -> Act {
    let errors = json!([{ "message": message, "domain": "youtube.api", "reason": reason }]);
    json(status, json!({ "error": { "code": status, "message": message, "errors": errors } }))
}
