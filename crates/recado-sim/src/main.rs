//! Runs seeds of the simulator, and shows what they found.

#![expect(clippy::print_stdout, reason = "a command-line tool speaks on standard output")]

use std::ops::Range;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use recado_sim::checker::check;
use recado_sim::plan::{Mode, Plan};
use recado_sim::shrink::{Kept, shrink};
use recado_sim::summary::Summary;
use recado_sim::world;

/// Lines of a trace that are shown before a violation.
const TRACE_LINES: usize = 40;

/// Failing seeds that are made smaller; the rest is counted.
const SHRUNK_MAX: usize = 3;

/// Violations of one seed that are shown.
const VIOLATIONS_SHOWN: usize = 3;

const EXAMPLES: &str = "\
Examples:
  cargo run -p recado-sim -- --seeds 0..1000            a thousand runs, on all cores
  cargo run -p recado-sim -- --seed 17 --trace          one run, with all that happened
  cargo run -p recado-sim -- --seeds 0..1000 --json     figures for programs";

/// Runs the production engine in virtual time, with faults, and checks what it promises.
#[derive(Debug, Parser)]
#[command(name = "recado-sim", after_help = EXAMPLES)]
struct Arguments {
    /// One seed.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// A range of seeds without its end, such as 0..1000.
    #[arg(long, value_parser = read_range, default_value = "0..100")]
    seeds: Range<u64>,
    /// Keeps only the faults at these places of the seed's plan, or `none`.
    #[arg(long, requires = "seed", value_parser = read_places)]
    faults: Option<Places>,
    /// Keeps only the operations at these places, or `none`.
    #[arg(long, requires = "seed", value_parser = read_places)]
    operations: Option<Places>,
    /// Prints everything that happened.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Prints the figures as JSON.
    #[arg(long)]
    json: bool,
    /// Fails unless every kind of fault fired.
    #[arg(long)]
    all_faults: bool,
    /// Stops at the first seed that fails.
    #[arg(long)]
    first: bool,
}

/// Places in a list.
#[derive(Clone, Debug)]
struct Places(Vec<usize>);

fn read_range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("`{text}` is not a range; write for example 0..1000");
    let (first, last) = text.split_once("..").ok_or_else(wrong)?;
    Ok(first.parse().map_err(|_| wrong())?..last.parse().map_err(|_| wrong())?)
}

fn read_places(text: &str) -> Result<Places, String> {
    if text == "none" {
        return Ok(Places(Vec::new()));
    }
    let place =
        |place: &str| place.parse().map_err(|_| format!("`{place}` is not a place; write 0,3,7 or none"));
    text.split(',').map(place).collect::<Result<_, _>>().map(Places)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let summary = match arguments.seed {
        Some(seed) => run_one(seed, &arguments),
        None => run_many(&arguments),
    };
    let unfired = if arguments.all_faults { summary.unfired() } else { Vec::new() };
    match arguments.json {
        true => println!("{:#}", summary.to_json()),
        false => show(&summary),
    }
    if !unfired.is_empty() {
        println!("These faults never fired: {}. Draw more seeds.", unfired.join(", "));
    }
    match summary.violations.is_empty() && unfired.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn run_one(seed: u64, arguments: &Arguments) -> Summary {
    let mut plan = Plan::from_seed(seed);
    let places = |places: &Option<Places>| places.as_ref().map(|places| places.0.clone());
    plan.keep(places(&arguments.operations).as_deref(), places(&arguments.faults).as_deref());
    if arguments.trace {
        println!("{} nodes, {:?}, calls take up to {} ms", plan.nodes, plan.mode, plan.latency_ms);
        plan.faults.iter().for_each(|fault| println!("{:>7} fault     {:?}", fault.at_ms, fault.what));
        plan.operations.iter().for_each(|one| println!("{:>7} operation {:?}", one.at_ms, one.what));
    }
    let entries = world::run(&plan);
    if arguments.trace {
        entries.iter().for_each(|entry| println!("{:>7} {:?}", entry.at, entry.event));
    }
    let mut summary = Summary::default();
    summary.add(seed, &entries, check(&entries, plan.mode == Mode::Liveness));
    summary
}

/// Runs all seeds on all cores.
fn run_many(arguments: &Arguments) -> Summary {
    let next = AtomicU64::new(arguments.seeds.start);
    let total = Mutex::new(Summary::default());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= arguments.seeds.end {
                        return;
                    }
                    let plan = Plan::from_seed(seed);
                    let entries = world::run(&plan);
                    let mut summary = Summary::default();
                    summary.add(seed, &entries, check(&entries, plan.mode == Mode::Liveness));
                    if !arguments.json && !summary.violations.is_empty() {
                        show_violations(&summary);
                    }
                    if arguments.first && !summary.violations.is_empty() {
                        next.store(arguments.seeds.end, Ordering::Relaxed);
                    }
                    let Ok(mut total) = total.lock() else { return };
                    total.merge(summary);
                    if !arguments.json && total.seeds.is_multiple_of(100) {
                        println!("{} seeds, {} failed", total.seeds, total.violations.len());
                    }
                }
            });
        }
    });
    total.into_inner().unwrap_or_default()
}

fn show(summary: &Summary) {
    let Summary { seeds, acknowledged, calls, delivered, dead_letters, .. } = summary;
    println!("{seeds} seeds, {} s of virtual time", summary.virtual_ms / 1_000);
    println!(
        "{acknowledged} jobs acknowledged, {calls} requests, {delivered} delivered, {dead_letters} dead letters"
    );
    let list = |counts: &std::collections::BTreeMap<&str, u64>| {
        counts.iter().map(|(what, count)| format!("{what} {count}")).collect::<Vec<_>>().join(", ")
    };
    println!("faults: {}", list(&summary.faults));
    println!("delivered again: {}", list(&summary.duplicates));
    println!("{} seeds failed", summary.violations.len());
    show_violations(summary);
    if *seeds == 1 {
        return;
    }
    for (seed, violations) in summary.violations.iter().take(SHRUNK_MAX) {
        show_smallest(*seed, violations[0].invariant);
    }
}

fn show_violations(summary: &Summary) {
    for (seed, violations) in &summary.violations {
        for violation in violations.iter().take(VIOLATIONS_SHOWN) {
            println!("  seed {seed} at {} ms: {}: {}", violation.at, violation.invariant, violation.words);
        }
    }
}

/// Prints the smallest plan of a failing seed, the end of its trace and the command that repeats it.
fn show_smallest(seed: u64, invariant: &str) {
    let kept: Kept = shrink(seed, invariant);
    let plan = kept.plan(seed);
    let entries = world::run(&plan);
    let verdict = check(&entries, plan.mode == Mode::Liveness);
    let Some(violation) = verdict.violations.iter().find(|one| one.invariant == invariant) else { return };
    println!("\nseed {seed}: {}: {}", violation.invariant, violation.words);
    plan.faults.iter().for_each(|fault| println!("  {:>7} fault     {:?}", fault.at_ms, fault.what));
    let before: Vec<_> = entries.iter().filter(|entry| entry.at <= violation.at).collect();
    for entry in before.iter().skip(before.len().saturating_sub(TRACE_LINES)) {
        println!("  {:>7} {:?}", entry.at, entry.event);
    }
    println!("  {}", kept.command(seed));
}
