//! A configuration written out as TOML: what holds right now, or the commented default.
//!
//! Both come from the same walk over the same [`Config`], so that the default file cannot say anything
//! else than the program does. Secrets are written as `***`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use recado_core::breaker::BreakerTerms;
use recado_core::classify::{Class, HOLD_MAX_DEFAULT};
use recado_core::limit::Rate;
use recado_core::time::show_duration;
use recado_core::{Backoff, CapApplies, Policy};
use recado_engine::admission::provider::{CompanySlots, ProviderTerms};
use recado_engine::dlq::auto_replay::AutoReplay;
use recado_engine::notify::notices::{Channel, Shape};
use recado_engine::{Act, Carrier, Fallback};
use recado_store_redis::link::{TIMEOUT, Target};

use super::alerts::{OWN_CHANNEL, written};
use super::anti_patterns::Allowed;
use super::template::comment;
use super::{Config, LogFormat, OwnRule, Provider, RouteConfig};
use crate::catalogue::{Environment, ROUTES};
use crate::units::show_size;

/// Purpose of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// The settings in effect, for a look.
    Effective,
    /// Every default with its explanation.
    Default,
    /// The same with every line taken back by a `#`, to start a file from.
    Starter,
}

/// Writes the configuration out.
pub fn page(config: &Config, style: Style) -> String {
    let mut page = Page {
        out: String::new(),
        style,
        section: String::new(),
        explained: BTreeSet::new(),
        allowed: &config.allowed,
    };
    page.preface(config);
    sections(&mut page, config);
    for (name, terms) in &config.protection {
        page.provider(name, config.providers.get(&**name), terms);
    }
    for route in &config.routes {
        page.route(route);
    }
    page.out
}

fn sections(page: &mut Page<'_>, config: &Config) {
    let word = |words: &[(&'static str, usize)], at: usize| {
        words.iter().find(|(_, it)| *it == at).map_or("", |(word, _)| *word)
    };
    let formats = LogFormat::WORDS.map(|(word, format)| (word, format as usize));

    page.section("server");
    page.set("listen", &text(&config.server.listen.to_string()));
    page.set_or("token", config.server.token.as_ref().map(|_| text("***")), "\"${RECADO_TOKEN}\"");
    page.set("max_body", &text(&show_size(config.server.max_body_bytes)));
    page.set("allowed_hosts", &list(config.server.allowed_hosts.iter().map(|host| text(host))));

    page.section("store");
    let redis = config.store.redis.as_ref();
    let url = redis.and_then(|redis| Target::read(&redis.url).ok()).map(|target| text(&target.to_string()));
    page.set_or("url", url, "\"redis://127.0.0.1:6379\"");
    page.set_or("partitions", redis.map(|redis| redis.partitions.to_string()), "1");
    page.set_or("prefix", redis.map(|redis| text(&redis.prefix)), "\"recado\"");
    page.set_or("timeout", redis.map(|redis| duration(redis.timeout)), &duration(TIMEOUT));
    page.set_or("ca_file", config.store.ca_file.as_deref().map(text), "\"/etc/ssl/private-ca.pem\"");
    page.set("data_dir", &text(&config.store.data_dir.display().to_string()));
    page.set("reserve", &text(&show_size(config.store.reserve_bytes)));
    page.set_or("max_size", config.store.max_size_bytes.map(|size| text(&show_size(size))), "\"20GiB\"");

    page.section("engine");
    page.set("lease", &duration(config.engine.lease));
    page.set("stop_grace", &duration(config.engine.stop_grace));
    page.set("job_ttl", &duration(config.engine.job_ttl));
    page.set("poison_after", &config.engine.poison_after.to_string());

    page.section("retention");
    page.set("ended_max_age", &duration(config.retention.ended_max_age));
    page.set("ended_max_count", &config.retention.ended_max_count.to_string());

    page.section("dlq");
    page.set("ttl", &duration(config.dead_letter_ttl));
    page.set("max_size", &config.dead_letters_max.to_string());
    page.set_or("notify", config.notices.default.as_deref().map(text), "\"ops\"");
    page.allow("dlq", "unattended_dlq");

    page.section("audit");
    page.set("dir", &text(&config.audit.dir.display().to_string()));
    page.set("keep", &duration(config.audit.keep));
    let key_file = config.audit.key_file.as_ref().map(|path| text(&path.display().to_string()));
    page.set_or("key_file", key_file, "\"/etc/recado/signing.pem\"");

    page.section("alerts");
    page.set("every", &duration(config.alerts.every));
    let own = config.notices.channels.get(OWN_CHANNEL);
    let named = config.notices.alerts.iter().filter(|name| ***name != *OWN_CHANNEL);
    let named: Vec<_> = named.map(|name| text(name)).collect();
    let notify = (!named.is_empty()).then(|| format!("[{}]", named.join(", ")));
    page.set_or("notify", notify, "[\"ops\"]");
    page.set_or("webhook", own.map(|_| text("***")), "\"https://example.com/hooks/ops\"");
    for rule in &config.alerts.config.rules {
        page.set(rule.name, &written(rule));
    }
    page.allow("alerts", "silent_failure");

    page.section("fairness");
    page.set("batch", &config.turn_jobs.to_string());

    page.section("webhooks");
    page.set("allow", &list(config.webhooks.allowed.iter().map(|network| text(&network.to_string()))));
    page.set("allow_http", &config.webhooks.allow_http.to_string());

    if page.style != Style::Effective {
        page.out.push_str("\n#[notify.ops]\n#webhook = \"https://example.com/hooks/ops\"\n#secret = \"${OPS_WEBHOOK_SECRET}\"\n");
    }
    for (name, channel) in config.notices.channels.iter().filter(|(name, _)| ***name != *OWN_CHANNEL) {
        page.section(&format!("notify.{}", key(name)));
        match channel {
            // A receiver's address is often all that it asks for.
            Channel::Webhook { shape, .. } => {
                page.set("webhook", &text("***"));
                page.set("secret", &text("***"));
                if *shape == Shape::Slack {
                    page.set("format", &text("slack"));
                }
            }
            Channel::Email { route, from, to } => {
                page.set("route", &text(route.as_str()));
                page.set("from", &text(from));
                page.set("to", &list(to.iter().map(|address| text(address))));
            }
        }
    }

    page.section("log");
    page.set("level", &text(config.log.level.as_str()));
    page.set("format", &text(word(&formats, config.log.format as usize)));

    page.section("traces");
    let endpoint = config.traces.endpoint.as_ref().map(|url| text(url.as_str()));
    page.set_or("endpoint", endpoint, "\"http://127.0.0.1:4318\"");
    let hidden: Vec<_> =
        config.traces.headers.iter().map(|(name, _)| format!("{} = \"***\"", key(name))).collect();
    let headers = (!hidden.is_empty()).then(|| format!("{{ {} }}", hidden.join(", ")));
    page.set_or("headers", headers, "{ Authorization = \"Bearer ${OTLP_TOKEN}\" }");
    page.set("sample", &config.traces.sample.to_string());

    page.section("sandbox");
    let by_default = config.environment == Environment::Development && page.style != Style::Effective;
    if by_default {
        page.set_or("enabled", None, "true");
    } else {
        page.set("enabled", &config.sandbox_enabled.to_string());
    }
}

struct Page<'c> {
    out: String,
    style: Style,
    section: String,
    /// Keys that have had their comment.
    explained: BTreeSet<String>,
    allowed: &'c Allowed,
}

impl Page<'_> {
    fn preface(&mut self, config: &Config) {
        let lines = match self.style {
            Style::Effective => {
                let file = config.file.as_deref().unwrap_or("no file");
                format!(
                    "# What holds in {}: built-in defaults, {file}, variables and flags. Secrets are hidden.\n",
                    config.environment
                )
            }
            Style::Default => super::template::DEFAULT_PREFACE.to_owned(),
            Style::Starter => super::template::STARTER_PREFACE.to_owned(),
        };
        self.out.push_str(&lines);
    }

    fn comment(&mut self, words: &str) {
        for line in words.lines() {
            let _ = if line.is_empty() { writeln!(self.out, "#") } else { writeln!(self.out, "# {line}") };
        }
    }

    fn section(&mut self, path: &str) {
        path.clone_into(&mut self.section);
        self.out.push('\n');
        if self.style != Style::Effective {
            self.comment(comment(path));
        }
        let taken_back = if self.style == Style::Starter { "#" } else { "" };
        let _ = writeln!(self.out, "{taken_back}[{path}]");
    }

    /// The explanation of a key, by its section; names of routes and providers do not matter.
    fn explain(&mut self, key: &str) {
        let section = self.section.split('.').next().unwrap_or_default();
        let path = format!("{section}.{key}");
        if self.style != Style::Effective && self.explained.insert(path.clone()) {
            self.comment(comment(&path));
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        self.explain(key);
        let taken_back = if self.style == Style::Starter { "#" } else { "" };
        let _ = writeln!(self.out, "{taken_back}{key} = {value}");
    }

    /// A key that need not be set: an example stands where there is no value.
    fn set_or(&mut self, key: &str, value: Option<String>, example: &str) {
        match value {
            Some(value) => self.set(key, &value),
            None if self.style == Style::Effective => {}
            None => {
                self.explain(key);
                let _ = writeln!(self.out, "#{key} = {example}");
            }
        }
    }

    /// The same, with its example only the first time.
    fn set_or_once(&mut self, key: &str, value: Option<String>, example: &str) {
        let section = self.section.split('.').next().unwrap_or_default();
        if value.is_some() || !self.explained.contains(&format!("{section}.{key}")) {
            self.set_or(key, value, example);
        }
    }

    /// The anti-patterns that a section allows; `example` is one that it may have.
    fn allow(&mut self, section: &str, example: &str) {
        let reasons = self.allowed.get(section).map(|allowed| {
            let each: Vec<_> = allowed.iter().map(|(name, why)| format!("{name} = {}", text(why))).collect();
            format!("{{ {} }}", each.join(", "))
        });
        self.set_or_once("allow", reasons, &format!("{{ {example} = \"why it is meant\" }}"));
    }

    fn provider(&mut self, name: &str, provider: Option<&Provider>, terms: &ProviderTerms) {
        self.section(&format!("providers.{}", key(name)));
        if let Some(provider) = provider.filter(|provider| !provider.says_nothing()) {
            provider.shown.iter().for_each(|(key, value)| self.set(key, value));
        }
        let row = ROUTES.iter().find(|row| row.provider == name && self.style != Style::Effective);
        if let Some(row) = row {
            let keys = row.provider_lines.lines().skip(1);
            keys.for_each(|line| self.out.push_str(&format!("#{line}\n")));
        }
        self.set("concurrency", &terms.concurrency.to_string());
        self.set("breaker", &terms.breaker.as_ref().map_or("false".to_owned(), breaker));
        self.set_or_once("rate", terms.rate.map(rate), "{ max = 100, per = \"1m\" }");
        self.set_or_once("tenant_rate", terms.company_rate.map(rate), "{ max = 10, per = \"1s\" }");
        let bound = match terms.company_slots {
            CompanySlots::AtMost(bound) => Some(bound.to_string()),
            CompanySlots::All | CompanySlots::AsManyAsFree => None,
        };
        self.set_or_once("tenant_concurrency", bound, "2");
        let bound = terms.receiver_concurrency.map(|bound| bound.to_string());
        self.set_or_once("endpoint_concurrency", bound, "16");
        self.set_or_once("adaptive", terms.adaptive.then(|| "true".to_owned()), "true");
        self.allow(&format!("providers.{name}"), "shared_breaker");
    }

    fn route(&mut self, config: &RouteConfig) {
        let route = &config.route;
        self.section(&format!("routes.{}", key(route.name.as_str())));
        match (&route.carrier, self.style) {
            (Carrier::Missing(what), Style::Effective) => self.comment(&format!("Refuses jobs: {what}")),
            (_, Style::Effective) => {
                self.comment(&format!("Carried by transport \"{}\".", config.kind.as_str()))
            }
            (Carrier::Missing(_), _) => {
                let lacks = if config.kind.needs_address() { "has an address" } else { "is written" };
                self.comment(&format!("Refuses jobs until [providers.{}] {lacks}.", route.provider));
            }
            _ => {}
        }
        // A row's own transport is not written: it goes without saying, and not every one is in this build.
        if config.built_in.is_none_or(|row| row.kind != config.kind) && !config.kind.needs_provider() {
            self.set("transport", &text(config.kind.as_str()));
        }
        let implicit = config.built_in.is_none() && *route.provider == *route.name.as_str();
        if !route.others.is_empty() {
            self.set("providers", &list(config.provider_names().map(text)));
        } else if !implicit {
            self.set("provider", &text(&route.provider));
        }
        self.set("classifier", &text(config.classifier));
        self.set("timeout", &duration(route.timeout));
        let is_said = |max: &Duration| self.style == Style::Effective || *max != HOLD_MAX_DEFAULT;
        let hold_max = Some(route.classifier.hold_max).filter(is_said);
        self.set_or_once("hold_max", hold_max.map(duration), &duration(HOLD_MAX_DEFAULT));
        let of_row = |environment| match config.built_in {
            Some(row) if self.style != Style::Effective => row.policy(environment),
            _ => route.terms.policy.clone(),
        };
        let (production, development) = (of_row(Environment::Production), of_row(Environment::Development));
        self.set("policy", &policy(&production));
        if route.fallback != Fallback::default() {
            self.set("fallback", &fallback(&route.fallback));
        }
        self.set_or_once(
            "auto_replay",
            config.auto_replay.as_ref().map(auto_replay),
            "{ after = \"1h\", max = 3, only = [\"EXHAUSTED\"] }",
        );
        if !config.own_rules.is_empty() {
            let lines: String = config.own_rules.iter().map(|it| format!("  {},\n", rule(it))).collect();
            self.set("classify", &format!("[\n{lines}]"));
        }
        self.allow(&format!("routes.{}", route.name), "no_backoff");
        if development != production {
            self.section(&format!("environments.development.routes.{}", key(route.name.as_str())));
            self.set("policy", &policy(&development));
        }
    }
}

/// A string of TOML.
pub fn text(words: &str) -> String {
    toml::Value::from(words).to_string()
}

/// A key of TOML: bare where that is allowed.
pub fn key(name: &str) -> String {
    let bare =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if bare { name.to_owned() } else { text(name) }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

pub fn duration(duration: Duration) -> String {
    text(&show_duration(duration))
}

/// A policy as the configuration writes it.
pub fn policy(policy: &Policy) -> String {
    let mut parts = Vec::new();
    match &policy.backoff {
        Backoff::Exponential { base, factor, cap } => {
            parts.push(format!("base = {}", duration(*base)));
            parts.push(format!("factor = {factor}"));
            parts.push(format!("cap = {}", duration(*cap)));
        }
        Backoff::Schedule(waits) => {
            parts.push(format!("schedule = {}", list(waits.iter().map(|wait| duration(*wait)))));
        }
    }
    parts.push(format!("jitter = {}", text(&policy.jitter.to_string())));
    if policy.cap_applies == CapApplies::AfterJitter {
        parts.push("cap_applies = \"after_jitter\"".to_owned());
    }
    parts.extend(policy.floor.map(|floor| format!("floor = {}", duration(floor))));
    parts.extend(policy.ceiling.map(|ceiling| format!("ceiling = {}", duration(ceiling))));
    parts.push(format!("max_attempts = {}", policy.max_attempts));
    format!("{{ {} }}", parts.join(", "))
}

fn breaker(terms: &BreakerTerms) -> String {
    let BreakerTerms { failures, within, reset, slow, ramp, .. } = terms;
    let mut parts = vec![format!("failures = {failures}")];
    let times =
        [("within", Some(within)), ("reset", Some(reset)), ("slow", slow.as_ref()), ("ramp", Some(ramp))];
    parts.extend(times.iter().filter_map(|(key, time)| Some(format!("{key} = {}", duration(*(*time)?)))));
    format!("{{ {} }}", parts.join(", "))
}

fn rate(rate: Rate) -> String {
    format!("{{ max = {}, per = {} }}", rate.max, duration(rate.per))
}

fn fallback(fallback: &Fallback) -> String {
    let occasions = [("open", fallback.on_open), ("dead", fallback.on_dead)];
    let on = occasions.iter().filter(|(_, holds)| *holds).map(|(word, _)| text(word));
    let mut parts = vec![format!("on = {}", list(on)), format!("do = {}", text(fallback.act.as_str()))];
    if let Act::Reschedule(after) = fallback.act {
        parts.push(format!("after = {}", duration(after)));
    }
    parts.extend(fallback.notify.as_deref().map(|channel| format!("notify = {}", text(channel))));
    format!("{{ {} }}", parts.join(", "))
}

fn auto_replay(terms: &AutoReplay) -> String {
    let only = list(terms.only.iter().map(|cause| text(cause.as_str())));
    format!("{{ after = {}, max = {}, only = {only} }}", duration(terms.after), terms.max)
}

fn rule(rule: &OwnRule) -> String {
    let mut parts = Vec::new();
    let said =
        [("code", rule.code.clone()), ("enhanced", rule.enhanced.clone()), ("text", rule.text.clone())];
    parts.extend(
        said.into_iter().filter_map(|(key, words)| words.map(|words| format!("{key} = {}", text(&words)))),
    );
    parts.extend(rule.regex.as_ref().map(|regex| format!("regex = {}", text(regex.as_str()))));
    if !rule.status.is_empty() {
        let one = |(low, high): &(u16, u16)| match high - low {
            0 => low.to_string(),
            9 => text(&format!("{}x", low / 10)),
            _ => text(&format!("{}xx", low / 100)),
        };
        parts.push(format!("status = {}", list(rule.status.iter().map(one))));
    }
    parts.extend(
        rule.network.map(|kind| format!("network = {}", text(kind.map_or("any", |kind| kind.as_str())))),
    );
    let class = match rule.class {
        Class::Transient => "transient",
        Class::Permanent => "permanent",
        Class::RateLimit => "rate_limit",
        Class::Unknown => "unknown",
    };
    parts.push(format!("as = \"{class}\", blame = \"{}\"", rule.blame.as_str()));
    parts.extend(rule.wait.map(|wait| format!("wait = {}", duration(wait))));
    format!("{{ {} }}", parts.join(", "))
}
