//! `recado doctor`: looks at everything a server needs, and says how to mend what is wrong.

mod checks;
mod redis;

use std::time::Duration;

use clap::Args;
use recado_config::{Config, Flags};
use recado_core::words::counted;
use recado_engine::{Clock, SystemClock};
use recado_terminal::{Paint, Screen, clean_lines};
use serde::Serialize;

use crate::{ConfigArgs, Done, ServerArgs, Stop};

#[derive(Debug, Args)]
#[command(
    after_help = "EXAMPLES:\n  recado doctor\n  recado doctor --store redis://127.0.0.1:6379\n  recado doctor --env production --config /etc/recado/recado.toml --url http://10.0.0.5:7400"
)]
pub struct DoctorArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The store to look at, instead of the configured one.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// The result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Good,
    /// It works, with a remark.
    Note,
    Bad,
}

#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub what: &'static str,
    pub state: State,
    pub found: String,
    /// The fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    pub fn good(what: &'static str, found: impl Into<String>) -> Self {
        Finding { what, state: State::Good, found: found.into(), fix: None }
    }

    pub fn note(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Finding { what, state: State::Note, found: found.into(), fix: Some(fix.into()) }
    }

    pub fn bad(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Finding { what, state: State::Bad, found: found.into(), fix: Some(fix.into()) }
    }
}

/// A doctor does not wait as long as others.
const PATIENCE: Duration = Duration::from_secs(3);

pub async fn run(args: DoctorArgs, screen: &mut Screen) -> Done {
    let inputs = args.config.inputs(Flags { store: args.store, ..Flags::default() })?;
    let client = args.server.client()?.with_timeout(PATIENCE);
    let health = client.health().await;
    let running = health.is_ok();

    let mut findings = Vec::new();
    let config = match Config::load(&inputs) {
        Ok(config) => {
            findings.extend(checks::configuration(&config, &inputs));
            Some(config)
        }
        Err(faults) => {
            let fix = "mend the lines below; `recado config check` looks again";
            findings.push(Finding::bad(
                "configuration",
                counted(faults.list.len() as u64, "fault", "faults"),
                format!("{fix}\n\n{faults}"),
            ));
            Config::load_as_written(&inputs).ok()
        }
    };
    if let Some(config) = &config {
        findings.extend(match &config.redis {
            Some(options) => redis::look_at(options).await,
            None => checks::data_dir(config, running, SystemClock.now()),
        });
        let late = if running { checks::audit_late(&client).await } else { None };
        findings.push(checks::audit_dir(config, late));
        findings.push(checks::port(config, running).await);
    }
    findings.push(checks::clock(SystemClock.now()));
    findings.extend(checks::server(&client, health, &args.server.url).await);

    if args.json {
        screen.json(&findings)?;
    } else {
        for finding in &findings {
            show(screen, finding)?;
        }
    }
    match findings.iter().filter(|finding| finding.state == State::Bad).count() {
        0 => Ok(()),
        1 => Err(Stop::Failed("one thing needs mending".to_owned())),
        count => Err(Stop::Failed(format!("{count} things need mending"))),
    }
}

fn show(screen: &mut Screen, finding: &Finding) -> std::io::Result<()> {
    let (mark, paint) = match finding.state {
        State::Good => ("✓", Paint::Good),
        State::Note => ("!", Paint::Warn),
        State::Bad => ("✗", Paint::Bad),
    };
    let mark = screen.painted(paint, mark);
    screen.line(format_args!("{mark} {}: {}", finding.what, clean_lines(&finding.found)))?;
    if let Some(fix) = &finding.fix {
        for line in clean_lines(fix).lines() {
            screen.line(format_args!("    {line}").to_string().trim_end())?;
        }
    }
    Ok(())
}
