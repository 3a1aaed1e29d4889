//! `recado kpis`.

use std::time::Duration;

use clap::Args;
use recado_core::RouteName;
use recado_core::time::millis;
use recado_terminal::{Column, Field, Paint, Screen};
use recado_wire::kpis::{AttemptRate, Kpi, KpiQuery, KpiVerdict, Kpis, NamedCount};

use crate::delivery::jobs::route;
use crate::{AskArgs, Done, duration};

#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:\n  recado kpis\n  recado kpis --route tiss-claims --window 7d")]
pub struct KpisArgs {
    /// Only this route.
    #[arg(long, value_name = "ROUTE", value_parser = route)]
    route: Option<RouteName>,
    /// Window to look back on, a week at most [default: 1d].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    window: Option<Duration>,
    #[command(flatten)]
    ask: AskArgs,
}

pub async fn run(args: KpisArgs, screen: &mut Screen) -> Done {
    let query = KpiQuery { route: args.route, window_ms: args.window.map(millis) };
    args.ask.show(screen, &args.ask.client()?.kpis(&query).await?, show)
}

fn show(screen: &mut Screen, kpis: &Kpis) -> std::io::Result<()> {
    screen.rows(&["indicator", "value", "target", "verdict", "measured on"], rows(kpis))?;
    screen.line("")?;
    screen.table(&kpis.by_attempt, ATTEMPT_COLUMNS)?;
    screen.line("")?;
    let flow = &kpis.dead_letters;
    screen.pairs([
        ("dead letters", Field::from(flow.entries)),
        ("an hour", Field::from(format_args!("{:.1}", flow.per_hour))),
        ("share of jobs", Field::or_dash(flow.share_of_sends.map(percent))),
        ("by company", Field::or_dash(counts(&flow.by_company))),
        ("by error code", Field::or_dash(counts(&flow.by_error_code))),
    ])
}

const ATTEMPT_COLUMNS: &[Column<AttemptRate>] = &[
    ("attempt", |rate| Field::from(rate.attempt)),
    ("ended", |rate| Field::from(rate.ended)),
    ("sent", |rate| Field::from(rate.sent)),
    ("share", |rate| Field::from(percent(rate.sent as f64 / rate.ended.max(1) as f64))),
];

fn rows(kpis: &Kpis) -> Vec<Vec<Field>> {
    let share: fn(f64) -> String = percent;
    let plain: fn(f64) -> String = |value| format!("{value:.2}");
    let seconds: fn(f64) -> String = |value| format!("{value:.1} s");
    let figures = [
        ("success after retry", kpis.success_after_retry, share),
        ("attempts of a sent job", kpis.mean_attempts, plain),
        ("lost after retries", kpis.lost_share, share),
        ("time to success", kpis.time_to_success_seconds, seconds),
        ("permanent errors", kpis.permanent_share, share),
        ("waits at the cap", kpis.at_cap_share, share),
        ("jitter deviation", kpis.jitter_deviation, share),
        ("mean backoff", kpis.mean_backoff_seconds, seconds),
    ];
    figures.into_iter().map(|(name, kpi, show)| row(name, kpi, show)).collect()
}

fn row(name: &str, kpi: Kpi, show: fn(f64) -> String) -> Vec<Field> {
    let target = kpi.at_least.map(|least| format!("≥ {}", show(least)));
    let target = target.or_else(|| kpi.at_most.map(|most| format!("≤ {}", show(most))));
    let verdict = match kpi.verdict {
        KpiVerdict::Met => Field::painted("met", Paint::Good),
        KpiVerdict::Missed => Field::painted("missed", Paint::Bad),
        KpiVerdict::TooFew => Field::from(format!("too few (under {})", kpi.min_volume)),
    };
    let value = Field::or_dash(kpi.value.map(show));
    vec![Field::from(name), value, Field::or_dash(target), verdict, Field::from(kpi.volume)]
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn counts(counts: &[NamedCount]) -> Option<String> {
    let words: Vec<_> = counts.iter().map(|one| format!("{} {}", one.name, one.count)).collect();
    (!words.is_empty()).then(|| words.join(", "))
}
