//! Instagram, TikTok and YouTube: what their bodies say, then seed 004's table.

use super::http::BY_STATUS;
use super::{Row, UNANSWERED, When, set, status, text};
use crate::classify::Blame::{Credential, Message, Provider};
use crate::classify::Class::{Permanent, RateLimit, Transient};
use crate::classify::Rule;

/// A numeric `"code"` in the body of a Graph refusal. Graph refuses with 400 to 403; there YouTube's
/// `"code"` repeats the status and TikTok's is a word, so neither can be taken for one of these.
const fn graph(pattern: &'static str) -> When {
    status(400, 403).and_regex(pattern)
}

const GRAPH: &[Row] = &[
    ("graph-4", graph(r#""code"\s*:\s*4\b"#), RateLimit, Provider),
    ("graph-17", graph(r#""code"\s*:\s*17\b"#), RateLimit, Credential),
    ("graph-341", graph(r#""code"\s*:\s*341\b"#), RateLimit, Provider),
    // Blocked for a while for breaking a policy: it passes, and it is the account that is blocked.
    ("graph-368", graph(r#""code"\s*:\s*368\b"#), Transient, Credential),
    ("graph-1", graph(r#""code"\s*:\s*1\b"#), Transient, Provider),
    ("graph-2", graph(r#""code"\s*:\s*2\b"#), Transient, Provider),
    ("graph-is-transient", graph(r#""is_transient"\s*:\s*true"#), Transient, Provider),
    ("graph-102", graph(r#""code"\s*:\s*102\b"#), Permanent, Credential),
    ("graph-190", graph(r#""code"\s*:\s*190\b"#), Permanent, Credential),
    ("graph-10", graph(r#""code"\s*:\s*10\b"#), Permanent, Credential),
    ("graph-2xx", graph(r#""code"\s*:\s*2\d\d\b"#), Permanent, Credential),
    ("graph-506", graph(r#""code"\s*:\s*506\b"#), Permanent, Message),
];

const TIKTOK: &[Row] = &[
    ("rate_limit_exceeded", text("rate_limit_exceeded"), RateLimit, Provider),
    ("internal_error", text("internal_error"), Transient, Provider),
    ("access_token_invalid", text("access_token_invalid"), Permanent, Credential),
    ("invalid_params", text("invalid_params"), Permanent, Message),
];

/// Refused with 403 and 400, and yet only a matter of waiting.
const YOUTUBE: &[Row] = &[
    ("quotaExceeded", text("quotaExceeded"), RateLimit, Credential),
    ("uploadLimitExceeded", text("uploadLimitExceeded"), RateLimit, Credential),
];

pub fn rules() -> Vec<Rule> {
    set("social", &[UNANSWERED, GRAPH, TIKTOK, YOUTUBE, BY_STATUS])
}
