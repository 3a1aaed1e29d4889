//! Warnings of anti-patterns: settings that may be meant and seldom are.
//!
//! A setting that can never be right is a fault where it is read (a retry without end, a zero wait, a breaker for
//! everything). The others are found here. A section silences one warning with its reason: `allow = { no_backoff = "a test's own server" }`.
//! `docs/operating/anti-patterns.md` has a row for each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use recado_core::time::show_duration;
use recado_core::{Cause, Class, Classifier, Fault as Failure};
use recado_engine::Act;
use recado_observe::alerts::Measure;

use crate::RouteConfig;
use crate::catalogue::Kind;
use crate::keys::format::Named;
use crate::keys::route::{AutoReplayKeys, PolicyKeys, RouteKeys};
use crate::keys::sections::Settings;
use crate::reading::checker::Checker;
use crate::reading::fault::suggestion;

/// More attempts than this are a retry that hardly ends.
const ATTEMPTS_MANY: u32 = 20;

/// Waits that do not grow are a back-off from here on.
const STEADY_WAIT_MIN: Duration = Duration::from_secs(60);

/// Waits that are all shorter than this are no back-off, whether they grow or not.
const WAIT_MIN: Duration = Duration::from_secs(1);

/// A job that starts over more often than this before it expires hides what keeps it from arriving.
const ROUNDS_MANY: u128 = 100;

/// The time that a person has at least to look at a dead letter.
const DEAD_LETTER_TTL_MIN: Duration = Duration::from_secs(24 * 60 * 60);

/// A `hold_max` below this cuts waits that providers ask for every day.
const HOLD_MAX_MIN: Duration = Duration::from_secs(5 * 60);

/// HTTP answers that no retry can fix.
const PERMANENT_STATUSES: [u16; 4] = [400, 401, 403, 404];

/// The longest list of codes in a message.
const CODES_SHOWN: usize = 4;

/// The anti-patterns, each by its key in `allow`.
pub const ANTI_PATTERNS: [&str; 8] = [
    "endless_retry",
    "no_backoff",
    "permanent_retried",
    "shared_breaker",
    "silent_failure",
    "hiding_fallback",
    "unattended_dlq",
    "retry_after_ignored",
];

/// One anti-pattern at its key, in words that say what to write instead.
struct Found {
    name: &'static str,
    path: String,
    message: String,
}

/// Finds anti-patterns section by section and warns of those that the section does not allow.
pub struct Review<'a> {
    checker: &'a Checker,
    /// Findings of the section that is reviewed.
    found: Vec<Found>,
}

impl<'a> Review<'a> {
    pub fn new(checker: &'a Checker) -> Self {
        Review { checker, found: Vec::new() }
    }

    fn add(&mut self, name: &'static str, path: impl Into<String>, message: impl Into<String>) {
        debug_assert!(ANTI_PATTERNS.contains(&name), "{name} cannot be allowed");
        self.found.push(Found { name, path: path.into(), message: message.into() });
    }

    /// Ends a section: warns of its anti-patterns, but for those that it allows.
    pub fn close(&mut self, section: &str, allow: Option<&Named<String>>) {
        let found = std::mem::take(&mut self.found);
        for (name, reason) in allow.into_iter().flatten() {
            let path = format!("{section}.allow.{name}");
            if !ANTI_PATTERNS.contains(&name.as_str()) {
                let advice = suggestion(name, ANTI_PATTERNS, "ones");
                self.checker.fault(&path, format!("there is no anti-pattern `{name}`; {advice}"));
            } else if reason.trim().is_empty() {
                self.checker.fault(&path, "does not say why; write the reason");
            } else if !found.iter().any(|found| found.name == name) {
                let message = format!("allows `{name}`, and [{section}] has nothing of it; take it out");
                self.checker.warn(&path, message);
            }
        }
        let is_allowed = |name: &str| allow.is_some_and(|allow| allow.contains_key(name));
        for Found { name, path, message } in found.into_iter().filter(|found| !is_allowed(found.name)) {
            let silence = format!("if it is meant, write allow = {{ {name} = \"why\" }} in [{section}]");
            self.checker.warn(&path, format!("{message}; {silence}"));
        }
    }

    /// Reviews a route that an operator wrote.
    pub fn route(&mut self, route: &RouteConfig, keys: &RouteKeys, job_ttl: Duration) {
        let path = |key: &str| format!("routes.{}.{key}", route.name);
        if let Some(keys) = &keys.policy {
            self.policy(route, keys, &path("policy"));
        }
        if keys.classify.is_some() || keys.classifier.is_some() {
            self.classifier(route, keys);
        }
        if let Some(hold_max) = keys.hold_max.filter(|hold_max| *hold_max < HOLD_MAX_MIN) {
            let (short, least) = (show_duration(hold_max), show_duration(HOLD_MAX_MIN));
            let message = format!("a longer Retry-After is cut to {short}; write \"{least}\" or more");
            self.add("retry_after_ignored", path("hold_max"), message);
        }
        if let (Some(keys), Act::Reschedule(after), true) =
            (&keys.fallback, route.fallback.act, route.fallback.on_dead)
        {
            let rounds = job_ttl.as_millis() / after.as_millis().max(1);
            if rounds > ROUNDS_MANY {
                let key = if keys.after.is_some() { "fallback.after" } else { "fallback.do" };
                let message = format!(
                    "a job that never arrives starts over up to {rounds} times before it becomes a dead letter that a \
                     person sees; lengthen `after`, or shorten [engine] job_ttl ({})",
                    show_duration(job_ttl)
                );
                self.add("hiding_fallback", path(key), message);
            }
        }
        if let Some(keys) = &keys.auto_replay {
            self.auto_replay(keys, route.terms.dead_letter_ttl, &path("auto_replay"));
        }
    }

    fn policy(&mut self, route: &RouteConfig, keys: &PolicyKeys, path: &str) {
        let policy = &route.terms.policy;
        let (attempts, retries) = (policy.max_attempts, policy.max_attempts.saturating_sub(1));
        if attempts > ATTEMPTS_MANY {
            let key = keys.max_attempts.map_or(path.to_owned(), |_| format!("{path}.max_attempts"));
            let message = format!("{attempts} attempts hardly ever end; write {ATTEMPTS_MANY} or fewer");
            self.add("endless_retry", key, message);
        }
        let waits: Vec<Duration> = (0..retries).map(|retry| policy.nominal(retry)).collect();
        let (first, longest) = (policy.nominal(0), waits.iter().copied().max().unwrap_or_default());
        let grows = longest >= first + first / 2 || retries < 2;
        let sunk = waits.windows(2).find(|pair| pair[1] < pair[0] && pair[1] < WAIT_MIN).map(|pair| pair[1]);
        let shown = show_duration(longest);
        let message = if retries == 0 {
            None
        } else if longest < WAIT_MIN && grows {
            Some(format!(
                "no retry waits longer than {shown}, which gives a provider no rest; let waits grow to seconds or minutes"
            ))
        } else if !grows && longest < STEADY_WAIT_MIN {
            Some(format!(
                "every retry waits about {shown} and none much longer than the first; let waits grow"
            ))
        } else {
            sunk.map(|wait| {
                format!("a retry waits {} after a longer wait; let waits grow", show_duration(wait))
            })
        };
        if let Some(message) = message {
            self.add("no_backoff", path, message);
        }
    }

    /// Judges well-known answers by the route's rules.
    fn classifier(&mut self, route: &RouteConfig, keys: &RouteKeys) {
        let path = |key: &str| format!("routes.{}.{key}", route.name);
        let rule_path = |at: usize| path(&format!("classify[{at}]"));
        let set_path = || match keys.classifier {
            Some(_) => path("classifier"),
            None => format!("routes.{}", route.name),
        };
        let Classifier { own, rules, .. } = &route.classifier;
        let speaks_http = matches!(route.kind, Kind::Http | Kind::Whatsapp | Kind::Webhook);

        // Codes that the built-in rules call permanent.
        let named = rules.iter().filter(|rule| rule.class == Class::Permanent).filter_map(|rule| {
            let failure = Failure::answer(&rule.when.code.as_ref()?.replace('x', "0"), "");
            let decides = rules.iter().find(|rule| rule.when.holds(&failure))?;
            (decides.class == Class::Permanent).then_some(failure)
        });
        // SMTP's enhanced codes of class 5 are permanent by their definition.
        let enhanced = own.iter().filter_map(|rule| {
            let enhanced = rule.when.enhanced.as_ref().filter(|code| code.starts_with('5'))?;
            let code = rule.when.code.as_ref().unwrap_or(enhanced).replace('x', "0");
            Some(Failure { enhanced: Some(enhanced.replace('x', "0").into()), ..Failure::answer(&code, "") })
        });
        let permanent = PERMANENT_STATUSES.map(http).into_iter().chain(named).chain(enhanced);
        // Codes by the rule that has them retried: the position of an own rule in `classify`, or the built-in set.
        let mut retried: BTreeMap<Option<usize>, Vec<Box<str>>> = BTreeMap::new();
        for failure in permanent {
            let in_set = speaks_http && failure.status.is_some();
            let judged = route.classifier.classify(failure);
            let own_rule = judged.rule.strip_prefix("config/").and_then(|name| name.rsplit('/').next());
            let at = own_rule.and_then(|position| position.parse::<usize>().ok()?.checked_sub(1));
            if judged.class.is_retryable() && (at.is_some() || in_set) {
                retried.entry(at).or_default().extend(judged.code);
            }
        }
        for (at, mut codes) in retried {
            // A number may stand for an SMTP code and for an HTTP status, and is named once.
            let mut named = BTreeSet::new();
            codes.retain(|code| named.insert(code.clone()));
            let more = if codes.len() > CODES_SHOWN { " and more" } else { "" };
            let codes = format!("{}{more}", codes[..codes.len().min(CODES_SHOWN)].join(", "));
            let retried = format!("{codes} retried, which no retry can fix");
            let message = match at {
                Some(_) => format!("has {retried}; write as = \"permanent\", or narrow the rule with text"),
                None => {
                    format!("these rules have {retried}; name a classifier that knows them, such as \"http\"")
                }
            };
            self.add("permanent_retried", at.map_or_else(set_path, rule_path), message);
        }
        if route.classifier.classify(http(429)).class == Class::Permanent {
            let at = keys.classify.iter().flatten().position(|rule| rule.class == Some(Class::Permanent));
            let message = "has 429 given up on, whatever its Retry-After says; write as = \"rate_limit\"";
            self.add("retry_after_ignored", at.map_or_else(set_path, rule_path), message);
        }
    }

    fn auto_replay(&mut self, keys: &AutoReplayKeys, dead_letter_ttl: Duration, path: &str) {
        let causes = keys.only.iter().flatten();
        if let Some(at) = causes.into_iter().position(|cause| *cause == Cause::Permanent) {
            let message = "replays what no retry can fix; leave \"PERMANENT\" to a person";
            self.add("permanent_retried", format!("{path}.only[{at}]"), message);
        }
        if keys.after.is_some_and(|after| after >= dead_letter_ttl) {
            let ttl = show_duration(dead_letter_ttl);
            let message =
                format!("the entries are gone by then, after {ttl}; shorten it, or lengthen [dlq] ttl");
            self.add("unattended_dlq", format!("{path}.after"), message);
        }
    }

    /// Reviews a provider that has a breaker, given all routes.
    pub fn provider_with_breaker(&mut self, name: &str, routes: &[RouteConfig]) {
        let users = || routes.iter().filter(|route| route.uses(name));
        let mut services: Vec<_> =
            users().filter_map(|route| Some(route.built_in?.provider.as_str())).collect();
        services.dedup();
        let message = if users().any(|route| route.kind == Kind::Webhook) {
            "one breaker for all receivers of webhooks: a customer whose endpoint fails blocks the others; take it \
             out, each endpoint has a count of its own"
                .to_owned()
        } else if services.len() > 1 {
            let services = services.join(", ");
            format!(
                "one breaker for several services ({services}): each blocks the others; write a provider for each"
            )
        } else {
            return;
        };
        let provider = self.checker.scope(format!("providers.{name}"));
        self.add("shared_breaker", provider.path(provider.written("breaker")), message);
    }

    /// Reviews the dead letter queue.
    pub fn dead_letters(&mut self, settings: &Settings) {
        if settings.dlq.ttl < DEAD_LETTER_TTL_MIN {
            let least = show_duration(DEAD_LETTER_TTL_MIN);
            let message =
                format!("entries are gone before a person can look at them; write \"{least}\" or more");
            self.add("unattended_dlq", "dlq.ttl", message);
        }
        self.close("dlq", settings.dlq.allow.as_ref());
    }

    /// Reviews the alerts. A channel that hears of each dead letter makes up for them.
    pub fn alerts(&mut self, settings: &Settings) {
        let never_fires = |name: &str| {
            settings.alerts.rules.rule(name).is_none_or(|rule| {
                let is_size = rule.measure == Measure::DeadLetters;
                let most = if is_size { settings.dlq.max_size as f64 } else { 1.0 };
                !rule.enabled || rule.threshold >= most
            })
        };
        let is_silent = ["failure_rate", "dlq_rate", "dlq_size"].into_iter().all(never_fires);
        if is_silent && settings.dlq.notify.is_none() {
            let message = "jobs may fail and no alert ever fires: failure_rate, dlq_rate and dlq_size are off or cannot \
                           be reached, and [dlq] notify names no channel; leave one on, or name a channel";
            self.add("silent_failure", "alerts", message);
        }
        self.close("alerts", settings.alerts.allow.as_ref());
    }
}

/// An HTTP answer without a word.
fn http(status: u16) -> Failure {
    Failure { status: Some(status), ..Failure::answer(&status.to_string(), "") }
}
