//! `recado policy`: reads the configuration, asks no server.

use clap::{Args, Subcommand};
use recado_config::fault::suggestion;
use recado_config::show;
use recado_config::units::about_millis;
use recado_core::time::{millis, show_duration};
use recado_terminal::{Column, Field, Form, Paint, Screen};
use recado_wire::routes::{PolicyStep, steps};
use serde::Serialize;

use crate::local::plot;
use crate::{ConfigArgs, Done, FormArgs, Stop};

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Show a route's retry schedule.
    #[command(
        after_help = "EXAMPLES:\n  recado policy show email --plot\n  recado policy show tiss-claims --env production --json"
    )]
    Show(PolicyShowArgs),
}

#[derive(Debug, Args)]
pub struct PolicyShowArgs {
    /// The route.
    route: String,
    /// Draw the delays with their jitter.
    #[arg(long, conflicts_with = "json")]
    plot: bool,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    config: ConfigArgs,
}

/// A policy as `--json` prints it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    route: &'a str,
    environment: &'a str,
    policy: String,
    jitter: String,
    max_attempts: u32,
    timeout_ms: u64,
    attempts: &'a [PolicyStep],
}

pub fn run(command: PolicyCommand, screen: &mut Screen) -> Done {
    let PolicyCommand::Show(args) = command;
    let config = args.config.load_as_written()?;
    let Some(route) = config.route(&args.route) else {
        let advice = suggestion(&args.route, config.route_names(), "routes");
        return Err(Stop::Usage(format!("there is no route `{}`; {advice}", args.route)));
    };
    let policy = &route.terms.policy;
    let steps = steps(policy);
    let shown = Shown {
        route: &args.route,
        environment: config.environment.as_str(),
        policy: show::policy(policy),
        jitter: policy.jitter.to_string(),
        max_attempts: policy.max_attempts,
        timeout_ms: millis(route.timeout),
        attempts: &steps,
    };
    if args.form.get() == Form::Json {
        return Ok(screen.json(&shown)?);
    }
    screen.pairs([
        ("route", Field::painted(&args.route, Paint::Strong)),
        ("environment", Field::from(config.environment)),
        ("policy", Field::from(show::policy(policy))),
        ("timeout", Field::from(show_duration(route.timeout))),
        ("classifier", Field::from(route.classifier_name)),
    ])?;
    screen.line("")?;
    screen.table(&steps, COLUMNS)?;
    if args.plot {
        screen.line("")?;
        let width = usize::from(screen.width().min(100));
        screen.text(plot::delays(&steps, width))?;
    }
    let last = steps.last().map_or(0, |step| step.at_max_ms);
    screen.line(format_args!(
        "\nAfter {} failed attempts, at the latest {} after the start and the time they take, the job is a dead letter.",
        policy.max_attempts,
        about_millis(last)
    ))?;
    Ok(())
}

const COLUMNS: &[Column<PolicyStep>] = &[
    ("attempt", |step| Field::from(step.attempt)),
    ("delay", |step| Field::from(about_millis(step.delay_ms))),
    ("with jitter", |step| Field::from(between(step.delay_min_ms, step.delay_max_ms))),
    ("since the start", |step| Field::from(about_millis(step.at_ms))),
    ("with jitter", |step| Field::from(between(step.at_min_ms, step.at_max_ms))),
];

fn between(low: u64, high: u64) -> String {
    if low == high { about_millis(low) } else { format!("{} to {}", about_millis(low), about_millis(high)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recado_config::catalogue::{BuiltIn, Environment};

    #[test]
    fn steps_add_up_with_their_jitter() {
        let steps = steps(&BuiltIn::named("email-ses").unwrap().policy(Environment::Production));
        let of = |at: usize| {
            (
                steps[at].delay_ms,
                steps[at].delay_min_ms,
                steps[at].delay_max_ms,
                steps[at].at_ms,
                steps[at].at_max_ms,
            )
        };
        assert_eq!(steps.len(), 5);
        assert_eq!(of(0), (0, 0, 0, 0, 0));
        assert_eq!(of(1), (1_000, 750, 1_250, 1_000, 1_250));
        assert_eq!(of(4), (8_000, 6_000, 10_000, 15_000, 18_750));
    }
}
