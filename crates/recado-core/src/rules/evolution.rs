//! Evolution API (WhatsApp): the body decides first, then the status.

use super::RowCondition::{Matches, Says, Status};
use super::graph::{self, CLOUD};
use super::http::BY_STATUS;
use super::{Row, UNANSWERED, set};
use crate::classify::Blame::{Credential, Message, Provider};
use crate::classify::Class::{Permanent, RateLimit, Transient};
use crate::classify::Rule;

/// Any failure to send may come as 400, and the Cloud API channel can put one inside a 201, so these
/// do not ask for the status.
const BODY: &[Row] = &[
    ("not-on-whatsapp", &[Matches(r#"(?i)(?:^|[\s{,"])exists"?\s*:\s*false\b"#)], Permanent, Message),
    // One instance lost its session or sends too fast; the others on the same server are well.
    ("connection-closed", &[Says("Connection Closed")], Transient, Credential),
    ("rate-overlimit", &[Says("rate-overlimit")], RateLimit, Credential),
    ("timed-out", &[Says("Timed Out")], Transient, Provider),
    // A 404 is the number's fault, unless it is the instance that is unknown.
    ("unknown-instance", &[Status(404, 404), Matches(UNKNOWN_INSTANCE)], Permanent, Credential),
];

const UNKNOWN_INSTANCE: &str = r"(?i)\binstance (?:does not exist|not found)";

/// From Meta's refusal inside a 201 to one that the server passes on with its status.
const META_REFUSES: (u16, u16) = (200, 403);

pub fn rules() -> Vec<Rule> {
    [
        set("evolution", &[UNANSWERED, BODY]),
        graph::rules("evolution", META_REFUSES),
        graph::by_number("evolution", CLOUD, META_REFUSES),
        set("evolution", &[BY_STATUS]),
    ]
    .concat()
}
