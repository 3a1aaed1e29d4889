//! Meta's Graph API, which Instagram and the Cloud API of WhatsApp speak: the number in the body says
//! more than the status, which is 400 for nearly everything.

use super::{Named, compiled, rule};
use crate::classify::Blame::{Credential, Message, Provider};
use crate::classify::Class::{Permanent, RateLimit, Transient};
use crate::classify::{Condition, Rule};

const WORTH_WAITING: &[Named] = &[
    ("4", RateLimit, Provider),
    ("17", RateLimit, Credential),
    ("341", RateLimit, Provider),
    // Blocked for a while for breaking a policy: it passes, and it is the account that is blocked.
    ("368", Transient, Credential),
    ("1", Transient, Provider),
    ("2", Transient, Provider),
];

const FINAL: &[Named] = &[
    ("102", Permanent, Credential),
    ("190", Permanent, Credential),
    ("10", Permanent, Credential),
    ("2xx", Permanent, Credential),
    // The same post again: it is out already.
    ("506", Permanent, Message),
];

/// Error numbers that WhatsApp's Cloud API adds to those of Graph.
pub(super) const CLOUD: &[Named] = &[
    ("80007", RateLimit, Credential),
    ("130429", RateLimit, Credential),
    ("131048", RateLimit, Credential),
    // Too many messages to this one number.
    ("131056", RateLimit, Message),
    ("131000", Transient, Provider),
    ("131016", Transient, Provider),
    ("131031", Permanent, Credential),
    ("131042", Permanent, Credential),
    ("131026", Permanent, Message),
    ("131030", Permanent, Message),
    ("131047", Permanent, Message),
    ("100", Permanent, Message),
];

/// Graph's rules, for answers whose status lies within `status`.
pub(super) fn rules(set: &str, status: (u16, u16)) -> Vec<Rule> {
    let when = in_body(r#""is_transient"\s*:\s*true\b"#, status);
    let flag = rule(set, "graph-is-transient", when, Transient, Provider);
    [by_number(set, WORTH_WAITING, status), vec![flag], by_number(set, FINAL, status)].concat()
}

/// One rule per number, where `x` stands for any digit. It must be the whole value of a member that is
/// called `code`, so neither `error_subcode` nor a part of a longer number is taken for it.
pub(super) fn by_number(set: &str, numbers: &[Named], status: (u16, u16)) -> Vec<Rule> {
    numbers
        .iter()
        .map(|&(number, class, blame)| {
            let when = in_body(&format!(r#""code"\s*:\s*{}\b"#, number.replace('x', r"\d")), status);
            rule(set, &format!("graph-{number}"), when, class, blame)
        })
        .collect()
}

fn in_body(pattern: &str, status: (u16, u16)) -> Condition {
    Condition { status: Some(status), regex: Some(compiled(pattern)), ..Condition::default() }
}
