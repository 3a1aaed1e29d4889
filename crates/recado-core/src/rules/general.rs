//! SMTP and HTTP codes together, and the names of SES: for routes that may meet any of them.
//!
//! HTTP wins where the two give one number another meaning (500–503), so 5xx is
//! transient but for SMTP's own 53x and 55x; 421 and 45x are SMTP's, and other 4xx are HTTP's.

use super::RowCondition::Code;
use super::http::BY_STATUS;
use super::smtp::{LISTED, LOGIN, REFINED, TAKEN_BACK};
use super::{Row, UNANSWERED, rule, ses, set};
use crate::classify::Blame::{Message, Provider};
use crate::classify::Class::{Permanent, Transient};
use crate::classify::{Condition, Rule};

const REST_OF_SMTP: &[Row] =
    &[("45x", &[Code("45x")], Transient, Provider), ("55x", &[Code("55x")], Permanent, Message)];

pub fn rules() -> Vec<Rule> {
    // An SMTP server's code comes without a status; a provider may name its error and still send one.
    let by_code = BY_STATUS.iter().map(|&(name, _, class, blame)| {
        let when = Condition { code: Some(name.into()), ..Condition::default() };
        rule("general", name, when, class, blame)
    });
    let mut rules = set("general", &[UNANSWERED, ses::WORDS]);
    rules.extend(ses::by_name("general"));
    rules.extend(set("general", &[REFINED, LOGIN, TAKEN_BACK, LISTED, REST_OF_SMTP]));
    rules.extend(by_code);
    rules.extend(set("general/status", &[BY_STATUS]));
    rules
}
