//! `recado demo`: everything alive in one terminal, with nothing installed and nothing configured.
//!
//! ```text
//!  people ──HTTP──▶ server: API, engine, store in a scratch directory ──SMTP, HTTP──▶ world of far ends
//!  worker ──leases──▶ │                                                                  ▲
//!                     └── events ──▶ tally ──▶ show                         timetable ───┘
//! ```
//!
//! The server is the one that `recado serve` runs, on a configuration that an operator could have written; companies
//! and workers reach it over its API alone. Everything else is on loopback ports of this process.
//!
//! | file | what |
//! |---|---|
//! | [`timetable`] | what goes wrong and when |
//! | `world` | the providers of `recado-testkit`, with troubles, bad luck and refusals |
//! | `settings` | the configuration, with short waits |
//! | `traffic`, `message` | who sends what |
//! | `people`, `worker` | who calls the API |
//! | `tally`, `show` | what is counted and told |
//! | `scratch` | a directory that is gone afterwards |
//!
//! Absent on purpose: anything that outlives it, and any address beyond this machine.

mod message;
mod people;
mod scratch;
mod settings;
mod show;
mod tally;
pub mod timetable;
mod traffic;
mod worker;
mod world;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use recado_client::wire::events::EventQuery;
use recado_client::{Client, ClientError, StreamItem};
use recado_config::fault::Source;
use recado_config::{Config, Flags, Inputs};
use recado_server::serve::{self, Server, Signals};
use recado_terminal::{Paint, Screen};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use scratch::Scratch;
use show::Show;
use tally::EventTally;
use timetable::{Change, Episode, Timetable, TimetableEntry};
use traffic::Traffic;
use world::World;

/// The first port it tries by default, and how many after it.
const PORT_FIRST: u16 = 7400;
const PORTS_MAX: u16 = 20;

const STATUS_EVERY: Duration = Duration::from_secs(1);

/// Options of the demonstration.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    pub listen: Option<SocketAddr>,
    /// It stops by itself after this.
    pub stop_after: Option<Duration>,
    /// Factor of speed.
    pub speed: u32,
    /// Seed of traffic and random failures.
    pub seed: u64,
}

/// The reason why the demonstration ends early.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error(
        "{0} is not an address of this machine alone; the demo stays on it: give one such as 127.0.0.1:7500"
    )]
    NotLoopback(SocketAddr),
    #[error("{0}")]
    Failed(String),
    /// The reader of the output has left.
    #[error(transparent)]
    Output(#[from] io::Error),
}

impl From<ClientError> for DemoError {
    fn from(error: ClientError) -> Self {
        DemoError::Failed(error.to_string())
    }
}

/// Plays until a signal or its time ends it. Its files are gone however it ends.
pub async fn run(options: &DemoOptions, temporary: &Path, screen: &mut Screen) -> Result<(), DemoError> {
    let cannot =
        |what: &'static str| move |error: io::Error| DemoError::Failed(format!("cannot {what}: {error}"));
    let mut signals = Signals::new().map_err(cannot("listen for signals"))?;
    let listener = listen(options.listen).await?;
    let address = listener.local_addr().map_err(cannot("tell the address"))?;
    if options.listen.is_none() && address.port() != PORT_FIRST {
        screen.line(format_args!("Port {PORT_FIRST} is taken, so this is on {}.\n", address.port()))?;
    }
    let scratch = Scratch::within(temporary).map_err(cannot("make a temporary directory"))?;
    let timetable = Timetable::start(options.speed);
    let world = World::start(timetable, options.seed).map_err(cannot("start the providers"))?;
    let config = configure(&world, &timetable, &scratch, address)?;
    let server = serve::start(&config, listener).await.map_err(DemoError::Failed)?;

    let client = Client::new(&settings::url(address), None)?.with_actor("demo")?;
    let show = Show::open(screen, address, timetable, options.stop_after)?;
    let mut stage = Stage { client, timetable, show, tally: EventTally::default(), tasks: JoinSet::new() };
    let endpoint = people::prepare(&stage.client, &world).await?;
    let traffic = Traffic::new(options.seed, &endpoint);
    stage.tasks.spawn(people::send(stage.client.clone(), timetable, traffic));
    stage.tasks.spawn(worker::work(stage.client.clone(), timetable));
    stage.play(&server, &endpoint, &mut signals, options.stop_after).await?;
    stage.end(server, &mut signals).await
}

/// The address that was asked for, or the first free one.
async fn listen(asked: Option<SocketAddr>) -> Result<TcpListener, DemoError> {
    if let Some(address) = asked {
        if !address.ip().is_loopback() {
            return Err(DemoError::NotLoopback(address));
        }
        return serve::bind(address).await.map_err(DemoError::Failed);
    }
    for port in PORT_FIRST..PORT_FIRST + PORTS_MAX {
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            return Ok(listener);
        }
    }
    serve::bind((Ipv4Addr::LOCALHOST, 0).into()).await.map_err(DemoError::Failed)
}

/// Reads neither files nor variables: it is the same everywhere.
fn configure(
    world: &World,
    timetable: &Timetable,
    scratch: &Scratch,
    address: SocketAddr,
) -> Result<Config, DemoError> {
    let text = settings::text(world, timetable);
    let inputs = Inputs {
        file: Some(Source { name: "the demo's configuration".to_owned(), text, hidden: Vec::new() }),
        flags: Flags {
            listen: Some(address.to_string()),
            data_dir: Some(scratch.path().display().to_string()),
            ..Flags::default()
        },
        ..Inputs::default()
    };
    Config::load(&inputs).map_err(|faults| DemoError::Failed(faults.to_string()))
}

/// A demonstration that runs.
struct Stage<'a> {
    client: Client,
    timetable: Timetable,
    show: Show<'a>,
    tally: EventTally,
    /// Those who work beside the server until it ends.
    tasks: JoinSet<()>,
}

impl Stage<'_> {
    async fn play(
        &mut self,
        server: &Server,
        endpoint: &str,
        signals: &mut Signals,
        stop_after: Option<Duration>,
    ) -> Result<(), DemoError> {
        let mut events = self.client.events(EventQuery::default()).await?;
        let mut changes = timetable::changes();
        let mut next = changes.next();
        let mut status = tokio::time::interval(STATUS_EVERY);
        status.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let enough = tokio::time::sleep(stop_after.unwrap_or(Duration::MAX));
        tokio::pin!(enough);
        while let Some((at, entry, change)) = next {
            tokio::select! {
                () = self.timetable.reached(at) => {
                    self.tell_of(entry, change, endpoint)?;
                    next = changes.next();
                }
                heard = events.next() => self.hear(heard?)?,
                _ = status.tick() => self.show.status(&self.tally.line())?,
                why = server.broken() => return Err(DemoError::Failed(why)),
                () = &mut enough => break,
                _ = signals.next() => break,
            }
        }
        Ok(())
    }

    fn tell_of(&mut self, entry: &TimetableEntry, change: Change, endpoint: &str) -> io::Result<()> {
        if entry.episode == Episode::Repair {
            let (client, endpoint) = (self.client.clone(), endpoint.to_owned());
            self.tasks.spawn(async move {
                // The next cycle repairs what this one could not.
                let _ = people::repair(client, endpoint).await;
            });
        }
        match change {
            Change::Begins => self.show.tell(Paint::Strong, entry.begins),
            Change::Ends => self.show.tell(Paint::Strong, &format!("over: {}", entry.begins)),
        }
    }

    fn hear(&mut self, heard: StreamItem) -> io::Result<()> {
        let StreamItem::Event(event) = heard else { return Ok(()) };
        match self.tally.hear(&event) {
            Some((paint, words)) => self.show.tell(paint, &words),
            None => Ok(()),
        }
    }

    async fn end(mut self, server: Server, signals: &mut Signals) -> Result<(), DemoError> {
        self.tasks.shutdown().await;
        self.show.tell(Paint::Plain, "stopping; what is on its way arrives first")?;
        tokio::select! {
            stopped = server.stop() => stopped.map_err(DemoError::Failed)?,
            _ = signals.next() => {}
        }
        self.show.close(&self.tally).map_err(DemoError::Output)
    }
}

#[cfg(test)]
mod tests {
    use recado_config::catalogue::Kind;

    use super::*;

    #[test]
    fn the_configuration_is_sound_at_every_speed_and_names_this_machine_alone() {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 2525));
        let world = World {
            relay: here,
            evolution: here,
            instagram: here,
            tiktok: here,
            youtube: here,
            openai: here,
            ses: here,
            receiver: here,
        };
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::within(parent.path()).unwrap();
        for speed in [1, 7, 20] {
            let timetable = Timetable::start(speed);
            let config =
                configure(&world, &timetable, &scratch, here).unwrap_or_else(|error| panic!("{error}"));
            let usable = config.usable_route_names();
            let missing: Vec<_> =
                config.route_names().into_iter().filter(|name| !usable.contains(name)).collect();
            assert!(missing.is_empty() || !Kind::Ses.is_built(), "no transport carries {missing:?}");
            let text = settings::text(&world, &timetable);
            let addresses: Vec<_> = text.split("://").skip(1).collect();
            assert!(
                addresses.len() > 7 && addresses.iter().all(|rest| rest.starts_with("127.0.0.1:")),
                "{text}"
            );
        }
    }
}
