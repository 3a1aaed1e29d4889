//! `recado store`: everything from one store into another.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use recado_core::Random;
use recado_engine::{Clock, MOVED_NAMESPACES, SystemClock};
use recado_server::migrate::{Moved, Named, Step, Tally, call_off, move_all};
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore};
use recado_store_redis::RedisStore;
use recado_store_redis::link::{RedisOptions, Target};
use recado_terminal::{Field, Form, Screen};

use crate::{Done, FormArgs, Stop};

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Copy all jobs, dead letters, their trails and what is known of providers and tenants, and check the copy.
    #[command(after_help = "\
EXAMPLES:
  recado store migrate --from ./recado-data --to redis://127.0.0.1:6379
  recado store migrate --from redis://127.0.0.1:6379 --to ./recado-data-new
  recado store migrate --from ./recado-data --to redis://127.0.0.1:6379 --abort
  recado store migrate --from redis://127.0.0.1:6379 --from-prefix recado \\
      --to redis://127.0.0.1:6379 --prefix recado-12 --partitions 12

Let workers report on their leases, then stop every server on both stores: leases do not move. \
A job that was leased is delivered again from the target under the same key, and a report on its old lease is \
refused (409).

Until the move is complete, neither store can be served; then serve the target. The source keeps its data. \
Repeat the command to continue an interrupted move. \
--abort cancels a move that is not complete: serve the source again, and empty the target before you use it again.

The audit trail's files stay where they are: keep the directory, or name it as [audit] dir of the new server. \
Records that are not in them yet move along.")]
    Migrate(MigrateArgs),
}

#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Source: a data directory, or a Redis URL.
    #[arg(long, value_name = "DIR|URL")]
    from: String,
    /// Target: an empty store.
    #[arg(long, value_name = "DIR|URL")]
    to: String,
    /// Prefix of the keys in Redis.
    #[arg(long, default_value = "recado", overrides_with = "prefix")]
    prefix: String,
    /// Prefix of the keys in the Redis store that is moved from, if it is another one.
    #[arg(long, value_name = "PREFIX", overrides_with = "from_prefix")]
    from_prefix: Option<String>,
    /// Partitions of the Redis store that is moved to.
    #[arg(long, default_value_t = 1, overrides_with = "partitions", value_parser = clap::value_parser!(u16).range(1..))]
    partitions: u16,
    /// Longest wait for an answer of Redis.
    #[arg(long, default_value = "2s", value_parser = recado_core::time::parse_duration)]
    timeout: Duration,
    /// Cancel the move between these two, if it is not complete, so that the source can be served again.
    #[arg(long, conflicts_with = "json")]
    abort: bool,
    #[command(flatten)]
    form: FormArgs,
}

pub async fn run(command: StoreCommand, screen: &mut Screen) -> Done {
    let StoreCommand::Migrate(args) = command;
    if args.abort { abort(&args, screen).await } else { migrate(&args, screen).await }
}

/// Needs the source alone: the target may be out of reach, and what it holds of the move is not served anyway.
async fn abort(args: &MigrateArgs, screen: &mut Screen) -> Done {
    let from = open_source(args).await?;
    let to = name(&args.to, &target_options(args))?;
    let called_off = call_off(&from, &to, SystemClock.now()).await;
    called_off.map_err(Stop::failed)?;
    from.store.close().await.map_err(Stop::failed)?;
    let from = &from.name;
    screen.line(format_args!("The move is cancelled. Serve {from} again, and empty {to}."))?;
    Ok(())
}

async fn migrate(args: &MigrateArgs, screen: &mut Screen) -> Done {
    let is_same_prefix = args.from_prefix.as_ref().is_none_or(|prefix| *prefix == args.prefix);
    if args.from == args.to && (is_same_prefix || !is_url(&args.from)) {
        return Err(Stop::usage("--from and --to name the same store"));
    }
    let now = SystemClock.now();
    let from = open_source(args).await?;
    let to = open_target(args).await?;
    let bar = bar(args.form.get());
    let moved = move_all(&from, &to, &MOVED_NAMESPACES, now, |step| show(step, &bar)).await;
    bar.finish_and_clear();
    let moved = moved.map_err(Stop::failed)?;
    for side in [&from, &to] {
        side.store.close().await.map_err(Stop::failed)?;
    }
    Ok(screen.answer(args.form.get(), &moved, |screen, moved| report(screen, moved, &to.name))?)
}

fn is_url(place: &str) -> bool {
    place.contains("://")
}

async fn open_source(args: &MigrateArgs) -> Result<Named, Stop> {
    if !is_url(&args.from) {
        if !PathBuf::from(&args.from).join("recado.db").exists() {
            return Err(Stop::Failed(format!("there is no store in {}; name its data directory", args.from)));
        }
        return open_embedded(&args.from);
    }
    let prefix = args.from_prefix.as_ref().unwrap_or(&args.prefix);
    let mut options = redis_options(&args.from, prefix, args);
    options.partitions = 1;
    let Some(partitions) = found_partitions(&options).await? else {
        return Err(Stop::Failed(format!(
            "there is no store with the prefix {prefix} in {}; name its prefix with --from-prefix, as [store] prefix of \
             its servers has it",
            name(&args.from, &options)?
        )));
    };
    open_redis(&args.from, RedisOptions { partitions, ..options }).await
}

async fn open_target(args: &MigrateArgs) -> Result<Named, Stop> {
    if !is_url(&args.to) {
        return open_embedded(&args.to);
    }
    let options = target_options(args);
    if let Some(partitions) = found_partitions(&options).await?.filter(|found| *found != options.partitions) {
        return Err(Stop::Failed(format!(
            "the store with the prefix {} in {} has {partitions} partitions already; write --partitions {partitions}, \
             or name another prefix with --prefix (and the source's with --from-prefix, if it is in Redis)",
            args.prefix,
            name(&args.to, &RedisOptions { partitions: 1, ..options })?
        )));
    }
    open_redis(&args.to, options).await
}

fn target_options(args: &MigrateArgs) -> RedisOptions {
    RedisOptions { partitions: args.partitions, ..redis_options(&args.to, &args.prefix, args) }
}

fn redis_options(url: &str, prefix: &str, args: &MigrateArgs) -> RedisOptions {
    RedisOptions { prefix: prefix.into(), timeout: args.timeout, ..RedisOptions::new(url) }
}

/// Names a store in marks and messages: a whole path, or what a command needs to find it in Redis, without its
/// password.
fn name(place: &str, options: &RedisOptions) -> Result<String, Stop> {
    if is_url(place) {
        Target::read(place).map_err(Stop::usage)?;
        return Ok(options.name());
    }
    let whole = std::path::absolute(place).map_err(|error| Stop::Usage(format!("{place}: {error}")))?;
    Ok(whole.display().to_string())
}

async fn found_partitions(options: &RedisOptions) -> Result<Option<u16>, Stop> {
    let name = name(&options.url, options)?;
    let found = RedisStore::found_partitions(options, Arc::new(Random::from_entropy())).await;
    found.map_err(|error| Stop::Failed(format!("cannot open {name}: {error}")))
}

fn open_embedded(dir: &str) -> Result<Named, Stop> {
    let name = name(dir, &RedisOptions::new(""))?;
    let opened = EmbeddedStore::open(&EmbeddedOptions::at(dir), Arc::new(Random::from_entropy()));
    let store = opened.map_err(|error| Stop::Failed(format!("cannot open {dir}: {error}")))?;
    Ok(Named { store: Arc::new(store), name })
}

async fn open_redis(url: &str, options: RedisOptions) -> Result<Named, Stop> {
    let name = name(url, &options)?;
    let opened = RedisStore::open(&options, Arc::new(Random::from_entropy())).await;
    let store = opened.map_err(|error| Stop::Failed(format!("cannot open {name}: {error}")))?;
    Ok(Named { store: Arc::new(store), name })
}

fn bar(form: Form) -> ProgressBar {
    if form == Form::Json || !std::io::stderr().is_terminal() {
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

fn report(screen: &mut Screen, moved: &Moved, to: &str) -> std::io::Result<()> {
    let tally = |tally: Tally| Field::from(format_args!("{}, checksum {:032x}", tally.count, tally.checksum));
    let leases_ended = (moved.leases_ended > 0).then(|| {
        let ended = moved.leases_ended;
        format!("{ended}: these jobs may have been sent, and are sent again with the same key")
    });
    screen.pairs([
        ("moved to", Field::from(to)),
        ("jobs", tally(moved.jobs)),
        ("key-value entries", tally(moved.entries)),
        ("audit records", tally(moved.records)),
        ("leases ended", Field::if_any(leases_ended)),
    ])?;
    screen.line("\nBoth sides agree. Serve the new store from now on.")
}
