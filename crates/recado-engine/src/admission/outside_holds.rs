//! Holds that answers from outside impose, by a `Retry-After` or a limit that is reached: listed, and lifted by an
//! operator.

use std::sync::Arc;

use recado_core::limit::Quiet;
use recado_core::{AuditEvent, AuditKind, CompanyId, Job, Timestamp};
use recado_transport::Receiver;

use crate::admission::control::{LimitChange, SharedLimit};
use crate::admission::gate::{Gate, ProviderTarget};
use crate::admission::hold_reason::HoldReason;
use crate::admission::provider::Provider;
use crate::admission::receivers::ReceiverId;
use crate::error::Result;

/// The part of a provider's jobs that a hold keeps back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldScope {
    Provider,
    Company(CompanyId),
    Receiver(CompanyId, Receiver),
}

impl HeldScope {
    /// Its kind, the company and the receiver, each empty where there is none.
    fn parts(&self) -> [&str; 3] {
        match self {
            HeldScope::Provider => ["provider", "", ""],
            HeldScope::Company(company) => ["company", company.as_str(), ""],
            HeldScope::Receiver(company, Receiver::Endpoint(id)) => ["endpoint", company.as_str(), id],
            HeldScope::Receiver(company, Receiver::Host(host)) => ["host", company.as_str(), host],
        }
    }
}

/// A hold that an answer from outside imposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideHold {
    /// The same on every node, as long as it lasts.
    pub id: Box<str>,
    pub provider: Box<str>,
    pub scope: HeldScope,
    /// The answer's code, the wait that it asked for, whether `hold_max` cut it, and its words.
    pub reason: Box<str>,
    /// Absent where an older version wrote it.
    pub since: Option<Timestamp>,
    pub until: Timestamp,
}

impl OutsideHold {
    fn new(provider: &Provider, scope: HeldScope, quiet: Quiet) -> Self {
        let parts = scope.parts();
        let digest = recado_core::payload::digest_of(&[&provider.name, parts[0], parts[1], parts[2]]);
        let Quiet { since, until, reason, .. } = quiet;
        let provider = provider.name.clone();
        OutsideHold { id: format!("hold_{digest:032x}").into(), provider, scope, reason, since, until }
    }

    /// Returns its place in the list of all holds: by provider, kind of scope, company and receiver.
    pub fn place(&self) -> String {
        let [kind, company, receiver] = self.scope.parts();
        // The widest scope first.
        let rank = ["provider", "company", "endpoint", "host"].iter().position(|one| *one == kind);
        format!("{}\n{}\n{company}\n{receiver}", self.provider, rank.unwrap_or_default())
    }
}

type Found = (OutsideHold, Arc<Provider>, SharedLimit);

impl Gate {
    fn found_holds(&self, now: Timestamp) -> Vec<Found> {
        let mut found = Vec::new();
        for provider in self.providers.values() {
            let whole = provider.limit.read(|limit| limit.quiet(now));
            let whole = whole.map(|quiet| (HeldScope::Provider, quiet, provider.limit.clone()));
            let companies = provider.held_companies(now).into_iter();
            let companies = companies.map(|(name, quiet, limit)| (HeldScope::Company(name), quiet, limit));
            let receivers = provider.receivers.all_held(now).into_iter();
            let receivers = receivers
                .map(|(id, quiet, limit)| (HeldScope::Receiver(id.company, id.receiver), quiet, limit));
            let held = whole.into_iter().chain(companies).chain(receivers);
            found.extend(held.map(|(scope, quiet, limit)| {
                (OutsideHold::new(provider, scope, quiet), provider.clone(), limit)
            }));
        }
        found.sort_by_cached_key(|(hold, ..)| hold.place());
        found
    }

    /// Drops the holds on an endpoint that is gone or has another address now: they came from another receiver.
    pub(crate) fn drop_endpoint_holds(self: &Arc<Self>, company: &CompanyId, endpoint: &str) {
        let now = self.env.now();
        let id = ReceiverId { company: company.clone(), receiver: Receiver::Endpoint(endpoint.into()) };
        for provider in self.providers.values() {
            if let Some(hold) = provider.receivers.known_hold(&id) {
                self.change_limit(&hold, LimitChange::Lift, now);
            }
        }
        self.changed.notify_waiters();
    }

    /// Returns the hold on the receiver that a job goes to, if it lasts beyond the job's own wait. A route with several
    /// providers holds the job back only when each of them does.
    pub fn receiver_hold(&self, job: &Job) -> Option<HoldReason> {
        let now = self.env.now();
        let route = self.env.routes.get(job.route.as_str())?;
        let targets = self.targets(route);
        // Most of the time nothing is held, and no job's data has to be read.
        if targets.iter().any(|target| target.provider.receivers.is_empty()) {
            return None;
        }
        let held = |target: &ProviderTarget| {
            let hold = target.provider.receivers.known_hold(&target.receiver_of(job)?)?;
            hold.read(|hold| hold.quiet(now))?.at_most(route.hold_max(), now)
        };
        let held: Option<Vec<Quiet>> = targets.iter().map(held).collect();
        let first = held?.into_iter().min_by_key(|quiet| quiet.until)?;
        if first.until <= job.due_at {
            return None;
        }
        Some(HoldReason::quiet(format!("the receiver asked for quiet: {}", first.reason), first))
    }

    /// Sums up the holds on receivers of a provider, all or one company's.
    pub fn receivers_hold(&self, provider: &str, company: Option<&CompanyId>) -> Option<HoldReason> {
        let mut held = self.providers.get(provider)?.receivers.all_held(self.env.now());
        held.retain(|(id, ..)| company.is_none_or(|company| id.company == *company));
        let (_, first, _) = held.iter().min_by_key(|(_, quiet, _)| quiet.until)?;
        let why = match held.len() {
            1 => format!("only the jobs of one receiver wait, which asked for quiet: {}", first.reason),
            count => format!(
                "only the jobs of {count} receivers wait, which asked for quiet; the first until {}",
                first.until
            ),
        };
        Some(HoldReason::quiet(why, first.clone()))
    }

    /// Lists the holds that answers from outside imposed, by provider and scope.
    pub fn outside_holds(&self) -> Vec<OutsideHold> {
        self.found_holds(self.env.now()).into_iter().map(|(hold, ..)| hold).collect()
    }

    /// Lifts a hold on every node; who did it and why is recorded in the same step. `None` when there is no such hold.
    pub async fn lift_hold(
        &self,
        id: &str,
        reason: Option<&str>,
        actor: Option<&str>,
    ) -> Result<Option<OutsideHold>> {
        let now = self.env.now();
        let found = self.found_holds(now).into_iter().find(|(hold, ..)| &*hold.id == id);
        let Some((hold, provider, limit)) = found else { return Ok(None) };
        let step = (LimitChange::Lift, now);
        let audit = lifted(&hold, reason, actor, now);
        self.shared.save_with_audit(&[(&*limit, Some(step))], &|_| vec![audit.clone()]).await?;
        provider.changed.notify_waiters();
        self.changed.notify_waiters();
        tracing::warn!(holdId = id, provider = %hold.provider, scope = hold.scope.parts().join(" ").trim_end(), reason, actor, "Hold lifted by hand");
        Ok(Some(hold))
    }
}

fn lifted(hold: &OutsideHold, reason: Option<&str>, actor: Option<&str>, now: Timestamp) -> AuditEvent {
    let [kind, company, receiver] = hold.scope.parts();
    let scope = match &hold.scope {
        HeldScope::Provider => "all its jobs".to_owned(),
        HeldScope::Company(_) => format!("company {company}"),
        HeldScope::Receiver(..) => format!("company {company}, {kind} {receiver}"),
    };
    let words = reason.map_or_else(|| scope.clone(), |reason| format!("{scope}: {reason}"));
    let mut audit = AuditEvent::about_provider(&hold.provider, AuditKind::HoldLifted, now);
    audit.company_id = Some(company.into()).filter(|_| hold.scope != HeldScope::Provider);
    audit.by(actor).reason(words)
}
