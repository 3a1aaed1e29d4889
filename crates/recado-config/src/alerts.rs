//! `[alerts]`: the built-in alert rules and their changes, and the channels that hear of alerts.

use std::ops::RangeInclusive;
use std::time::Duration;

use recado_engine::alerts::EVERY_DEFAULT;
use recado_engine::notices::Shape;
use recado_observe::{AlertConfig, Rule, RuleChange, Severity};

use crate::Secret;
use crate::format::{
    Format, Named, Switchable, count, duration, list, named, number, row, secret, switchable, text, word,
};
use crate::reader::{Reader, Setting};
use crate::sections::{CHANNEL_FORMATS, ChannelKeys, MINUTE, SECOND};
use crate::table::{Row, Section, defaults, section};

/// The channel that `[alerts] webhook` makes.
pub const OWN_CHANNEL: &str = "alerts";

/// Any time that a rule may name.
const TIMES: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(7 * 24 * 60 * 60);

section! {
    /// Alerts. Each one may be switched off, such as breaker_open = false, or changed key by key.
    Alerts {
        /// Between two measurements.
        every: Duration = EVERY_DEFAULT, duration(SECOND..=10 * MINUTE);
        /// The channels that get alerts instead of the one in [dlq]; one may stand without the brackets.
        notify: Vec<String>, list(text("ops"), "[\"ops\", \"oncall\"]").or_single().such_as("[\"ops\"]");
        /// Or, and also, an address of its own: the event is posted, or with format = "slack" a text as Slack takes it; secret signs.
        webhook: Secret, secret("https://example.com/hooks/ops");
        secret: Secret, secret("${OPS_WEBHOOK_SECRET}").unlisted();
        format: Shape, word("format", CHANNEL_FORMATS);
        rules: AlertConfig;
        /// Silences the warning of an anti-pattern, with the reason.
        allow: Named<String>, named(text("the reason")).such_as("{ silent_failure = \"why it is meant\" }");
    }
}

impl Alerts {
    /// The channel that `webhook` makes.
    pub fn own_channel(&self) -> ChannelKeys {
        ChannelKeys {
            webhook: self.webhook.clone(),
            secret: self.secret.clone(),
            format: self.format,
            ..defaults()
        }
    }
}

section! {
    AlertRuleKeys {
        threshold: f64, number("0.1");
        window: Duration, duration(TIMES);
        min_volume: u64, count(0..=1_000_000_000);
        pending: Duration, duration(TIMES);
        resolve_share: f64, number("0.9");
        clear: Duration, duration(TIMES);
        severity: Severity, word("severity", [("warning", Severity::Warning), ("critical", Severity::Critical)]);
        except: Vec<String>, list(text("sandbox"), "[\"sandbox\"]");
    }
}

const RULE_DOC: &[&str] = &[
    " It fires above `threshold` (a share, a count or seconds), measured over `window` on at least `min_volume`, after",
    " `pending`; it is over after `clear` at or below `resolve_share` of the threshold. `except` lists names to leave out.",
];

/// One key for each built-in rule; the first explains them all.
impl Section for AlertConfig {
    const ABOUT: &'static [&'static str] = &[];

    fn read(reader: &Reader<'_>) -> Self {
        let mut config = AlertConfig::default();
        for rule in &mut config.rules {
            if let Some(changed) = reader.get(rule.name, &RuleFormat(rule.clone())) {
                *rule = changed;
            }
        }
        config
    }

    fn rows(&self) -> Vec<Row> {
        let doc = |at| if at == 0 { RULE_DOC } else { &[] };
        let rules = self.rules.iter().enumerate();
        rules.map(|(at, rule)| row(rule.name, doc(at), &RuleFormat(rule.clone()), Some(rule))).collect()
    }
}

/// Changes of one built-in rule, or `false`.
struct RuleFormat(Rule);

impl Format for RuleFormat {
    type Value = Rule;

    fn read(&self, setting: &Setting<'_>) -> Option<Rule> {
        let name = self.0.name;
        let change = match switchable::<AlertRuleKeys>().read(setting)? {
            Switchable::Off => RuleChange { enabled: Some(false), ..RuleChange::default() },
            Switchable::On(None) => RuleChange { enabled: Some(true), ..RuleChange::default() },
            Switchable::On(Some(keys)) => RuleChange {
                enabled: Some(true),
                threshold: keys.threshold,
                window: keys.window,
                min_volume: keys.min_volume,
                pending: keys.pending,
                resolve_share: keys.resolve_share,
                clear: keys.clear,
                severity: keys.severity,
                except: keys.except.map(|names| names.into_iter().map(Into::into).collect()),
            },
        };
        let mut changed = AlertConfig { rules: vec![self.0.clone()], ..AlertConfig::default() };
        changed.change(name, change).or_else(|error| setting.refuse(error).ok_or(())).ok()?;
        let faults = changed.faults();
        for words in &faults {
            let words = words.strip_prefix(&format!("alert {name}: ")).unwrap_or(words);
            setting.refuse_below(words.split(' ').next().unwrap_or_default(), words);
        }
        if faults.is_empty() { changed.rules.pop() } else { None }
    }

    fn write(&self, rule: &Rule) -> String {
        let written = |time: Duration| (!time.is_zero()).then_some(time);
        let keys = AlertRuleKeys {
            threshold: Some(rule.threshold),
            window: written(rule.window),
            min_volume: (rule.min_volume > 0).then_some(rule.min_volume),
            pending: written(rule.pending),
            resolve_share: Some(rule.resolve_share),
            clear: Some(rule.clear),
            severity: Some(rule.severity),
            except: (!rule.except.is_empty())
                .then(|| rule.except.iter().map(|name| name.to_string()).collect()),
        };
        let value = if rule.enabled { Switchable::On(Some(keys)) } else { Switchable::Off };
        switchable().write(&value)
    }

    fn allowed(&self) -> String {
        switchable::<AlertRuleKeys>().allowed()
    }

    fn rows(&self, _rule: Option<&Rule>) -> Vec<Row> {
        switchable::<AlertRuleKeys>().rows(None)
    }
}
