//! SMTP replies: the required lists, refined by what servers really say.

use super::ses::WORDS;
use super::{Row, UNANSWERED, code, enhanced, regex, set, text};
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
    ("temporarily-deferred", text("temporarily deferred"), RateLimit, Provider),
    ("4.7.28", enhanced("4.7.28"), RateLimit, Provider),
    ("4xx-too-fast", code("4xx").and_regex(SAYS_TOO_FAST), RateLimit, Provider),
    // At RCPT these mean "not so many at once", not "the disk is full": fewer recipients will pass.
    ("x52-too-many-recipients", code("x52").and_text("too many recipients"), Transient, Message),
    ("x52-x.5.3", code("x52").and_enhanced("x.5.3"), Transient, Message),
    // The recipient's server tests our patience; the relay in between is well.
    ("greylist", regex(SAYS_GREYLIST), Transient, Message),
    ("graylist", regex(SAYS_GRAYLIST), Transient, Message),
    // Basic and enhanced code disagree in the wild: words decide, then the enhanced code.
    ("45x-5.x.x-temporary", code("45x").and_enhanced("5.x.x").and_regex(SAYS_TEMPORARY), Transient, Message),
    ("45x-5.x.x", code("45x").and_enhanced("5.x.x"), Permanent, Message),
];

/// The login was refused: every message fails until a person corrects it, and none is to blame.
pub(super) const LOGIN: &[Row] = &[
    ("53x-temporary", code("53x").and_regex(SAYS_TEMPORARY), Transient, Credential),
    ("53x-4.x.x", code("53x").and_enhanced("4.x.x"), Transient, Credential),
    ("530", code("530"), Permanent, Credential),
    ("534", code("534"), Permanent, Credential),
    ("535", code("535"), Permanent, Credential),
    ("538", code("538"), Permanent, Credential),
];

/// Refused before there was a message to refuse. The transport puts the phase in front of the words.
const BEFORE_MAIL: &[Row] = &[
    ("5xx-at-auth", code("5xx").and_regex("^at AUTH:"), Permanent, Credential),
    (
        "5xx-before-mail",
        code("5xx").and_regex("^at (?:the greeting|EHLO|HELO|STARTTLS):"),
        Transient,
        Provider,
    ),
];

/// The same disagreement the other way round, for every set that knows 550.
pub(super) const TAKEN_BACK: &[Row] = &[
    ("55x-temporary", code("55x").and_regex(SAYS_TEMPORARY), Transient, Message),
    ("55x-4.x.x", code("55x").and_enhanced("4.x.x"), Transient, Message),
];

/// Not for sets that know HTTP, where a 503 that says "temporarily" is a provider that is down.
const TAKEN_BACK_TOO: &[Row] = &[
    ("5xx-temporary", code("5xx").and_regex(SAYS_TEMPORARY), Transient, Message),
    ("5xx-4.x.x", code("5xx").and_enhanced("4.x.x"), Transient, Message),
];

/// Codes that mean the same wherever they appear: the required lists except 500–503.
pub(super) const LISTED: &[Row] = &[
    ("421", code("421"), Transient, Provider),
    ("450", code("450"), Transient, Message),
    ("451", code("451"), Transient, Provider),
    ("452", code("452"), Transient, Provider),
    ("550", code("550"), Permanent, Message),
    ("551", code("551"), Permanent, Message),
    ("552", code("552"), Permanent, Message),
    ("553", code("553"), Permanent, Message),
    ("554", code("554"), Permanent, Message),
];

/// 503 is a protocol slip. A transport that knows the slip to be its own reports a network failure.
const BY_CODE: &[Row] = &[
    ("500", code("500"), Permanent, Message),
    ("501", code("501"), Permanent, Message),
    ("502", code("502"), Permanent, Message),
    ("503", code("503"), Permanent, Message),
    ("4xx", code("4xx"), Transient, Provider),
    ("5xx", code("5xx"), Permanent, Message),
];

pub fn rules() -> Vec<Rule> {
    set(
        "smtp",
        &[UNANSWERED, WORDS, REFINED, LOGIN, BEFORE_MAIL, TAKEN_BACK, TAKEN_BACK_TOO, LISTED, BY_CODE],
    )
}
