//! The targets.

mod api;
mod data;
mod stores;
mod texts;

use std::sync::LazyLock;

use tokio::runtime::Runtime;

use crate::Target;

/// The runtime on which targets call async code.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// Every target, cheapest first.
pub const TARGETS: [Target; 10] = [
    Target { name: "retry_after", check: texts::retry_after, words: texts::DATE_WORDS, inputs: 20_000 },
    Target { name: "email", check: data::email, words: data::EMAIL_WORDS, inputs: 5_000 },
    Target { name: "config", check: texts::config, words: texts::CONFIG_WORDS, inputs: 600 },
    Target { name: "request_body", check: api::request_body, words: api::WORDS, inputs: 5_000 },
    Target { name: "api_request", check: api::api_request, words: api::WORDS, inputs: 1_500 },
    Target { name: "smtp_reply", check: data::smtp_reply, words: data::SMTP_WORDS, inputs: 500 },
    Target { name: "sandbox_script", check: data::sandbox_script, words: data::SCRIPT_WORDS, inputs: 5_000 },
    Target { name: "embedded_row", check: stores::embedded_row, words: stores::WORDS, inputs: 60 },
    Target { name: "redis_record", check: stores::redis_record, words: stores::WORDS, inputs: 150 },
    Target { name: "lua_arguments", check: stores::lua_arguments, words: stores::WORDS, inputs: 150 },
];
