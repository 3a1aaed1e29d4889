//! Alerts: when it rings, and who hears of it.

use std::ops::RangeInclusive;
use std::time::Duration;

use recado_engine::duties::alerts::{AlertTerms, EVERY_DEFAULT};
use recado_observe::{AlertConfig, Rule, RuleChange, Severity};

use super::anti_patterns::Allow;
use super::fault::At;
use super::raw::{CHANNEL_FORMATS, RawChannel, allow};
use super::reader::{FaultList, Section, Setting};

/// The channel that `[alerts] webhook` makes.
pub const OWN_CHANNEL: &str = "alerts";

/// Any time that a rule may name.
const TIMES: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(7 * 24 * 60 * 60);

pub struct RawAlerts {
    pub here: At<()>,
    pub every: Option<At<Duration>>,
    /// Channels by name.
    pub notify: Vec<At<String>>,
    /// A channel of its own, for those who want nothing else of channels.
    pub channel: Option<RawChannel>,
    pub rules: Vec<RawRule>,
    pub allow: Allow,
}

/// Settings of one rule.
#[derive(Default)]
pub struct RawRule {
    name: &'static str,
    here: At<()>,
    off: bool,
    threshold: Option<At<f64>>,
    window: Option<At<Duration>>,
    min_volume: Option<At<u64>>,
    pending: Option<At<Duration>>,
    resolve_share: Option<At<f64>>,
    clear: Option<At<Duration>>,
    severity: Option<At<Severity>>,
    except: Option<At<Vec<At<String>>>>,
}

pub fn read(section: &Section<'_>) -> RawAlerts {
    let channel = RawChannel {
        here: section.here(()),
        webhook: section.get("webhook", |it| it.text("\"https://example.com/hooks/ops\"")),
        secret: section.get("secret", |it| it.text("\"${OPS_WEBHOOK_SECRET}\"")),
        format: section.get("format", |it| it.choice("format", &CHANNEL_FORMATS)),
        route: None,
        from: None,
        to: None,
    };
    let RawChannel { webhook, secret, format, .. } = &channel;
    if let (None, Some(beside)) =
        (webhook, secret.as_ref().map(At::here).or_else(|| format.as_ref().map(At::here)))
    {
        section.fault(beside.fault("stands without the webhook it is for; write webhook = \"https://…\""));
    }
    let rules = AlertConfig::default().rules;
    RawAlerts {
        here: section.here(()),
        every: section.get("every", |it| it.duration(Duration::from_secs(1)..=Duration::from_secs(10 * 60))),
        notify: section.get("notify", channels).unwrap_or_default(),
        channel: channel.webhook.is_some().then_some(channel),
        rules: rules.iter().filter_map(|known| section.get(known.name, |it| rule(known.name, it))).collect(),
        allow: allow(section),
    }
}

/// One channel, or a list of them.
fn channels(setting: Setting<'_>) -> Option<Vec<At<String>>> {
    let name = |setting: Setting<'_>| setting.text("\"ops\"");
    if setting.is_list() {
        return Some(setting.list("[\"ops\", \"oncall\"]", name)?.value);
    }
    name(setting).map(|one| vec![one])
}

fn rule(name: &'static str, setting: Setting<'_>) -> Option<RawRule> {
    if !setting.is_table() {
        let on = setting.switch()?;
        return Some(RawRule { name, here: on.here(), off: !on.value, ..RawRule::default() });
    }
    let section = setting.section()?;
    let time = |key: &'static str| section.get(key, |it| it.duration(TIMES));
    let severities = [("warning", Severity::Warning), ("critical", Severity::Critical)];
    let raw = RawRule {
        name,
        here: section.here(()),
        off: false,
        threshold: section.get("threshold", |it| it.number("0.1")),
        window: time("window"),
        min_volume: section.get("min_volume", |it| it.count(0..=1_000_000_000)),
        pending: time("pending"),
        resolve_share: section.get("resolve_share", |it| it.number("0.9")),
        clear: time("clear"),
        severity: section.get("severity", |it| it.choice("severity", &severities)),
        except: section.get("except", |it| it.list("[\"sandbox\"]", |it| it.text("\"sandbox\""))),
    };
    section.close();
    Some(raw)
}

/// The built-in rules with what is said about them.
pub fn resolve(every: Option<At<Duration>>, rules: Vec<RawRule>, faults: &FaultList) -> AlertTerms {
    let mut config = AlertConfig::default();
    for raw in rules {
        let mut changed = AlertConfig { rules: Vec::new(), ..config.clone() };
        changed.rules.extend(config.rule(raw.name).cloned());
        if let Err(error) = changed.change(raw.name, raw.change()) {
            faults.borrow_mut().push(raw.here.fault(error.to_string()));
            continue;
        }
        let wrong = changed.faults();
        for words in &wrong {
            let words = words.strip_prefix(&format!("alert {}: ", raw.name)).unwrap_or(words);
            faults.borrow_mut().push(raw.place_of(words).fault(words.to_owned()));
        }
        if let (true, Some(rule)) = (wrong.is_empty(), changed.rules.pop()) {
            config
                .rules
                .iter_mut()
                .filter(|known| known.name == rule.name)
                .for_each(|known| *known = rule.clone());
        }
    }
    AlertTerms { config, every: every.map_or(EVERY_DEFAULT, |said| said.value) }
}

impl RawRule {
    fn change(&self) -> RuleChange {
        fn said<T: Clone>(at: &Option<At<T>>) -> Option<T> {
            at.as_ref().map(|at| at.value.clone())
        }
        RuleChange {
            enabled: Some(!self.off),
            threshold: said(&self.threshold),
            window: said(&self.window),
            min_volume: said(&self.min_volume),
            pending: said(&self.pending),
            resolve_share: said(&self.resolve_share),
            clear: said(&self.clear),
            severity: said(&self.severity),
            except: said(&self.except).map(|names| names.into_iter().map(|name| name.value.into()).collect()),
        }
    }

    /// The line of the key that a fault begins with.
    fn place_of(&self, words: &str) -> At<()> {
        let keys = [
            ("threshold", self.threshold.as_ref().map(At::here)),
            ("resolve_share", self.resolve_share.as_ref().map(At::here)),
            ("window", self.window.as_ref().map(At::here)),
        ];
        let named = keys.into_iter().find(|(key, _)| words.starts_with(key)).and_then(|(_, place)| place);
        named.unwrap_or_else(|| self.here.clone())
    }
}

/// A rule as the file has it.
pub fn written(rule: &Rule) -> String {
    use super::show::{duration, text};
    if !rule.enabled {
        return "false".to_owned();
    }
    let mut keys = vec![format!("threshold = {}", rule.threshold)];
    if !rule.window.is_zero() {
        keys.push(format!("window = {}", duration(rule.window)));
    }
    if rule.min_volume > 0 {
        keys.push(format!("min_volume = {}", rule.min_volume));
    }
    if !rule.pending.is_zero() {
        keys.push(format!("pending = {}", duration(rule.pending)));
    }
    keys.push(format!("resolve_share = {}", rule.resolve_share));
    keys.push(format!("clear = {}", duration(rule.clear)));
    keys.push(format!("severity = {}", text(rule.severity.as_str())));
    if !rule.except.is_empty() {
        let names: Vec<_> = rule.except.iter().map(|name| text(name)).collect();
        keys.push(format!("except = [{}]", names.join(", ")));
    }
    format!("{{ {} }}", keys.join(", "))
}
