//! Explains why due jobs of a company, a route or a provider wait (breaker, limit or pause), and until when.

use std::time::Duration;

use recado_core::limit::Quiet;
use recado_core::{CompanyId, Job, RouteName, Timestamp};

use crate::admission::control::Pause;
use crate::admission::gate::Gate;
use crate::admission::provider::{Provider, ProviderView, Refusal, RefusalReason};
use crate::route::Route;

pub use recado_core::limit::{LimitKind, PauseScope};

/// The reason why due jobs do not go out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldReason {
    pub by: HoldCause,
    /// A sentence, in English.
    pub why: String,
    /// A person's or a provider's own words.
    pub said: Option<Box<str>>,
    /// The end of the wait, if it is known.
    pub until: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldCause {
    Breaker,
    Limit(LimitKind),
    Pause(PauseScope, Pause),
}

impl HoldReason {
    pub(crate) fn new(Refusal { why, until }: &Refusal) -> Self {
        let words = |said: &Option<Box<str>>| said.clone().unwrap_or_else(|| "no reason given".into());
        let limit = |kind, why: &str| (HoldCause::Limit(kind), why.to_owned(), None);
        let (by, why, said) = match why {
            RefusalReason::Breaker { state, reason } => {
                let why = format!("circuit breaker {}: {}", state.as_str(), words(reason));
                (HoldCause::Breaker, why, reason.clone())
            }
            RefusalReason::Paused(pause) => {
                let by = HoldCause::Pause(PauseScope::Provider, pause.clone());
                (by, format!("paused: {}", words(&pause.reason)), pause.reason.clone())
            }
            RefusalReason::Quiet(said) if !said.is_empty() => {
                let why = format!("the provider asked for quiet: {said}");
                (HoldCause::Limit(LimitKind::Quiet), why, Some(said.clone()))
            }
            RefusalReason::Quiet(_) => limit(LimitKind::Quiet, "the provider asked for quiet"),
            RefusalReason::Rate => limit(LimitKind::Rate, "the provider's rate is used up"),
            RefusalReason::Busy => limit(LimitKind::Slots, "all slots are taken"),
            RefusalReason::CompanyBusy => {
                limit(LimitKind::CompanySlots, "the company has as many deliveries on their way as it may")
            }
            RefusalReason::Store => limit(LimitKind::Store, "the store did not answer"),
        };
        HoldReason { by, why, said, until: *until }
    }

    /// Returns true if a wait for it is a deferral, and not just a wait for a turn.
    pub fn is_deferral(&self) -> bool {
        !matches!(self.by, HoldCause::Limit(LimitKind::Slots | LimitKind::CompanySlots | LimitKind::Store))
    }

    /// Makes the reason of a hold that an answer of a receiver imposed.
    pub(super) fn quiet(why: String, quiet: Quiet) -> Self {
        let by = HoldCause::Limit(LimitKind::Quiet);
        HoldReason { by, why, said: Some(quiet.reason), until: Some(quiet.until) }
    }

    fn pause(what: PauseScope, pause: Pause) -> Self {
        let whose = match what {
            PauseScope::Company => "tenant",
            PauseScope::Route | PauseScope::Provider => what.as_str(),
        };
        let why = match &pause.reason {
            Some(reason) => format!("{whose} paused: {reason}"),
            None => format!("{whose} paused"),
        };
        let said = pause.reason.clone();
        HoldReason { by: HoldCause::Pause(what, pause), why, said, until: None }
    }
}

impl ProviderView {
    /// The reason why its lanes wait, if they do.
    pub fn hold(&self) -> Option<HoldReason> {
        self.held.as_ref().map(HoldReason::new)
    }
}

impl Gate {
    /// The pause of a route, if there is one.
    pub fn pause_of(&self, route: &RouteName) -> Option<Pause> {
        self.route_controls.get(route)?.read(|control| control.paused.clone())
    }

    /// The reason why a whole route waits, if it does. Its other providers have to be held, too.
    pub fn route_hold(&self, route: &Route) -> Option<HoldReason> {
        if let Some(pause) = self.pause_of(&route.name) {
            return Some(HoldReason::pause(PauseScope::Route, pause));
        }
        let now = self.env.now();
        self.hold_by_providers(route, now, |provider| provider.view_of(route.hold_max(), now).held)
    }

    /// The reason why this company's due jobs of this route wait, if they do.
    pub fn hold(&self, route: &str, company: &str) -> Option<HoldReason> {
        let now = self.env.now();
        if let Some(Refusal { why, until }) = self.tenants.held(company, now) {
            let by = HoldCause::Limit(LimitKind::CompanyRate);
            return Some(match why {
                RefusalReason::Paused(pause) => HoldReason::pause(PauseScope::Company, pause),
                _ => HoldReason { by, why: "the tenant's rate is used up".to_owned(), said: None, until },
            });
        }
        let route = self.env.routes.get(route)?;
        let company = CompanyId::new(company).ok();
        self.route_hold(route).or_else(|| {
            self.hold_by_providers(route, now, |provider| {
                let by_provider = provider.view_of(route.hold_max(), now).held;
                by_provider.or_else(|| provider.company_held(company.as_ref()?, route.hold_max(), now))
            })
        })
    }

    fn hold_by_providers(
        &self,
        route: &Route,
        now: Timestamp,
        held: impl Fn(&Provider) -> Option<Refusal>,
    ) -> Option<HoldReason> {
        let mut hold: Option<HoldReason> = None;
        for name in route.providers() {
            let refusal = held(self.providers.get(name)?)?;
            // A probe that is due lets one job through: it waits for its turn, not for the breaker.
            if refusal.until.is_some_and(|until| until <= now) {
                return None;
            }
            let hold = hold.get_or_insert_with(|| HoldReason::new(&refusal));
            hold.until = hold.until.into_iter().chain(refusal.until).min();
        }
        hold
    }

    /// Returns what holds back a job that is pinned to one provider, beside what holds its route back.
    pub fn hold_by_pin(&self, job: &Job) -> Option<HoldReason> {
        let now = self.env.now();
        let route = self.env.routes.get(job.route.as_str())?;
        let pin = job.pin()?;
        let name = pin.provider.as_deref().unwrap_or(&route.provider);
        let retry_at = job.attempts.last().map(|last| {
            let delay = last.next_retry_delay_ms.map(Duration::from_millis).unwrap_or_default();
            last.ended_at.plus(delay)
        });
        if route.others.is_empty() || retry_at.is_some_and(|at| at > now) {
            return None;
        }
        let hold = self.providers.get(name)?.view_of(route.hold_max(), now).hold()?;
        Some(HoldReason {
            why: format!("provider {name} may have taken it, and no other is asked; {}", hold.why),
            ..hold
        })
    }
}

impl RefusalReason {
    /// Returns the kind under which a lane's wait is counted. A store that does not answer holds all lanes alike, and is
    /// no lane's figure.
    pub(crate) fn metric(&self) -> Option<recado_observe::HoldKind> {
        use recado_observe::HoldKind;
        match self {
            RefusalReason::Breaker { .. } => Some(HoldKind::Breaker),
            RefusalReason::Rate | RefusalReason::Quiet(_) => Some(HoldKind::Rate),
            RefusalReason::Busy | RefusalReason::CompanyBusy => Some(HoldKind::Concurrency),
            RefusalReason::Paused(_) => Some(HoldKind::Pause),
            RefusalReason::Store => None,
        }
    }
}
