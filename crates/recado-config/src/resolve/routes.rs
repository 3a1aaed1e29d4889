//! Routes: the built-in ones, the settings laid over them, and the operator's own.

use std::collections::BTreeMap;

use recado_core::classify::HOLD_MAX_DEFAULT;
use recado_core::decide::Terms;
use recado_core::{Backoff, CapApplies, Classifier, Policy, RouteName};
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::dlq::auto_replay::{AutoReplay, CAUSES_DEFAULT, REPLAYS_DEFAULT};
use recado_engine::{Act, Fallback};

use crate::catalogue::{
    self, BuiltIn, CONCURRENCY_DEFAULT, CURVE_DEFAULT, Environment, Kind, TIMEOUT_DEFAULT,
};
use crate::keys::route::{AutoReplayKeys, FallbackKeys, Occasion, PolicyKeys, RouteKeys};
use crate::keys::sections::Settings;
use crate::keys::table::defaults;
use crate::reading::checker::{Checker, Scope};
use crate::reading::fault::{closest, suggestion};
use crate::resolve::anti_patterns::Review;
use crate::resolve::{carriers, protection, rules};
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
    let unwritten = defaults();
    let built_in = catalogue::ROUTES.iter().map(|row| {
        let keys = written_routes.get(&row.name).unwrap_or(&unwritten);
        (row.name.as_str(), Some(row), keys)
    });
    let is_own = |name: &str| {
        BuiltIn::named(name).is_none() && check_name(name, &format!("routes.{name}"), around.checker)
    };
    let own = written_routes.iter().filter(|(name, _)| is_own(name));
    let own = own.map(|(name, keys)| (name.as_str(), None, keys));
    let resolved = built_in.chain(own).filter_map(|(name, built_in, keys)| {
        let scope = around.checker.scope(format!("routes.{name}"));
        Resolver { around, scope, name, built_in, keys }.resolve(review)
    });
    let mut routes: Vec<_> = resolved.collect();
    for name in written_providers.keys() {
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
    let rows = catalogue::ROUTES.iter().map(|row| row.provider.as_str());
    let used = routes.iter().any(|route| route.uses(name)) || rows.clone().any(|known| known == name);
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
    pub scope: Scope<'a>,
    pub name: &'a str,
    pub built_in: Option<&'static BuiltIn>,
    pub keys: &'a RouteKeys,
}

impl Resolver<'_> {
    fn resolve(&self, review: &mut Review<'_>) -> Option<RouteConfig> {
        let Resolver { built_in, keys, around, ref scope, .. } = *self;
        let chosen = carriers::named_providers(self)?;
        let provider = chosen.first().map(|choice| choice.name.as_str());
        let provider = provider.or(built_in.map(|row| row.provider.as_str())).unwrap_or(self.name);
        let (kind, delivery) = carriers::delivery(self, chosen.first(), provider)?;
        let mixed = carriers::check_others(self, &chosen, kind, &delivery)?;

        let usual = built_in.map_or(kind.classifier(), |row| row.classifier);
        let classifier_name = keys.classifier.or(mixed).unwrap_or(usual);
        let fallback = self.fallback();
        let name = RouteName::trusted(self.name);
        let entries = keys.classify.iter().flatten().enumerate();
        let own_rules: Vec<_> = entries
            .filter_map(|(at, keys)| rules::resolve(keys, &scope.below(&format!("classify[{at}]"))))
            .collect();
        let own = own_rules.iter().enumerate().flat_map(|(at, rule)| rule.rules(&name, at)).collect();
        let built_in_rules = recado_core::rules::named(classifier_name).unwrap_or_default();
        let route = RouteConfig {
            kind,
            delivery,
            provider: provider.into(),
            others: chosen.iter().skip(1).map(|choice| choice.name.as_str().into()).collect(),
            classifier_name,
            classifier: Classifier {
                hold_max: keys.hold_max.unwrap_or(HOLD_MAX_DEFAULT),
                ..built_in_rules.preceded_by(own)
            },
            own_rules,
            terms: Terms {
                policy: self.policy(),
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
        review.close(&scope.path, keys.allow.as_ref());
        Some(route)
    }

    /// The settings of fallbacks, laid over those of the row.
    fn fallback(&self) -> Fallback {
        let Resolver { around, ref scope, .. } = *self;
        let usual = self.built_in.map_or(Act::MarkFailed, |row| row.fallback);
        let mut fallback = Fallback { act: usual, ..Fallback::default() };
        let Some(keys) = &self.keys.fallback else { return fallback };
        if let Some(name) = keys.act {
            let acts = [Act::Cached, Act::MarkAccount, Act::DisableEndpoint, Act::Unavailable];
            let mut acts = acts.into_iter().chain(keys.after.map(Act::Reschedule));
            fallback.act = acts.find(|act| act.as_str() == name).unwrap_or_default();
            if name == "reschedule" && keys.after.is_none() {
                scope.fault("fallback.do", "does not say when; write after = \"15m\" beside it");
            }
        }
        if keys.after.is_some() && !matches!(fallback.act, Act::Reschedule(_)) {
            let message = "only do = \"reschedule\" waits; take it out, or write do = \"reschedule\"";
            scope.fault("fallback.after", message);
        }
        if let Some(on) = &keys.on {
            fallback.on_open = on.contains(&Occasion::Open);
            fallback.on_dead = on.contains(&Occasion::Dead);
            if !scope.has("fallback.on[0]") {
                scope.fault("fallback.on", "names no occasion; write [\"open\", \"dead\"], or take it out");
            }
        }
        if let Some(channel) = &keys.notify {
            let known = around.settings.channel_names();
            check_channel(&scope.path("fallback.notify"), channel, &known, around.checker);
            fallback.notify = Some(channel.as_str().into());
        }
        fallback
    }

    /// The settings of replays without a person.
    fn auto_replay(&self, keys: &AutoReplayKeys) -> Option<AutoReplay> {
        if !self.scope.has("auto_replay.after") {
            let message = "does not say how long an entry rests first; write { after = \"1h\" }";
            self.scope.fault("auto_replay", message);
        }
        if keys.only.is_some() && !self.scope.has("auto_replay.only[0]") {
            let message = "names no cause; write [\"EXHAUSTED\"], or take auto_replay out";
            self.scope.fault("auto_replay.only", message);
        }
        Some(AutoReplay {
            after: keys.after?,
            max: keys.max.unwrap_or(REPLAYS_DEFAULT),
            only: keys.only.clone().unwrap_or_else(|| CAUSES_DEFAULT.to_vec()),
        })
    }

    /// The route's own policy with the written keys laid over it.
    fn policy(&self) -> Policy {
        let environment = self.around.environment;
        let usual = self.built_in.map_or_else(catalogue::default_policy, |row| row.policy(environment));
        match &self.keys.policy {
            Some(keys) => keys.checked_over(usual, &self.scope.below("policy")),
            None => usual,
        }
    }
}

impl PolicyKeys {
    fn names_curve(&self) -> bool {
        self.base.is_some() || self.factor.is_some() || self.cap.is_some()
    }

    /// Lays these keys over a policy, and reports the faults of what comes out.
    pub fn checked_over(&self, usual: Policy, scope: &Scope<'_>) -> Policy {
        if self.schedule.is_some() && self.names_curve() {
            let message = "a schedule cannot be combined with base, factor or cap; write the waits one by one, or the curve, not both";
            scope.fault("schedule", message);
            return usual;
        }
        let policy = self.over(usual);
        if matches!(policy.backoff, Backoff::Schedule(_)) && self.cap_applies.is_some() {
            let message =
                "a schedule has no cap; take this out, or write the curve with base, factor and cap";
            scope.fault("cap_applies", message);
        }
        for words in policy.faults() {
            scope.fault("", words);
        }
        policy
    }

    /// A policy with these keys laid over it. Naming a part of a curve turns a schedule into a curve, and the other way
    /// round; everything else stays.
    pub fn over(&self, policy: Policy) -> Policy {
        let attempts = self.schedule.as_ref().and_then(|waits| u32::try_from(waits.len()).ok());
        let backoff = match (&self.schedule, policy.backoff) {
            (Some(waits), _) => Backoff::Schedule(waits.clone()),
            (None, Backoff::Schedule(waits)) if !self.names_curve() => Backoff::Schedule(waits),
            (None, backoff) => {
                let (base, factor, cap) = match backoff {
                    Backoff::Exponential { base, factor, cap } => (base, factor, cap),
                    Backoff::Schedule(_) => CURVE_DEFAULT,
                };
                Backoff::Exponential {
                    base: self.base.unwrap_or(base),
                    factor: self.factor.unwrap_or(factor),
                    cap: self.cap.unwrap_or(cap),
                }
            }
        };
        Policy {
            backoff,
            max_attempts: self.max_attempts.or(attempts).unwrap_or(policy.max_attempts),
            jitter: self.jitter.unwrap_or(policy.jitter),
            cap_applies: self.cap_applies.unwrap_or(policy.cap_applies),
            floor: self.floor.or(policy.floor),
            ceiling: self.ceiling.or(policy.ceiling),
        }
    }
}

impl RouteConfig {
    /// The keys that make this route.
    pub fn keys(&self) -> RouteKeys {
        let several = !self.others.is_empty();
        let is_implied = self.built_in.is_none() && *self.provider == *self.name.as_str();
        // The built-in transport is not repeated; it may also be missing from this build.
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
