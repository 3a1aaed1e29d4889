//! `[alerts]`: the built-in alert rules and their changes, and the channels that hear of alerts.

use std::ops::RangeInclusive;
use std::time::Duration;

use recado_engine::duties::alerts::EVERY_DEFAULT;
use recado_engine::notify::notices::Shape;
use recado_observe::{AlertConfig, Rule, Severity};

use crate::Secret;
use crate::keys::channel::{CHANNEL_FORMATS, ChannelKeys};
use crate::keys::format::{
    Named, Switchable, count, duration, list, named, number, one_or_list, secret, switchable, text, word,
};
use crate::keys::table::{Row, Section, defaults, section};
use crate::reading::reader::{Reader, Setting};
use crate::units::{MINUTE, SECOND};

/// The channel that `[alerts] webhook` makes.
pub const OWN_CHANNEL: &str = "alerts";

/// Any time that a rule may name.
const TIMES: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(7 * 24 * 60 * 60);

section! {
    /// Alerts. Each one may be switched off, such as breaker_open = false, or changed key by key.
    Alerts {
        /// Time between two measurements.
        every: Duration = EVERY_DEFAULT, duration(SECOND..=10 * MINUTE);
        /// The channels that get alerts instead of the one in [dlq]; one may stand without the brackets.
        notify: Vec<String>, one_or_list(|| text("ops"), "[\"ops\", \"oncall\"]").such_as("[\"ops\"]");
        /// Or, and also, an address of its own: the event is posted, or with format = "slack" a text as Slack takes it; secret signs.
        webhook: Secret, secret("https://example.com/hooks/ops");
        /// It signs the webhook; a random key does by default.
        secret: Secret, secret("${OPS_WEBHOOK_SECRET}").unlisted();
        /// The event itself, or one text as Slack takes it.
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
        /// The alert fires above this: a share, a count, seconds or a multiple.
        threshold: f64, number("0.1");
        /// It measures over this time; rules of current values have none.
        window: Duration, duration(TIMES);
        /// It does not fire on less than this in the window.
        min_volume: u64, count(0..=1_000_000_000);
        /// It fires after this long above the threshold.
        pending: Duration, duration(TIMES);
        /// It is calm at or below this share of the threshold.
        resolve_share: f64, number("0.9");
        /// It is over after this long of calm.
        clear: Duration, duration(TIMES);
        /// The severity that it is reported with.
        severity: Severity, word("severity", Severity::ALL.map(|severity| (severity.as_str(), severity)));
        /// Routes, companies, codes or providers that it leaves out.
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
            if let Some(changed) = reader.get(rule.name, |setting| change(rule, setting)) {
                *rule = changed;
            }
        }
        config
    }

    fn rows(&self) -> Vec<Row> {
        let doc = |at| if at == 0 { RULE_DOC } else { &[] };
        let rules = self.rules.iter().enumerate();
        rules.map(|(at, rule)| switchable().row(rule.name, doc(at), Some(&rule_keys(rule)))).collect()
    }
}

/// Changes a built-in rule as it is written.
fn change(rule: &Rule, setting: &Setting<'_>) -> Option<Rule> {
    let rule = Rule { enabled: true, ..rule.clone() };
    let rule = match switchable::<AlertRuleKeys>().read(setting)? {
        Switchable::Off => Rule { enabled: false, ..rule },
        Switchable::On(None) => rule,
        Switchable::On(Some(keys)) => Rule {
            threshold: keys.threshold.unwrap_or(rule.threshold),
            window: keys.window.unwrap_or(rule.window),
            min_volume: keys.min_volume.unwrap_or(rule.min_volume),
            pending: keys.pending.unwrap_or(rule.pending),
            resolve_share: keys.resolve_share.unwrap_or(rule.resolve_share),
            clear: keys.clear.unwrap_or(rule.clear),
            severity: keys.severity.unwrap_or(rule.severity),
            except: keys.except.map_or(rule.except, |names| names.into_iter().map(Into::into).collect()),
            ..rule
        },
    };
    let name = rule.name;
    let changed = AlertConfig { rules: vec![rule.clone()], ..AlertConfig::default() };
    let faults = changed.faults();
    for words in &faults {
        let words = words.strip_prefix(&format!("alert {name}: ")).unwrap_or(words);
        setting.refuse_below(words.split(' ').next().unwrap_or_default(), words);
    }
    faults.is_empty().then_some(rule)
}

fn rule_keys(rule: &Rule) -> Switchable<AlertRuleKeys> {
    if !rule.enabled {
        return Switchable::Off;
    }
    let written = |time: Duration| (!time.is_zero()).then_some(time);
    let except = rule.except.iter().map(|name| name.to_string());
    Switchable::On(Some(AlertRuleKeys {
        threshold: Some(rule.threshold),
        window: written(rule.window),
        min_volume: Some(rule.min_volume).filter(|volume| *volume > 0),
        pending: written(rule.pending),
        resolve_share: Some(rule.resolve_share),
        clear: Some(rule.clear),
        severity: Some(rule.severity),
        except: (!rule.except.is_empty()).then(|| except.collect()),
    }))
}
