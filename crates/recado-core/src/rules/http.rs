//! Any HTTP API: the table of statuses, and those it leaves open. Signed webhooks are judged by it too.

use super::{Row, UNANSWERED, code, set, status};
use crate::classify::Blame::{Credential, Message, Provider};
use crate::classify::Class::{Permanent, RateLimit, Transient};
use crate::classify::Rule;
use crate::engine_code::EngineCode;

/// Errors of the webhook transport before it connects. Each persists until a person changes the endpoint or
/// the job.
const WEBHOOK: &[Row] = &[
    ("ENDPOINT_UNKNOWN", code(EngineCode::EndpointUnknown.as_str()), Permanent, Message),
    ("ENDPOINT_DISABLED", code(EngineCode::EndpointDisabled.as_str()), Permanent, Message),
    ("ADDRESS_REFUSED", code(EngineCode::AddressRefused.as_str()), Permanent, Message),
];

/// Judged by the status alone. Every HTTP set ends with it, after what the body says.
///
/// Each row is named as a code is matched (`"5xx"` is any of them): `general` relies on that.
pub(super) const BY_STATUS: &[Row] = &[
    ("400", status(400, 400), Permanent, Message),
    ("401", status(401, 401), Permanent, Credential),
    ("403", status(403, 403), Permanent, Credential),
    ("404", status(404, 404), Permanent, Message),
    ("408", status(408, 408), Transient, Provider),
    ("410", status(410, 410), Permanent, Message),
    ("425", status(425, 425), Transient, Provider),
    ("429", status(429, 429), RateLimit, Provider),
    ("500", status(500, 500), Transient, Provider),
    ("502", status(502, 502), Transient, Provider),
    ("503", status(503, 503), Transient, Provider),
    ("504", status(504, 504), Transient, Provider),
    ("5xx", status(500, 599), Transient, Provider),
    ("4xx", status(400, 499), Permanent, Message),
    // A redirect is not followed: it would carry the payload to an address that was never checked. Another
    // try meets the same redirect; a person corrects the address and replays.
    ("3xx", status(300, 399), Permanent, Message),
];

pub fn rules() -> Vec<Rule> {
    set("http", &[UNANSWERED, WEBHOOK, BY_STATUS])
}
