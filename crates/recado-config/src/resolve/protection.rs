//! Protection of providers: settings of breakers, rates and slots, laid over the built-in rows.
//!
//! A provider stands for the row that names it, else for the built-in route that uses it: a second provider
//! of `instagram` gets the same breaker.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use recado_core::breaker::BreakerTerms;
use recado_core::limit::Rate;
use recado_engine::admission::provider::{CompanySlots, ProviderTerms};

use crate::RouteConfig;
use crate::catalogue::{self, BREAKER_DEFAULT, BuiltIn, CONCURRENCY_DEFAULT, Kind};
use crate::keys::format::{Named, Switchable};
use crate::keys::provider::{BreakerKeys, ProtectionKeys, ProviderKeys, RateKeys};
use crate::keys::table::defaults;
use crate::reading::checker::{Checker, Scope};

/// A probe that is silent for this long beyond its time has lost its process.
const PROBE_MARGIN: Duration = Duration::from_secs(5);

/// Time that a probe may take where no route says so: the caller's own code makes it, and may forget to
/// report.
const PERMIT_MAX: Duration = Duration::from_secs(30);

/// The terms of every provider that is written or that a route uses.
pub fn resolve(
    written: &Named<ProviderKeys>,
    routes: &[RouteConfig],
    checker: &Checker,
) -> BTreeMap<Box<str>, ProviderTerms> {
    let mut names: BTreeSet<_> = routes.iter().flat_map(RouteConfig::provider_names).collect();
    names.extend(written.keys().map(String::as_str));
    let resolved = names.into_iter().map(|name| {
        let users = || routes.iter().filter(|route| route.uses(name));
        let own_row = catalogue::ROUTES.iter().find(|row| row.provider == name);
        let row = own_row.or_else(|| users().find_map(|route| route.built_in));
        let keys = written.get(name).map_or_else(defaults, |keys| keys.protection.clone());
        let mut terms = terms(&keys, row, &checker.scope(format!("providers.{name}")));
        let users_choose_receivers = users().any(|route| route.kind == Kind::Webhook);
        if users_choose_receivers && terms.company_slots == CompanySlots::All {
            terms.company_slots = CompanySlots::AsManyAsFree;
        }
        if let Some(breaker) = &mut terms.breaker {
            let timeout = users().map(|route| route.timeout).max();
            breaker.probe = timeout.or(breaker.slow).unwrap_or(PERMIT_MAX) + PROBE_MARGIN;
        }
        (name.into(), terms)
    });
    resolved.collect()
}

fn terms(keys: &ProtectionKeys, row: Option<&BuiltIn>, provider: &Scope<'_>) -> ProviderTerms {
    let usual = row.and_then(|row| Some(breaker(row.breaker.as_ref()?, BREAKER_DEFAULT)));
    let rate = |key: &str, keys: Option<&RateKeys>| {
        let written = ["max", "per"].iter().all(|part| provider.has(&format!("{key}.{part}")));
        if keys.is_some() && !written {
            provider.fault(key, "does not say how many in what time; write { max = 100, per = \"60s\" }");
        }
        keys?.rate()
    };
    ProviderTerms {
        breaker: match &keys.breaker {
            None => usual,
            Some(Switchable::Off) => None,
            Some(Switchable::On(None)) => usual.or(Some(BREAKER_DEFAULT)),
            Some(Switchable::On(Some(keys))) => Some(breaker(keys, usual.unwrap_or(BREAKER_DEFAULT))),
        },
        rate: rate("rate", keys.rate.as_ref()).or_else(|| row?.rate.as_ref()?.rate()),
        company_rate: rate("tenant_rate", keys.tenant_rate.as_ref()),
        concurrency: keys.concurrency.or(row.map(|row| row.concurrency)).unwrap_or(CONCURRENCY_DEFAULT),
        company_slots: keys.tenant_concurrency.map_or(CompanySlots::All, CompanySlots::AtMost),
        receiver_concurrency: keys.endpoint_concurrency,
        adaptive: keys.adaptive.unwrap_or(false),
    }
}

impl RateKeys {
    fn rate(&self) -> Option<Rate> {
        Some(Rate { max: self.max?, per: self.per? })
    }
}

/// The breaker's settings, with defaults for those that are absent.
fn breaker(keys: &BreakerKeys, usual: BreakerTerms) -> BreakerTerms {
    BreakerTerms {
        failures: keys.failures.unwrap_or(usual.failures),
        within: keys.within.unwrap_or(usual.within),
        reset: keys.reset.unwrap_or(usual.reset),
        slow: keys.slow.or(usual.slow),
        ramp: keys.ramp.unwrap_or(usual.ramp),
        ..usual
    }
}

/// The keys that make these terms.
pub fn keys(terms: &ProviderTerms, allow: Option<Named<String>>) -> ProtectionKeys {
    let rate = |rate: Rate| RateKeys { max: Some(rate.max), per: Some(rate.per) };
    let breaker = terms.breaker.map(|breaker| BreakerKeys {
        failures: Some(breaker.failures),
        within: Some(breaker.within),
        reset: Some(breaker.reset),
        slow: breaker.slow,
        ramp: Some(breaker.ramp),
    });
    ProtectionKeys {
        concurrency: Some(terms.concurrency),
        breaker: Some(breaker.map_or(Switchable::Off, |breaker| Switchable::On(Some(breaker)))),
        rate: terms.rate.map(rate),
        tenant_rate: terms.company_rate.map(rate),
        tenant_concurrency: match terms.company_slots {
            CompanySlots::AtMost(bound) => Some(bound),
            CompanySlots::All | CompanySlots::AsManyAsFree => None,
        },
        endpoint_concurrency: terms.receiver_concurrency,
        adaptive: terms.adaptive.then_some(true),
        allow,
    }
}
