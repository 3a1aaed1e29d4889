//! `recado rules`.

use std::time::Duration;

use clap::{Args, Subcommand};
use recado_core::time::millis;
use recado_core::{Class, RouteName, Timestamp};
use recado_engine::{Clock, SystemClock};
use recado_terminal::{Column, Field, Paint, Screen};
use recado_wire::rules::{RuleSuggestion, SuggestionList, SuggestionQuery};

use crate::delivery::jobs::route;
use crate::{AskArgs, Done, duration};

#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// Suggest classification rules for errors whose jobs end differently from what their class predicts.
    #[command(
        after_help = "EXAMPLES:\n  recado rules suggest\n  recado rules suggest --route email --since 30d\n  recado rules suggest --json\n\nNothing changes by itself: paste the line that you agree with into the route's table, and check it with `recado config check`."
    )]
    Suggest(SuggestArgs),
}

#[derive(Debug, Args)]
pub struct SuggestArgs {
    /// Only this route.
    #[arg(long, value_name = "ROUTE", value_parser = route)]
    route: Option<RouteName>,
    /// Period to read.
    #[arg(long, value_name = "DURATION", value_parser = since, default_value = "7d")]
    since: Duration,
    #[command(flatten)]
    ask: AskArgs,
}

fn since(text: &str) -> Result<Duration, String> {
    let since = duration(text)?;
    if since.is_zero() {
        return Err("--since must be longer than zero, such as 7d or 12h".to_owned());
    }
    Ok(since)
}

pub async fn run(command: RulesCommand, screen: &mut Screen) -> Done {
    let RulesCommand::Suggest(SuggestArgs { route, since, ask }) = command;
    let since = SystemClock.now().as_millis().saturating_sub_unsigned(millis(since)).max(0);
    let query = SuggestionQuery { route, since: Some(Timestamp::from_millis(since)) };
    ask.show(screen, &ask.client()?.rule_suggestions(&query).await?, show)
}

fn show(screen: &mut Screen, list: &SuggestionList) -> std::io::Result<()> {
    if list.items.is_empty() {
        screen.line("Nothing to suggest: every error ended as its class says.")?;
    } else {
        show_table(screen, &list.items)?;
        screen.line("")?;
        screen.line(list.toml.trim_end())?;
    }
    match list.read_until {
        Some(until) => screen.line(format_args!(
            "\nOnly the first {} records were read, up to {until}. Give a shorter --since.",
            list.records_read
        )),
        None => Ok(()),
    }
}

/// A table in a pipe. A terminal has the examples below it, each cut to one line.
fn show_table(screen: &mut Screen, items: &[RuleSuggestion]) -> std::io::Result<()> {
    if !screen.is_terminal() {
        return screen.table(items, COLUMNS);
    }
    screen.table(items, &COLUMNS[..COLUMNS.len() - 1])?;
    for item in items {
        if let Some(example) = &item.example {
            let code = item.error_code.as_deref().unwrap_or("-");
            let line = format!("{} {code}: {}", item.route, recado_terminal::clean(example));
            screen.line(cut(&line, screen.width().into()))?;
        }
    }
    Ok(())
}

/// The beginning of a line, with `…` where it was longer.
fn cut(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// The last is the example.
const COLUMNS: &[Column<RuleSuggestion>] = &[
    ("route", |rule| Field::from(&rule.route)),
    ("code", |rule| Field::or_dash(rule.error_code.as_ref())),
    ("failures", |rule| Field::from(rule.count)),
    ("arrived", |rule| Field::from(rule.retried_to_success)),
    ("in vain", |rule| Field::from(rule.retried_in_vain)),
    ("today", |rule| Field::from(rule.today.as_str())),
    ("suggested", |rule| {
        let paint = if rule.suggested == Class::Permanent { Paint::Bad } else { Paint::Good };
        Field::painted(rule.suggested.as_str(), paint)
    }),
    ("confidence", |rule| Field::from(format_args!("{:.0} %", rule.confidence * 100.0))),
    ("would change", |rule| Field::from(rule.would_have_changed)),
    ("would lose", |rule| Field::from(rule.would_have_lost)),
    ("example", |rule| Field::or_dash(rule.example.as_ref())),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_refused_and_long_lines_are_cut() {
        assert!(since("0s").unwrap_err().contains("such as 7d"));
        assert_eq!(since("1h"), Ok(Duration::from_secs(3_600)));
        assert_eq!((cut("não é", 5), cut("não é!", 5)), ("não é".to_owned(), "não …".to_owned()));
    }
}
