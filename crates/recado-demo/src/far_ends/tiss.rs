//! An insurer's gateway for TISS claims, which names its errors as the claims rule lists them.

use serde_json::json;

use super::http::{Act, Request, json};

pub fn provider(url: &str) -> String {
    format!("[providers.tiss]\nurl = \"{url}\"\n")
}

/// Its usual answer.
pub fn manners(request: &Request) -> Act {
    match &*request.method {
        "POST" => json(200, json!({ "protocol": "TISS-2026-000001" })),
        _ => json(405, json!({ "error": "claims are posted" })),
    }
}

/// Gateways answer 500 whatever it is; the word in the body says what.
pub fn error(code: &str) -> Act {
    json(500, json!({ "error": code, "message": format!("{code}: the claim was not taken") }))
}
