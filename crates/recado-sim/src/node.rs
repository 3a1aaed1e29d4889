//! One process: the production engine with its routes, its clock and its link.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use recado_core::breaker::BreakerTerms;
use recado_core::decide::Terms;
use recado_core::fairness::TURN_JOBS;
use recado_core::limit::Rate;
use recado_core::{Classifier, Policy, Random, RouteName, Timestamp, rules};
use recado_engine::admission::provider::{CompanySlots, ProviderTerms};
use recado_engine::notify::notices::Notices;
use recado_engine::{Carrier, Clock, Engine, Fallback, Parts, Route, Routes, Settings};
use recado_store::Retention;
use recado_store::StoreResult;
use recado_store_conformance::intercepted::InterceptedStore;
use recado_transport::Transport;
use tokio::time::Instant;

use crate::link::Link;
use crate::provider::{Providers, SimTransport};

/// The wall clock when a run begins.
pub const EPOCH: Timestamp = Timestamp::from_millis(1_760_000_000_000);

pub const LEASE: Duration = Duration::from_secs(15);
pub const STOP_GRACE: Duration = Duration::from_secs(8);

/// Longest wait that an answer may impose.
pub const HOLD_MAX: Duration = Duration::from_secs(20);

/// A wait that an answer asks for and does not get.
pub const LONG_WAIT: Duration = Duration::from_secs(3_600);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub const ROUTES: [&str; 4] = ["mail", "chat", "hook", "work"];
pub const PROVIDERS: [&str; 5] = ["mail-a", "mail-b", "chat", "hook", "work"];
pub const COMPANIES: [&str; 3] = ["acme", "globex", "initech"];

/// A node's wall clock: virtual time, and by how much it was set.
#[derive(Debug)]
pub struct NodeClock {
    pub began: Instant,
    pub set_by_ms: AtomicI64,
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.steady_now().as_millis() + self.set_by_ms.load(Ordering::Relaxed))
    }

    fn steady_now(&self) -> Timestamp {
        EPOCH.plus(self.began.elapsed())
    }
}

/// A running process.
#[derive(Clone, Debug)]
pub struct Process {
    pub engine: Engine,
    pub link: Link,
}

/// Starts a process; fails when the store does not answer.
pub async fn start(
    link: Link,
    clock: Arc<NodeClock>,
    providers: &Arc<Providers>,
    random: Random,
) -> StoreResult<Process> {
    let inner = link.server.store();
    let store = InterceptedStore::new(inner, link.clone(), link.server.kv_wakes.clone());
    let transport = |name: &'static str| -> Arc<dyn Transport> {
        Arc::new(SimTransport { link: link.clone(), providers: providers.clone(), name })
    };
    let routes = Routes::new([
        Route {
            others: vec![("mail-b".into(), transport("mail-b"))],
            ..route("mail", "mail-a", Carrier::Transport(transport("mail-a")))
        },
        route("chat", "chat", Carrier::Transport(transport("chat"))),
        route("hook", "hook", Carrier::Transport(transport("hook"))),
        route("work", "work", Carrier::Workers),
    ]);
    let settings = Settings {
        node: link.name.as_str().into(),
        lease: LEASE,
        stop_grace: STOP_GRACE,
        // Longer than any step of a clock: in the end every job is looked at.
        retention: Retention { ended_max_age: 400 * DAY, ended_max_count: 1_000_000 },
        job_ttl: DAY,
        dead_letter_ttl: 100 * DAY,
        crashes_max: 5,
        notices: Notices::default(),
        turn_jobs: TURN_JOBS,
    };
    let mut parts = Parts::new(Arc::new(store), routes, settings, clock, random);
    parts.providers = provider_terms();
    parts.read_back().await?;
    Ok(Process { engine: Engine::start(parts), link })
}

fn provider_terms() -> BTreeMap<Box<str>, ProviderTerms> {
    let second = Duration::from_secs(1);
    let breaker =
        BreakerTerms { probe: 6 * second, ramp: 5 * second, ..BreakerTerms::new(5, 30 * second, 5 * second) };
    let guarded = ProviderTerms { breaker: Some(breaker), ..ProviderTerms::plain(4) };
    let rate = Some(Rate { max: 20, per: 10 * second });
    let hook = ProviderTerms { company_slots: CompanySlots::AsManyAsFree, ..ProviderTerms::plain(8) };
    BTreeMap::from([
        ("mail-a".into(), guarded),
        ("mail-b".into(), guarded),
        ("chat".into(), ProviderTerms { rate, ..guarded }),
        ("hook".into(), hook),
        ("work".into(), ProviderTerms::plain(4)),
    ])
}

fn route(name: &str, provider: &str, carrier: Carrier) -> Route {
    let classifier = rules::named("http").unwrap_or_default();
    Route {
        name: RouteName::trusted(name),
        carrier,
        provider: provider.into(),
        others: Vec::new(),
        classifier: Classifier { hold_max: HOLD_MAX, ..classifier },
        terms: Terms {
            policy: Policy::exponential(Duration::from_secs(1), Duration::from_secs(8), 4),
            dead_letter_ttl: 100 * DAY,
            crashes_max: 5,
            start_over_after: None,
        },
        timeout: Duration::from_secs(3),
        concurrency: 4,
        fallback: Fallback::default(),
    }
}
