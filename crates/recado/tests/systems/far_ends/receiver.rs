//! A customer's webhook receiver, and what it makes of signatures.

pub use recado_demo::far_ends::receiver::{ALLOWED, SECRET, error, is_signed_with, provider};
use serde_json::Value;

use super::{FarEnd, Request};

pub fn start() -> FarEnd {
    FarEnd::start(recado_demo::far_ends::receiver::manners)
}

/// A channel that posts to this receiver.
pub fn channel(name: &str, receiver: &FarEnd) -> String {
    recado_demo::far_ends::receiver::channel(name, &receiver.url())
}

/// The body, if the signature is right.
#[track_caller]
pub fn verified(request: &Request, secret: &str) -> Value {
    assert!(is_signed_with(request, secret), "not signed with this secret: {request:?}");
    request.json()
}
