//! `docs/proof.md`: runs the fault tests and makes the page of what they wrote down.
//!
//! Every test adds a line of JSON for each of its rows (`crates/recado/tests/results`). The files stay below
//! `target/proof`, so that a part that takes hours need not be run again for the page.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::{Outcome, cargo, output, requirements, root, run};

/// Rows of the matrix that other tests hold with every change, and what was found, by hand.
const ROWS: &str = "docs/proof/rows.json";
const FOUND: &str = "docs/proof/found.json";

const PAGE: &str = "docs/proof.md";

/// Date, commit and machine of a run, among its results.
const MACHINE: &str = "machine.md";

/// The length of each part, unless the variable of its name says another: `KILLS=100 cargo xtask proof --quick`.
struct Lengths {
    matrix: &'static str,
    kills: &'static str,
    jobs: &'static str,
    chaos: &'static str,
    seeds: &'static str,
}

const WHOLE: Lengths =
    Lengths { matrix: "full", kills: "2000", jobs: "10000000", chaos: "10", seeds: "0..100000" };
const QUICK: Lengths = Lengths { matrix: "2", kills: "20", jobs: "100000", chaos: "1", seeds: "0..500" };

/// Runs every part and writes the page; with `--quick` a short run of each, and the page below `target/proof`; with
/// `--page` the page alone, of the results that are there.
pub fn write(options: &[String]) -> Outcome {
    let (quick, page_alone) = match options {
        [] => (false, false),
        [option] if option == "--quick" => (true, false),
        [option] if option == "--page" => (false, true),
        _ => return Err("write `cargo xtask proof`, with --quick or --page".to_owned()),
    };
    let dir = results(if quick { "quick" } else { "whole" })?;
    if !page_alone {
        match quick {
            // What `ci` builds; nothing is built again for it.
            true => parts(&dir, &QUICK, &["--workspace", "--all-features"])?,
            false => parts(&dir, &WHOLE, &["--release", "--package", "recado"])?,
        }
    }
    let page = page(&dir, quick)?;
    let path = if quick { dir.join("proof.md") } else { root().join(PAGE) };
    std::fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("\nwrote {}", path.display());
    Ok(())
}

/// The directory of results.
pub fn results(name: &str) -> Result<PathBuf, String> {
    let dir = root().join("target/proof").join(name);
    std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    Ok(dir)
}

fn parts(dir: &std::path::Path, lengths: &Lengths, build: &[&str]) -> Outcome {
    let length = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.to_owned());
    let matrix = length("MATRIX", lengths.matrix);
    let kills = length("KILLS", lengths.kills);
    let jobs = length("JOBS", lengths.jobs);
    let chaos = length("CHAOS", lengths.chaos);
    let seeds = length("SEEDS", lengths.seeds);
    // The page may be written later, of another commit.
    let file = dir.join(MACHINE);
    let about = format!(
        "{}| length | `MATRIX={matrix}` strikes a row, `KILLS={kills}` at random, `JOBS={jobs}` in batches, `CHAOS={chaos}`, `SEEDS={seeds}` |\n",
        machine()?
    );
    std::fs::write(&file, about).map_err(|error| format!("{}: {error}", file.display()))?;
    let tests = [
        ("matrix", &[][..], "RECADO_MATRIX", &matrix),
        ("kill_loop", &[], "RECADO_KILLS", &kills),
        ("cluster", &["chaos::", "redis_faults::", "--test-threads", "1"], "RECADO_CHAOS", &chaos),
    ];
    for (target, arguments, variable, length) in tests {
        let file = dir.join(format!("{target}.jsonl"));
        // Lines of an earlier run would be counted twice.
        let _ = std::fs::remove_file(&file);
        let mut cargo = cargo();
        cargo.arg("test").args(build).args(["--test", target, "--"]).args(arguments);
        cargo.env(variable, length).env("RECADO_JOBS", &jobs).env("RECADO_RESULTS", &file);
        run(target, &mut cargo)?;
    }
    if root().join("crates/recado-sim").exists() {
        let arguments = ["run", "--release", "--package", "recado-sim", "--", "--json", "--seeds", &seeds];
        let said = output("the simulator", cargo().args(arguments))?;
        let file = dir.join("sim.json");
        std::fs::write(&file, said).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

fn page(dir: &std::path::Path, quick: bool) -> Result<String, String> {
    let command = if quick { "cargo xtask proof --quick" } else { "cargo xtask proof" };
    let mut page = format!(
        "# Proof\n\n\
         Recado is struck while it works: killed at its writes, robbed of its power, starved, lied to, cut off. A ledger \
         outside of it keeps what callers were told and what the providers received. After each fault and a restart, \
         nothing acknowledged may be lost, nothing refused may be sent, a duplicate needs a cause from the \
         [closed list](guarantees.md#when-a-delivery-may-happen-twice), a dead letter a reason, and the audit trail must \
         verify. Each row asserts that its fault struck.\n\n\
         This page is written by `{command}` from what the runs wrote down. `cargo xtask proof --quick` does the same in \
         about ten minutes on your machine, and `recado doctor --chaos` kills a server on your own disk.\n\n\
         {}\n",
        std::fs::read_to_string(dir.join(MACHINE)).unwrap_or_default()
    );
    let mut rows = Vec::new();
    for target in ["matrix", "kill_loop", "cluster"] {
        rows.extend(lines(&dir.join(format!("{target}.jsonl")))?);
    }
    page.push_str(&sum(&rows));
    page.push_str(&matrix(&rows));
    page.push_str(&other_rows()?);
    page.push_str(&part("## Simulator", &dir.join("sim.json"), "cargo xtask proof")?);
    page.push_str(&broken_promises(&dir.join("sim.json"))?);
    page.push_str(&part("## Soak", &results("soak")?.join("soak.json"), "cargo xtask soak --hours 2")?);
    page.push_str(&found()?);
    page.push_str(LIMITS);
    Ok(page)
}

const LIMITS: &str = "## What this does not show

- A power cut is a model: bytes that were forced stay, and of the rest any sectors and any first part of the names may
  be there. A disk that lies about fsync is outside of it; `recado doctor --chaos` says when its times cannot be true.
- Kills strike between calls on files and within writes, not within the kernel.
- One machine runs it all: several nodes are several processes.
";

fn machine() -> Result<String, String> {
    let says = |program: &str, arguments: &[&str]| -> Result<String, String> {
        let said = output(program, Command::new(program).current_dir(root()).args(arguments))?;
        Ok(String::from_utf8_lossy(&said).trim().to_owned())
    };
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processor = processor.map_or("unknown processor", |(_, name)| name);
    Ok(format!(
        "| | |\n|---|---|\n| date | {} |\n| commit | {} |\n| machine | {} × {processor}, {}, {} |\n",
        says("date", &["-u", "+%Y-%m-%d"])?,
        says("git", &["rev-parse", "--short", "HEAD"])?,
        says("nproc", &[])?,
        says("uname", &["-sr"])?,
        says("stat", &["-f", "-c", "%T", "target"])?,
    ))
}

fn lines(path: &std::path::Path) -> Result<Vec<Value>, String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let read = |line| serde_json::from_str(line).map_err(|error| format!("{}: {error}", path.display()));
    text.lines().map(read).collect()
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or(0)
}

fn word<'r>(row: &'r Value, name: &str) -> &'r str {
    row[name].as_str().unwrap_or_default()
}

/// Duplicates of rows by their causes, in words.
fn causes<'r>(rows: impl IntoIterator<Item = &'r Value>) -> String {
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for (cause, count) in rows.into_iter().filter_map(|row| row["duplicates"].as_object()).flatten() {
        *causes.entry(cause).or_default() += count.as_u64().unwrap_or(0);
    }
    let words: Vec<_> = causes.iter().map(|(cause, count)| format!("{count} ({cause})")).collect();
    if words.is_empty() { "0".to_owned() } else { words.join(", ") }
}

fn sum(rows: &[Value]) -> String {
    if rows.is_empty() {
        return "\n## In sum\n\nNot run: `cargo xtask proof`.\n\n".to_owned();
    }
    let all = |name| rows.iter().map(|row| number(row, name)).sum::<u64>();
    format!(
        "\n## In sum\n\n| rows | runs | faults that struck | acknowledged | lost | lost by Redis | duplicates |\n\
         |---|---|---|---|---|---|---|\n| {} | {} | {} | {} | **{}** | {} | {} |\n\n\
         A Redis that does not force each write to disk loses its last ones in a crash, and each answer of Recado says so \
         (`durability`). The rows that take them away assert that nothing older was lost.\n\n",
        rows.len(),
        all("runs"),
        all("fired"),
        all("acknowledged"),
        all("lost"),
        all("lostByRedis"),
        causes(rows)
    )
}

fn matrix(rows: &[Value]) -> String {
    let mut text = "## The matrix\n\n| fault | operation | runs | struck | acknowledged | lost | duplicates | seed | test |\n\
                    |---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    let mut rows: Vec<_> = rows.iter().collect();
    rows.sort_by_key(|row| (word(row, "fault"), word(row, "operation")));
    for row in rows {
        let [fault, operation, test] = ["fault", "operation", "test"].map(|name| word(row, name));
        let [runs, fired, acknowledged, lost, by_redis, seed] =
            ["runs", "fired", "acknowledged", "lost", "lostByRedis", "seed"].map(|name| number(row, name));
        let lost = if by_redis > 0 { format!("{lost} ({by_redis} by Redis)") } else { lost.to_string() };
        let duplicates = causes([row]);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| {fault} | {operation} | {runs} | {fired} | {acknowledged} | {lost} | {duplicates} | {seed} | `{test}` |"
        );
    }
    text + "\n"
}

/// A list of a file that is kept by hand.
fn list(path: &str) -> Result<Vec<Value>, String> {
    let text = std::fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))
}

fn other_rows() -> Result<String, String> {
    let mut text =
        "## Rows of other tests\n\nThey run with every change (`cargo xtask ci`), and count nothing.\n\n\
                    | fault | operation | test |\n|---|---|---|\n"
            .to_owned();
    for row in list(ROWS)? {
        let [fault, operation, test] = ["fault", "operation", "test"].map(|name| word(&row, name));
        if let Some(why) = requirements::missing(test) {
            return Err(format!("{ROWS} names {test}: {why}"));
        }
        let (path, name) = test.rsplit_once("::").unwrap_or(("", test));
        let _ = writeln!(text, "| {fault} | {operation} | [`{name}`](../{path}) |");
    }
    Ok(text + "\n")
}

/// A part whose result is one object: its numbers and words, or that it was not run.
fn part(title: &str, path: &std::path::Path, command: &str) -> Result<String, String> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return Ok(format!("{title}\n\nNot run: `{command}`.\n\n"));
    };
    let result: Value =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut text = format!("{title}\n\n`{command}`\n\n| | |\n|---|---|\n");
    for (name, value) in result.as_object().into_iter().flatten() {
        let value = match value {
            Value::String(words) => words.clone(),
            Value::Array(items) => items.len().to_string(),
            Value::Object(counts) => {
                counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
            }
            other => other.to_string(),
        };
        let _ = writeln!(text, "| {name} | {value} |");
    }
    Ok(text + "\n")
}

/// The seeds of the simulator's run that broke a promise, each with the first one.
fn broken_promises(path: &std::path::Path) -> Result<String, String> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(String::new()) };
    let result: Value =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut by_seed = BTreeMap::new();
    for violation in result["violations"].as_array().into_iter().flatten() {
        by_seed.entry(number(violation, "seed")).or_insert_with(|| word(violation, "invariant"));
    }
    if by_seed.is_empty() {
        return Ok(String::new());
    }
    let mut text = "Seeds of this run that broke a promise, of the product or only of the checker; those that are mended \
                    since stand below:\n\n| seed | promise |\n|---|---|\n"
        .to_owned();
    for (seed, promise) in by_seed {
        let _ = writeln!(text, "| {seed} | {promise} |");
    }
    Ok(text + "\n")
}

fn found() -> Result<String, String> {
    let mut text =
        "## What it found, and when it was mended\n\n| found | by | mended | test |\n|---|---|---|---|\n"
            .to_owned();
    for row in list(FOUND)? {
        let [found, by, mended, test] = ["found", "by", "mended", "test"].map(|name| word(&row, name));
        let _ = writeln!(text, "| {found} | {by} | {mended} | `{test}` |");
    }
    Ok(text + "\n")
}
