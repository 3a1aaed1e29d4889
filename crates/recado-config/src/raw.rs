//! The configuration as written, every key optional and in its place. Nothing is decided here.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use recado_core::classify::{Blame, Class};
use recado_core::limit::Rate;
use recado_core::policy::DELAY_MAX;
use recado_core::{CapApplies, Cause, Jitter, NetworkKind};
use recado_engine::Act;
use recado_engine::notify::notices::Shape;

use super::alerts::RawAlerts;
use super::anti_patterns::Allow;
use super::fault::At;
use super::reader::{FaultList, Section, Setting};
use super::traces::RawTraces;
use super::tree::Table;
use super::{Level, LogFormat};
use crate::catalogue::{Environment, Kind};

pub struct Raw {
    pub listen: Option<At<String>>,
    pub token: Option<At<String>>,
    pub max_body_bytes: Option<At<u64>>,
    pub allowed_hosts: Option<At<Vec<At<String>>>>,
    pub store: RawStore,
    pub lease: Option<At<Duration>>,
    pub stop_grace: Option<At<Duration>>,
    pub job_ttl: Option<At<Duration>>,
    pub poison_after: Option<At<u64>>,
    pub ended_max_age: Option<At<Duration>>,
    pub ended_max_count: Option<At<u64>>,
    pub dlq_ttl: Option<At<Duration>>,
    pub dlq_max_size: Option<At<u64>>,
    pub dlq_notify: Option<At<String>>,
    pub dlq_allow: Allow,
    pub audit: RawAudit,
    pub webhooks_allow: Option<At<Vec<At<String>>>>,
    pub webhooks_allow_http: Option<At<bool>>,
    pub channels: Vec<(String, RawChannel)>,
    pub alerts: RawAlerts,
    pub log_level: Option<At<Level>>,
    pub log_format: Option<At<LogFormat>>,
    pub traces: RawTraces,
    pub sandbox: Option<At<bool>>,
    pub turn_jobs: Option<At<u64>>,
    pub providers: Vec<(String, RawProvider)>,
    pub routes: Vec<(String, RawRoute)>,
}

pub struct RawStore {
    pub url: Option<At<String>>,
    pub partitions: Option<At<u64>>,
    pub prefix: Option<At<String>>,
    pub timeout: Option<At<Duration>>,
    pub ca_file: Option<At<String>>,
    pub data_dir: Option<At<String>>,
    pub reserve_bytes: Option<At<u64>>,
    pub max_size_bytes: Option<At<u64>>,
}

pub struct RawAudit {
    pub dir: Option<At<String>>,
    pub keep: Option<At<Duration>>,
    pub key_file: Option<At<String>>,
}

pub struct RawProvider {
    pub here: At<()>,
    pub transport: Option<At<Kind>>,
    pub url: Option<At<(String, Option<String>)>>,
    pub headers: Vec<(String, At<String>)>,
    pub connect_timeout: Option<At<Duration>>,
    pub concurrency: Option<At<u64>>,
    pub tenant_concurrency: Option<At<u64>>,
    pub endpoint_concurrency: Option<At<u64>>,
    pub breaker: Option<RawBreaker>,
    pub rate: Option<Rate>,
    pub tenant_rate: Option<Rate>,
    pub adaptive: Option<At<bool>>,
    /// Keys that only some transports have, by name.
    pub own: BTreeMap<&'static str, At<String>>,
    pub tags: Vec<(String, At<String>)>,
    pub configuration_sets: Vec<(String, At<String>)>,
    pub allow: Allow,
}

#[derive(Default)]
pub struct RawBreaker {
    pub here: Option<At<()>>,
    /// There is to be none.
    pub off: bool,
    pub failures: Option<At<u64>>,
    pub within: Option<At<Duration>>,
    pub reset: Option<At<Duration>>,
    pub slow: Option<At<Duration>>,
    pub ramp: Option<At<Duration>>,
}

/// The keys that only some transports have, and which.
pub const OWN_KEYS: [(&str, Kind, &str); 13] = [
    ("instance", Kind::Whatsapp, "\"main\""),
    ("api_key", Kind::Whatsapp, "\"${EVOLUTION_API_KEY}\""),
    ("hello", Kind::Smtp, "\"mail.example.com\""),
    ("ca_file", Kind::Smtp, "\"/etc/ssl/private-ca.pem\""),
    ("secret", Kind::Webhook, "\"${WEBHOOK_SECRET}\""),
    ("region", Kind::Ses, "\"sa-east-1\""),
    ("profile", Kind::Ses, "\"mail\""),
    ("access_key_id", Kind::Ses, "\"${AWS_ACCESS_KEY_ID}\""),
    ("secret_access_key", Kind::Ses, "\"${AWS_SECRET_ACCESS_KEY}\""),
    ("session_token", Kind::Ses, "\"${AWS_SESSION_TOKEN}\""),
    ("configuration_set", Kind::Ses, "\"transactional\""),
    ("content", Kind::Ses, "\"auto\", \"raw\" or \"simple\""),
    ("connections", Kind::Smtp, "\"5\""),
];

pub struct RawChannel {
    pub here: At<()>,
    pub webhook: Option<At<String>>,
    pub secret: Option<At<String>>,
    pub format: Option<At<Shape>>,
    pub route: Option<At<String>>,
    pub from: Option<At<String>>,
    pub to: Option<At<Vec<At<String>>>>,
}

pub struct RawFallback {
    pub on: Option<At<Vec<At<bool>>>>,
    pub act: Option<At<&'static str>>,
    pub after: Option<At<Duration>>,
    pub notify: Option<At<String>>,
}

#[derive(Default)]
pub struct RawRoute {
    pub here: At<()>,
    pub provider: Option<At<String>>,
    pub providers: Option<At<Vec<At<String>>>>,
    pub transport: Option<At<Kind>>,
    pub policy: Option<RawPolicy>,
    pub timeout: Option<At<Duration>>,
    pub hold_max: Option<At<Duration>>,
    pub classifier: Option<At<&'static str>>,
    pub classify: Option<At<Vec<RawRule>>>,
    pub fallback: Option<RawFallback>,
    pub auto_replay: Option<RawAutoReplay>,
    pub allow: Allow,
}

pub struct RawAutoReplay {
    pub after: Option<At<Duration>>,
    pub max: Option<At<u64>>,
    /// A cause that is none has its fault, and keeps its place.
    pub only: Option<At<Vec<Option<At<Cause>>>>>,
}

pub struct RawPolicy {
    pub here: At<()>,
    pub base: Option<At<Duration>>,
    pub factor: Option<At<f64>>,
    pub cap: Option<At<Duration>>,
    pub jitter: Option<At<Jitter>>,
    pub cap_applies: Option<At<CapApplies>>,
    pub floor: Option<At<Duration>>,
    pub ceiling: Option<At<Duration>>,
    pub max_attempts: Option<At<u64>>,
    pub schedule: Option<At<Vec<Duration>>>,
}

pub struct RawRule {
    pub here: At<()>,
    pub code: Option<At<String>>,
    pub name: Option<At<String>>,
    pub enhanced: Option<At<String>>,
    pub status: Option<Vec<At<String>>>,
    pub text: Option<At<String>>,
    pub regex: Option<At<String>>,
    pub network: Option<At<Option<NetworkKind>>>,
    pub class: Option<At<Class>>,
    pub blame: Option<At<Blame>>,
    pub wait: Option<At<Duration>>,
}

/// Formats of a channel's webhook.
pub const CHANNEL_FORMATS: [(&str, Shape); 2] = [("event", Shape::Event), ("slack", Shape::Slack)];

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// More parts than that have nothing left to divide.
const PARTITIONS_MAX: u64 = 256;

const fn secs(low: u64, high: u64) -> RangeInclusive<Duration> {
    Duration::from_secs(low)..=Duration::from_secs(high)
}

const HOUR_SECS: u64 = 60 * 60;
const YEAR_SECS: u64 = 366 * 24 * HOUR_SECS;

/// Any delay that a policy may name.
const DELAYS: RangeInclusive<Duration> = Duration::ZERO..=DELAY_MAX;

/// Reads a merged tree. Faults go to the list; what could not be read is absent.
pub fn read(table: &Table, faults: &FaultList) -> Raw {
    let root = Section::root(table, faults);
    let none = Table::default();
    let at =
        |key: &'static str| root.get(key, Setting::section).unwrap_or_else(|| Section::root(&none, faults));
    let (server, store, engine) = (at("server"), at("store"), at("engine"));
    let (retention, dlq, log, sandbox) = (at("retention"), at("dlq"), at("log"), at("sandbox"));
    let (webhooks, fairness, alerts, audit) = (at("webhooks"), at("fairness"), at("alerts"), at("audit"));
    let traces = at("traces");
    let raw = Raw {
        listen: server.get("listen", |it| it.text("\"127.0.0.1:7400\"")),
        token: server.get("token", |it| it.text("\"${RECADO_TOKEN}\"")),
        max_body_bytes: server.get("max_body", |it| it.size(KIB..=GIB)),
        allowed_hosts: server.get("allowed_hosts", |it| {
            it.list("[\"recado.example.com\"]", |it| it.text("\"recado.example.com\""))
        }),
        store: RawStore {
            url: store.get("url", |it| it.text("\"redis://127.0.0.1:6379\"")),
            partitions: store.get("partitions", |it| it.count(1..=PARTITIONS_MAX)),
            prefix: store.get("prefix", |it| it.text("\"recado\"")),
            timeout: store.get("timeout", |it| it.duration(Duration::from_millis(100)..=MINUTE)),
            ca_file: store.get("ca_file", |it| it.text("\"/etc/ssl/private-ca.pem\"")),
            data_dir: store.get("data_dir", |it| it.text("\"./recado-data\"")),
            reserve_bytes: store.get("reserve", |it| it.size(0..=1024 * GIB)),
            max_size_bytes: store.get("max_size", |it| it.size(1024 * KIB..=8_000 * 1024 * GIB)),
        },
        lease: engine.get("lease", |it| it.duration(secs(1, HOUR_SECS))),
        stop_grace: engine.get("stop_grace", |it| it.duration(secs(0, HOUR_SECS))),
        job_ttl: engine.get("job_ttl", |it| it.duration(secs(1, YEAR_SECS))),
        poison_after: engine.get("poison_after", |it| it.count(1..=100)),
        ended_max_age: retention.get("ended_max_age", |it| it.duration(Duration::ZERO..=3650 * DAY)),
        ended_max_count: retention.get("ended_max_count", |it| it.count(0..=1_000_000_000)),
        dlq_ttl: dlq.get("ttl", |it| it.duration(secs(60, 10 * YEAR_SECS))),
        dlq_max_size: dlq.get("max_size", |it| it.count(1..=100_000_000)),
        dlq_notify: dlq.get("notify", |it| it.text("\"ops\"")),
        dlq_allow: allow(&dlq),
        audit: RawAudit {
            dir: audit.get("dir", |it| it.text("\"./recado-data/audit\"")),
            keep: audit.get("keep", |it| it.duration(DAY..=36_525 * DAY)),
            key_file: audit.get("key_file", |it| it.text("\"/etc/recado/signing.pem\"")),
        },
        webhooks_allow: webhooks
            .get("allow", |it| it.list("[\"10.0.0.0/8\"]", |it| it.text("\"10.0.0.0/8\""))),
        webhooks_allow_http: webhooks.get("allow_http", Setting::switch),
        channels: root.named("notify", channel),
        alerts: super::alerts::read(&alerts),
        log_level: log.get("level", |it| it.choice("level", &Level::WORDS)),
        log_format: log.get("format", |it| it.choice("format", &LogFormat::WORDS)),
        traces: super::traces::read(&traces),
        sandbox: sandbox.get("enabled", Setting::switch),
        turn_jobs: fairness.get("batch", |it| it.count(1..=1_000)),
        providers: root.named("providers", provider),
        routes: root.named("routes", route),
    };
    for section in
        [server, store, engine, retention, dlq, log, sandbox, webhooks, fairness, alerts, audit, traces]
    {
        section.close();
    }
    environments(&root);
    root.close();
    raw
}

/// The overlays have been laid over already; here only their names are checked.
fn environments(root: &Section<'_>) {
    let names = root.named("environments", |it| it.section().map(|section| section.here(())));
    for (name, here) in names {
        if Environment::parse(&name).is_none() {
            let words = Environment::ALL.map(Environment::as_str);
            let advice = super::fault::suggestion(&name, words, "ones");
            root.fault(here.fault(format!("there is no environment `{name}`; {advice}")));
        }
    }
}

fn provider(setting: Setting<'_>) -> Option<RawProvider> {
    let section = setting.section()?;
    let raw = RawProvider {
        here: section.here(()),
        transport: section.get("transport", kind),
        url: section.get("url", |it| it.text_and_written("\"https://api.example.com\"")),
        headers: section.named("headers", |it| it.text("\"Bearer ${API_TOKEN}\"")),
        connect_timeout: section
            .get("connect_timeout", |it| it.duration(Duration::from_millis(1)..=Duration::from_secs(600))),
        concurrency: section.get("concurrency", |it| it.count(1..=100_000)),
        tenant_concurrency: section.get("tenant_concurrency", |it| it.count(1..=100_000)),
        endpoint_concurrency: section.get("endpoint_concurrency", |it| it.count(1..=100_000)),
        breaker: section.get("breaker", breaker),
        rate: section.get("rate", rate),
        tenant_rate: section.get("tenant_rate", rate),
        adaptive: section.get("adaptive", Setting::switch),
        own: OWN_KEYS
            .iter()
            .filter_map(|(key, _, example)| Some((*key, section.get(key, |it| it.text_or_number(example))?)))
            .collect(),
        tags: section.named("tags", |it| it.text("\"campaign\"")),
        configuration_sets: section.named("configuration_sets", |it| it.text("\"acme-mail\"")),
        allow: allow(&section),
    };
    section.close();
    Some(raw)
}

/// The anti-patterns that a section allows, each with the reason for it.
pub fn allow(section: &Section<'_>) -> Allow {
    section.named("allow", |it| it.text("\"the reason\""))
}

/// Any time that a breaker may name.
const BREAKER_TIMES: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(24 * HOUR_SECS);

fn breaker(setting: Setting<'_>) -> Option<RawBreaker> {
    if !setting.is_table() {
        return setting.switch().map(|on| RawBreaker {
            here: Some(on.here()),
            off: !on.value,
            ..RawBreaker::default()
        });
    }
    let section = setting.section()?;
    let time = |key: &'static str| section.get(key, |it| it.duration(BREAKER_TIMES));
    let raw = RawBreaker {
        here: Some(section.here(())),
        off: false,
        failures: section.get("failures", |it| it.count(1..=10_000)),
        within: time("within"),
        reset: time("reset"),
        slow: time("slow"),
        ramp: section.get("ramp", |it| it.duration(secs(0, 24 * HOUR_SECS))),
    };
    section.close();
    Some(raw)
}

fn rate(setting: Setting<'_>) -> Option<Rate> {
    let section = setting.section()?;
    let max = section.get("max", |it| it.count(1..=10_000_000));
    let per =
        section.get("per", |it| it.duration(Duration::from_millis(1)..=Duration::from_secs(24 * HOUR_SECS)));
    if !section.has("max") || !section.has("per") {
        let message = "does not say how many in what time; write { max = 100, per = \"60s\" }";
        section.fault(section.here(()).fault(message));
    }
    section.close();
    Some(Rate { max: u32::try_from(max?.value).ok()?, per: per?.value })
}

fn channel(setting: Setting<'_>) -> Option<RawChannel> {
    let section = setting.section()?;
    let raw = RawChannel {
        here: section.here(()),
        webhook: section.get("webhook", |it| it.text("\"https://example.com/hooks/ops\"")),
        secret: section.get("secret", |it| it.text("\"${OPS_WEBHOOK_SECRET}\"")),
        format: section.get("format", |it| it.choice("format", &CHANNEL_FORMATS)),
        route: section.get("route", |it| it.text("\"email\"")),
        from: section.get("from", |it| it.text("\"recado@example.com\"")),
        to: section.get("to", |it| it.list("[\"ops@example.com\"]", |it| it.text("\"ops@example.com\""))),
    };
    section.close();
    Some(raw)
}

fn fallback(setting: Setting<'_>) -> Option<RawFallback> {
    let section = setting.section()?;
    let when = [("open", false), ("dead", true)];
    let raw = RawFallback {
        on: section.get("on", |it| it.list("[\"open\", \"dead\"]", |it| it.choice("occasion", &when))),
        act: section.get("do", |it| it.choice("fallback", &Act::NAMES.map(|name| (name, name)))),
        after: section.get("after", |it| it.duration(secs(1, YEAR_SECS))),
        notify: section.get("notify", |it| it.text("\"ops\"")),
    };
    section.close();
    Some(raw)
}

fn auto_replay(setting: Setting<'_>) -> Option<RawAutoReplay> {
    let section = setting.section()?;
    let causes = Cause::ALL.map(|cause| (cause.as_str(), cause));
    let raw = RawAutoReplay {
        after: section.get("after", |it| it.duration(secs(1, YEAR_SECS))),
        max: section.get("max", |it| it.count(1..=100)),
        only: section.get("only", |it| it.list("[\"EXHAUSTED\"]", |it| Some(it.choice("cause", &causes)))),
    };
    if !section.has("after") {
        let message = "does not say how long an entry rests first; write { after = \"1h\" }";
        section.fault(section.here(()).fault(message));
    }
    section.close();
    Some(raw)
}

fn kind(setting: Setting<'_>) -> Option<At<Kind>> {
    setting.choice("transport", &Kind::ALL.map(|kind| (kind.as_str(), kind)))
}

fn route(setting: Setting<'_>) -> Option<RawRoute> {
    let section = setting.section()?;
    let raw = RawRoute {
        here: section.here(()),
        provider: section.get("provider", |it| it.text("\"my-provider\"")),
        providers: section
            .get("providers", |it| it.list("[\"first\", \"second\"]", |it| it.text("\"my-provider\""))),
        transport: section.get("transport", kind),
        policy: section.get("policy", policy),
        timeout: section
            .get("timeout", |it| it.duration(Duration::from_millis(1)..=Duration::from_secs(HOUR_SECS))),
        hold_max: section.get("hold_max", |it| it.duration(secs(1, YEAR_SECS))),
        classifier: section.get("classifier", |it| {
            it.choice("classifier", &recado_core::rules::NAMES.map(|name| (name, name)))
        }),
        classify: section.get("classify", |it| it.list("[{ code = \"550\", as = \"transient\" }]", rule)),
        fallback: section.get("fallback", fallback),
        auto_replay: section.get("auto_replay", auto_replay),
        allow: allow(&section),
    };
    section.close();
    Some(raw)
}

fn policy(setting: Setting<'_>) -> Option<RawPolicy> {
    let section = setting.section()?;
    let applies = [("before_jitter", CapApplies::BeforeJitter), ("after_jitter", CapApplies::AfterJitter)];
    let raw = RawPolicy {
        here: section.here(()),
        base: section.get("base", |it| it.duration(DELAYS)),
        factor: section.get("factor", |it| it.number("2")),
        cap: section.get("cap", |it| it.duration(DELAYS)),
        jitter: section.get("jitter", |it| it.parsed("\"±25%\"")),
        cap_applies: section.get("cap_applies", |it| it.choice("cap_applies", &applies)),
        floor: section.get("floor", |it| it.duration(DELAYS)),
        ceiling: section.get("ceiling", |it| it.duration(DELAYS)),
        max_attempts: section
            .get("max_attempts", |it| it.count(1..=u64::from(recado_core::policy::ATTEMPTS_MAX))),
        schedule: section.get("schedule", |it| {
            let waits = it.list("[\"0s\", \"5s\", \"30s\"]", |it| it.duration(DELAYS))?;
            Some(waits.map(|waits| waits.into_iter().map(|wait| wait.value).collect()))
        }),
    };
    section.close();
    Some(raw)
}

fn rule(setting: Setting<'_>) -> Option<RawRule> {
    let section = setting.section()?;
    let classes = [
        ("transient", Class::Transient),
        ("permanent", Class::Permanent),
        ("rate_limit", Class::RateLimit),
        ("unknown", Class::Unknown),
    ];
    let blames =
        [("message", Blame::Message), ("credential", Blame::Credential), ("provider", Blame::Provider)];
    let mut networks = vec![("any", None)];
    networks.extend(NetworkKind::ALL.map(|kind| (kind.as_str(), Some(kind))));
    let status = |it: Setting<'_>| it.text_or_number("500 or \"5xx\"");
    let raw = RawRule {
        here: section.here(()),
        code: section.get("code", |it| it.text_or_number("\"550\"")),
        name: section.get("name", |it| it.text("\"Throttling\"")),
        enhanced: section.get("enhanced", |it| it.text("\"4.x.x\"")),
        status: section.get("status", |it| {
            if it.is_list() {
                Some(it.list("[500, 504]", status)?.value)
            } else {
                status(it).map(|one| vec![one])
            }
        }),
        text: section.get("text", |it| it.text("\"try again later\"")),
        regex: section.get("regex", |it| it.text("\"(?i)try again\"")),
        network: section.get("network", |it| it.choice("network failure", &networks)),
        class: section.get("as", |it| it.choice("class", &classes)),
        blame: section.get("blame", |it| it.choice("blame", &blames)),
        wait: section.get("wait", |it| it.duration(secs(1, 7 * 24 * HOUR_SECS))),
    };
    if raw.class.is_none() && !section.has("as") {
        let fault = "the rule does not say what it means; write as = \"transient\", \"permanent\", \"rate_limit\" or \"unknown\"";
        section.fault(raw.here.fault(fault));
    }
    section.close();
    Some(raw)
}

impl RawRule {
    pub fn is_empty(&self) -> bool {
        let RawRule { code, name, enhanced, status, text, regex, network, .. } = self;
        let texts = [code, name, enhanced, text, regex];
        texts.iter().all(|given| given.is_none()) && status.is_none() && network.is_none()
    }
}
