//! `[alerts]`: what changes a rule, who hears, and what is said about the wrong ones.

use recado_engine::notify::notices::{Channel, Shape};
use recado_observe::{AlertConfig, Severity};

use super::*;

#[test]
fn e10_every_required_alert_is_on_by_default() {
    let config = load("");
    assert_eq!(config.settings.alerts.rules, AlertConfig::default());
    assert!(config.settings.alerts.rules.rules.iter().all(|rule| rule.enabled));
    assert_eq!(config.settings.alerts.every, Duration::from_secs(10));
    assert!(config.notices.alerts.is_empty());
}

#[test]
fn a_rule_is_changed_key_by_key_or_switched_off() {
    let config = load(
        "[alerts]\nevery = \"30s\"\nbreaker_open = false\n\
         dlq_size = { threshold = 500, severity = \"critical\", except = [] }\n\
         [alerts.failure_rate]\nthreshold = 0.25\nwindow = \"5m\"\nmin_volume = 100\nexcept = [\"sandbox\"]\n",
    );
    let rule = |name| config.settings.alerts.rules.rule(name).expect("a rule");
    assert_eq!(config.settings.alerts.every, Duration::from_secs(30));
    assert!(!rule("breaker_open").enabled);
    assert_eq!((rule("dlq_size").threshold, rule("dlq_size").severity), (500.0, Severity::Critical));
    let changed = rule("failure_rate");
    assert_eq!(
        (changed.threshold, changed.window, changed.min_volume),
        (0.25, Duration::from_secs(300), 100)
    );
    assert_eq!(changed.pending, Duration::from_secs(120), "what is not said stays");
    assert_eq!(changed.except, [Box::<str>::from("sandbox")]);
}

#[test]
fn a_variable_changes_a_rule_too() {
    let variables = [("RECADO_ALERTS__DLQ_SIZE__THRESHOLD", "7"), ("RECADO_ALERTS__BREAKER_OPEN", "false")];
    let config = Config::load(&inputs("", &variables)).expect("it is right");
    assert_eq!(config.settings.alerts.rules.rule("dlq_size").expect("a rule").threshold, 7.0);
    assert!(!config.settings.alerts.rules.rule("breaker_open").expect("a rule").enabled);
}

#[test]
fn alerts_have_a_channel_of_their_own_or_a_named_one() {
    let own = load("[alerts]\nwebhook = \"https://example.com/hooks/x\"\n");
    assert_eq!(own.notices.alerts, [Box::<str>::from("alerts")]);
    let shape = |config: &Config, name: &str| match config.notices.channels.get(name) {
        Some(Channel::Webhook { shape, .. }) => *shape,
        other => panic!("{other:?}"),
    };
    assert_eq!(shape(&own, "alerts"), Shape::Event);
    let named = load(
        "[notify.ops]\nwebhook = \"https://hooks.slack.com/services/x\"\nformat = \"slack\"\n[alerts]\nnotify = \"ops\"\n",
    );
    assert_eq!(named.notices.alerts, [Box::<str>::from("ops")]);
    assert_eq!(shape(&named, "ops"), Shape::Slack);
    let several = load(
        "[notify.ops]\nwebhook = \"https://hooks.slack.com/services/x\"\nformat = \"slack\"\n\
         [notify.oncall]\nwebhook = \"https://hooks.slack.com/services/y\"\nformat = \"slack\"\n\
         [alerts]\nnotify = [\"ops\", \"oncall\"]\nwebhook = \"https://example.com/hooks/x\"\n",
    );
    assert_eq!(several.notices.alerts, ["ops", "oncall", "alerts"].map(Box::<str>::from));
    let shown = show::page(&several, show::Style::Effective);
    assert!(shown.contains("notify = [\"ops\", \"oncall\"]"), "{shown}");
    let shown = show::page(&own, show::Style::Effective);
    assert!(!shown.contains("hooks/x") && shown.contains("webhook = \"***\""), "{shown}");
}

#[test]
fn faults_of_alerts_point_at_their_lines() {
    assert_faults(
        "[alerts]\ndlq_sise = false\nnotify = \"opps\"\n[alerts.failure_rate]\nthreshold = -1\nwindow = \"1s\"\n\
         [alerts.dlq_size]\nwindow = \"5m\"\nresolve_share = 2\n[alerts.dlq_rate]\nthreshold = 2\n",
        "
error: there is no key `dlq_sise` in [alerts]; did you mean `dlq_size`?
 --> recado.toml:2:1  alerts.dlq_sise
  |
2 | dlq_sise = false
  | ^^^^^^^^

error: there is no channel `opps`; write [notify.opps]
 --> recado.toml:3:10  alerts.notify
  |
3 | notify = \"opps\"
  |          ^^^^^^

error: threshold is -1; write 0 or more
 --> recado.toml:5:13  alerts.failure_rate.threshold
  |
5 | threshold = -1
  |             ^^

error: window is 1s; write 20s to 7d
 --> recado.toml:6:10  alerts.failure_rate.window
  |
6 | window = \"1s\"
  |          ^^^^

error: window has no meaning for a current value; leave it out
 --> recado.toml:8:10  alerts.dlq_size.window
  |
8 | window = \"5m\"
  |          ^^^^

error: resolve_share is 2; write 0 to 1
 --> recado.toml:9:17  alerts.dlq_size.resolve_share
  |
9 | resolve_share = 2
  |                 ^

error: threshold is 2, and this is a share; write 0 to 1, such as 0.1
  --> recado.toml:11:13  alerts.dlq_rate.threshold
   |
11 | threshold = 2
   |             ^
",
    );
    assert_faults(
        "[alerts]\nformat = \"slack\"\n",
        "
error: needs the webhook that it is for; write webhook = \"https://…\"
 --> recado.toml:2:10  alerts.format
  |
2 | format = \"slack\"
  |          ^^^^^^^
",
    );
}
