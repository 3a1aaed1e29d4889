//! `docs/proof.md`: runs the fault tests and makes the page of what they wrote down.
//!
//! Every test adds a line of JSON for each of its rows (`crates/recado/tests/results`). The results of each part are kept
//! in the repository, with the day, the commit and the machine of its run, so that one part can be run again alone.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::{Outcome, cargo, output, requirements, root, run};

/// Rows of the matrix that other tests hold with every change, and what was found, by hand.
const ROWS: &str = "docs/proof/rows.json";
const FOUND: &str = "docs/proof/found.json";

const PAGE: &str = "docs/proof.md";
const RUNS: &str = "docs/proof/runs";
const QUICK_RUNS: &str = "target/proof";

/// When and where each part was run, among the results.
const JOURNAL: &str = "runs.json";

/// A part of the proof, with results in a file of its own.
struct Part {
    name: &'static str,
    /// The variable that sets its length, such as `KILLS=100 cargo xtask proof kills`, and the lengths without it.
    variable: &'static str,
    whole: &'static str,
    quick: &'static str,
}

const PARTS: [Part; 5] = [
    Part { name: "matrix", variable: "MATRIX", whole: "full", quick: "2" },
    Part { name: "kills", variable: "KILLS", whole: "2000", quick: "20" },
    Part { name: "batches", variable: "JOBS", whole: "10000000", quick: "100000" },
    Part { name: "chaos", variable: "CHAOS", whole: "10", quick: "1" },
    Part { name: "sim", variable: "SEEDS", whole: "0..100000", quick: "0..500" },
];

/// Runs parts and writes the page. Names choose parts; `--page` runs none; `--quick` makes short runs, and a page of them
/// below `target`.
pub fn write(options: &[String]) -> Outcome {
    let has = |option: &str| options.iter().any(|given| given == option);
    let (quick, page_alone) = (has("--quick"), has("--page"));
    let is_known = |given: &&String| {
        ["--quick", "--page"].contains(&given.as_str()) || PARTS.iter().any(|part| part.name == **given)
    };
    if let Some(other) = options.iter().find(|given| !is_known(given)) {
        let names = PARTS.map(|part| part.name).join(", ");
        return Err(format!(
            "`{other}` is no part of the proof; write some of {names}, or --quick or --page"
        ));
    }
    let dir = root().join(if quick { QUICK_RUNS } else { RUNS });
    std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let all = PARTS.iter().all(|part| !has(part.name));
    for part in PARTS.iter().filter(|part| !page_alone && (all || has(part.name))) {
        part.run(&dir, quick)?;
    }
    let page = page(&dir, quick)?;
    let path = if quick { dir.join("proof.md") } else { root().join(PAGE) };
    std::fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("\nwrote {}", path.display());
    Ok(())
}

impl Part {
    fn run(&self, dir: &Path, quick: bool) -> Outcome {
        let usual = if quick { self.quick } else { self.whole };
        let length = std::env::var(self.variable).unwrap_or_else(|_| usual.to_owned());
        let (target, filters, variable): (_, &[&str], _) = match self.name {
            "matrix" => ("matrix", &[], "RECADO_MATRIX"),
            "kills" => ("kill_loop", &["nothing_acknowledged_is_lost"], "RECADO_KILLS"),
            "batches" => ("kill_loop", &["every_job_of_many_batches"], "RECADO_JOBS"),
            "chaos" => ("cluster", &["chaos::", "redis_faults::", "--test-threads", "1"], "RECADO_CHAOS"),
            _ => {
                let arguments =
                    ["run", "--release", "--package", "recado-sim", "--", "--json", "--seeds", &length];
                let said = output("the simulator", cargo().args(arguments))?;
                let file = dir.join("sim.json");
                std::fs::write(&file, said).map_err(|error| format!("{}: {error}", file.display()))?;
                return note_run(dir, self.name, &format!("`{}={length}`", self.variable));
            }
        };
        let file = dir.join(format!("{}.jsonl", self.name));
        // Lines of an earlier run would be counted twice.
        let _ = std::fs::remove_file(&file);
        // A quick run uses what `ci` builds; nothing is built again for it.
        let build: &[&str] =
            if quick { &["--workspace", "--all-features"] } else { &["--release", "--package", "recado"] };
        let mut cargo = cargo();
        cargo.arg("test").args(build).args(["--test", target, "--"]).args(filters);
        cargo.env(variable, &length).env("RECADO_RESULTS", &file);
        run(self.name, &mut cargo)?;
        note_run(dir, self.name, &format!("`{}={length}`", self.variable))
    }
}

/// The file that the soak's result goes to.
pub fn soak_result() -> PathBuf {
    root().join(RUNS).join("soak.json")
}

/// Notes that the soak was run for so many hours.
pub fn note_soak(hours: &str) -> Outcome {
    note_run(&root().join(RUNS), "soak", &format!("{hours} h"))
}

/// Notes that a part was run just now.
fn note_run(dir: &Path, part: &str, length: &str) -> Outcome {
    let path = dir.join(JOURNAL);
    let mut journal = journal(dir)?;
    let says = |program: &str, arguments: &[&str]| -> Result<String, String> {
        let said = output(program, Command::new(program).current_dir(root()).args(arguments))?;
        Ok(String::from_utf8_lossy(&said).trim().to_owned())
    };
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processor = processor.map_or("unknown processor", |(_, name)| name);
    let (cores, system) = (says("nproc", &[])?, says("uname", &["-sr"])?);
    let disk = says("stat", &["-f", "-c", "%T", "target"])?;
    let noted = json!({
        "date": says("date", &["-u", "+%Y-%m-%d"])?,
        "commit": says("git", &["rev-parse", "--short", "HEAD"])?,
        "machine": format!("{cores} × {processor}, {system}, {disk}"),
        "length": length,
    });
    journal.insert(part.to_owned(), noted);
    std::fs::write(&path, format!("{:#}\n", Value::from(journal)))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn journal(dir: &Path) -> Result<Map<String, Value>, String> {
    let path = dir.join(JOURNAL);
    let Ok(text) = std::fs::read_to_string(&path) else { return Ok(Map::new()) };
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn shown_journal(dir: &Path) -> Result<String, String> {
    let mut text = "| part | length | date | commit | machine |\n|---|---|---|---|---|\n".to_owned();
    for (part, noted) in journal(dir)? {
        let [length, date, commit, machine] =
            ["length", "date", "commit", "machine"].map(|name| word(&noted, name));
        let _ = writeln!(text, "| {part} | {length} | {date} | {commit} | {machine} |");
    }
    Ok(text)
}

fn page(dir: &Path, quick: bool) -> Result<String, String> {
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
         Each part can be run alone (`{command} kills`), and keeps the day and the commit of its last run:\n\n\
         {}",
        shown_journal(dir)?
    );
    let mut rows = Vec::new();
    for part in &PARTS {
        rows.extend(lines(&dir.join(format!("{}.jsonl", part.name)))?);
    }
    page.push_str(&sum(&rows));
    page.push_str(&matrix(&rows));
    page.push_str(&other_rows()?);
    page.push_str(&part("## Simulator", &dir.join("sim.json"), "cargo xtask proof sim")?);
    page.push_str(&broken_promises(&dir.join("sim.json"))?);
    page.push_str(&part("## Soak", &dir.join("soak.json"), "cargo xtask soak --hours 2")?);
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

fn lines(path: &Path) -> Result<Vec<Value>, String> {
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
fn part(title: &str, path: &Path, command: &str) -> Result<String, String> {
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
fn broken_promises(path: &Path) -> Result<String, String> {
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
