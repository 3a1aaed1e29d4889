//! Evolution API (WhatsApp): seed 002's statuses, after the body, which knows better.

use super::http::BY_STATUS;
use super::{Row, UNANSWERED, regex, set, status, text};
use crate::classify::Blame::{Credential, Message, Provider};
use crate::classify::Class::{Permanent, RateLimit, Transient};
use crate::classify::Rule;

/// Any failure to send may come as 400, and the Cloud API channel can put one inside a 201, so these
/// do not ask for the status.
const BODY: &[Row] = &[
    ("not-on-whatsapp", regex(r#"(?i)"?exists"?\s*:\s*false"#), Permanent, Message),
    // One instance lost its session or sends too fast; the others on the same server are well.
    ("connection-closed", text("Connection Closed"), Transient, Credential),
    ("rate-overlimit", text("rate-overlimit"), RateLimit, Credential),
    ("timed-out", text("Timed Out"), Transient, Provider),
    // A 404 is the number's fault, unless it is the instance that is unknown.
    ("unknown-instance", status(404, 404).and_text("instance"), Permanent, Credential),
];

pub fn rules() -> Vec<Rule> {
    set("evolution", &[UNANSWERED, BODY, BY_STATUS])
}
