//! What an operator says about a company: its weight, its limits, whether it is paused.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_core::limit::{Limit, Rate};
use recado_core::{CompanyId, Payload, Timestamp};
use recado_store::{NoteWrite, Shelf, Store, StoreError};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

pub const SHELF: Shelf = Shelf::new("tenants");

pub const WEIGHT_MAX: u32 = 100;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TenantTerms {
    /// Its turn is this many times as long.
    pub weight: u32,
    /// Deliveries at most that start in a minute, over all routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_per_minute: Option<u32>,
    pub paused: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_since: Option<Timestamp>,
}

impl Default for TenantTerms {
    fn default() -> Self {
        TenantTerms { weight: 1, max_per_minute: None, paused: false, paused_since: None }
    }
}

impl TenantTerms {
    fn rate(&self) -> Option<Rate> {
        Some(Rate { max: self.max_per_minute?, per: Duration::from_secs(60) })
    }
}

/// Every company that something was said about.
#[derive(Debug, Default)]
pub struct Tenants {
    state: Mutex<State>,
    /// Rung when something is said.
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    terms: HashMap<CompanyId, (TenantTerms, Limit)>,
    /// Ready for claims; made anew when something is said.
    weights: Arc<HashMap<CompanyId, u32>>,
}

impl State {
    fn keep(&mut self, company: CompanyId, terms: TenantTerms) {
        let limit = self.terms.remove(&company).map(|(_, limit)| limit).unwrap_or_default();
        if terms != TenantTerms::default() {
            self.terms.insert(company, (terms, limit));
        }
        let weighted = self.terms.iter().filter(|(_, (terms, _))| terms.weight != 1);
        self.weights =
            Arc::new(weighted.map(|(company, (terms, _))| (company.clone(), terms.weight)).collect());
    }
}

impl Tenants {
    pub(crate) async fn load(&self, store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        let notes = store.notes(SHELF, now).await?;
        let mut state = self.state.lock();
        for note in notes {
            if let (Ok(company), Ok(terms)) = (CompanyId::new(&*note.key), note.value.parse()) {
                state.keep(company, terms);
            }
        }
        Ok(())
    }

    pub fn terms(&self, company: &str) -> TenantTerms {
        self.state.lock().terms.get(company).map(|(terms, _)| terms.clone()).unwrap_or_default()
    }

    pub fn all(&self) -> Vec<(CompanyId, TenantTerms)> {
        let state = self.state.lock();
        state.terms.iter().map(|(company, (terms, _))| (company.clone(), terms.clone())).collect()
    }

    pub(crate) async fn set(
        &self,
        store: &dyn Store,
        company: &CompanyId,
        terms: TenantTerms,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let value = serde_json::to_string(&terms).ok().map(Payload::trusted);
        let value = value.filter(|_| terms != TenantTerms::default());
        let key = company.as_str().into();
        store
            .write_notes(vec![NoteWrite { shelf: SHELF, key, value, expect: None, expires_at: None }], now)
            .await?;
        self.state.lock().keep(company.clone(), terms);
        self.changed.notify_waiters();
        Ok(())
    }

    pub(crate) fn weights(&self) -> Arc<HashMap<CompanyId, u32>> {
        self.state.lock().weights.clone()
    }

    /// Adds to what a claim may take of each company; `until` when the first that is held back is free again.
    pub(crate) fn bound(&self, quotas: &mut HashMap<CompanyId, u32>, now: Timestamp) -> Option<Timestamp> {
        let state = self.state.lock();
        let mut until: Option<Timestamp> = None;
        for (company, (terms, limit)) in &state.terms {
            let free = match (terms.paused, terms.rate()) {
                (true, _) => 0,
                (false, None) => continue,
                (false, Some(rate)) => {
                    let free = limit.free(rate, u32::MAX, now);
                    if free == 0 {
                        until = [until, limit.free_at(rate, now)].into_iter().flatten().min();
                    }
                    free
                }
            };
            quotas.entry(company.clone()).and_modify(|quota| *quota = (*quota).min(free)).or_insert(free);
        }
        until
    }

    pub(crate) fn started(&self, company: &CompanyId, now: Timestamp) {
        let mut state = self.state.lock();
        if state.terms.is_empty() {
            return;
        }
        if let Some((terms, limit)) = state.terms.get_mut(company)
            && let Some(rate) = terms.rate()
        {
            limit.take(rate, 1, now);
        }
    }

    /// Why this company's jobs wait, if that is why.
    pub fn held(&self, company: &str, now: Timestamp) -> Option<(&'static str, Option<Timestamp>)> {
        let state = self.state.lock();
        let (terms, limit) = state.terms.get(company)?;
        if terms.paused {
            return Some(("paused", None));
        }
        let rate = terms.rate().filter(|rate| limit.free(*rate, 1, now) == 0)?;
        Some(("rate", limit.free_at(rate, now)))
    }
}
