//! `recado store`: everything from one store into another.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use recado_core::Timestamp;
use recado_engine::{Clock, SHELVES, SystemClock, nodes};
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore};
use recado_store_redis::RedisStore;
use recado_store_redis::link::{RedisOptions, Target};

use super::{Done, Stop};
use crate::migrate::{Moved, Named, Step, move_all};
use crate::screen::{Field, Screen};

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Copy all jobs, dead letters, their trails and what is known of providers and tenants, and check the copy.
    #[command(after_help = "\
EXAMPLES:
  recado store migrate --from ./recado-data --to redis://127.0.0.1:6379
  recado store migrate --from redis://127.0.0.1:6379 --to ./recado-data-new

Stop every server on both stores before. The source keeps what it has and is marked as moved, so that nobody serves
it by mistake. A move that was cut off goes on when it is asked for again.

The audit trail's files stay where they are: keep the directory, or name it as [audit] dir of the new server. Records
that are not in them yet move along.")]
    Migrate(MigrateArgs),
}

#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Where everything is: a data directory, or a Redis URL.
    #[arg(long, value_name = "DIR|URL")]
    from: String,
    /// Where everything goes: an empty store.
    #[arg(long, value_name = "DIR|URL")]
    to: String,
    /// What keys begin with in Redis.
    #[arg(long, default_value = "recado")]
    prefix: String,
    /// Partitions of the Redis store.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    partitions: u16,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub async fn run(command: StoreCommand, screen: &mut Screen) -> Done {
    let StoreCommand::Migrate(args) = command;
    migrate(&args, screen).await
}

async fn migrate(args: &MigrateArgs, screen: &mut Screen) -> Done {
    if args.from == args.to {
        return Err(Stop::Usage("--from and --to name the same store".to_owned()));
    }
    if !is_url(&args.from) && !PathBuf::from(&args.from).join("recado.db").exists() {
        return Err(Stop::Failed(format!("there is no store in {}; name its data directory", args.from)));
    }
    let now = SystemClock.now();
    let from = open(&args.from, args).await?;
    let to = open(&args.to, args).await?;
    for side in [&from, &to] {
        nobody_runs_on(side, now).await?;
    }
    let bar = bar(args.json);
    let moved = move_all(&from, &to, &SHELVES, now, |step| show(step, &bar)).await;
    bar.finish_and_clear();
    let moved = moved.map_err(|error| Stop::Failed(error.to_string()))?;
    for side in [&from, &to] {
        side.store.close().await.map_err(|error| Stop::Failed(error.to_string()))?;
    }
    if args.json {
        screen.json(&moved)?
    } else {
        report(&moved, &to.name, screen)?
    }
    Ok(())
}

fn is_url(place: &str) -> bool {
    place.contains("://")
}

async fn open(place: &str, args: &MigrateArgs) -> Result<Named, Stop> {
    let failed = |error: String| Stop::Failed(format!("cannot open {place}: {error}"));
    if !is_url(place) {
        let store =
            EmbeddedStore::open(&EmbeddedOptions::at(place)).map_err(|error| failed(error.to_string()))?;
        return Ok(Named { store: Arc::new(store), name: place.to_owned() });
    }
    // The target's words leave the password out, and so must ours.
    let name = Target::read(place).map_err(|error| Stop::Usage(error.to_string()))?.to_string();
    let mut options = RedisOptions::new(place);
    options.prefix = args.prefix.as_str().into();
    options.partitions = args.partitions;
    let opened = RedisStore::open(&options).await;
    let store = opened.map_err(|error| Stop::Failed(format!("cannot open {name}: {error}")))?;
    Ok(Named { store: Arc::new(store), name })
}

/// A store whose nodes still run would change under the move.
async fn nobody_runs_on(side: &Named, now: Timestamp) -> Done {
    let found = side.store.notes(nodes::SHELF, now).await;
    let found = found.map_err(|error| Stop::Failed(format!("cannot read {}: {error}", side.name)))?;
    let running: Vec<&str> = found.iter().map(|note| &*note.key).collect();
    if running.is_empty() {
        return Ok(());
    }
    Err(Stop::Failed(format!(
        "{} is in use by {}; stop these servers, wait a minute if one was killed, and ask again",
        side.name,
        running.join(", ")
    )))
}

fn bar(quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len}, {eta} to go");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn show(step: Step, bar: &ProgressBar) {
    let (words, done, of) = match step {
        Step::Copied { done, of } => ("copying", done, of),
        Step::Checked { done, of } => ("checking", done, of),
    };
    bar.set_message(words);
    bar.set_length(of);
    bar.set_position(done);
}

fn report(moved: &Moved, to: &str, screen: &mut Screen) -> std::io::Result<()> {
    let tally = |tally: crate::migrate::Tally| format!("{}, checksum {:032x}", tally.count, tally.checksum);
    let mut facts = vec![
        ("moved to", Field::from(to)),
        ("jobs", Field::from(tally(moved.jobs))),
        ("notes", Field::from(tally(moved.notes))),
        ("audit records", Field::from(tally(moved.records))),
    ];
    if moved.leases_ended > 0 {
        let words = format!(
            "{}: these jobs may have been sent, and are sent again with the same key",
            moved.leases_ended
        );
        facts.push(("leases ended", Field::from(words)));
    }
    screen.pairs(facts)?;
    screen.line("\nBoth sides agree. Serve the new store from now on.")
}
