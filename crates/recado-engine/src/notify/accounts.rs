//! Accounts whose credential a provider no longer takes.
//!
//! An account is a company at a provider. A refused credential is neither the message's fault nor the
//! provider's: it marks the account, once, so that the product can ask its user to sign in again. The next
//! success, or a person, takes the mark away.

use std::sync::Arc;

use recado_core::{
    AuditEvent, AuditKind, CompanyId, Event, EventData, EventKind, EventOutcome, Failure, Job, Timestamp,
};
use recado_store::{KeyValue, Namespace, StoreError};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::notify::notices::OURSELVES;
use crate::shared::cache::{BelongsToCompany, NamespaceCache};

pub const NAMESPACE: Namespace = Namespace::new("accounts");

/// The mark of an account whose credential the provider refused.
pub const TOKEN_EXPIRED: &str = "token_expired";

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    pub provider: Box<str>,
    pub company_id: CompanyId,
    pub status: Box<str>,
    pub since: Timestamp,
    pub reason: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<Box<str>>,
    pub route: Box<str>,
    pub job_id: Box<str>,
}

impl BelongsToCompany for Account {
    fn company(&self) -> &CompanyId {
        &self.company_id
    }
}

/// Every marked account, as this process knows them.
#[derive(Debug)]
pub struct Accounts {
    pub(crate) marked: NamespaceCache<Account>,
}

fn key(provider: &str, company: &str) -> Box<str> {
    format!("{provider}/{company}").into()
}

impl Accounts {
    pub(crate) fn new(kv: Arc<dyn KeyValue>, clock: Arc<dyn Clock>) -> Self {
        Accounts { marked: NamespaceCache::new(NAMESPACE, kv, clock) }
    }

    pub fn list(&self, company: Option<&str>) -> Vec<Arc<Account>> {
        self.marked.list(company, None, usize::MAX)
    }

    pub(crate) fn is_marked(&self, provider: &str, company: &str) -> bool {
        !self.marked.is_empty() && self.marked.get(&key(provider, company)).is_some()
    }

    /// Returns the mark that a failure calls for, unless the account has it, and the event that tells of it. `words` are
    /// the failure's, without what of them is the job's.
    pub(crate) fn planned_mark(
        &self,
        provider: &str,
        job: &Job,
        failure: &Failure,
        words: &str,
    ) -> Option<(Account, Event)> {
        let now = self.marked.now();
        if self.is_marked(provider, job.company.as_str()) {
            return None;
        }
        let account = Account {
            provider: provider.into(),
            company_id: job.company.clone(),
            status: TOKEN_EXPIRED.into(),
            since: now,
            reason: words.into(),
            error_code: failure.code.clone(),
            route: job.route.as_str().into(),
            job_id: job.id.as_str().into(),
        };
        let data = EventData {
            status: Some(TOKEN_EXPIRED.into()),
            outcome: EventOutcome {
                error_code: failure.code.clone(),
                last_error: Some(words.into()),
                rule: Some(failure.rule.clone()),
                blame: Some(failure.blame),
                ..EventOutcome::default()
            },
            provider: Some(provider.into()),
            ..EventData::default()
        };
        Some((account, Event::about(job, EventKind::TokenExpired, now, data)))
    }

    pub(crate) async fn mark(&self, account: Account) -> Result<(), StoreError> {
        let key = key(&account.provider, account.company_id.as_str());
        let audit = act(AuditKind::AccountMarked, &account, OURSELVES, self.marked.now());
        let audit = vec![audit.reason(account.reason.to_string())];
        // One that another node marked meanwhile is read when that node's write is announced.
        self.marked.add(&key, account, audit).await.map(drop)
    }

    /// Takes the mark away because a delivery was accepted.
    pub(crate) async fn clear(&self, provider: &str, company: &str) -> Result<(), StoreError> {
        if self.is_marked(provider, company) {
            Box::pin(self.remove_mark(provider, company, OURSELVES)).await?;
        }
        Ok(())
    }

    /// Takes the mark away, and returns true when there was one.
    pub async fn remove_mark(&self, provider: &str, company: &str, actor: &str) -> Result<bool, StoreError> {
        let record = |account: &Account, now| act(AuditKind::AccountCleared, account, actor, now);
        let was_marked = self.marked.remove(&key(provider, company), record).await?.is_some();
        if was_marked {
            tracing::info!(provider, companyId = company, actor, "Account works again");
        }
        Ok(was_marked)
    }
}

fn act(kind: AuditKind, account: &Account, actor: &str, now: Timestamp) -> AuditEvent {
    let about = AuditEvent::about_account(&account.provider, account.company_id.as_str(), kind, now);
    AuditEvent { route: account.route.clone(), ..about.by(Some(actor)) }
}
