//! A named way to deliver.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use recado_core::classify::HOLD_MAX_DEFAULT;
use recado_core::decide::Terms;
use recado_core::redact::{Speaker, redact};
use recado_core::{Classifier, Job, Payload, Policy, Reason, RouteName};
use recado_transport::{DataFault, Transport, TransportKind};

use crate::fallback::Fallback;

/// The carrier of a route's jobs.
#[derive(Clone, Debug)]
pub enum Carrier {
    /// This process.
    Transport(Arc<dyn Transport>),
    /// Workers that lease the route's jobs over the API.
    Workers,
    /// Not configured; holds the configuration lines to write. The route has a policy and rules, and refuses jobs.
    Missing(String),
}

#[derive(Clone, Debug)]
pub struct Route {
    pub name: RouteName,
    pub carrier: Carrier,
    /// The provider that its breaker and limits guard.
    pub provider: Box<str>,
    /// Providers that take over, in order, while the ones before them cannot take a job.
    pub others: Vec<(Box<str>, Arc<dyn Transport>)>,
    pub classifier: Classifier,
    pub terms: Terms,
    /// Time that one attempt may take.
    pub timeout: Duration,
    /// Deliveries at the same time.
    pub concurrency: usize,
    /// The act when it cannot deliver.
    pub fallback: Fallback,
}

impl Route {
    /// Every fault of a job's data that can be seen before it is sent.
    pub fn check(&self, data: &Payload) -> Result<(), Vec<DataFault>> {
        match &self.carrier {
            Carrier::Transport(transport) => transport.check(data),
            Carrier::Workers | Carrier::Missing(_) => Ok(()),
        }
    }

    /// Its providers, in the order to try them.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        let others = self.others.iter().map(|(name, _)| &**name);
        [&*self.provider].into_iter().chain(others)
    }

    /// Returns the longest wait that an answer may impose on its jobs.
    pub fn hold_max(&self) -> Duration {
        self.classifier.hold_max
    }

    /// Returns true if a transport of this kind, in this process, delivers its jobs.
    pub fn has_transport(&self, kind: TransportKind) -> bool {
        matches!(&self.carrier, Carrier::Transport(transport) if transport.kind() == kind)
    }

    pub fn transport_name(&self) -> &str {
        match &self.carrier {
            Carrier::Transport(transport) => transport.kind().as_str(),
            Carrier::Workers => "worker",
            Carrier::Missing(_) => "none",
        }
    }
}

/// All routes of a process, by name.
#[derive(Clone, Debug)]
pub struct Routes {
    by_name: BTreeMap<RouteName, Arc<Route>>,
    /// Terms of jobs whose route is no longer configured.
    unknown: Arc<Terms>,
}

impl Routes {
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Self {
        let by_name = routes.into_iter().map(|route| (route.name.clone(), Arc::new(route))).collect();
        let unknown = Terms {
            policy: Policy::exponential(Duration::from_secs(1), Duration::from_secs(60), 5),
            dead_letter_ttl: Duration::ZERO,
            crashes_max: 0,
            start_over_after: None,
        };
        Routes { by_name, unknown: Arc::new(unknown) }
    }

    /// Sets what holds for jobs whose route is no longer configured.
    pub(crate) fn with_unknown(mut self, dead_letter_ttl: Duration, crashes_max: u32) -> Self {
        self.unknown = Arc::new(Terms { dead_letter_ttl, crashes_max, ..(*self.unknown).clone() });
        self
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Route>> {
        self.by_name.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.by_name.values()
    }

    /// Returns the terms of a job's route.
    pub(crate) fn terms_of(&self, route: &RouteName) -> &Terms {
        self.get(route.as_str()).map_or(&*self.unknown, |route| &route.terms)
    }

    /// Returns the longest wait that an answer may impose on a route's jobs.
    pub(crate) fn hold_max(&self, route: &RouteName) -> Duration {
        self.get(route.as_str()).map_or(HOLD_MAX_DEFAULT, |route| route.hold_max())
    }

    /// The names of routes that take jobs, for messages.
    pub fn usable_names(&self) -> Vec<&str> {
        let usable = self.by_name.values().filter(|route| !matches!(route.carrier, Carrier::Missing(_)));
        usable.map(|route| route.name.as_str()).collect()
    }

    pub fn names(&self) -> Vec<&str> {
        self.by_name.keys().map(RouteName::as_str).collect()
    }

    /// Says why jobs of this route would wait in vain, if they would.
    pub fn why_undeliverable(&self, name: &str) -> Option<String> {
        match self.get(name).map(|route| &route.carrier) {
            None => Some(self.unknown_route(name)),
            Some(Carrier::Missing(what)) => Some(format!("route `{name}` cannot deliver yet: {what}")),
            Some(Carrier::Transport(_) | Carrier::Workers) => None,
        }
    }

    /// Says that there is no such route.
    pub fn unknown_route(&self, name: &str) -> String {
        let name = recado_core::reason::clip(name, recado_core::name::NAME_LEN_MAX);
        format!("there is no route `{name}`; known routes: {}", self.names().join(", "))
    }

    /// Masks payload data in a provider's message.
    pub(crate) fn redact(&self, job: &Job, words: &Reason) -> String {
        redact(words.as_str(), &job.data, self.speaker(job))
    }

    /// The author of the words that are said about a job.
    pub(crate) fn speaker(&self, job: &Job) -> Speaker {
        let route = self.get(job.route.as_str());
        let scripted = route.is_some_and(|route| route.has_transport(TransportKind::Sandbox));
        if scripted { Speaker::Script } else { Speaker::Provider }
    }
}
