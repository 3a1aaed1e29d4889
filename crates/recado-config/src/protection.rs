//! Protection of providers: settings of breakers, rates and slots, laid over the built-in rows.
//!
//! A provider stands for the row that names it, else for the built-in route that uses it: a second provider
//! of `instagram` gets the same breaker.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use recado_core::breaker::BreakerTerms;
use recado_engine::admission::provider::{CompanySlots, ProviderTerms};

use super::RouteConfig;
use super::fault::At;
use super::raw::{RawBreaker, RawProvider};
use crate::catalogue::{self, BREAKER_DEFAULT, BuiltIn, CONCURRENCY_DEFAULT, Kind};

/// A probe that is silent for this long beyond its time has lost its process.
const PROBE_MARGIN: Duration = Duration::from_secs(5);

/// Time that a probe may take where no route says so: the caller's own code makes it, and may forget to
/// report.
const PERMIT_MAX: Duration = Duration::from_secs(30);

/// The terms of every provider that is written or that a route uses.
pub fn resolve(
    written: &[(String, RawProvider)],
    routes: &[RouteConfig],
) -> BTreeMap<Box<str>, ProviderTerms> {
    let mut names: BTreeSet<_> = routes.iter().flat_map(RouteConfig::provider_names).collect();
    names.extend(written.iter().map(|(name, _)| name.as_str()));
    let resolved = names.into_iter().map(|name| {
        let users = || routes.iter().filter(|config| config.provider_names().any(|used| used == name));
        let own_row = catalogue::ROUTES.iter().find(|row| row.provider == name);
        let row = own_row.or_else(|| users().find_map(|config| config.built_in));
        let raw = written.iter().find(|(written, _)| written == name).map(|(_, raw)| raw);
        let mut terms = terms(raw, row);
        let users_choose_receivers = users().any(|config| config.kind == Kind::Webhook);
        if users_choose_receivers && terms.company_slots == CompanySlots::All {
            terms.company_slots = CompanySlots::AsManyAsFree;
        }
        if let Some(breaker) = &mut terms.breaker {
            let timeout = users().map(|config| config.route.timeout).max();
            breaker.probe = timeout.or(breaker.slow).unwrap_or(PERMIT_MAX) + PROBE_MARGIN;
        }
        (name.into(), terms)
    });
    resolved.collect()
}

fn terms(raw: Option<&RawProvider>, row: Option<&BuiltIn>) -> ProviderTerms {
    let usual = ProviderTerms {
        breaker: row.and_then(|row| row.breaker),
        rate: row.and_then(|row| row.rate),
        ..ProviderTerms::plain(row.map_or(CONCURRENCY_DEFAULT, |row| row.concurrency))
    };
    let Some(raw) = raw else { return usual };
    let count = |said: u64| usize::try_from(said).unwrap_or(usize::MAX);
    ProviderTerms {
        breaker: match &raw.breaker {
            Some(said) => breaker(said, usual.breaker.unwrap_or(BREAKER_DEFAULT)),
            None => usual.breaker,
        },
        rate: raw.rate.or(usual.rate),
        company_rate: raw.tenant_rate,
        concurrency: raw.concurrency.as_ref().map_or(usual.concurrency, |said| count(said.value)),
        company_slots: raw
            .tenant_concurrency
            .as_ref()
            .map_or(CompanySlots::All, |said| CompanySlots::AtMost(count(said.value))),
        receiver_concurrency: raw.endpoint_concurrency.as_ref().map(|said| count(said.value)),
        adaptive: raw.adaptive.as_ref().is_some_and(|said| said.value),
    }
}

/// The breaker's settings, with defaults for those that are absent.
fn breaker(said: &RawBreaker, usual: BreakerTerms) -> Option<BreakerTerms> {
    let time = |said: &Option<At<Duration>>, usual| said.as_ref().map_or(usual, |said| said.value);
    let failures = said.failures.as_ref().and_then(|said| u32::try_from(said.value).ok());
    (!said.off).then(|| BreakerTerms {
        failures: failures.unwrap_or(usual.failures),
        within: time(&said.within, usual.within),
        reset: time(&said.reset, usual.reset),
        slow: said.slow.as_ref().map(|said| said.value).or(usual.slow),
        ramp: time(&said.ramp, usual.ramp),
        ..usual
    })
}
