//! Instagram, TikTok and YouTube: what their bodies say, then the table of statuses.

use super::http::BY_STATUS;
use super::{Named, UNANSWERED, called, graph, set};
use crate::classify::Blame::{Credential, Message, Provider};
use crate::classify::Class::{Permanent, RateLimit, Transient};
use crate::classify::Rule;

/// The statuses with which Graph refuses. In these YouTube's `"code"` repeats the status and TikTok's is
/// a word, so neither can be taken for a number of Graph's.
const GRAPH_REFUSES: (u16, u16) = (400, 403);

const TIKTOK: &[Named] = &[
    ("rate_limit_exceeded", RateLimit, Provider),
    ("internal_error", Transient, Provider),
    ("access_token_invalid", Permanent, Credential),
    ("invalid_params", Permanent, Message),
];

/// Refused with 403 and 400, and yet only a matter of waiting.
const YOUTUBE: &[Named] = &[
    ("quotaExceeded", RateLimit, Credential),
    ("uploadLimitExceeded", RateLimit, Credential),
    ("rateLimitExceeded", RateLimit, Credential),
    ("userRateLimitExceeded", RateLimit, Credential),
];

pub fn rules() -> Vec<Rule> {
    [
        set("social", &[UNANSWERED]),
        graph::rules("social", GRAPH_REFUSES),
        called("social", TIKTOK),
        called("social", YOUTUBE),
        set("social", &[BY_STATUS]),
    ]
    .concat()
}
