//! TikTok's Content Posting API.

use serde_json::json;

use super::http::{Act, Request, json};

pub const TOKEN: &str = "act.tiktok-token-0123456789";

pub fn provider(url: &str) -> String {
    format!("[providers.tiktok]\nurl = \"{url}\"\nheaders = {{ Authorization = \"Bearer {TOKEN}\" }}\n")
}

/// Its usual answer.
pub fn manners(request: &Request) -> Act {
    if request.header("authorization") != format!("Bearer {TOKEN}") {
        return error(401, "access_token_invalid");
    }
    let error = json!({ "code": "ok", "message": "", "log_id": "20261115041045" });
    json(200, json!({ "data": { "publish_id": "v_pub_url~v2.123456789" }, "error": error }))
}

/// A refusal by the word that TikTok has for it.
pub fn error(status: u16, code: &str) -> Act {
    let message = "See https://developers.tiktok.com for what this means.";
    let error = json!({ "code": code, "message": message, "log_id": "20261115041045" });
    json(status, json!({ "data": {}, "error": error }))
}
