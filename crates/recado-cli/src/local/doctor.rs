//! `recado doctor`: looks at everything a server needs, and says how to fix what is wrong.

pub mod chaos;
mod checks;
mod redis;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use recado_config::{Config, Flags};
use recado_core::words::counted;
use recado_engine::{Clock, SystemClock};
use recado_store_redis::check::{Finding, FindingState, bad};
use recado_terminal::{Paint, Screen, clean_lines};

use crate::{ConfigArgs, Done, FormArgs, ServerArgs, Stop, given};

#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  recado doctor
  recado doctor --store redis://127.0.0.1:6379
  recado doctor --env production --config /etc/recado/recado.toml --url http://10.0.0.5:7400
  recado doctor --chaos --kills 50 --data-dir /var/lib/recado
                                   does this disk keep what was acknowledged? about a minute

--chaos starts a server of its own on a loopback port, in a new directory on the disk of the data directory, \
and kills it again and again (kill -9) while callers enqueue. \
It counts what was acknowledged, lost and delivered twice, times fsync and says when that is too fast to be true. \
It needs 1 GiB of free space. Existing data is not touched. \
It removes its directory, unless a check fails: then it says where the files are. \
It does not test Redis.

The exit code is 1 when anything is marked ✗.")]
#[command(mut_arg("url", |url| url.help("Address of the server [default: where the configuration lets it listen]")))]
#[command(mut_arg("token", |token| token.help("The server's token [default: the configuration's]")))]
pub struct DoctorArgs {
    #[command(flatten)]
    form: FormArgs,
    /// The store to look at, instead of the configured one.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The data directory to look at, instead of the configured one.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Kill a server of its own on this disk again and again, and account for every job.
    #[arg(long)]
    chaos: bool,
    /// Kills of --chaos.
    #[arg(long, value_name = "N", default_value_t = 20, requires = "chaos", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    kills: u32,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    server: ServerArgs,
}

impl DoctorArgs {
    /// The server to ask: the one at --url, or the one that this configuration starts.
    fn server(&self, config: Option<&Config>) -> ServerArgs {
        let mut server = self.server.clone();
        if let Some(config) = config.filter(|_| given(server.url.as_deref()).is_none()) {
            let written = &config.settings.server;
            server.url = Some(format!("http://{}", reachable(written.listen)));
            if given(server.token.as_deref()).is_none() {
                server.token = written.token.as_ref().map(|token| token.reveal().to_owned());
            }
        }
        server
    }
}

/// Returns the address at which a server that listens there can be asked from this machine.
fn reachable(mut listen: SocketAddr) -> SocketAddr {
    match listen.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => listen.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => listen.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    listen
}

/// The server at the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerState {
    Answers,
    Silent,
}

/// Timeout of the doctor's requests, shorter than that of other commands.
const PATIENCE: Duration = Duration::from_secs(3);

pub async fn run(args: DoctorArgs, screen: &mut Screen) -> Done {
    if args.chaos {
        let disk = chaos_disk(&args)?;
        return chaos::run(&disk, args.kills, args.form.get(), screen).await;
    }
    let flags = Flags { store: args.store.clone(), data_dir: args.data_dir.clone(), ..Flags::default() };
    let inputs = args.config.inputs(flags)?;
    let mut findings = Vec::new();
    let config = match Config::load(&inputs) {
        Ok(config) => {
            findings.extend(checks::configuration(&config, &inputs));
            Some(config)
        }
        Err(faults) => {
            let found = counted(faults.list.len() as u64, "fault", "faults");
            let fix = format!("fix the lines below; `recado config check` looks again\n\n{faults}");
            findings.push(bad("configuration", found, fix));
            Config::load_as_written(&inputs).ok()
        }
    };
    let asked = args.server(config.as_ref());
    let client = asked.client()?.with_timeout(PATIENCE);
    let health = client.health().await;
    let server = if health.is_ok() { ServerState::Answers } else { ServerState::Silent };
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
    findings.extend(checks::server(&client, health, asked.url()).await);

    screen.answer(args.form.get(), &findings, |screen, findings| {
        findings.iter().try_for_each(|finding| show(screen, finding))
    })?;
    match findings.iter().filter(|finding| finding.state == FindingState::Bad).count() {
        0 => Ok(()),
        1 => Err(Stop::failed("1 problem found")),
        count => Err(Stop::Failed(format!("{count} problems found"))),
    }
}

/// The disk that --chaos tests. It tests no Redis: one that holds jobs is not there to be killed.
fn chaos_disk(args: &DoctorArgs) -> Result<chaos::Disk, Stop> {
    const NOT_REDIS: &str = "--chaos kills servers on a disk and does not test Redis. `recado doctor --store URL` says \
                             whether a Redis keeps what it is given; to test a disk, name a directory with --data-dir";
    if args.store.is_some() {
        return Err(Stop::usage(NOT_REDIS));
    }
    if let Some(data_dir) = &args.data_dir {
        return chaos::Disk::named(Path::new(data_dir));
    }
    let config = Config::load_as_written(&args.config.inputs(Flags::default())?)?;
    match config.redis {
        Some(_) => Err(Stop::usage(NOT_REDIS)),
        None => chaos::Disk::of(&config.settings.store.data_dir),
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
