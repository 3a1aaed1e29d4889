//! `recado doctor`: looks at everything a server needs, and says how to mend what is wrong.

mod checks;
mod redis;

use std::time::Duration;

use clap::Args;
use recado_config::{Config, Flags};
use recado_core::words::counted;
use recado_engine::{Clock, SystemClock};
use recado_store_redis::check::{Finding, FindingState, bad};
use recado_terminal::{Paint, Screen, clean_lines};

use crate::{ConfigArgs, Done, FormArgs, ServerArgs, Stop};

#[derive(Debug, Args)]
#[command(
    after_help = "EXAMPLES:\n  recado doctor\n  recado doctor --store redis://127.0.0.1:6379\n  recado doctor --env production --config /etc/recado/recado.toml --url http://10.0.0.5:7400"
)]
pub struct DoctorArgs {
    #[command(flatten)]
    form: FormArgs,
    /// The store to look at, instead of the configured one.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// The server at the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerState {
    Answers,
    Silent,
}

/// A doctor does not wait as long as others.
const PATIENCE: Duration = Duration::from_secs(3);

pub async fn run(args: DoctorArgs, screen: &mut Screen) -> Done {
    let inputs = args.config.inputs(Flags { store: args.store, ..Flags::default() })?;
    let client = args.server.client()?.with_timeout(PATIENCE);
    let health = client.health().await;
    let server = if health.is_ok() { ServerState::Answers } else { ServerState::Silent };

    let mut findings = Vec::new();
    let config = match Config::load(&inputs) {
        Ok(config) => {
            findings.extend(checks::configuration(&config, &inputs));
            Some(config)
        }
        Err(faults) => {
            let found = counted(faults.list.len() as u64, "fault", "faults");
            let fix = format!("mend the lines below; `recado config check` looks again\n\n{faults}");
            findings.push(bad("configuration", found, fix));
            Config::load_as_written(&inputs).ok()
        }
    };
    if let Some(config) = &config {
        findings.extend(match &config.redis {
            Some(options) => redis::look_at(options).await,
            None => checks::data_dir(config, server, SystemClock.now()),
        });
        let late = match server {
            ServerState::Answers => checks::audit_late(&client).await,
            ServerState::Silent => None,
        };
        findings.push(checks::audit_dir(config, late));
        findings.push(checks::port(config, server).await);
    }
    findings.push(checks::clock(SystemClock.now()));
    findings.extend(checks::server(&client, health, &args.server.url).await);

    screen.answer(args.form.get(), &findings, |screen, findings| {
        findings.iter().try_for_each(|finding| show(screen, finding))
    })?;
    match findings.iter().filter(|finding| finding.state == FindingState::Bad).count() {
        0 => Ok(()),
        1 => Err(Stop::failed("one thing needs mending")),
        count => Err(Stop::Failed(format!("{count} things need mending"))),
    }
}

fn show(screen: &mut Screen, finding: &Finding) -> std::io::Result<()> {
    let (mark, paint) = match finding.state {
        FindingState::Good => ("✓", Paint::Good),
        FindingState::Note => ("!", Paint::Warn),
        FindingState::Bad => ("✗", Paint::Bad),
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
