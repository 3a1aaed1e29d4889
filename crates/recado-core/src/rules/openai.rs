//! OpenAI: two very different things behind 429, then the table of statuses.

use super::http::BY_STATUS;
use super::{Named, UNANSWERED, called, set};
use crate::classify::Blame::{Credential, Provider};
use crate::classify::Class::{Permanent, RateLimit};
use crate::classify::Rule;

const BODY: &[Named] = &[
    // The account is out of credit. No retry pays the bill, so it goes before a person at once.
    ("insufficient_quota", Permanent, Credential),
    ("rate_limit_exceeded", RateLimit, Provider),
];

pub fn rules() -> Vec<Rule> {
    [set("openai", &[UNANSWERED]), called("openai", BODY), set("openai", &[BY_STATUS])].concat()
}
