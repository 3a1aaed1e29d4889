//! Signed webhooks to addresses that users supply, behind a guard.
//!
//! A job's `payload` is posted as it stands, signed as Standard Webhooks has it, to an endpoint that its
//! company registered or to a URL that it names. Users choose where that leads, and Recado stands inside
//! a network that they must not see: every address passes the [`Guard`], and the address that was
//! checked is the one that is connected to.
//!
//! Absent on purpose: where endpoints are kept, which events they want, and when they are switched off;
//! all of that is the engine's, behind [`Endpoints`].

mod guard;
mod lookup;
mod message;
mod ranges;
mod sign;
mod webhook;

pub use guard::{Guard, Refusal};
pub use ipnet::IpNet;
pub use lookup::{Lookup, SystemLookup};
pub use sign::{NotASecret, Secret};
pub use webhook::{Endpoints, Target, TestResult, Webhook, WebhookConfig};
