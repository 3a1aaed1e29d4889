//! SMTP and HTTP codes together, and the names of SES: for routes that may meet any of them.
//!
//! HTTP wins where the two give one number another meaning (500–503), so 5xx is
//! transient but for SMTP's own 53x and 55x; 421 and 45x are SMTP's, and other 4xx are HTTP's.

use super::http::BY_STATUS;
use super::smtp::{LISTED, LOGIN, REFINED, TAKEN_BACK};
use super::{Row, UNANSWERED, code, ses, set};
use crate::classify::Blame::{Message, Provider};
use crate::classify::Class::{Permanent, Transient};
use crate::classify::Rule;

const REST_OF_SMTP: &[Row] =
    &[("45x", code("45x"), Transient, Provider), ("55x", code("55x"), Permanent, Message)];

pub fn rules() -> Vec<Rule> {
    // An SMTP server's code comes without a status; a provider may name its error and still send one.
    let by_code: Vec<Row> =
        BY_STATUS.iter().map(|&(name, _, class, blame)| (name, code(name), class, blame)).collect();
    let mut rules = set("general", &[UNANSWERED, ses::WORDS]);
    rules.extend(ses::by_name("general"));
    rules.extend(set("general", &[REFINED, LOGIN, TAKEN_BACK, LISTED, REST_OF_SMTP, &by_code]));
    rules.extend(set("general/status", &[BY_STATUS]));
    rules
}
