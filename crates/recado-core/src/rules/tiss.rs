//! TISS claims: two lists, matched by *contains*. What neither names is unknown, and retried.

use super::{Row, UNANSWERED, set, status, text};
use crate::classify::Blame::{Message, Provider};
use crate::classify::Class::{Permanent, Transient};
use crate::classify::Rule;

/// Tried first: an error that names both lists is permanent.
const PERMANENT: &[Row] = &[
    ("INVALID_PATIENT_DATA", text("INVALID_PATIENT_DATA"), Permanent, Message),
    ("INSURANCE_EXPIRED", text("INSURANCE_EXPIRED"), Permanent, Message),
    // The insurer refuses the procedure; our credentials are not in question.
    ("AUTHORIZATION_DENIED", text("AUTHORIZATION_DENIED"), Permanent, Message),
    ("DUPLICATE_CLAIM", text("DUPLICATE_CLAIM"), Permanent, Message),
    ("INVALID_PROCEDURE_CODE", text("INVALID_PROCEDURE_CODE"), Permanent, Message),
];

const TRANSIENT: &[Row] = &[
    ("TIMEOUT", text("TIMEOUT"), Transient, Provider),
    ("CONNECTION_ERROR", text("CONNECTION_ERROR"), Transient, Provider),
    ("SERVICE_UNAVAILABLE", text("SERVICE_UNAVAILABLE"), Transient, Provider),
    ("NETWORK_ERROR", text("NETWORK_ERROR"), Transient, Provider),
    ("TEMPORARY_ERROR", text("TEMPORARY_ERROR"), Transient, Provider),
    // The claims rule has three classes; this error is permanent there.
    ("RATE_LIMIT", text("RATE_LIMIT"), Transient, Provider),
    ("SERVER_ERROR", text("SERVER_ERROR"), Transient, Provider),
    ("503", text("503"), Transient, Provider),
    ("504", text("504"), Transient, Provider),
    // The same two when a claim goes over HTTP and the answer names itself otherwise.
    ("status-503-504", status(503, 504), Transient, Provider),
];

pub fn rules() -> Vec<Rule> {
    set("tiss", &[UNANSWERED, PERMANENT, TRANSIENT])
}
