//! `recado alerts`.

use clap::Args;
use recado_config::units::about_millis;
use recado_core::alert::Severity;
use recado_terminal::{Column, Field, Paint, Screen};
use recado_wire::alerts::{Alert, AlertRule};
use recado_wire::word_of;

use crate::{AskArgs, Done};

#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:\n  recado alerts\n  recado alerts --rules\n  recado alerts --json")]
#[command(mut_arg("json", |arg| arg.help("Print JSON: firing alerts and every rule")))]
pub struct AlertsArgs {
    /// Show every rule instead of the firing alerts.
    #[arg(long)]
    rules: bool,
    #[command(flatten)]
    ask: AskArgs,
}

pub async fn run(args: AlertsArgs, screen: &mut Screen) -> Done {
    args.ask.show(screen, &args.ask.client()?.alerts().await?, |screen, list| {
        if args.rules {
            return screen.table(&list.rules, RULE_COLUMNS);
        }
        let rows = list.items.iter().map(|alert| row(alert, &list.rules));
        screen.rows(&["alert", "severity", "about", "since", "message"], rows.collect())
    })
}

fn row(alert: &Alert, rules: &[AlertRule]) -> Vec<Field> {
    let about = match &alert.subject {
        Some(subject) => format!("{} {subject}", word_of(alert.about)),
        None => word_of(alert.about),
    };
    vec![
        Field::from(&alert.name),
        severity(alert.severity),
        Field::from(about),
        Field::time(alert.since),
        Field::from(format!("{}{}", alert.message, why_still(alert, rules))),
    ]
}

/// Says why an alert still fires although its figure is back under the limit.
fn why_still(alert: &Alert, rules: &[AlertRule]) -> String {
    let rule = rules.iter().find(|rule| rule.name == alert.name);
    match (alert.calm_since, alert.clears_at, rule) {
        (Some(since), Some(clears_at), _) => {
            format!(" (back under the limit since {since}; clears at {clears_at} if it stays so)")
        }
        (_, _, Some(rule)) if alert.value <= alert.threshold => {
            let share = (rule.resolve_share * 100.0).round();
            format!(" (back under the limit; clears once it stays at or below {share} % of it)")
        }
        _ => String::new(),
    }
}

fn severity(severity: Severity) -> Field {
    let paint = match severity {
        Severity::Warning => Paint::Warn,
        Severity::Critical => Paint::Bad,
    };
    Field::painted(word_of(severity), paint)
}

const RULE_COLUMNS: &[Column<AlertRule>] = &[
    ("alert", |rule| Field::from(&rule.name)),
    ("state", |rule| match rule.enabled {
        true => Field::painted("on", Paint::Good),
        false => Field::painted("off", Paint::Warn),
    }),
    ("severity", |rule| severity(rule.severity)),
    ("fires above", |rule| Field::from(rule.threshold)),
    ("over", |rule| time(rule.window_ms)),
    ("on at least", |rule| Field::or_dash((rule.min_volume > 0).then_some(rule.min_volume))),
    ("after", |rule| time(rule.pending_ms)),
];

fn time(ms: u64) -> Field {
    Field::or_dash((ms > 0).then(|| about_millis(ms)))
}
