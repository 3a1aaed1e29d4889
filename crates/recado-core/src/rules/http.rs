//! Any HTTP API: the table of statuses, and those it leaves open. Signed webhooks are judged by it too.

use super::RowCondition::{Code, Status};
use super::{Row, UNANSWERED, set};
use crate::classify::Blame::{Credential, Message, Provider};
use crate::classify::Class::{Permanent, RateLimit, Transient};
use crate::classify::Rule;
use crate::engine_code::EngineCode;

/// Errors of the webhook transport before it connects. Each persists until a person changes the endpoint or
/// the job.
const WEBHOOK: &[Row] = &[
    ("ENDPOINT_UNKNOWN", &[Code(EngineCode::EndpointUnknown.as_str())], Permanent, Message),
    ("ENDPOINT_DISABLED", &[Code(EngineCode::EndpointDisabled.as_str())], Permanent, Message),
    ("ADDRESS_REFUSED", &[Code(EngineCode::AddressRefused.as_str())], Permanent, Message),
];

/// Judged by the status alone. Every HTTP set ends with it, after what the body says.
///
/// Each row is named as a code is matched (`"5xx"` is any of them): `general` relies on that.
pub(super) const BY_STATUS: &[Row] = &[
    ("400", &[Status(400, 400)], Permanent, Message),
    ("401", &[Status(401, 401)], Permanent, Credential),
    ("403", &[Status(403, 403)], Permanent, Credential),
    ("404", &[Status(404, 404)], Permanent, Message),
    ("408", &[Status(408, 408)], Transient, Provider),
    ("410", &[Status(410, 410)], Permanent, Message),
    ("425", &[Status(425, 425)], Transient, Provider),
    ("429", &[Status(429, 429)], RateLimit, Provider),
    ("500", &[Status(500, 500)], Transient, Provider),
    ("502", &[Status(502, 502)], Transient, Provider),
    ("503", &[Status(503, 503)], Transient, Provider),
    ("504", &[Status(504, 504)], Transient, Provider),
    ("5xx", &[Status(500, 599)], Transient, Provider),
    ("4xx", &[Status(400, 499)], Permanent, Message),
    // A redirect is not followed: it would carry the payload to an address that was never checked. Another
    // try meets the same redirect; a person corrects the address and replays.
    ("3xx", &[Status(300, 399)], Permanent, Message),
];

pub fn rules() -> Vec<Rule> {
    set("http", &[UNANSWERED, WEBHOOK, BY_STATUS])
}
