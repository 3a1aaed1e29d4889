//! A customer's webhook receiver, which checks signatures with the library that customers are told to use.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use super::{Act, FarEnd, Request, json};

/// Signs where the configuration names an address instead of an endpoint.
pub const SECRET: &str = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0";

/// What a server's configuration says so that it may reach this machine.
pub const ALLOWED: &str = "[webhooks]\nallow = [\"127.0.0.0/8\"]\n";

pub fn start() -> FarEnd {
    FarEnd::start(|_| json(200, json!({ "received": true })))
}

/// With the secret that signs for addresses.
pub fn provider() -> String {
    format!("[providers.webhook]\nsecret = \"{SECRET}\"\n{ALLOWED}")
}

/// A channel that posts to this receiver.
pub fn channel(name: &str, receiver: &FarEnd) -> String {
    format!("[notify.{name}]\nwebhook = \"{}/notices\"\nsecret = \"{SECRET}\"\n", receiver.url())
}

pub fn error(status: u16) -> Act {
    json(status, json!({ "error": "the receiver is not well" }))
}

/// The body, if the signature is right.
#[track_caller]
pub fn verified(request: &Request, secret: &str) -> Value {
    let verifier = Webhook::new(secret).expect("a secret");
    if let Err(error) = verifier.verify(&request.body, &headers(request)) {
        panic!("{error}: {request:?}");
    }
    request.json()
}

/// Whether another secret would do as well, which it must not.
pub fn is_signed_with(request: &Request, secret: &str) -> bool {
    Webhook::new(secret).expect("a secret").verify(&request.body, &headers(request)).is_ok()
}

fn headers(request: &Request) -> HeaderMap {
    let header = |(name, value): &(String, String)| {
        let name: HeaderName = name.parse().expect("a header's name");
        (name, HeaderValue::from_str(value).expect("a header's value"))
    };
    request.headers().iter().map(header).collect()
}
