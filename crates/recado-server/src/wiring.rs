//! Builds what a configuration describes: transports, routes, endpoints and the terms of the engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use recado_config::catalogue::Kind;
use recado_config::{Config, Delivery, NoticeEndpoint, RouteConfig, TransportConfig};
use recado_engine::audit::TrailTerms;
use recado_engine::duties::alerts::AlertTerms;
use recado_engine::notify::endpoints::EndpointRegistry;
use recado_engine::{Carrier, DeadLetterTerms, Route, Routes, Settings, SystemClock};
use recado_simulate::{Load, Scenario};
use recado_store::{KeyValue, Retention};
use recado_store_embedded::EmbeddedOptions;
use recado_transport::{Evolution, Http, Sandbox, Transport};
#[cfg(feature = "ses")]
use recado_transport_ses::Ses;
use recado_transport_smtp::Smtp;
use recado_transport_webhook::{Secret, Webhook};

use crate::archive::FileArchive;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Everything that goes out of the process.
#[derive(Debug)]
pub struct Wiring {
    pub routes: Routes,
    /// Shared by the engine and the transports that deliver to endpoints.
    pub endpoints: Arc<EndpointRegistry>,
    /// Signs webhooks, of the route that events go out by.
    pub webhook: Option<Arc<Webhook>>,
}

impl Wiring {
    /// Builds every transport and the routes that use them.
    pub fn new(config: &Config, kv: Arc<dyn KeyValue>) -> Result<Self, String> {
        let endpoints = Arc::new(EndpointRegistry::new(kv, Arc::new(SystemClock)));
        for NoticeEndpoint { id, url, key } in &config.notice_endpoints {
            // Without a configured key, the signature is made with a random one.
            let key = key.clone().map_or_else(random_key, Ok)?;
            endpoints.fix(id, url.clone(), key);
        }
        let mut transports = Transports::default();
        for (name, provider) in &config.providers {
            if let Some(transport) = &provider.transport {
                let built = transports.build(name, transport, &endpoints);
                built.map_err(|error| format!("cannot set up provider {name}: {error}"))?;
            }
        }
        let own = transports.webhooks.get("webhook").or_else(|| transports.webhooks.values().next());
        Ok(Wiring {
            routes: Routes::new(config.routes.iter().map(|route| transports.route(route))),
            webhook: own.cloned(),
            endpoints,
        })
    }
}

/// Transports by the name of their provider.
#[derive(Default)]
struct Transports {
    all: BTreeMap<String, Arc<dyn Transport>>,
    webhooks: BTreeMap<String, Arc<Webhook>>,
}

impl Transports {
    fn build(
        &mut self,
        provider: &str,
        config: &TransportConfig,
        endpoints: &Arc<EndpointRegistry>,
    ) -> Result<(), String> {
        let transport: Arc<dyn Transport> = match config.clone() {
            TransportConfig::Http(config) => built(Http::new(config))?,
            TransportConfig::Whatsapp(config) => built(Evolution::new(config))?,
            TransportConfig::Smtp(config) => built(Smtp::new(config))?,
            #[cfg(feature = "ses")]
            TransportConfig::Ses(config) => built(Ses::new(config))?,
            TransportConfig::Webhook(config) => {
                let webhook = built(Webhook::new(config, endpoints.clone()))?;
                self.webhooks.insert(provider.to_owned(), webhook.clone());
                webhook
            }
        };
        self.all.insert(provider.to_owned(), transport);
        Ok(())
    }

    fn route(&self, config: &RouteConfig) -> Route {
        route(config, |provider| match config.kind {
            Kind::Sandbox => Some(Arc::new(Sandbox) as Arc<dyn Transport>),
            _ => self.all.get(provider).cloned(),
        })
    }
}

/// Makes a route of its configuration and its providers' transports.
fn route(config: &RouteConfig, transport: impl Fn(&str) -> Option<Arc<dyn Transport>>) -> Route {
    let RouteConfig { provider, others, .. } = config;
    let carrier = match &config.delivery {
        Delivery::Transport => match transport(provider) {
            Some(transport) => Carrier::Transport(transport),
            None => Carrier::Missing(format!("provider {provider} has no transport")),
        },
        Delivery::Workers => Carrier::Workers,
        Delivery::Missing(what) => Carrier::Missing(what.clone()),
    };
    let others = others.iter().filter_map(|name| Some((name.clone(), transport(name)?)));
    Route {
        name: config.name.clone(),
        carrier,
        provider: provider.clone(),
        others: others.collect(),
        classifier: config.classifier.clone(),
        terms: config.terms.clone(),
        timeout: config.timeout,
        concurrency: config.concurrency,
        fallback: config.fallback.clone(),
    }
}

/// Makes the scenario of a simulation, which opens nothing: the sandbox stands where `recado-simulate` puts its own.
pub fn scenario(config: &Config, simulated: &RouteConfig, load: Load) -> Scenario {
    Scenario {
        route: route(simulated, |_| Some(Arc::new(Sandbox))),
        providers: config.protection.clone(),
        settings: engine_settings(config, "simulation"),
        load,
    }
}

/// From the system's own source: a secret must not be guessed.
fn random_key() -> Result<Secret, String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system gives no random numbers: {error}"))?;
    Ok(Secret::generate(bytes))
}

fn built<T>(built: Result<T, impl ToString>) -> Result<Arc<T>, String> {
    built.map(Arc::new).map_err(|error| error.to_string())
}

/// The engine's settings.
pub fn engine_settings(config: &Config, node: impl Into<Box<str>>) -> Settings {
    let settings = &config.settings;
    Settings {
        node: node.into(),
        lease: settings.engine.lease,
        stop_grace: settings.engine.stop_grace,
        retention: Retention {
            ended_max_age: settings.retention.ended_max_age,
            ended_max_count: settings.retention.ended_max_count,
        },
        job_ttl: settings.engine.job_ttl,
        dead_letter_ttl: settings.dlq.ttl,
        crashes_max: settings.engine.poison_after,
        notices: config.notices.clone(),
        turn_jobs: settings.fairness.batch,
    }
}

/// Terms of the dead letter queue. Its archive is in the data directory, whatever the store is.
pub fn dead_letter_terms(config: &Config) -> DeadLetterTerms {
    let replays =
        config.routes.iter().filter_map(|route| Some((route.name.clone(), route.auto_replay.clone()?)));
    DeadLetterTerms {
        max_size: config.settings.dlq.max_size,
        archive: Some(Arc::new(FileArchive::within(&config.settings.store.data_dir))),
        auto_replay: replays.collect(),
    }
}

pub fn alert_terms(config: &Config) -> AlertTerms {
    let alerts = &config.settings.alerts;
    AlertTerms { config: alerts.rules.clone(), every: alerts.every }
}

/// Terms of the audit trail.
pub fn trail_terms(config: &Config) -> TrailTerms {
    let audit = &config.settings.audit;
    TrailTerms { dir: config.audit_dir(), key: audit.key_file.clone(), months_kept: months(audit.keep) }
}

pub fn embedded_options(config: &Config) -> EmbeddedOptions {
    let store = &config.settings.store;
    EmbeddedOptions {
        dir: store.data_dir.clone(),
        reserve_bytes: store.reserve_bytes.unwrap_or_default(),
        max_bytes: store.max_size_bytes,
        now: None,
    }
}

/// Months that are at least as long as this.
fn months(keep: Duration) -> u32 {
    let days = keep.as_secs().div_ceil(DAY.as_secs());
    u32::try_from((days * 12).div_ceil(366)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use recado_config::Inputs;
    use recado_config::fault::Source;
    use recado_store::reference::ReferenceStore;

    use super::*;

    #[test]
    fn the_engine_gets_the_terms_that_are_configured() {
        let text = "[fairness]\nbatch = 5\n[dlq]\nmax_size = 50\n[alerts]\nevery = \"30s\"\n\
                    [routes.sandbox]\nauto_replay = { after = \"1h\" }\n";
        let file = Source { text: text.to_owned(), ..Source::default() };
        let config = Config::load(&Inputs { file: Some(file), ..Inputs::default() }).unwrap();
        assert_eq!(engine_settings(&config, "node").turn_jobs, 5);
        let dead_letters = dead_letter_terms(&config);
        assert_eq!((dead_letters.max_size, dead_letters.auto_replay.len()), (50, 1));
        assert_eq!(alert_terms(&config).every, Duration::from_secs(30));
        let names = Wiring::new(&config, Arc::new(ReferenceStore::default())).unwrap().routes;
        assert_eq!(names.usable_names(), config.usable_route_names());
    }

    #[test]
    fn t18_five_years_are_sixty_months() {
        let config = Config::load(&Inputs::default()).unwrap();
        assert_eq!(trail_terms(&config).months_kept, recado_audit::MONTHS_KEPT);
        assert_eq!([1_u32, 30, 31, 366, 1_830, 1_831].map(|days| months(days * DAY)), [1, 1, 2, 12, 60, 61]);
    }
}
