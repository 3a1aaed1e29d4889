//! Routes: the built-in ones, the settings laid over them, and the operator's own.

use std::collections::BTreeMap;
use std::time::Duration;

use recado_core::classify::HOLD_MAX_DEFAULT;
use recado_core::decide::Terms;
use recado_core::{Backoff, CapApplies, Classifier, Policy, RouteName, rules};
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::dlq::auto_replay::{AutoReplay, CAUSES_DEFAULT, REPLAYS_DEFAULT};
use recado_engine::{Act, Fallback};

use crate::catalogue::{self, BuiltIn, CONCURRENCY_DEFAULT, Environment, Kind, TIMEOUT_DEFAULT};
use crate::keys::route::{AutoReplayKeys, FallbackKeys, Occasion, PolicyKeys, RouteKeys};
use crate::keys::sections::Settings;
use crate::keys::table::defaults;
use crate::reading::checker::Checker;
use crate::reading::fault::{closest, suggestion};
use crate::resolve::anti_patterns::Review;
use crate::resolve::carriers;
use crate::resolve::protection;
use crate::{Provider, RouteConfig};

/// The configuration that routes are resolved in.
#[derive(Debug)]
pub struct Surroundings<'a> {
    pub environment: Environment,
    pub settings: &'a Settings,
    pub providers: &'a BTreeMap<String, Provider>,
    pub checker: &'a Checker,
}

/// Resolves every route and the protection of every provider.
pub fn resolve(
    around: &Surroundings<'_>,
    review: &mut Review<'_>,
) -> (Vec<RouteConfig>, BTreeMap<Box<str>, ProviderTerms>) {
    let Settings { routes: written_routes, providers: written_providers, .. } = around.settings;
    let written = |name: &str| written_routes.iter().find(|(written, _)| written == name);
    let mut routes = Vec::new();
    for row in &catalogue::ROUTES {
        let unwritten = defaults();
        let keys = written(row.name).map_or(&unwritten, |(_, keys)| keys);
        routes.extend(Resolver { around, name: row.name, built_in: Some(row), keys }.resolve(review));
    }
    for (name, keys) in written_routes.iter().filter(|(name, _)| BuiltIn::named(name).is_none()) {
        if check_name(name, &format!("routes.{name}"), around.checker) {
            routes.extend(Resolver { around, name, built_in: None, keys }.resolve(review));
        }
    }
    for (name, _) in written_providers {
        check_use(name, &routes, around);
    }
    let protection = protection::resolve(written_providers, &routes, around.checker);
    for route in &mut routes {
        let terms = protection.get(&route.provider);
        route.concurrency = terms.map_or(CONCURRENCY_DEFAULT, |terms| terms.concurrency);
    }
    for (name, keys) in written_providers {
        if protection.get(name.as_str()).is_some_and(|terms| terms.breaker.is_some()) {
            review.provider_with_breaker(name, &routes);
        }
        review.close(&format!("providers.{name}"), keys.protection.allow.as_ref());
    }
    (routes, protection)
}

/// An unused provider is allowed; one with nearly the name of another is a slip.
fn check_use(name: &str, routes: &[RouteConfig], around: &Surroundings<'_>) {
    let rows = catalogue::ROUTES.iter().map(|row| row.provider);
    let used = routes.iter().any(|route| route.provider_names().any(|used| used == name))
        || rows.clone().any(|known| known == name);
    let meant = closest(name, rows).filter(|meant| !used && !around.providers.contains_key(*meant));
    if let Some(meant) = meant {
        let message = format!("no route uses provider `{name}`; did you mean [providers.{meant}]?");
        around.checker.fault(&format!("providers.{name}"), message);
    }
}

/// Returns true if the name of a route or a provider can be one.
pub fn check_name(name: &str, path: &str, checker: &Checker) -> bool {
    let checked = RouteName::new(name);
    if let Err(error) = &checked {
        checker.fault(path, format!("the name {error}"));
    }
    checked.is_ok()
}

pub fn not_in_this_build(kind: Kind) -> String {
    format!(
        "transport \"{}\" is not in this build; give the route transport = \"worker\" (your own code delivers) or \
         \"sandbox\" (nothing is sent)",
        kind.as_str()
    )
}

pub fn check_channel(path: &str, channel: &str, known: &[&str], checker: &Checker) {
    if !known.contains(&channel) {
        let advice = match known.is_empty() {
            true => String::new(),
            false => format!("; {}", suggestion(channel, known.iter().copied(), "ones")),
        };
        checker.fault(path, format!("there is no channel `{channel}`; write [notify.{channel}]{advice}"));
    }
}

/// One route, while it is resolved.
pub struct Resolver<'a> {
    pub around: &'a Surroundings<'a>,
    pub name: &'a str,
    pub built_in: Option<&'static BuiltIn>,
    pub keys: &'a RouteKeys,
}

impl Resolver<'_> {
    pub fn path(&self, key: &str) -> String {
        format!("routes.{}.{key}", self.name)
    }

    pub fn fault(&self, key: &str, message: impl ToString) {
        self.around.checker.fault(&self.path(key), message);
    }

    pub fn has(&self, key: &str) -> bool {
        self.around.checker.has(&self.path(key))
    }

    fn resolve(&self, review: &mut Review<'_>) -> Option<RouteConfig> {
        let Resolver { built_in, keys, around, .. } = *self;
        let chosen = carriers::named_providers(self)?;
        let provider = chosen.first().map(|choice| choice.name.as_str());
        let provider = provider.or(built_in.map(|row| row.provider)).unwrap_or(self.name);
        let (kind, delivery) = carriers::delivery(self, chosen.first(), provider)?;
        let mixed = carriers::check_others(self, &chosen, kind, &delivery)?;

        let default_policy =
            built_in.map_or_else(catalogue::default_policy, |row| row.policy(around.environment));
        let policy =
            keys.policy.as_ref().map_or(default_policy.clone(), |keys| self.policy(default_policy, keys));
        let usual = built_in.map_or(kind.classifier(), |row| row.classifier);
        let classifier_name = keys.classifier.or(mixed).unwrap_or(usual);
        let fallback = self.fallback(keys.fallback.as_ref());
        let name = RouteName::trusted(self.name);
        let own_rules: Vec<_> = keys
            .classify
            .iter()
            .flatten()
            .enumerate()
            .filter_map(|(at, keys)| {
                crate::resolve::rules::resolve(keys, &self.path(&format!("classify[{at}]")), around.checker)
            })
            .collect();
        let own = own_rules.iter().enumerate().flat_map(|(at, rule)| rule.rules(&name, at)).collect();
        let route = RouteConfig {
            kind,
            delivery,
            provider: provider.into(),
            others: chosen.iter().skip(1).map(|choice| choice.name.as_str().into()).collect(),
            classifier_name,
            classifier: Classifier {
                hold_max: keys.hold_max.unwrap_or(HOLD_MAX_DEFAULT),
                ..rules::named(classifier_name).unwrap_or_default().preceded_by(own)
            },
            own_rules,
            terms: Terms {
                policy,
                dead_letter_ttl: around.settings.dlq.ttl,
                crashes_max: around.settings.engine.poison_after,
                start_over_after: match (fallback.act, fallback.on_dead) {
                    (Act::Reschedule(after), true) => Some(after),
                    _ => None,
                },
            },
            timeout: keys.timeout.or(built_in.map(|row| row.timeout)).unwrap_or(TIMEOUT_DEFAULT),
            concurrency: CONCURRENCY_DEFAULT,
            fallback,
            auto_replay: keys.auto_replay.as_ref().and_then(|keys| self.auto_replay(keys)),
            built_in,
            name,
        };
        review.route(&route, keys, around.settings.engine.job_ttl);
        review.close(&format!("routes.{}", self.name), keys.allow.as_ref());
        Some(route)
    }

    /// The settings of fallbacks, laid over those of the row.
    fn fallback(&self, keys: Option<&FallbackKeys>) -> Fallback {
        let usual = self.built_in.map_or(Act::MarkFailed, |row| row.fallback);
        let mut fallback = Fallback { act: usual, ..Fallback::default() };
        let Some(keys) = keys else { return fallback };
        fallback.act = match (keys.act, keys.after) {
            (None, _) => usual,
            (Some("reschedule"), Some(after)) => Act::Reschedule(after),
            (Some("reschedule"), None) => {
                self.fault("fallback.do", "does not say when; write after = \"15m\" beside it");
                Act::MarkFailed
            }
            (Some("cached"), _) => Act::Cached,
            (Some("mark_account"), _) => Act::MarkAccount,
            (Some("disable_endpoint"), _) => Act::DisableEndpoint,
            (Some("unavailable"), _) => Act::Unavailable,
            (Some(_), _) => Act::MarkFailed,
        };
        if keys.after.is_some() && !matches!(fallback.act, Act::Reschedule(_)) {
            self.fault(
                "fallback.after",
                "only do = \"reschedule\" waits; take it out, or write do = \"reschedule\"",
            );
        }
        if let Some(on) = &keys.on {
            fallback.on_open = on.contains(&Occasion::Open);
            fallback.on_dead = on.contains(&Occasion::Dead);
            if !self.has("fallback.on[0]") {
                self.fault("fallback.on", "names no occasion; write [\"open\", \"dead\"], or take it out");
            }
        }
        if let Some(channel) = &keys.notify {
            let known = self.around.settings.channel_names();
            check_channel(&self.path("fallback.notify"), channel, &known, self.around.checker);
            fallback.notify = Some(channel.as_str().into());
        }
        fallback
    }

    /// The settings of replays without a person.
    fn auto_replay(&self, keys: &AutoReplayKeys) -> Option<AutoReplay> {
        if !self.has("auto_replay.after") {
            self.around.checker.fault(
                &self.path("auto_replay"),
                "does not say how long an entry rests first; write { after = \"1h\" }",
            );
        }
        if keys.only.is_some() && !self.has("auto_replay.only[0]") {
            self.fault("auto_replay.only", "names no cause; write [\"EXHAUSTED\"], or take auto_replay out");
        }
        Some(AutoReplay {
            after: keys.after?,
            max: keys.max.unwrap_or(REPLAYS_DEFAULT),
            only: keys.only.clone().unwrap_or_else(|| CAUSES_DEFAULT.to_vec()),
        })
    }

    /// The route's own policy with the keys laid over it. Naming a part of a curve turns a schedule into a curve, and
    /// the other way round; everything else stays.
    fn policy(&self, mut policy: Policy, keys: &PolicyKeys) -> Policy {
        let names_curve = keys.base.is_some() || keys.factor.is_some() || keys.cap.is_some();
        if let Some(schedule) = &keys.schedule {
            if names_curve {
                let message = "a schedule stands beside base, factor or cap; write the waits one by one, or the curve, not both";
                self.fault("policy.schedule", message);
                return policy;
            }
            policy.max_attempts = u32::try_from(schedule.len()).unwrap_or(u32::MAX);
            policy.backoff = Backoff::Schedule(schedule.clone());
        }
        if names_curve {
            let (base, factor, cap) = match (&policy.backoff, catalogue::default_policy().backoff) {
                (Backoff::Exponential { base, factor, cap }, _) => (*base, *factor, *cap),
                (_, Backoff::Exponential { base, factor, cap }) => (base, factor, cap),
                (_, Backoff::Schedule(_)) => (Duration::from_secs(1), 2.0, Duration::from_secs(60)),
            };
            policy.backoff = Backoff::Exponential {
                base: keys.base.unwrap_or(base),
                factor: keys.factor.unwrap_or(factor),
                cap: keys.cap.unwrap_or(cap),
            };
        }
        if matches!(policy.backoff, Backoff::Schedule(_)) && keys.cap_applies.is_some() {
            let message =
                "a schedule has no cap; take this out, or write the curve with base, factor and cap";
            self.fault("policy.cap_applies", message);
        }
        policy.max_attempts = keys.max_attempts.unwrap_or(policy.max_attempts);
        policy.jitter = keys.jitter.unwrap_or(policy.jitter);
        policy.cap_applies = keys.cap_applies.unwrap_or(policy.cap_applies);
        policy.floor = keys.floor.or(policy.floor);
        policy.ceiling = keys.ceiling.or(policy.ceiling);
        for words in policy.faults() {
            self.fault("policy", words);
        }
        policy
    }
}

impl RouteConfig {
    /// The keys that make this route.
    pub fn keys(&self) -> RouteKeys {
        let several = !self.others.is_empty();
        let is_implied = self.built_in.is_none() && *self.provider == *self.name.as_str();
        // A row's own transport is not written: it goes without saying, and not every one is in this build.
        let names_transport =
            self.built_in.is_none_or(|row| row.kind != self.kind) && !self.kind.needs_provider();
        RouteKeys {
            transport: names_transport.then_some(self.kind),
            provider: (!several && !is_implied).then(|| self.provider.to_string()),
            providers: several.then(|| self.provider_names().map(str::to_owned).collect()),
            classifier: Some(self.classifier_name),
            timeout: Some(self.timeout),
            hold_max: Some(self.classifier.hold_max),
            policy: Some(policy_keys(&self.terms.policy)),
            fallback: (self.fallback != Fallback::default()).then(|| fallback_keys(&self.fallback)),
            auto_replay: self.auto_replay.as_ref().map(|terms| AutoReplayKeys {
                after: Some(terms.after),
                max: Some(terms.max),
                only: Some(terms.only.clone()),
            }),
            classify: (!self.own_rules.is_empty()).then(|| self.own_rules.clone()),
            allow: None,
        }
    }
}

/// The keys that make a policy.
pub fn policy_keys(policy: &Policy) -> PolicyKeys {
    let (base, factor, cap, schedule) = match &policy.backoff {
        Backoff::Exponential { base, factor, cap } => (Some(*base), Some(*factor), Some(*cap), None),
        Backoff::Schedule(waits) => (None, None, None, Some(waits.clone())),
    };
    PolicyKeys {
        base,
        factor,
        cap,
        schedule,
        jitter: Some(policy.jitter),
        cap_applies: Some(policy.cap_applies).filter(|applies| *applies == CapApplies::AfterJitter),
        floor: policy.floor,
        ceiling: policy.ceiling,
        max_attempts: Some(policy.max_attempts),
    }
}

fn fallback_keys(fallback: &Fallback) -> FallbackKeys {
    let occasions = [(Occasion::Open, fallback.on_open), (Occasion::Dead, fallback.on_dead)];
    FallbackKeys {
        on: Some(occasions.into_iter().filter(|(_, acts)| *acts).map(|(occasion, _)| occasion).collect()),
        act: Some(fallback.act.as_str()),
        after: match fallback.act {
            Act::Reschedule(after) => Some(after),
            _ => None,
        },
        notify: fallback.notify.as_deref().map(str::to_owned),
    }
}
