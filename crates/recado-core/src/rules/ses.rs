//! AWS SES: the names of its errors, and the SMTP codes that belong to the same list.

use std::time::Duration;

use super::RowCondition::{Code, Says, Status};
use super::smtp::TAKEN_BACK;
use super::{Named, Row, UNANSWERED, rule, set};
use crate::classify::Blame::{Credential, Message, Provider};
use crate::classify::Class::{Permanent, RateLimit, Transient};
use crate::classify::{Condition, Rule};

/// AWS spells each name with or without this, by API version and SDK.
const SUFFIX: &str = "Exception";

const NAMES: &[Named] = &[
    ("Throttling", RateLimit, Provider),
    ("TooManyRequests", RateLimit, Provider),
    ("LimitExceeded", RateLimit, Credential),
    ("ServiceUnavailable", Transient, Provider),
    ("InternalServiceError", Transient, Provider),
    // AWS pauses an account, and a person resumes it: worth waiting for, and nothing the provider broke.
    ("SendingPaused", Transient, Credential),
    ("MessageRejected", Permanent, Message),
    ("BadRequest", Permanent, Message),
    ("AccountSuspended", Permanent, Credential),
    // These two are about one tenant's set-up, not about the message.
    ("MailFromDomainNotVerified", Permanent, Credential),
    ("NotFound", Permanent, Credential),
    // A key that AWS does not take. Every message of the account meets it until a person replaces it.
    ("AccessDenied", Permanent, Credential),
    ("ExpiredToken", Permanent, Credential),
    ("IncompleteSignature", Permanent, Credential),
    ("InvalidClientTokenId", Permanent, Credential),
    ("InvalidSignature", Permanent, Credential),
    ("MissingAuthenticationToken", Permanent, Credential),
    ("NotAuthorized", Permanent, Credential),
    ("OptInRequired", Permanent, Credential),
    ("RequestExpired", Permanent, Credential),
    ("SignatureDoesNotMatch", Permanent, Credential),
    ("UnrecognizedClient", Permanent, Credential),
];

/// Errors of the SES transport when it has no key to sign with.
const KEYLESS: &[Row] = &[
    ("CredentialsNotFound", &[Code("CredentialsNotFound")], Permanent, Credential),
    ("RegionNotFound", &[Code("RegionNotFound")], Permanent, Credential),
    // The service that hands out keys is slow or down, and recovers.
    ("CredentialsUnavailable", &[Code("CredentialsUnavailable")], Transient, Credential),
];

pub(super) const DAILY_QUOTA: &str = "daily-quota";

/// The quota is that of the last 24 hours, so it frees bit by bit: to ask once an hour loses little time, and costs
/// a job that is in the way few of its attempts.
pub(super) const DAILY_QUOTA_WAIT: Duration = Duration::from_secs(60 * 60);

/// `Throttling`, and over SMTP a 454, may be a matter of seconds or of a day: only the words tell. Both limits are
/// the sending account's, which all companies of the provider share.
pub(super) const WORDS: &[Row] = &[
    (DAILY_QUOTA, &[Says("Daily message quota exceeded")], RateLimit, Provider),
    ("sending-rate", &[Says("Maximum sending rate exceeded")], RateLimit, Provider),
];

const BY_NUMBER: &[Row] = &[
    ("421", &[Code("421")], Transient, Provider),
    ("450", &[Code("450")], Transient, Message),
    ("451", &[Code("451")], Transient, Provider),
    ("452", &[Code("452")], Transient, Provider),
    // How SES over SMTP throttles.
    ("454", &[Code("454")], RateLimit, Provider),
    // The list reads a bare 500 as SMTP's syntax error.
    ("500", &[Code("500")], Permanent, Message),
    ("550", &[Code("550")], Permanent, Message),
    ("554", &[Code("554")], Permanent, Message),
    ("55x", &[Code("55x")], Permanent, Message),
    ("401", &[Status(401, 401)], Permanent, Credential),
    ("403", &[Status(403, 403)], Permanent, Credential),
    ("429", &[Status(429, 429)], RateLimit, Provider),
    ("5xx", &[Status(500, 599)], Transient, Provider),
];

pub fn rules() -> Vec<Rule> {
    [set("ses", &[UNANSWERED, WORDS]), by_name("ses"), set("ses", &[KEYLESS, TAKEN_BACK, BY_NUMBER])].concat()
}

/// SES errors by name, for any set that may meet them.
pub(super) fn by_name(prefix: &str) -> Vec<Rule> {
    let mut rules = Vec::new();
    for &(name, class, blame) in NAMES {
        for spelling in [name.to_owned(), format!("{name}{SUFFIX}")] {
            let when = Condition { code: Some(spelling.clone().into()), ..Condition::default() };
            rules.push(rule(prefix, &spelling, when, class, blame));
        }
    }
    rules
}
