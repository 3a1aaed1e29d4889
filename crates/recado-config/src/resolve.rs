//! From settings to a configuration: parts checked against each other, gaps filled, routes and providers resolved.

pub mod anti_patterns;
mod carriers;
pub mod notices;
pub mod protection;
mod providers;
pub mod routes;
pub mod rules;

use std::collections::BTreeMap;
use std::net::IpAddr;

use http::{HeaderName, HeaderValue};
use recado_store_redis::link::{RedisOptions, Target};
use recado_transport_webhook::Guard;

use crate::catalogue::{self, Environment, Kind};
use crate::keys::sections::{AUDIT_KEEP_DEFAULT, Settings, Store};
use crate::reading::checker::Checker;
use crate::reading::fault::Faults;
use crate::resolve::anti_patterns::Review;
use crate::resolve::routes::Surroundings;
use crate::units::show_size;
use crate::{Config, Secret};

/// Batches may be larger than single jobs, whatever those are limited to.
const BATCH_BODY_MIN_BYTES: u64 = 32 << 20;

const TOKEN_LEN_MIN: usize = 16;

/// The audit trail's directory, inside the data directory.
const AUDIT_DIRECTORY: &str = "audit";

/// The largest batch that the API takes.
pub fn batch_body_max_bytes(max_body_bytes: u64) -> u64 {
    BATCH_BODY_MIN_BYTES.max(max_body_bytes)
}

pub fn resolve(mut settings: Settings, environment: Environment, checker: &Checker) -> Config {
    check_environments(checker, &settings);
    check_server(checker, &settings);
    check_traces(checker, &settings);
    fill_store(checker, &mut settings);
    fill_audit(checker, &mut settings, environment);
    settings.sandbox.enabled.get_or_insert(environment == Environment::Development);

    let redis = redis(checker, &settings.store);
    let guard = settings.guard();
    let mut providers = BTreeMap::new();
    for (name, keys) in &settings.providers {
        routes::check_name(name, &format!("providers.{name}"), checker);
        providers.insert(name.clone(), providers::resolve(name, keys, &guard, checker));
    }
    for row in catalogue::ROUTES.iter().filter(|row| row.kind == Kind::Webhook) {
        providers.entry(row.provider.clone()).or_insert_with(|| providers::webhook_by_default(&guard));
    }
    let mut review = Review::new(checker);
    let around = Surroundings { environment, settings: &settings, providers: &providers, checker };
    let (routes, protection) = routes::resolve(&around, &mut review);
    let (notices, notice_endpoints) = notices::resolve(&settings, &routes, &guard, checker);
    review.dead_letters(&settings);
    review.alerts(&settings);
    Config {
        environment,
        environment_by_default: false,
        file: None,
        warnings: Faults::default(),
        settings,
        redis,
        notices,
        notice_endpoints,
        providers,
        protection,
        routes,
    }
}

/// The settings of environments have been laid over the others already; only their names are left to check.
fn check_environments(checker: &Checker, settings: &Settings) {
    for name in settings.environments.keys() {
        if let Err(message) = Environment::read(name) {
            checker.fault(&format!("environments.{name}"), message);
        }
    }
}

fn check_server(checker: &Checker, settings: &Settings) {
    let is_weak = |token: &Secret| {
        token.reveal().len() < TOKEN_LEN_MIN || !token.reveal().bytes().all(|b| b.is_ascii_graphic())
    };
    if settings.server.token.as_ref().is_some_and(is_weak) {
        checker.fault(
            "server.token",
            "the token is too short or has odd characters; write at least 16 letters, digits or signs without spaces; \
             `openssl rand -hex 24` makes a good one",
        );
    }
    let is_loopback = match settings.server.listen.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
    };
    if !is_loopback && !checker.has("server.token") {
        checker.fault(
            "server.listen",
            "this address can be reached from other machines, and there is no token, so any machine that reaches it could send jobs; \
             set one with RECADO_TOKEN or [server] token = \"${RECADO_TOKEN}\", or listen on 127.0.0.1",
        );
    }
}

fn check_traces(checker: &Checker, settings: &Settings) {
    for (name, value) in settings.traces.headers.iter().flatten() {
        let path = format!("traces.headers.{name}");
        if name.parse::<HeaderName>().is_err() {
            checker.fault(&path, "is not a header's name; use letters, digits and `-`");
        } else if HeaderValue::from_str(value.reveal()).is_err() {
            checker.fault(&path, "has a value with control characters; leave them out");
        }
    }
    if !(0.0..=1.0).contains(&settings.traces.sample) {
        checker.fault("traces.sample", "is a share of all traces; write a number from 0 to 1, such as 0.1");
    }
}

/// Fills in the least reserve and, where the store is Redis, its defaults.
fn fill_store(checker: &Checker, settings: &mut Settings) {
    let batch_max = batch_body_max_bytes(settings.server.max_body_bytes);
    // A batch that comes just before new jobs are refused is written to the log, and once more into the file when the
    // log is folded.
    let reserve_min = 2 * batch_max;
    let store = &mut settings.store;
    if *store.reserve_bytes.get_or_insert(reserve_min) < reserve_min {
        let message = format!(
            "write at least \"{}\": a batch of up to {} is written to the disk twice, and jobs that are in could not end \
             on a disk without room for that",
            show_size(reserve_min),
            show_size(batch_max)
        );
        checker.fault("store.reserve", message);
    }
    match &store.url {
        Some(url) => {
            let usual = RedisOptions::new(url.reveal());
            store.partitions.get_or_insert(usual.partitions);
            store.prefix.get_or_insert_with(|| usual.prefix.to_string());
            store.timeout.get_or_insert(usual.timeout);
        }
        None => (store.partitions, store.prefix, store.timeout) = (None, None, None),
    }
}

fn fill_audit(checker: &Checker, settings: &mut Settings, environment: Environment) {
    settings.audit.dir.get_or_insert_with(|| settings.store.data_dir.join(AUDIT_DIRECTORY));
    if settings.audit.keep < AUDIT_KEEP_DEFAULT && environment != Environment::Development {
        let message = "is less than the five years that the trail is to be kept; write at least \"1827d\"";
        checker.fault("audit.keep", message);
    }
}

/// The Redis that several nodes share; absent when one process keeps its jobs in the data directory.
fn redis(checker: &Checker, store: &Store) -> Option<RedisOptions> {
    let url = store.url.as_ref()?.reveal();
    let mut options = RedisOptions::new(url);
    let scope = checker.scope("store");
    let target = scope.accept("url", Target::read(url));
    if let (Some(path), true) = (&store.ca_file, target.is_some_and(|target| target.tls)) {
        let words = |error| format!("cannot be read ({error}); give a file with PEM certificates");
        options.trusted_roots_pem = scope.accept("ca_file", std::fs::read_to_string(path).map_err(words));
    }
    options.partitions = store.partitions?;
    options.prefix = store.prefix.as_deref()?.into();
    options.timeout = store.timeout?;
    Some(options)
}

impl Settings {
    /// The addresses that users may supply.
    pub fn guard(&self) -> Guard {
        Guard { allowed: self.webhooks.allow.clone(), allow_http: self.webhooks.allow_http }
    }

    pub fn channel_names(&self) -> Vec<&str> {
        self.notify.keys().map(String::as_str).collect()
    }
}
