//! A customer's webhook receiver, and what it makes of signatures.

pub use recado_testkit::providers::receiver::{ALLOWED, SECRET, error, provider};
use serde_json::Value;

use super::{FarEnd, Request};

pub fn start() -> FarEnd {
    FarEnd::start(recado_testkit::providers::receiver::manners)
}

/// A channel that posts to this receiver.
pub fn channel(name: &str, receiver: &FarEnd) -> String {
    recado_testkit::providers::receiver::channel(name, &receiver.url())
}

/// The body, if the signature is right.
#[track_caller]
pub fn verified(request: &Request, secret: &str) -> Value {
    assert!(request.is_signed_with(secret), "not signed with this secret: {request:?}");
    request.json()
}
