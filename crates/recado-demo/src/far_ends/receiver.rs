//! A customer's webhook receiver, which checks signatures with the library that customers are told to use.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use standardwebhooks::Webhook;

use super::http::{Act, Request, json};

/// Signs where the configuration names an address instead of an endpoint.
pub const SECRET: &str = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0";

/// The lines of a server's configuration that let it reach this machine.
pub const ALLOWED: &str = "[webhooks]\nallow = [\"127.0.0.0/8\"]\n";

/// With the secret that signs for addresses.
pub fn provider() -> String {
    format!("[providers.webhook]\nsecret = \"{SECRET}\"\n{ALLOWED}")
}

/// A channel that posts to the receiver at this address.
pub fn channel(name: &str, url: &str) -> String {
    format!("[notify.{name}]\nwebhook = \"{url}/notices\"\nsecret = \"{SECRET}\"\n")
}

/// Its usual answer.
pub fn manners(_: &Request) -> Act {
    json(200, json!({ "received": true }))
}

pub fn error(status: u16) -> Act {
    json(status, json!({ "error": "the receiver is not well" }))
}

/// Returns true if the request was signed with the secret.
pub fn is_signed_with(request: &Request, secret: &str) -> bool {
    let checked = Webhook::new(secret).and_then(|webhook| webhook.verify(&request.body, &headers(request)));
    checked.is_ok()
}

fn headers(request: &Request) -> HeaderMap {
    let header = |(name, value): &(String, String)| {
        Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value).ok()?))
    };
    request.headers().iter().filter_map(header).collect()
}
