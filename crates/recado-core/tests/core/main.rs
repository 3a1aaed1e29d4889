//! What recado-core promises, requirement by requirement. Test names begin with the requirement's id.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene fails")]

mod audit_trail;
mod claims;
mod crashes;
mod dead_letters;
mod decisions;
mod delays;
mod errors_email;
mod errors_http;
mod errors_messaging;
mod given;
mod policy_properties;
mod progress;
mod rule_sets;
mod wire_shapes;
