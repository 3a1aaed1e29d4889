//! Warnings of anti-patterns: settings that may be meant and seldom are.
//!
//! A setting that can never be right is a fault where it is read (a retry without end, a zero wait, a breaker for
//! everything). The others are found here. A section silences one warning with its reason: `allow = { no_backoff = "a test's own server" }`.
//! `docs/operating/anti-patterns.md` has a row for each.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use recado_core::time::show_duration;
use recado_core::{Cause, Class, Classifier, Fault as Failure};
use recado_engine::{Act, Route};
use recado_observe::AlertConfig;
use recado_observe::alerts::Measure;

use super::RouteConfig;
use super::fault::{At, suggestion};
use super::raw::{RawAutoReplay, RawProvider, RawRoute};
use super::reader::FaultList;
use crate::catalogue::Kind;

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

/// HTTP answers that no retry mends.
const PERMANENT_STATUSES: [u16; 4] = [400, 401, 403, 404];

/// The longest list of codes in a message.
const CODES_SHOWN: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AntiPattern {
    EndlessRetry,
    NoBackoff,
    PermanentRetried,
    SharedBreaker,
    SilentFailure,
    HidingFallback,
    UnattendedDlq,
    RetryAfterIgnored,
}

impl AntiPattern {
    pub const ALL: [AntiPattern; 8] = [
        AntiPattern::EndlessRetry,
        AntiPattern::NoBackoff,
        AntiPattern::PermanentRetried,
        AntiPattern::SharedBreaker,
        AntiPattern::SilentFailure,
        AntiPattern::HidingFallback,
        AntiPattern::UnattendedDlq,
        AntiPattern::RetryAfterIgnored,
    ];

    /// Its key in `allow`.
    pub fn as_str(self) -> &'static str {
        match self {
            AntiPattern::EndlessRetry => "endless_retry",
            AntiPattern::NoBackoff => "no_backoff",
            AntiPattern::PermanentRetried => "permanent_retried",
            AntiPattern::SharedBreaker => "shared_breaker",
            AntiPattern::SilentFailure => "silent_failure",
            AntiPattern::HidingFallback => "hiding_fallback",
            AntiPattern::UnattendedDlq => "unattended_dlq",
            AntiPattern::RetryAfterIgnored => "retry_after_ignored",
        }
    }
}

/// A section's `allow`: each anti-pattern with the reason for it.
pub type Allow = Vec<(String, At<String>)>;

/// Anti-patterns by the section that allows them, each with its reason.
pub type Allowed = BTreeMap<String, Vec<(String, String)>>;

/// One anti-pattern at its place, in words that say what to write instead.
pub struct Found {
    pattern: AntiPattern,
    place: At<()>,
    message: String,
}

/// The warnings so far, and what is allowed in which section.
#[derive(Default)]
pub struct Review {
    pub warnings: FaultList,
    pub allowed: RefCell<Allowed>,
}

impl Review {
    /// Takes up what was found in a section, but for what that section allows.
    pub fn add(&self, section: &str, allow: &Allow, found: Vec<Found>, faults: &FaultList) {
        for (name, reason) in allow {
            let known = AntiPattern::ALL.map(AntiPattern::as_str);
            if !known.contains(&name.as_str()) {
                let advice = suggestion(name, known, "ones");
                faults
                    .borrow_mut()
                    .push(reason.fault(format!("there is no anti-pattern `{name}`; {advice}")));
            } else if reason.value.trim().is_empty() {
                faults.borrow_mut().push(reason.fault("does not say why; write the reason"));
            } else if !found.iter().any(|found| found.pattern.as_str() == name) {
                let message = format!("allows `{name}`, and [{section}] has nothing of it; take it out");
                self.warnings.borrow_mut().push(reason.fault(message));
            }
        }
        let is_allowed = |found: &Found| allow.iter().any(|(name, _)| name == found.pattern.as_str());
        for Found { pattern, place, message } in found.into_iter().filter(|found| !is_allowed(found)) {
            let name = pattern.as_str();
            let silence = format!("if it is meant, write allow = {{ {name} = \"why\" }} in [{section}]");
            self.warnings.borrow_mut().push(place.fault(format!("{message}; {silence}")));
        }
        if !allow.is_empty() {
            let reasons = allow.iter().map(|(name, reason)| (name.clone(), reason.value.clone())).collect();
            self.allowed.borrow_mut().insert(section.to_owned(), reasons);
        }
    }
}

/// Finds the anti-patterns of one route that an operator wrote.
pub fn of_route(config: &RouteConfig, raw: &RawRoute, job_ttl: Duration) -> Vec<Found> {
    let RouteConfig { route, kind, .. } = config;
    let mut found = Vec::new();
    let mut add = |pattern, place: At<()>, message: String| found.push(Found { pattern, place, message });
    if let Some(said) = &raw.policy {
        let policy = &route.terms.policy;
        let (attempts, retries) = (policy.max_attempts, policy.max_attempts.saturating_sub(1));
        if attempts > ATTEMPTS_MANY {
            let place = said.max_attempts.as_ref().map_or_else(|| said.here.clone(), At::here);
            let message = format!("{attempts} attempts hardly ever end; write {ATTEMPTS_MANY} or fewer");
            add(AntiPattern::EndlessRetry, place, message);
        }
        let waits: Vec<Duration> = (0..retries).map(|retry| policy.nominal(retry)).collect();
        let (first, longest) = (policy.nominal(0), waits.iter().copied().max().unwrap_or_default());
        let grows = longest >= first + first / 2 || retries < 2;
        let sunk = waits.windows(2).find(|pair| pair[1] < pair[0] && pair[1] < WAIT_MIN).map(|pair| pair[1]);
        let message = if retries == 0 {
            None
        } else if longest < WAIT_MIN && grows {
            let longest = show_duration(longest);
            Some(format!(
                "no retry waits longer than {longest}, which gives a provider no rest; let waits grow to seconds or minutes"
            ))
        } else if !grows && longest < STEADY_WAIT_MIN {
            let longest = show_duration(longest);
            Some(format!(
                "every retry waits about {longest} and none much longer than the first; let waits grow"
            ))
        } else {
            sunk.map(|wait| {
                format!("a retry waits {} after a longer wait; let waits grow", show_duration(wait))
            })
        };
        if let Some(message) = message {
            add(AntiPattern::NoBackoff, said.here.clone(), message);
        }
    }
    if raw.classify.is_some() || raw.classifier.is_some() {
        of_classifier(route, *kind, raw, &mut add);
    }
    if let Some(said) = &raw.hold_max
        && said.value < HOLD_MAX_MIN
    {
        let (short, least) = (show_duration(said.value), show_duration(HOLD_MAX_MIN));
        let message = format!("a longer Retry-After is cut to {short}; write \"{least}\" or more");
        add(AntiPattern::RetryAfterIgnored, said.here(), message);
    }
    if let (Some(said), Act::Reschedule(after), true) =
        (&raw.fallback, route.fallback.act, route.fallback.on_dead)
    {
        let rounds = job_ttl.as_millis() / after.as_millis().max(1);
        let place = said.after.as_ref().map(At::here).or_else(|| said.act.as_ref().map(At::here));
        if rounds > ROUNDS_MANY {
            let message = format!(
                "a job that never arrives starts over up to {rounds} times before it becomes a dead letter that a person \
                 sees; lengthen `after`, or shorten [engine] job_ttl ({})",
                show_duration(job_ttl)
            );
            add(AntiPattern::HidingFallback, place.unwrap_or_else(|| raw.here.clone()), message);
        }
    }
    if let Some(said) = &raw.auto_replay {
        of_auto_replay(said, route.terms.dead_letter_ttl, &mut add);
    }
    found
}

/// Judges answers that everybody knows by the route's rules.
fn of_classifier(
    route: &Route,
    kind: Kind,
    raw: &RawRoute,
    add: &mut impl FnMut(AntiPattern, At<()>, String),
) {
    let rules = raw.classify.iter().flat_map(|rules| &rules.value);
    let set_place = || raw.classifier.as_ref().map_or_else(|| raw.here.clone(), At::here);
    let own = Classifier { rules: Default::default(), ..route.classifier.clone() };
    let built_in = Classifier { own: Vec::new(), ..route.classifier.clone() };
    let speaks_http = matches!(kind, Kind::Http | Kind::Whatsapp | Kind::Webhook);

    let by_name = |rule: &recado_core::classify::Rule| {
        let code = rule.when.code.as_ref().filter(|_| rule.class == Class::Permanent)?;
        Some(Failure::answer(&code.replace('x', "0"), ""))
    };
    let named = route.classifier.rules.iter().filter_map(by_name);
    let named = named.filter(|failure| built_in.classify(failure.clone()).class == Class::Permanent);
    // SMTP's enhanced codes of class 5 are permanent by their definition.
    let enhanced = own.own.iter().filter_map(|rule| {
        let enhanced = rule.when.enhanced.as_ref().filter(|code| code.starts_with('5'))?;
        let code = rule.when.code.as_ref().unwrap_or(enhanced).replace('x', "0");
        Some(Failure { enhanced: Some(enhanced.replace('x', "0").into()), ..Failure::answer(&code, "") })
    });
    let permanent = PERMANENT_STATUSES.map(http).into_iter().chain(named).chain(enhanced);
    // Codes by the rule that has them retried: the place of an own rule in `classify`, or the built-in set.
    let mut retried: BTreeMap<Option<usize>, Vec<Box<str>>> = BTreeMap::new();
    for failure in permanent {
        let at = own.own.iter().position(|rule| rule.when.holds(&failure));
        let judged = route.classifier.classify(failure.clone());
        let by_set = at.is_none() && speaks_http && failure.status.is_some();
        if judged.class.is_retryable() && (at.is_some() || by_set) {
            let at = at.and_then(|_| judged.rule.rsplit('/').next()?.parse::<usize>().ok());
            retried.entry(at).or_default().extend(judged.code);
        }
    }
    for (at, codes) in retried {
        let more = if codes.len() > CODES_SHOWN { " and more" } else { "" };
        let codes = format!("{}{more}", codes[..codes.len().min(CODES_SHOWN)].join(", "));
        let rule = at.and_then(|at| rules.clone().nth(at.checked_sub(1)?));
        let (place, message) = match rule {
            Some(rule) => (
                rule.here.clone(),
                format!(
                    "has {codes} retried, which no retry mends; write as = \"permanent\", or narrow the rule with text"
                ),
            ),
            None => (
                set_place(),
                format!(
                    "these rules have {codes} retried, which no retry mends; name a classifier that knows them, such as \"http\""
                ),
            ),
        };
        add(AntiPattern::PermanentRetried, place, message);
    }
    let limited = route.classifier.classify(http(429));
    if limited.class == Class::Permanent {
        let rule = rules
            .clone()
            .find(|rule| rule.class.as_ref().is_some_and(|class| class.value == Class::Permanent));
        let place = rule.map_or_else(set_place, |rule| rule.here.clone());
        let message =
            "has 429 given up on, whatever its Retry-After says; write as = \"rate_limit\"".to_owned();
        add(AntiPattern::RetryAfterIgnored, place, message);
    }
}

/// An HTTP answer without a word.
fn http(status: u16) -> Failure {
    Failure { status: Some(status), ..Failure::answer(&status.to_string(), "") }
}

fn of_auto_replay(
    said: &RawAutoReplay,
    dead_letter_ttl: Duration,
    add: &mut impl FnMut(AntiPattern, At<()>, String),
) {
    let causes = said.only.iter().flat_map(|only| only.value.iter().flatten());
    if let Some(cause) = causes.into_iter().find(|cause| cause.value == Cause::Permanent) {
        let message = "replays what no retry mends; leave \"PERMANENT\" to a person".to_owned();
        add(AntiPattern::PermanentRetried, cause.here(), message);
    }
    if let Some(after) = said.after.as_ref().filter(|after| after.value >= dead_letter_ttl) {
        let ttl = show_duration(dead_letter_ttl);
        let message = format!("the entries are gone by then, after {ttl}; shorten it, or lengthen [dlq] ttl");
        add(AntiPattern::UnattendedDlq, after.here(), message);
    }
}

/// Finds those of one provider, given the routes that use it.
pub fn of_provider(name: &str, raw: &RawProvider, has_breaker: bool, routes: &[RouteConfig]) -> Vec<Found> {
    let users = || routes.iter().filter(|config| config.provider_names().any(|used| used == name));
    let mut services: Vec<_> = users().filter_map(|config| Some(config.built_in?.provider)).collect();
    services.dedup();
    let message = if !has_breaker {
        return Vec::new();
    } else if users().any(|config| config.kind == Kind::Webhook) {
        "one breaker for all receivers of webhooks: a customer whose endpoint fails closes off the others; take it out, \
         each endpoint has a count of its own"
            .to_owned()
    } else if services.len() > 1 {
        let services = services.join(", ");
        format!(
            "one breaker for several services ({services}): each closes off the others; write a provider for each"
        )
    } else {
        return Vec::new();
    };
    let place = raw.breaker.as_ref().and_then(|breaker| breaker.here.clone());
    let place = place.unwrap_or_else(|| raw.here.clone());
    vec![Found { pattern: AntiPattern::SharedBreaker, place, message }]
}

/// Finds those of the dead letter queue.
pub fn of_dead_letters(ttl: Option<&At<Duration>>) -> Vec<Found> {
    let short = ttl.filter(|ttl| ttl.value < DEAD_LETTER_TTL_MIN);
    let found = short.map(|ttl| {
        let least = show_duration(DEAD_LETTER_TTL_MIN);
        let message = format!("entries are gone before a person can look at them; write \"{least}\" or more");
        Found { pattern: AntiPattern::UnattendedDlq, place: ttl.here(), message }
    });
    found.into_iter().collect()
}

/// Finds those of the alerts; `is_told` says that a channel hears of each dead letter.
pub fn of_alerts(alerts: &AlertConfig, here: &At<()>, dead_letters_max: u64, is_told: bool) -> Vec<Found> {
    let never_fires = |name: &str| {
        alerts.rule(name).is_none_or(|rule| {
            let most = if rule.measure == Measure::DeadLetters { dead_letters_max as f64 } else { 1.0 };
            !rule.enabled || rule.threshold >= most
        })
    };
    if is_told || !["failure_rate", "dlq_rate", "dlq_size"].into_iter().all(never_fires) {
        return Vec::new();
    }
    let message = "jobs may fail and no alert ever fires: failure_rate, dlq_rate and dlq_size are off or cannot be \
                   reached, and [dlq] notify names no channel; leave one on, or name a channel";
    let place = here.clone();
    vec![Found { pattern: AntiPattern::SilentFailure, place, message: message.to_owned() }]
}
