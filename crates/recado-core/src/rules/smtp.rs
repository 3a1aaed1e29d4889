//! SMTP replies: the required lists, refined by what servers really say.

use super::RowCondition::{Code, Enhanced, Matches, Says};
use super::ses::WORDS;
use super::{Row, UNANSWERED, set};
use crate::classify::Blame::{Credential, Message, Provider};
use crate::classify::Class::{Permanent, RateLimit, Transient};
use crate::classify::Rule;

/// A pattern for words that stand in a sentence, not in the name of a mailbox or of a host.
macro_rules! said {
    ($words:literal) => {
        concat!(r"(?:^|[^\w@<.])(?:", $words, r")(?:$|[^\w@.+-]|\.(?:\s|$))")
    };
}

/// Words by which a server takes back the finality of its code, in English and Portuguese.
const SAYS_TEMPORARY: &str = concat!(
    r"(?i)try (?:again )?later|tente (?:novamente )?mais tarde|",
    said!(r"tempor(?:ary|arily|[aá]ri[oa]|ariamente)|gr[ae]ylist(?:ed|ing)?"),
);

const SAYS_GREYLIST: &str = concat!("(?i)", said!("greylist(?:ed|ing)?"));
const SAYS_GRAYLIST: &str = concat!("(?i)", said!("graylist(?:ed|ing)?"));

const SAYS_TOO_FAST: &str =
    r"(?i)throttl|rate limit|unusual rate|sending rate|too many (messages|connections|concurrent)";

/// Refinements of a code by words and enhanced codes, for every protocol.
pub(super) const REFINED: &[Row] = &[
    ("temporarily-deferred", &[Says("temporarily deferred")], RateLimit, Provider),
    ("4.7.28", &[Enhanced("4.7.28")], RateLimit, Provider),
    ("4xx-too-fast", &[Code("4xx"), Matches(SAYS_TOO_FAST)], RateLimit, Provider),
    // At RCPT these mean "not so many at once", not "the disk is full": fewer recipients will pass.
    ("x52-too-many-recipients", &[Code("x52"), Says("too many recipients")], Transient, Message),
    ("x52-x.5.3", &[Code("x52"), Enhanced("x.5.3")], Transient, Message),
    // The recipient's server tests our patience; the relay in between is well.
    ("greylist", &[Matches(SAYS_GREYLIST)], Transient, Message),
    ("graylist", &[Matches(SAYS_GRAYLIST)], Transient, Message),
    // Basic and enhanced code disagree in the wild: words decide, then the enhanced code.
    ("45x-5.x.x-temporary", &[Code("45x"), Enhanced("5.x.x"), Matches(SAYS_TEMPORARY)], Transient, Message),
    ("45x-5.x.x", &[Code("45x"), Enhanced("5.x.x")], Permanent, Message),
];

/// The login was refused: every message fails until a person corrects it, and none is to blame.
pub(super) const LOGIN: &[Row] = &[
    ("53x-temporary", &[Code("53x"), Matches(SAYS_TEMPORARY)], Transient, Credential),
    ("53x-4.x.x", &[Code("53x"), Enhanced("4.x.x")], Transient, Credential),
    ("530", &[Code("530")], Permanent, Credential),
    ("534", &[Code("534")], Permanent, Credential),
    ("535", &[Code("535")], Permanent, Credential),
    ("538", &[Code("538")], Permanent, Credential),
];

/// Refused before there was a message to refuse. The transport puts the phase in front of the words.
const BEFORE_MAIL: &[Row] = &[
    ("5xx-at-auth", &[Code("5xx"), Matches("^at AUTH:")], Permanent, Credential),
    (
        "5xx-before-mail",
        &[Code("5xx"), Matches("^at (?:the greeting|EHLO|HELO|STARTTLS):")],
        Transient,
        Provider,
    ),
];

/// The same disagreement the other way round, for every set that knows 550.
pub(super) const TAKEN_BACK: &[Row] = &[
    ("55x-temporary", &[Code("55x"), Matches(SAYS_TEMPORARY)], Transient, Message),
    ("55x-4.x.x", &[Code("55x"), Enhanced("4.x.x")], Transient, Message),
];

/// Do not use in HTTP rule sets: there a 503 that says "temporarily" means the provider is down.
const TAKEN_BACK_TOO: &[Row] = &[
    ("5xx-temporary", &[Code("5xx"), Matches(SAYS_TEMPORARY)], Transient, Message),
    ("5xx-4.x.x", &[Code("5xx"), Enhanced("4.x.x")], Transient, Message),
];

/// Codes that mean the same wherever they appear: the required lists except 500–503.
pub(super) const LISTED: &[Row] = &[
    ("421", &[Code("421")], Transient, Provider),
    ("450", &[Code("450")], Transient, Message),
    ("451", &[Code("451")], Transient, Provider),
    ("452", &[Code("452")], Transient, Provider),
    ("550", &[Code("550")], Permanent, Message),
    ("551", &[Code("551")], Permanent, Message),
    ("552", &[Code("552")], Permanent, Message),
    ("553", &[Code("553")], Permanent, Message),
    ("554", &[Code("554")], Permanent, Message),
];

/// 503 is a protocol slip. A transport that knows the slip to be its own reports a network failure.
const BY_CODE: &[Row] = &[
    ("500", &[Code("500")], Permanent, Message),
    ("501", &[Code("501")], Permanent, Message),
    ("502", &[Code("502")], Permanent, Message),
    ("503", &[Code("503")], Permanent, Message),
    ("4xx", &[Code("4xx")], Transient, Provider),
    ("5xx", &[Code("5xx")], Permanent, Message),
];

pub fn rules() -> Vec<Rule> {
    set(
        "smtp",
        &[UNANSWERED, WORDS, REFINED, LOGIN, BEFORE_MAIL, TAKEN_BACK, TAKEN_BACK_TOO, LISTED, BY_CODE],
    )
}
