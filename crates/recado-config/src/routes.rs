//! Routes: the built-in ones, what is said about them, and the operator's own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use recado_core::classify::HOLD_MAX_DEFAULT;
use recado_core::decide::Terms;
use recado_core::{Backoff, Classifier, Policy, RouteName, rules};
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::dlq::auto_replay::{AutoReplay, CAUSES_DEFAULT, REPLAYS_DEFAULT};
use recado_engine::{Act, Carrier, Fallback, Route};
use recado_transport::Sandbox;

use super::fault::{At, closest, suggestion};
use super::raw::{RawAutoReplay, RawFallback, RawPolicy, RawProvider, RawRoute};
use super::reader::FaultList;
use super::{Provider, RouteConfig, anti_patterns, legs, protection, providers};
use crate::catalogue::{self, BuiltIn, CONCURRENCY_DEFAULT, Environment, Kind, TIMEOUT_DEFAULT};

/// Parts that routes share with the rest of the configuration.
pub struct Given {
    pub environment: Environment,
    pub sandbox_enabled: bool,
    pub dead_letter_ttl: Duration,
    pub crashes_max: u32,
    pub transports: providers::Given,
    /// The names of channels that a fallback may notify.
    pub channels: Vec<String>,
    pub job_ttl: Duration,
    pub review: anti_patterns::Review,
}

/// Providers and routes, checked against each other.
pub struct Resolved {
    pub providers: BTreeMap<String, Provider>,
    pub protection: BTreeMap<Box<str>, ProviderTerms>,
    pub routes: Vec<RouteConfig>,
}

pub fn resolve(
    raw_providers: Vec<(String, RawProvider)>,
    raw_routes: Vec<(String, RawRoute)>,
    given: &Given,
    faults: &FaultList,
) -> Resolved {
    let mut providers = BTreeMap::new();
    for (name, raw) in &raw_providers {
        check_name(name, &raw.here, faults);
        providers.insert(name.clone(), providers::resolve(name, raw, &given.transports, faults));
    }
    for row in catalogue::ROUTES.iter().filter(|row| row.kind == Kind::Webhook) {
        providers
            .entry(row.provider.to_owned())
            .or_insert_with(|| providers::webhook_by_default(&given.transports));
    }
    let mut written: BTreeMap<String, RawRoute> = raw_routes.into_iter().collect();
    let mut routes = Vec::new();
    for row in &catalogue::ROUTES {
        let raw = written.remove(row.name).unwrap_or_default();
        routes.extend(route(row.name, Some(row), &raw, &providers, given, faults));
    }
    for (name, raw) in written {
        if check_name(&name, &raw.here, faults) {
            routes.extend(route(&name, None, &raw, &providers, given, faults));
        }
    }
    for (name, raw) in &raw_providers {
        check_use(name, &raw.here, &providers, &routes, faults);
    }
    let protection = protection::resolve(&raw_providers, &routes);
    for config in &mut routes {
        let terms = protection.get(&config.route.provider);
        config.route.concurrency = terms.map_or(CONCURRENCY_DEFAULT, |terms| terms.concurrency);
    }
    for (name, raw) in &raw_providers {
        let has_breaker = protection.get(name.as_str()).is_some_and(|terms| terms.breaker.is_some());
        let found = anti_patterns::of_provider(name, raw, has_breaker, &routes);
        given.review.add(&format!("providers.{name}"), &raw.allow, found, faults);
    }
    Resolved { providers, protection, routes }
}

/// An unused provider is allowed; one with nearly the name of another is a slip.
fn check_use(
    name: &str,
    here: &At<()>,
    providers: &BTreeMap<String, Provider>,
    routes: &[RouteConfig],
    faults: &FaultList,
) {
    let rows = catalogue::ROUTES.iter().map(|row| row.provider);
    let used = routes.iter().any(|config| config.provider_names().any(|used| used == name))
        || rows.clone().any(|known| known == name);
    let meant = closest(name, rows).filter(|meant| !used && !providers.contains_key(*meant));
    if let Some(meant) = meant {
        let message = format!("no route uses provider `{name}`; did you mean [providers.{meant}]?");
        faults.borrow_mut().push(here.fault(message));
    }
}

fn check_name(name: &str, here: &At<()>, faults: &FaultList) -> bool {
    let checked = RouteName::new(name).map_err(|error| {
        faults.borrow_mut().push(here.fault(format!("the name {error}")));
    });
    checked.is_ok()
}

pub fn not_in_this_build(kind: Kind) -> String {
    format!(
        "transport \"{}\" is not in this build; give the route transport = \"worker\" (your own code delivers) or \
         \"sandbox\" (nothing is sent)",
        kind.as_str()
    )
}

fn route(
    name: &str,
    built_in: Option<&'static BuiltIn>,
    raw: &RawRoute,
    providers: &BTreeMap<String, Provider>,
    given: &Given,
    faults: &FaultList,
) -> Option<RouteConfig> {
    let said_providers = legs::said(raw, faults)?;
    // All are looked at, so that every fault is told.
    let known = said_providers.iter().filter(|said| is_known(said, providers, faults)).count();
    if known < said_providers.len() {
        return None;
    }
    let first = said_providers.first();
    let provider_name =
        first.map(|said| said.value.as_str()).or(built_in.map(|row| row.provider)).unwrap_or(name);
    let chosen = Chosen { said: first, name: provider_name, provider: providers.get(provider_name) };
    let (kind, carrier) = carrier(name, built_in, raw, &chosen, given, faults)?;
    let legs = legs::resolve(&said_providers, raw, &carrier, kind, providers, faults)?;

    let default_policy = built_in.map_or_else(catalogue::default_policy, |row| row.policy(given.environment));
    let policy = match &raw.policy {
        Some(said) => policy(default_policy, said, faults),
        None => default_policy,
    };
    let said_classifier = raw.classifier.as_ref().map(|said| said.value);
    let usual = built_in.map_or(kind.classifier(), |row| row.classifier);
    let classifier = said_classifier.or(legs.classifier).unwrap_or(usual);
    let timeout = raw.timeout.as_ref().map(|said| said.value);

    let fallback = fallback(raw.fallback.as_ref(), built_in, given, faults);
    let name = RouteName::trusted(name);
    let raw_rules = raw.classify.iter().flat_map(|rules| &rules.value);
    let own_rules: Vec<_> = raw_rules.filter_map(|raw| super::rules::resolve(raw, faults)).collect();
    let own = own_rules.iter().enumerate().flat_map(|(at, rule)| rule.rules(&name, at)).collect();
    let route = Route {
        carrier,
        provider: provider_name.into(),
        others: legs.others,
        classifier: Classifier {
            hold_max: raw.hold_max.as_ref().map_or(HOLD_MAX_DEFAULT, |said| said.value),
            ..rules::named(classifier).unwrap_or_default().preceded_by(own)
        },
        terms: Terms {
            policy,
            dead_letter_ttl: given.dead_letter_ttl,
            crashes_max: given.crashes_max,
            start_over_after: match (fallback.act, fallback.on_dead) {
                (Act::Reschedule(after), true) => Some(after),
                _ => None,
            },
        },
        timeout: timeout.or(built_in.map(|row| row.timeout)).unwrap_or(TIMEOUT_DEFAULT),
        concurrency: CONCURRENCY_DEFAULT,
        fallback,
        name,
    };
    let auto_replay = raw.auto_replay.as_ref().and_then(|said| auto_replay(said, faults));
    let config = RouteConfig { route, kind, classifier, own_rules, built_in, auto_replay };
    let found = anti_patterns::of_route(&config, raw, given.job_ttl);
    given.review.add(&format!("routes.{}", config.route.name), &raw.allow, found, faults);
    Some(config)
}

fn is_known(said: &At<String>, providers: &BTreeMap<String, Provider>, faults: &FaultList) -> bool {
    let rows = catalogue::ROUTES.iter().map(|row| row.provider);
    let known: Vec<_> = providers.keys().map(String::as_str).chain(rows).collect();
    let is_known = known.contains(&said.value.as_str());
    if !is_known {
        let advice = suggestion(&said.value, known, "ones");
        let message = format!("there is no provider `{0}`; write [providers.{0}], or {advice}", said.value);
        faults.borrow_mut().push(said.fault(message));
    }
    is_known
}

/// The provider that a route goes out by first.
struct Chosen<'a> {
    /// The place where the route names it, if it does.
    said: Option<&'a At<String>>,
    name: &'a str,
    /// Absent when it was not written.
    provider: Option<&'a Provider>,
}

/// The carrier of a route: its own setting, else its provider if that has an address, else the row.
fn carrier(
    name: &str,
    built_in: Option<&'static BuiltIn>,
    raw: &RawRoute,
    chosen: &Chosen<'_>,
    given: &Given,
    faults: &FaultList,
) -> Option<(Kind, Carrier)> {
    let Chosen { said: said_provider, name: provider_name, provider } = *chosen;
    let fault = |fault| faults.borrow_mut().push(fault);
    let reachable = provider.and_then(|provider| Some((provider.kind, provider.transport.clone()?)));
    if let Some(said) = &raw.transport {
        let carrier = match said.value {
            Kind::Worker => Carrier::Workers,
            Kind::Sandbox if given.sandbox_enabled => Carrier::Transport(Arc::new(Sandbox)),
            Kind::Sandbox => {
                let message = format!(
                    "the sandbox is off in {}, and this route would send nothing; take the line out, or write \
                     [sandbox] enabled = true",
                    given.environment
                );
                fault(said.fault(message));
                return None;
            }
            kind if !kind.is_built() => {
                fault(said.fault(not_in_this_build(kind)));
                return None;
            }
            kind => match reachable {
                Some((reached_by, transport)) if reached_by == kind => Carrier::Transport(transport),
                Some((reached_by, _)) => {
                    let (kind, by) = (kind.as_str(), reached_by.as_str());
                    fault(said.fault(format!(
                        "provider `{provider_name}` is reached by \"{by}\", not by \"{kind}\"; take this line out, or \
                         write transport = \"{kind}\" in [providers.{provider_name}]"
                    )));
                    return None;
                }
                None => {
                    // When the provider is there and faulty, its own fault says enough.
                    if provider.is_none_or(|provider| provider.says_nothing()) {
                        let line =
                            if kind == Kind::Ses { "region = \"…\"" } else { "url = \"https://…\"" };
                        fault(said.fault(format!(
                            "the route has no address to send to; write [providers.{provider_name}] with {line}"
                        )));
                    }
                    return None;
                }
            },
        };
        return Some((said.value, carrier));
    }
    if let Some((kind, transport)) = reachable {
        return Some((kind, Carrier::Transport(transport)));
    }
    if let Some(said) = said_provider
        && said.value == Kind::Sandbox.as_str()
        && built_in.is_none_or(|row| row.kind != Kind::Sandbox)
    {
        let message = "the sandbox is a transport and no provider; write transport = \"sandbox\" (nothing is sent), or \
                       give [providers.sandbox] an address";
        fault(said.fault(message));
        return None;
    }
    match built_in {
        Some(BuiltIn { kind: Kind::Worker, .. }) => Some((Kind::Worker, Carrier::Workers)),
        Some(BuiltIn { kind: Kind::Sandbox, .. }) if given.sandbox_enabled => {
            Some((Kind::Sandbox, Carrier::Transport(Arc::new(Sandbox))))
        }
        Some(row) => Some((row.kind, Carrier::Missing(catalogue::missing(row, name, given.environment)))),
        None => {
            match (said_provider, provider.is_some_and(|provider| !provider.says_nothing())) {
                (_, true) => {}
                (Some(said), false) => fault(said.fault(format!(
                    "provider `{0}` has no address; write url = \"https://…\" in [providers.{0}]",
                    said.value
                ))),
                (None, false) => {
                    let meant = closest(name, catalogue::ROUTES.iter().map(|row| row.name));
                    let meant =
                        meant.map(|meant| format!("; or did you mean [routes.{meant}]?")).unwrap_or_default();
                    fault(raw.here.fault(format!(
                        "the route does not say how it delivers; write provider = \"…\", transport = \"worker\" (your \
                         own code delivers) or transport = \"sandbox\" (nothing is sent){meant}"
                    )));
                }
            }
            None
        }
    }
}

/// The settings of fallbacks, laid over those of the row.
fn fallback(
    said: Option<&RawFallback>,
    built_in: Option<&'static BuiltIn>,
    given: &Given,
    faults: &FaultList,
) -> Fallback {
    let mut fallback =
        Fallback { act: built_in.map_or(Act::MarkFailed, |row| row.fallback), ..Fallback::default() };
    let Some(said) = said else { return fallback };
    let fault = |fault| faults.borrow_mut().push(fault);
    if let Some(act) = &said.act {
        fallback.act = match (act.value, &said.after) {
            ("reschedule", Some(after)) => Act::Reschedule(after.value),
            ("reschedule", None) => {
                fault(act.fault("does not say when; write after = \"15m\" beside it"));
                Act::MarkFailed
            }
            ("cached", _) => Act::Cached,
            ("mark_account", _) => Act::MarkAccount,
            ("disable_endpoint", _) => Act::DisableEndpoint,
            ("unavailable", _) => Act::Unavailable,
            _ => Act::MarkFailed,
        };
    }
    if let Some(after) = said.after.as_ref().filter(|_| !matches!(fallback.act, Act::Reschedule(_))) {
        fault(after.fault("only do = \"reschedule\" waits; take it out, or write do = \"reschedule\""));
    }
    if let Some(on) = &said.on {
        fallback.on_open = on.value.iter().any(|dead| !dead.value);
        fallback.on_dead = on.value.iter().any(|dead| dead.value);
        if on.value.is_empty() {
            fault(on.fault("names no occasion; write [\"open\", \"dead\"], or take it out"));
        }
    }
    if let Some(channel) = &said.notify {
        check_channel(channel, &given.channels, faults);
        fallback.notify = Some(channel.value.as_str().into());
    }
    fallback
}

/// The settings of replays without a person.
fn auto_replay(said: &RawAutoReplay, faults: &FaultList) -> Option<AutoReplay> {
    let only = match &said.only {
        Some(only) if only.value.is_empty() => {
            let message = "names no cause; write [\"EXHAUSTED\"], or take auto_replay out";
            faults.borrow_mut().push(only.fault(message));
            return None;
        }
        Some(only) => only.value.iter().flatten().map(|cause| cause.value).collect(),
        None => CAUSES_DEFAULT.to_vec(),
    };
    let max = said.max.as_ref().and_then(|said| u32::try_from(said.value).ok()).unwrap_or(REPLAYS_DEFAULT);
    Some(AutoReplay { after: said.after.as_ref()?.value, max, only })
}

pub fn check_channel(said: &At<String>, known: &[String], faults: &FaultList) {
    if !known.contains(&said.value) {
        let advice = match known.is_empty() {
            true => String::new(),
            false => format!("; {}", suggestion(&said.value, known.iter().map(String::as_str), "ones")),
        };
        let message = format!("there is no channel `{0}`; write [notify.{0}]{advice}", said.value);
        faults.borrow_mut().push(said.fault(message));
    }
}

/// The route's own policy with what is said laid over it. Naming a part of a curve turns a schedule into
/// a curve, and the other way round; everything else stays.
fn policy(mut policy: Policy, said: &RawPolicy, faults: &FaultList) -> Policy {
    let curve_said =
        [said.base.as_ref().map(|_| ()), said.factor.as_ref().map(|_| ()), said.cap.as_ref().map(|_| ())];
    let curve_said = curve_said.iter().any(Option::is_some);
    if let (Some(schedule), true) = (&said.schedule, curve_said) {
        let message = "a schedule stands beside base, factor or cap; write the waits one by one, or the curve, not both";
        faults.borrow_mut().push(schedule.fault(message));
        return policy;
    }
    if let Some(schedule) = &said.schedule {
        policy.max_attempts = u32::try_from(schedule.value.len()).unwrap_or(u32::MAX);
        policy.backoff = Backoff::Schedule(schedule.value.clone());
    }
    if curve_said {
        let (base, factor, cap) = match (&policy.backoff, catalogue::default_policy().backoff) {
            (Backoff::Exponential { base, factor, cap }, _) => (*base, *factor, *cap),
            (_, Backoff::Exponential { base, factor, cap }) => (base, factor, cap),
            (_, Backoff::Schedule(_)) => (Duration::from_secs(1), 2.0, Duration::from_secs(60)),
        };
        policy.backoff = Backoff::Exponential {
            base: said.base.as_ref().map_or(base, |said| said.value),
            factor: said.factor.as_ref().map_or(factor, |said| said.value),
            cap: said.cap.as_ref().map_or(cap, |said| said.value),
        };
    }
    if let Some(said) = &said.max_attempts {
        policy.max_attempts = u32::try_from(said.value).unwrap_or(u32::MAX);
    }
    if let (Backoff::Schedule(_), Some(said)) = (&policy.backoff, &said.cap_applies) {
        let message = "a schedule has no cap; take this out, or write the curve with base, factor and cap";
        faults.borrow_mut().push(said.fault(message));
    }
    policy.jitter = said.jitter.as_ref().map_or(policy.jitter, |said| said.value);
    policy.cap_applies = said.cap_applies.as_ref().map_or(policy.cap_applies, |said| said.value);
    policy.floor = said.floor.as_ref().map(|said| said.value).or(policy.floor);
    policy.ceiling = said.ceiling.as_ref().map(|said| said.value).or(policy.ceiling);
    for words in policy.faults() {
        faults.borrow_mut().push(said.here.fault(words));
    }
    policy
}
