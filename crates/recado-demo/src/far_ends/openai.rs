//! OpenAI's API.

use serde_json::{Value, json};

use super::http::{Act, Request, json};

pub const KEY: &str = "sk-proj-0123456789";

pub fn provider(url: &str) -> String {
    format!("[providers.openai]\nurl = \"{url}\"\nheaders = {{ Authorization = \"Bearer {KEY}\" }}\n")
}

/// Its usual answer.
pub fn manners(request: &Request) -> Act {
    if request.header("authorization") != format!("Bearer {KEY}") {
        return invalid_key();
    }
    let choice =
        json!({ "index": 0, "message": { "role": "assistant", "content": "Olá!" }, "finish_reason": "stop" });
    json(200, json!({ "id": "chatcmpl-B9MB", "object": "chat.completion", "choices": [choice] }))
}

fn error(status: u16, kind: &str, code: Value, message: &str) -> Act {
    json(status, json!({ "error": { "message": message, "type": kind, "param": null, "code": code } }))
}

pub fn rate_limit() -> Act {
    let message = "Rate limit reached for gpt-4o in organization org-abc on tokens per min (TPM).";
    error(429, "tokens", json!("rate_limit_exceeded"), message)
}

/// The same status, and no wait mends it.
pub fn out_of_credit() -> Act {
    let message = "You exceeded your current quota, please check your plan and billing details.";
    error(429, "insufficient_quota", json!("insufficient_quota"), message)
}

pub fn invalid_key() -> Act {
    let message = "Incorrect API key provided. You can find your API key at https://platform.openai.com.";
    error(401, "invalid_request_error", json!("invalid_api_key"), message)
}

pub fn overloaded() -> Act {
    error(503, "server_error", Value::Null, "The engine is currently overloaded, please try again later")
}

pub fn bad_request() -> Act {
    let message = "'messages' is a required property";
    error(400, "invalid_request_error", Value::Null, message)
}
