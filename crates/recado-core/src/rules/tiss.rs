//! TISS claims: two lists, matched by *contains*. What neither names is unknown, and retried.

use super::RowCondition::{Says, Status};
use super::{Row, UNANSWERED, set};
use crate::classify::Blame::{Message, Provider};
use crate::classify::Class::{Permanent, Transient};
use crate::classify::Rule;

/// Tried first: an error that names both lists is permanent.
const PERMANENT: &[Row] = &[
    ("INVALID_PATIENT_DATA", &[Says("INVALID_PATIENT_DATA")], Permanent, Message),
    ("INSURANCE_EXPIRED", &[Says("INSURANCE_EXPIRED")], Permanent, Message),
    // The insurer refuses the procedure; our credentials are not in question.
    ("AUTHORIZATION_DENIED", &[Says("AUTHORIZATION_DENIED")], Permanent, Message),
    ("DUPLICATE_CLAIM", &[Says("DUPLICATE_CLAIM")], Permanent, Message),
    ("INVALID_PROCEDURE_CODE", &[Says("INVALID_PROCEDURE_CODE")], Permanent, Message),
];

const TRANSIENT: &[Row] = &[
    ("TIMEOUT", &[Says("TIMEOUT")], Transient, Provider),
    ("CONNECTION_ERROR", &[Says("CONNECTION_ERROR")], Transient, Provider),
    ("SERVICE_UNAVAILABLE", &[Says("SERVICE_UNAVAILABLE")], Transient, Provider),
    ("NETWORK_ERROR", &[Says("NETWORK_ERROR")], Transient, Provider),
    ("TEMPORARY_ERROR", &[Says("TEMPORARY_ERROR")], Transient, Provider),
    // The claims rule has three classes; this error is permanent there.
    ("RATE_LIMIT", &[Says("RATE_LIMIT")], Transient, Provider),
    ("SERVER_ERROR", &[Says("SERVER_ERROR")], Transient, Provider),
    ("503", &[Says("503")], Transient, Provider),
    ("504", &[Says("504")], Transient, Provider),
    // The same two when a claim goes over HTTP and the answer names itself otherwise.
    ("status-503-504", &[Status(503, 504)], Transient, Provider),
];

pub fn rules() -> Vec<Rule> {
    set("tiss", &[UNANSWERED, PERMANENT, TRANSIENT])
}
