//! The promises of recado-core, requirement by requirement. Test names begin with the requirement's id.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene fails")]

mod audit_trail;
mod breakers;
mod claims;
mod crashes;
mod dead_letters;
mod decisions;
mod delays;
mod documented;
mod errors;
mod events;
mod given;
mod limits;
mod pins;
mod policy_properties;
mod progress;
mod recipients;
mod rule_sets;
mod wire_shapes;
