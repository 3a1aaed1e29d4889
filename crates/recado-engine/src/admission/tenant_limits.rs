//! Operators' terms for companies: weight, limits, pause.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::limit::Rate;
use recado_core::{CompanyId, Timestamp};
use recado_store::Namespace;
use serde::{Deserialize, Serialize};

use crate::admission::control::{Pause, SharedLimit, TENANT_LIMITS};
use crate::admission::provider::{Quotas, Refusal, RefusalReason, limited};
use crate::shared::sync::NamespaceSnapshot;
use crate::shared::value::{Replayable, SharedValue, SyncResult};

pub const NAMESPACE: Namespace = Namespace::new("tenants");

pub const WEIGHT_MAX: u32 = 100;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TenantTerms {
    /// Multiplier of the company's turn.
    pub weight: u32,
    /// Deliveries at most that start in a minute, over all routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_per_minute: Option<u32>,
    pub paused: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_reason: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<Box<str>>,
}

impl Default for TenantTerms {
    fn default() -> Self {
        TenantTerms {
            weight: 1,
            max_per_minute: None,
            paused: false,
            paused_since: None,
            paused_reason: None,
            paused_by: None,
        }
    }
}

impl TenantTerms {
    fn rate(&self) -> Option<Rate> {
        Some(Rate { max: self.max_per_minute?, per: Duration::from_secs(60) })
    }

    fn pause(&self) -> Option<Pause> {
        let since = self.paused_since.filter(|_| self.paused)?;
        Some(Pause { since, reason: self.paused_reason.clone(), actor: self.paused_by.clone() })
    }
}

/// The terms to change; the rest stays.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TermsChange {
    pub weight: Option<u32>,
    /// `Some(None)` takes the bound away.
    pub max_per_minute: Option<Option<u32>>,
    pub paused: Option<bool>,
    /// The reason, for the next operator.
    pub reason: Option<Box<str>>,
}

/// A change with its actor and time.
#[derive(Clone, Debug)]
pub(crate) struct TermsStep {
    pub change: TermsChange,
    pub actor: Option<Box<str>>,
    pub at: Timestamp,
}

impl Replayable for TenantTerms {
    type Step = TermsStep;
    type Effect = ();

    fn apply(&mut self, TermsStep { change, actor, at }: &TermsStep) {
        self.weight = change.weight.unwrap_or(self.weight);
        self.max_per_minute = change.max_per_minute.unwrap_or(self.max_per_minute);
        match change.paused {
            Some(true) => {
                self.paused = true;
                self.paused_since = self.paused_since.or(Some(*at));
                self.paused_reason = change.reason.clone().or(self.paused_reason.take());
                self.paused_by = actor.clone().or(self.paused_by.take());
            }
            Some(false) => {
                self.paused = false;
                (self.paused_since, self.paused_reason, self.paused_by) = (None, None, None);
            }
            None => {}
        }
    }
}

/// The terms and limits of companies, as this process knows them.
#[derive(Debug, Default)]
pub struct Tenants {
    state: Mutex<TenantsState>,
}

#[derive(Debug, Default)]
struct TenantsState {
    known: HashMap<CompanyId, Tenant>,
    // Ready for claims; derived anew when terms change.
    weights: Arc<HashMap<CompanyId, u32>>,
    /// Companies that are paused or have a rate.
    bounded: Vec<CompanyId>,
}

#[derive(Debug)]
struct Tenant {
    terms: Arc<SharedValue<TenantTerms>>,
    limit: SharedLimit,
}

impl TenantsState {
    fn tenant(&mut self, company: &CompanyId) -> &Tenant {
        self.known.entry(company.clone()).or_insert_with(|| Tenant {
            terms: Arc::new(SharedValue::new(NAMESPACE, company.as_str())),
            limit: Arc::new(SharedValue::new(TENANT_LIMITS, company.as_str())),
        })
    }
}

impl Tenants {
    /// Takes in what a read of the store found of companies' terms.
    pub(crate) fn sync(&self, found: &NamespaceSnapshot<'_>) -> SyncResult {
        let terms: Vec<_> = {
            let mut state = self.state.lock();
            for company in found.keys().filter_map(|key| CompanyId::new(key).ok()) {
                state.tenant(&company);
            }
            state.known.values().map(|tenant| tenant.terms.clone()).collect()
        };
        let synced: SyncResult = terms.iter().map(|terms| found.sync(terms)).collect();
        if synced.changed {
            self.refresh();
        }
        synced
    }

    /// Takes in what a read of the store found of companies' spent limits.
    pub(crate) fn sync_limits(&self, found: &NamespaceSnapshot<'_>) -> SyncResult {
        let state = self.state.lock();
        state.known.values().map(|tenant| found.sync(&tenant.limit)).collect()
    }

    /// A company's terms, shared with all nodes.
    pub(crate) fn shared_terms(&self, company: &CompanyId) -> Arc<SharedValue<TenantTerms>> {
        self.state.lock().tenant(company).terms.clone()
    }

    /// Derives the weights and bounds that claims read, after terms changed.
    pub(crate) fn refresh(&self) {
        let mut state = self.state.lock();
        let terms =
            state.known.iter().map(|(company, tenant)| (company, tenant.terms.read(TenantTerms::clone)));
        let terms: Vec<_> = terms.map(|(company, terms)| (company.clone(), terms)).collect();
        let bounded = terms.iter().filter(|(_, terms)| terms.paused || terms.max_per_minute.is_some());
        state.bounded = bounded.map(|(company, _)| company.clone()).collect();
        let weighted = terms.into_iter().filter(|(_, terms)| terms.weight != 1);
        state.weights = Arc::new(weighted.map(|(company, terms)| (company, terms.weight)).collect());
    }

    pub fn terms(&self, company: &str) -> TenantTerms {
        let state = self.state.lock();
        state.known.get(company).map(|tenant| tenant.terms.read(TenantTerms::clone)).unwrap_or_default()
    }

    /// Returns the companies whose terms differ from the default.
    pub fn all(&self) -> Vec<CompanyId> {
        let state = self.state.lock();
        let own = |tenant: &Tenant| tenant.terms.read(|terms| *terms != TenantTerms::default());
        state.known.iter().filter(|(_, tenant)| own(tenant)).map(|(company, _)| company.clone()).collect()
    }

    pub(crate) fn weights(&self) -> Arc<HashMap<CompanyId, u32>> {
        self.state.lock().weights.clone()
    }

    /// Returns true if any company is bounded.
    pub(crate) fn are_bounded(&self) -> bool {
        !self.state.lock().bounded.is_empty()
    }

    /// The limit of a company over all routes, if it has one.
    pub(crate) fn limit(&self, company: &CompanyId) -> Option<(SharedLimit, Rate)> {
        let state = self.state.lock();
        let tenant = state.known.get(company)?;
        Some((tenant.limit.clone(), tenant.terms.read(TenantTerms::rate)?))
    }

    /// Bounds what may be claimed of each company.
    pub(crate) fn bound(&self, quotas: &mut Quotas, now: Timestamp) {
        let state = self.state.lock();
        for (company, tenant) in state.bounded.iter().filter_map(|one| Some((one, state.known.get(one)?))) {
            match tenant.terms.read(|terms| (terms.paused, terms.rate())) {
                (true, _) => quotas.bound(company, 0, None),
                (false, None) => {}
                (false, Some(rate)) => quotas.limit(company, &tenant.limit, Some(rate), Duration::ZERO, now),
            }
        }
    }

    /// Returns a quota of zero for each paused company.
    pub(crate) fn paused(&self) -> HashMap<CompanyId, u32> {
        let state = self.state.lock();
        let is_paused = |tenant: &Tenant| tenant.terms.read(|terms| terms.paused);
        let paused = state.bounded.iter().filter(|one| state.known.get(*one).is_some_and(is_paused));
        paused.map(|company| (company.clone(), 0)).collect()
    }

    /// The reason why this company's jobs wait, if it is a term of its own.
    pub(crate) fn held(&self, company: &str, now: Timestamp) -> Option<Refusal> {
        let state = self.state.lock();
        let tenant = state.known.get(company)?;
        let (pause, rate) = tenant.terms.read(|terms| (terms.pause(), terms.rate()));
        if let Some(pause) = pause {
            return Some(Refusal::without_end(RefusalReason::Paused(pause)));
        }
        tenant.limit.read(|limit| limited(limit, rate, Duration::ZERO, now))
    }
}
