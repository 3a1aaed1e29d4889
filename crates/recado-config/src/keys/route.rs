//! The keys of `[routes.<name>]`, as tables. They overlay the built-in route of that name, so none has a default.

use std::ops::RangeInclusive;
use std::time::Duration;

use recado_core::classify::{Blame, Class};
use recado_core::policy::{ATTEMPTS_MAX, DELAY_MAX};
use recado_core::{CapApplies, Cause, Jitter, NetworkKind};
use recado_engine::Act;
use regex::Regex;

use crate::catalogue::Kind;
use crate::keys::format::{
    Format, Named, count, custom, duration, list, name, named, number, one_or_list, parsed, quote, table,
    tables, text, word,
};
use crate::keys::table::section;
use crate::reading::tree::Text;
use crate::units::{DAY, HOUR, SECOND, YEAR};

/// Any delay that a policy may name.
const DELAYS: RangeInclusive<Duration> = Duration::ZERO..=DELAY_MAX;

section! {
    /// A route, by name. A built-in one keeps every key that is not written.
    RouteKeys {
        /// The way out: `worker` is your own code, `sandbox` sends nothing; by default that of the provider.
        transport: Kind, transport();
        /// The provider that takes its jobs.
        provider: String, text("my-provider").unlisted();
        /// Or several: the next one takes over while those before it cannot take the job.
        providers: Vec<String>, list(text("my-provider"), "[\"first\", \"second\"]");
        /// The built-in rules that judge a failure; `classify` puts rules of your own before them.
        classifier: &'static str, classifier();
        /// One attempt may take this long.
        timeout: Duration, duration(Duration::from_millis(1)..=HOUR);
        /// The longest wait that an answer from outside (a Retry-After, a limit that is reached) can impose.
        hold_max: Duration, duration(SECOND..=YEAR).such_as("\"1h\"");
        /// Waits between attempts. Keys that are not named stay as they are. A curve: base, factor, cap, jitter ("±25%",
        /// "+20%", "full", "equal", "decorrelated", "none"), cap_applies ("before_jitter" or "after_jitter"), floor,
        /// ceiling, max_attempts (it counts the first try). Or a schedule: the wait before each attempt.
        policy: PolicyKeys, table();
        /// The act when a job fails for good ("dead") and, with "open" in `on`, on jobs that are due while every
        /// provider's breaker is open (otherwise they wait): do = "mark_failed", "reschedule" (with after),
        /// "mark_account"; for calls "cached" or "unavailable". "disable_endpoint" changes nothing: ten failures
        /// in a row switch any endpoint off. notify names a channel.
        fallback: FallbackKeys, table();
        /// Dead letters of these causes (`only`) are replayed without a person after this rest (`after`), at most this many
        /// times (`max`), and not while the provider's breaker is open. Without it a replay is a person's act.
        auto_replay: AutoReplayKeys, table().such_as("{ after = \"1h\", max = 3, only = [\"EXHAUSTED\"] }");
        /// Rules of your own, looked at before the built-in ones.
        classify: Vec<RuleKeys>, tables("[{ code = \"550\", as = \"transient\" }]");
        /// Silences the warning of an anti-pattern, with the reason: endless_retry, no_backoff, permanent_retried,
        /// hiding_fallback, unattended_dlq or retry_after_ignored.
        allow: Named<String>, named(text("the reason")).such_as("{ no_backoff = \"why it is meant\" }");
    }
}

section! {
    /// A policy that stands alone.
    SinglePolicy {
        policy: PolicyKeys, table();
    }
}

section! {
    PolicyKeys {
        /// The wait before the first retry.
        base: Duration, duration(DELAYS);
        /// Each wait is this many times the one before, 1 to 100.
        factor: f64, number("2");
        /// No wait of the curve is longer.
        cap: Duration, duration(DELAYS);
        /// The wait before each attempt, the first included, instead of a curve.
        schedule: Vec<Duration>, list(duration(DELAYS), "[\"0s\", \"5s\", \"30s\"]");
        /// Chance in each wait: a share such as "±25%" or "+20%", "full", "equal", "decorrelated" or "none".
        jitter: Jitter, parsed("±25%").unlisted();
        /// The cap bounds the wait before or after the jitter.
        cap_applies: CapApplies, word("cap_applies", [
            ("before_jitter", CapApplies::BeforeJitter),
            ("after_jitter", CapApplies::AfterJitter),
        ]);
        /// No wait is shorter, jitter included.
        floor: Duration, duration(DELAYS);
        /// No wait is longer, jitter included.
        ceiling: Duration, duration(DELAYS);
        /// Attempts at most, the first included.
        max_attempts: u32, count(1..=ATTEMPTS_MAX.into());
    }
}

section! {
    FallbackKeys {
        /// The occasions: "open" (every provider's breaker is open) and "dead" (a job failed for good).
        on: Vec<Occasion>,
            list(word("occasion", [("open", Occasion::Open), ("dead", Occasion::Dead)]), "[\"open\", \"dead\"]");
        /// The act.
        act as "do": &'static str, name("fallback", Act::NAMES);
        /// With "reschedule": the job starts over after this.
        after: Duration, duration(SECOND..=YEAR);
        /// A channel that hears of it.
        notify: String, text("ops").unlisted();
    }
}

/// The occasion of a fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The breaker of every provider of the route is open.
    Open,
    /// A job failed for good.
    Dead,
}

section! {
    AutoReplayKeys {
        /// An entry rests this long first.
        after: Duration, duration(SECOND..=YEAR);
        /// Replays at most of one job; those by a person count. 3 by default.
        max: u32, count(1..=100);
        /// Only entries of these causes; ["EXHAUSTED"] by default.
        only: Vec<Cause>,
            list(word("cause", Cause::ALL.map(|cause| (cause.as_str(), cause))), "[\"EXHAUSTED\"]");
    }
}

section! {
    RuleKeys {
        /// The failure's code: an SMTP code, an HTTP status or a provider's own.
        code: String, custom("550", non_empty, Clone::clone).or_number();
        /// Another word for `code`.
        name: String, custom("Throttling", non_empty, Clone::clone).unlisted();
        /// The enhanced SMTP code; x stands for any number.
        enhanced: String, custom("4.x.x", enhanced_code, Clone::clone).unlisted();
        /// Words in the failure's text, in any case.
        text: String, custom("try again later", non_empty, Clone::clone).unlisted();
        /// A regular expression that the text matches.
        regex: Regex, custom("(?i)try again", regular_expression, Regex::to_string).unlisted();
        /// The HTTP status: 500, "50x", "5xx" or a list of them.
        status: Vec<StatusRange>,
            one_or_list(status, "[500, 504]");
        /// The kind of network failure.
        network: NetworkFailure, word("network failure", network_failures());
        /// The class of failures that match.
        class as "as": Class, word("class", [
            ("transient", Class::Transient),
            ("permanent", Class::Permanent),
            ("rate_limit", Class::RateLimit),
            ("unknown", Class::Unknown),
        ]);
        /// The side at fault; by default the message of a permanent failure, and else the provider.
        blame: Blame, word("blame", [Blame::Message, Blame::Credential, Blame::Provider].map(|blame| (blame.as_str(), blame)));
        /// The next attempt waits this long, unless the answer says otherwise.
        wait: Duration, duration(SECOND..=7 * DAY);
    }
}

pub fn transport() -> Format<Kind> {
    word("transport", Kind::ALL.map(|kind| (kind.as_str(), kind)))
}

/// The transport of a provider. `worker` and `sandbox` reach out to none.
pub fn provider_transport() -> Format<Kind> {
    let reaches_out = |kind: &Kind| !matches!(kind, Kind::Worker | Kind::Sandbox);
    let listed = Kind::ALL.into_iter().filter(reaches_out).map(|kind| (kind.as_str(), kind));
    transport().listed_as(word("transport", listed))
}

pub fn classifier() -> Format<&'static str> {
    name("classifier", recado_core::rules::NAMES)
}

fn status() -> Format<StatusRange> {
    custom("5xx", status_range, show_status_range).or_number().written_as(write_status_range)
}

/// The kind of network failure that a rule is for; `None` is any.
pub type NetworkFailure = Option<NetworkKind>;

fn network_failures() -> impl Iterator<Item = (&'static str, NetworkFailure)> {
    [("any", None)].into_iter().chain(NetworkKind::ALL.map(|kind| (kind.as_str(), Some(kind))))
}

fn non_empty(written: &Text) -> Result<String, String> {
    if written.text.trim().is_empty() {
        return Err(
            "this is empty and would match every failure; write what to look for, or leave it out".to_owned()
        );
    }
    Ok(written.text.clone())
}

fn regular_expression(written: &Text) -> Result<Regex, String> {
    Regex::new(&non_empty(written)?).map_err(|error| {
        let words = error.to_string();
        let last = words.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("this is not a regular expression: {last}")
    })
}

fn enhanced_code(written: &Text) -> Result<String, String> {
    let part = |part: &str| {
        part == "x" || ((1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()))
    };
    let text = non_empty(written)?;
    if text.split('.').count() != 3 || !text.split('.').all(part) {
        return Err(
            "this is not an enhanced code; write three parts, such as \"4.7.1\" or \"4.x.x\"".to_owned()
        );
    }
    Ok(text)
}

/// Any status from the first to the second.
pub type StatusRange = (u16, u16);

/// Reads `500`, `"50x"` or `"5xx"`.
fn status_range(written: &Text) -> Result<StatusRange, String> {
    let text = written.text.trim().to_ascii_lowercase();
    let end = |digit: &str| text.replace('x', digit).parse::<u16>().ok();
    let shaped = text.len() == 3 && text.trim_end_matches('x').bytes().all(|b| b.is_ascii_digit());
    let range = end("0").zip(end("9")).filter(|(low, high)| shaped && *low >= 100 && *high <= 599);
    range.ok_or_else(|| "this is not an HTTP status; write 100 to 599, \"50x\" or \"5xx\"".to_owned())
}

/// A single status is written as a number.
fn write_status_range(range: &StatusRange) -> String {
    if range.0 == range.1 { range.0.to_string() } else { quote(&show_status_range(range)) }
}

fn show_status_range((low, high): &StatusRange) -> String {
    match high - low {
        0 => low.to_string(),
        9 => format!("{}x", low / 10),
        _ => format!("{}xx", low / 100),
    }
}
