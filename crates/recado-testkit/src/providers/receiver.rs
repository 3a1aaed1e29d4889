//! A customer's webhook receiver.

use serde_json::json;

use crate::http::{Act, Request, json};

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
