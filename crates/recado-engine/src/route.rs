//! A named way to deliver.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use recado_core::decide::Terms;
use recado_core::{Classifier, Job, Payload, RouteName};
use recado_transport::{DataFault, Transport, TransportKind};

use crate::admission::provider::Provider;
use crate::admission::receivers::ReceiverId;
use crate::fallback::Fallback;

/// The carrier of a route's jobs.
#[derive(Clone, Debug)]
pub enum Carrier {
    /// This process.
    Transport(Arc<dyn Transport>),
    /// Workers that lease the route's jobs over the API.
    Workers,
    /// None yet: the lines to configure, in words. The route has a policy and rules, and refuses jobs.
    Missing(String),
}

#[derive(Clone, Debug)]
pub struct Route {
    pub name: RouteName,
    pub carrier: Carrier,
    /// The provider that its breaker and limits guard.
    pub provider: Box<str>,
    /// Providers that take over, in order, when the ones before them are closed off.
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

/// One way out of a route: a provider and the transport that reaches it.
#[derive(Clone, Debug)]
pub struct ProviderTarget {
    pub provider: Arc<Provider>,
    pub transport: Arc<dyn Transport>,
}

impl ProviderTarget {
    /// Returns the receiver that a job's data names, where users choose it.
    pub(crate) fn receiver_of(&self, job: &Job) -> Option<ReceiverId> {
        let receiver = self.transport.receiver(&job.data)?;
        Some(ReceiverId { company: job.company.clone(), receiver })
    }
}

/// All routes of a process, by name.
#[derive(Clone, Debug, Default)]
pub struct Routes(BTreeMap<RouteName, Arc<Route>>);

impl Routes {
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Self {
        Routes(routes.into_iter().map(|route| (route.name.clone(), Arc::new(route))).collect())
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Route>> {
        self.0.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.0.values()
    }

    /// The names of routes that take jobs, for messages.
    pub fn usable_names(&self) -> Vec<&str> {
        let usable = self.0.values().filter(|route| !matches!(route.carrier, Carrier::Missing(_)));
        usable.map(|route| route.name.as_str()).collect()
    }

    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(RouteName::as_str).collect()
    }
}
