//! Resolves the configuration: defaults filled in, parts checked against each other.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use recado_core::dead_letter::DEAD_LETTER_TTL_DEFAULT;
use recado_core::fairness::TURN_JOBS;
use recado_core::job::JOB_TTL_DEFAULT;
use recado_engine::SystemClock;
use recado_engine::dlq::archive::SIZE_MAX_DEFAULT;
use recado_engine::notify::endpoints::EndpointRegistry;
use recado_store::Retention;
use recado_transport_webhook::{Guard, IpNet};

use super::alerts::RawAlerts;
use super::anti_patterns::Review;
use super::fault::{At, Faults, Source};
use super::providers::Given;
use super::raw::Raw;
use super::reader::FaultList;
use super::routes::Resolved;
use super::tree::Table;
use super::{
    Config, EngineTimes, Level, Log, LogFormat, Secret, Server, alerts, anti_patterns, audit, notices,
    routes, store, traces,
};
use crate::catalogue::{self, Environment};

pub const LISTEN_DEFAULT: &str = "127.0.0.1:7400";
const MAX_BODY_DEFAULT_BYTES: u64 = 1 << 20;
const LEASE_DEFAULT: Duration = Duration::from_secs(15);
const STOP_GRACE_DEFAULT: Duration = Duration::from_secs(30);
const POISON_AFTER_DEFAULT: u32 = 5;
const ENDED_MAX_AGE_DEFAULT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const ENDED_MAX_COUNT_DEFAULT: u64 = 1_000_000;
const TOKEN_LEN_MIN: usize = 16;

pub fn resolve(raw: Raw, environment: Environment, faults: &FaultList) -> Config {
    let fault = |fault| faults.borrow_mut().push(fault);
    let token = token(raw.token.as_ref(), faults);
    let listen = listen(raw.listen.as_ref(), raw.token.is_some(), faults);
    let allowed_hosts = raw.allowed_hosts.map(|hosts| hosts.value).unwrap_or_default();
    for host in &allowed_hosts {
        let v6 = host.value.starts_with('[') && host.value.ends_with(']');
        if host.value.is_empty() || host.value.contains(['/', '@', ' ']) || (host.value.contains(':') && !v6)
        {
            fault(host.fault("write a host's name without a port, such as \"recado.example.com\""));
        }
    }
    let engine = EngineTimes {
        lease: or(raw.lease, LEASE_DEFAULT),
        stop_grace: or(raw.stop_grace, STOP_GRACE_DEFAULT),
        job_ttl: or(raw.job_ttl, JOB_TTL_DEFAULT),
        poison_after: raw
            .poison_after
            .and_then(|said| u32::try_from(said.value).ok())
            .unwrap_or(POISON_AFTER_DEFAULT),
    };
    let of_dlq = anti_patterns::of_dead_letters(raw.dlq_ttl.as_ref());
    let dead_letter_ttl = or(raw.dlq_ttl, DEAD_LETTER_TTL_DEFAULT);
    let sandbox_enabled = or(raw.sandbox, environment == Environment::Development);
    let webhooks = Guard {
        allowed: networks(raw.webhooks_allow, faults),
        allow_http: or(raw.webhooks_allow_http, false),
    };
    let endpoints = Arc::new(EndpointRegistry::new(Arc::new(SystemClock)));
    let job_ttl = engine.job_ttl;
    let given = routes::Given {
        environment,
        sandbox_enabled,
        dead_letter_ttl,
        crashes_max: engine.poison_after,
        transports: Given { guard: webhooks.clone(), endpoints: endpoints.clone() },
        channels: raw.channels.iter().map(|(name, _)| name.clone()).collect(),
        job_ttl,
        review: Review::default(),
    };
    let Resolved { providers, protection, routes } =
        routes::resolve(raw.providers, raw.routes, &given, faults);
    let RawAlerts { here, every, notify, channel, rules, allow } = raw.alerts;
    let dead_letters_max = or(raw.dlq_max_size, SIZE_MAX_DEFAULT);
    let is_told = raw.dlq_notify.is_some();
    let asked =
        notices::Asked { channels: raw.channels, of_alerts: channel, dlq: raw.dlq_notify, alerts: notify };
    let notices = notices::resolve(asked, &routes, &given.transports, faults);
    let max_body_bytes = or(raw.max_body_bytes, MAX_BODY_DEFAULT_BYTES);
    let store = store::resolve(raw.store, max_body_bytes, faults);
    let alerts = alerts::resolve(every, rules, faults);
    let of_alerts = anti_patterns::of_alerts(&alerts.config, &here, dead_letters_max, is_told);
    given.review.add("dlq", &raw.dlq_allow, of_dlq, faults);
    given.review.add("alerts", &allow, of_alerts, faults);
    let Review { warnings, allowed } = given.review;
    Config {
        environment,
        environment_by_default: false,
        file: None,
        server: Server {
            listen,
            token,
            max_body_bytes,
            allowed_hosts: allowed_hosts.into_iter().map(|host| host.value).collect(),
        },
        audit: audit::resolve(raw.audit, &store.data_dir, environment, faults),
        store,
        engine,
        retention: Retention {
            ended_max_age: or(raw.ended_max_age, ENDED_MAX_AGE_DEFAULT),
            ended_max_count: or(raw.ended_max_count, ENDED_MAX_COUNT_DEFAULT),
        },
        dead_letter_ttl,
        dead_letters_max,
        notices,
        alerts,
        webhooks,
        log: Log { level: or(raw.log_level, Level::Info), format: or(raw.log_format, LogFormat::Auto) },
        traces: traces::resolve(raw.traces, faults),
        sandbox_enabled,
        turn_jobs: raw.turn_jobs.and_then(|said| u32::try_from(said.value).ok()).unwrap_or(TURN_JOBS),
        providers,
        protection,
        routes,
        endpoints,
        warnings: Faults::new(Source::default(), warnings.into_inner()),
        allowed: allowed.into_inner(),
    }
}

fn networks(said: Option<At<Vec<At<String>>>>, faults: &FaultList) -> Vec<IpNet> {
    let read = |said: At<String>| {
        // One address is a range of its own.
        let network = said.value.parse().or_else(|_| said.value.parse::<IpAddr>().map(IpNet::from));
        network
            .map_err(|_| {
                let message =
                    "is not a range of addresses; write one such as \"10.0.0.0/8\" or \"127.0.0.1\"";
                faults.borrow_mut().push(said.fault(message));
            })
            .ok()
    };
    said.into_iter().flat_map(|said| said.value).filter_map(read).collect()
}

fn or<T>(said: Option<At<T>>, otherwise: T) -> T {
    said.map_or(otherwise, |said| said.value)
}

/// The names that a variable may mean.
pub fn known_names(settings: &Table) -> Vec<String> {
    let written = ["routes", "providers"].into_iter().filter_map(|key| settings.get_table(key));
    let mut names: Vec<_> = written.flat_map(|table| table.0.keys().cloned()).collect();
    for row in &catalogue::ROUTES {
        names.extend([row.name.to_owned(), row.provider.to_owned()]);
    }
    names
}

fn token(said: Option<&At<String>>, faults: &FaultList) -> Option<Secret> {
    let said = said?;
    let plain = said.value.bytes().all(|b| b.is_ascii_graphic());
    if said.value.len() < TOKEN_LEN_MIN || !plain {
        let advice = "write at least 16 letters, digits or signs without spaces; `openssl rand -hex 24` makes a good one";
        faults
            .borrow_mut()
            .push(said.fault(format!("the token is too short or has odd characters; {advice}")));
    }
    Some(Secret::new(said.value.clone()))
}

fn listen(said: Option<&At<String>>, has_token: bool, faults: &FaultList) -> SocketAddr {
    let default = SocketAddr::from(([127, 0, 0, 1], 7400));
    let Some(said) = said else { return default };
    // People write localhost, and mean the loopback address.
    let text = said.value.replace("localhost", "127.0.0.1");
    let Ok(address) = text.parse::<SocketAddr>() else {
        let message = format!(
            "`{}` is not an address to listen on; write an IP address and a port, such as \"{LISTEN_DEFAULT}\"",
            said.value
        );
        faults.borrow_mut().push(said.fault(message));
        return default;
    };
    if !is_loopback(address.ip()) && !has_token {
        faults.borrow_mut().push(said.fault(
            "this address can be reached from other machines, and there is no token, so anybody could send jobs; \
             set one with RECADO_TOKEN or [server] token = \"${RECADO_TOKEN}\", or listen on 127.0.0.1",
        ));
    }
    address
}

fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
    }
}
