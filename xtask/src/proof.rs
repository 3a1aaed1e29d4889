//! `docs/proof.md`: runs the fault tests and makes the page of what they wrote down.
//!
//! Every test adds a line of JSON for each of its rows (`crates/recado/tests/results`). The results of the latest runs
//! are in the repository, below `docs/proof/runs`, each part with its own date, commit, machine and length beside it: a part that
//! takes hours need not be run again for another one, nor on a new machine.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::{Outcome, cargo, output, requirements, root, run};

/// Rows of the matrix that other tests hold with every change, and what was found, by hand.
const ROWS: &str = "docs/proof/rows.json";
const FOUND: &str = "docs/proof/found.json";

/// Results of the latest runs, whole or shorter.
const RUNS: &str = "docs/proof/runs";

const PAGE: &str = "docs/proof.md";

/// A part of the proof, with a file of results of its own.
struct Part {
    name: &'static str,
    file: &'static str,
    how: How,
    /// The variable that sets another length: `KILLS=100 cargo xtask proof kills`.
    variable: &'static str,
    whole: &'static str,
    /// The length with `--quick`; absent where a short run says nothing.
    quick: Option<&'static str>,
}

/// The way to run a part.
enum How {
    /// A test target of the built program, the variable of its length, and arguments.
    Test(&'static str, &'static str, &'static [&'static str]),
    Simulator,
}

const PARTS: [Part; 7] = [
    Part {
        name: "matrix",
        file: "matrix.jsonl",
        how: How::Test("matrix", "RECADO_MATRIX", &[]),
        variable: "MATRIX",
        whole: "full",
        quick: Some("2"),
    },
    Part {
        name: "kills",
        file: "kill_loop.jsonl",
        how: How::Test("kill_loop", "RECADO_KILLS", &["nothing_acknowledged_is_lost"]),
        variable: "KILLS",
        whole: "2000",
        quick: Some("20"),
    },
    Part {
        name: "jobs",
        file: "jobs.jsonl",
        how: How::Test("kill_loop", "RECADO_JOBS", &["every_job_of_many_batches"]),
        variable: "JOBS",
        whole: "10000000",
        quick: Some("100000"),
    },
    Part {
        name: "chaos",
        file: "cluster.jsonl",
        how: How::Test("cluster", "RECADO_CHAOS", &["chaos::", "redis_faults::", "--test-threads", "1"]),
        variable: "CHAOS",
        whole: "10",
        quick: Some("1"),
    },
    Part {
        name: "sim",
        file: SIMULATOR,
        how: How::Simulator,
        variable: "SEEDS",
        whole: "0..100000",
        quick: Some("0..500"),
    },
    Part {
        name: "new-seeds",
        file: NEW_SEEDS,
        how: How::Simulator,
        variable: "NEW_SEEDS",
        whole: "100000..200000",
        quick: None,
    },
    Part {
        name: "soak",
        file: SOAK,
        how: How::Test("matrix", "RECADO_SOAK_HOURS", &["--ignored", "--nocapture", "soak"]),
        variable: "HOURS",
        whole: "2",
        quick: None,
    },
];

const SIMULATOR: &str = "sim.json";
const NEW_SEEDS: &str = "new_seeds.json";
const SOAK: &str = "soak.json";

/// Runs the parts that are named, or all, and writes the page; with `--quick` a short run of each, and the page below
/// `target/proof`; with `--page` the page alone, of the results that are there.
pub fn write(options: &[String]) -> Outcome {
    let (flags, names): (Vec<_>, Vec<_>) = options.iter().partition(|option| option.starts_with("--"));
    let (quick, page_alone) = match (flags.as_slice(), names.is_empty()) {
        ([], _) => (false, false),
        ([flag], _) if *flag == "--quick" => (true, false),
        ([flag], true) if *flag == "--page" => (false, true),
        _ => return Err("write `cargo xtask proof`, with parts or --quick, or with --page".to_owned()),
    };
    if let Some(name) = names.iter().find(|name| PARTS.iter().all(|part| part.name != ***name)) {
        let known: Vec<_> = PARTS.iter().map(|part| part.name).collect();
        return Err(format!("there is no part `{name}`; write {}", known.join(", ")));
    }
    let dir = if quick { root().join("target/proof/quick") } else { root().join(RUNS) };
    std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let is_wanted = |part: &&Part| names.is_empty() || names.iter().any(|name| *name == part.name);
    for part in PARTS.iter().filter(is_wanted).filter(|_| !page_alone) {
        let usual = if quick { part.quick } else { Some(part.whole) };
        let Some(usual) = usual else { continue };
        let length = std::env::var(part.variable).unwrap_or_else(|_| usual.to_owned());
        // What `ci` builds is not built again for a quick run.
        let build = if quick {
            ["--workspace", "--all-features"].as_slice()
        } else {
            &["--release", "--package", "recado"]
        };
        run_part(part, &dir, &length, build)?;
    }
    let page = page(&dir, quick)?;
    let path = if quick { dir.join("proof.md") } else { root().join(PAGE) };
    std::fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("\nwrote {}", path.display());
    Ok(())
}

/// Runs a part, and puts its results in the place of earlier ones. A test that fails leaves those as they are; of the
/// simulator, broken promises are results, too.
fn run_part(part: &Part, dir: &Path, length: &str, build: &[&str]) -> Outcome {
    let about = about(&format!("{}={length}", part.variable))?;
    let results = root().join("target/proof").join(part.file);
    // Lines of an earlier run would be counted twice.
    let _ = std::fs::remove_file(&results);
    match part.how {
        How::Test(target, variable, arguments) => {
            let mut cargo = cargo();
            cargo.arg("test").args(build).args(["--test", target, "--"]).args(arguments);
            cargo.env(variable, length).env("RECADO_RESULTS", &results);
            let made = std::fs::create_dir_all(root().join("target/proof"));
            made.map_err(|error| format!("target/proof: {error}"))?;
            run(part.name, &mut cargo)?;
            let text = std::fs::read(&results).map_err(|error| format!("{}: {error}", results.display()))?;
            keep(&dir.join(part.file), &text)?;
        }
        How::Simulator => {
            let arguments =
                ["run", "--release", "--package", "recado-sim", "--", "--json", "--seeds", length];
            println!("\n── {}", part.name);
            let said = cargo().args(arguments).output().map_err(|error| format!("the simulator: {error}"))?;
            if serde_json::from_slice::<Value>(&said.stdout).is_err() {
                return Err(format!(
                    "the simulator: {}\n{}",
                    said.status,
                    String::from_utf8_lossy(&said.stderr)
                ));
            }
            keep(&dir.join(part.file), &said.stdout)?;
        }
    }
    keep(&about_path(dir, part), format!("{about:#}\n").as_bytes())
}

/// Checks that the page shows the kept results and lists.
pub fn check(faults: &mut Vec<String>) {
    match page(&root().join(RUNS), false) {
        Ok(wanted) if std::fs::read_to_string(root().join(PAGE)).is_ok_and(|page| page == wanted) => {}
        Ok(_) => faults.push(format!("{PAGE} is out of date; run `cargo xtask proof --page`")),
        Err(why) => faults.push(why),
    }
}

fn keep(path: &Path, text: &[u8]) -> Outcome {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Date, commit, machine and length of a part's run.
fn about_path(dir: &Path, part: &Part) -> PathBuf {
    dir.join(format!("{}.run.json", part.name))
}

fn page(dir: &Path, quick: bool) -> Result<String, String> {
    let command = if quick { "cargo xtask proof --quick" } else { "cargo xtask proof" };
    let mut page = format!(
        "# Proof\n\n\
         Faults are injected while Recado works: kills at its writes, power cuts, missing resources, hostile peers, \
         network cuts. A ledger outside of it keeps what callers were told and what the providers received. After each \
         fault and a restart, nothing acknowledged may be lost, nothing refused may be sent, a duplicate needs a cause \
         from the [closed list](guarantees.md#when-a-delivery-may-happen-twice), a dead letter a reason, and the \
         audit trail must verify. Each row asserts that its fault fired.\n\n\
         This page is written by `{command}` from what the runs wrote down. `cargo xtask proof --quick` makes a short run of \
         each part but `new-seeds` and `soak` on your machine, in about ten minutes, and `recado doctor --chaos` kills a \
         server on your own disk.\n\n"
    );
    page.push_str(&parts(dir)?);
    let mut rows = Vec::new();
    for part in PARTS.iter().filter(|part| part.file.ends_with(".jsonl")) {
        rows.extend(lines(&dir.join(part.file))?);
    }
    page.push_str(&sum(&rows));
    page.push_str(&matrix(&rows));
    page.push_str(&other_rows()?);
    for (title, file, command) in [
        ("## Simulator", SIMULATOR, "cargo xtask proof sim"),
        ("## Simulator, seeds from 100,000 on", NEW_SEEDS, "cargo xtask proof new-seeds"),
    ] {
        page.push_str(&figures(title, &dir.join(file), command)?);
        page.push_str(&broken_promises(&dir.join(file))?);
    }
    page.push_str(&figures("## Soak", &dir.join(SOAK), "cargo xtask proof soak")?);
    page.push_str(&found()?);
    page.push_str(LIMITS);
    Ok(page)
}

/// The runs that this page is made of.
fn parts(dir: &Path) -> Result<String, String> {
    let mut text = "## The runs\n\nEach part runs by itself (`cargo xtask proof PART`), and stands here as it ran last.\n\n\
                    | part | date | commit | length | machine |\n|---|---|---|---|---|\n"
        .to_owned();
    for part in &PARTS {
        let path = about_path(dir, part);
        let about = match std::fs::read_to_string(&path) {
            Ok(about) => {
                serde_json::from_str(&about).map_err(|error| format!("{}: {error}", path.display()))?
            }
            Err(_) => Value::Null,
        };
        let [date, commit, length, machine] =
            ["date", "commit", "length", "machine"].map(|name| word(&about, name));
        let _ = match about.is_null() {
            true => writeln!(text, "| {} | not run | | | |", part.name),
            false => writeln!(text, "| {} | {date} | {commit} | `{length}` | {machine} |", part.name),
        };
    }
    Ok(text)
}

const LIMITS: &str = "## What this does not show

- A power cut is a model: bytes that were forced stay, and of the rest any sectors and any first part of the names may
  be there. A disk that lies about fsync is outside of it; `recado doctor --chaos` says when its times cannot be true.
- Kills strike between calls on files and within writes, not within the kernel.
- One machine runs it all: several nodes are several processes.
";

fn about(length: &str) -> Result<Value, String> {
    let says = |program: &str, arguments: &[&str]| -> Result<String, String> {
        let said = output(program, Command::new(program).current_dir(root()).args(arguments))?;
        Ok(String::from_utf8_lossy(&said).trim().to_owned())
    };
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processor = processor.map_or("unknown processor", |(_, name)| name);
    let (cores, system) = (says("nproc", &[])?, says("uname", &["-sr"])?);
    let disk = says("stat", &["-f", "-c", "%T", "."])?;
    Ok(json!({
        "date": says("date", &["-u", "+%Y-%m-%d"])?,
        "commit": says("git", &["rev-parse", "--short", "HEAD"])?,
        "length": length,
        "machine": format!("{cores} × {processor}, {system}, {disk}"),
    }))
}

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
        "\n## In sum\n\n| rows | runs | faults fired | acknowledged | lost | lost by Redis | duplicates |\n\
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
    let mut text = "## The matrix\n\n| fault | operation | runs | fired | acknowledged | lost | duplicates | seed | test |\n\
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
fn figures(title: &str, path: &Path, command: &str) -> Result<String, String> {
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
    let mut text =
        "Seeds of this run that broke a promise, of the product or only of the checker; those that are fixed \
         since stand below:\n\n| seed | promise |\n|---|---|\n"
            .to_owned();
    for (seed, promise) in by_seed {
        let _ = writeln!(text, "| {seed} | {promise} |");
    }
    Ok(text + "\n")
}

fn found() -> Result<String, String> {
    let mut text =
        "## What it found, and when it was fixed\n\n| found | by | fixed | test |\n|---|---|---|---|\n"
            .to_owned();
    for row in list(FOUND)? {
        let [found, by, fixed, test] = ["found", "by", "fixed", "test"].map(|name| word(&row, name));
        let _ = writeln!(text, "| {found} | {by} | {fixed} | `{test}` |");
    }
    Ok(text + "\n")
}
