//! Guards the speed of the steps of a job's way by the instructions that they execute, which noise does not disturb.
//!
//! `bench/instructions.txt` has the count of each step. A step that executes more than [`TOLERANCE`] more or fewer fails
//! the check: a slower one is to be fixed, a faster one to be written down with `cargo xtask instructions --save`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::{Outcome, setup};

const COUNTS: &str = "bench/instructions.txt";
const STEPS: [&str; 5] = ["enqueue", "claim", "settle", "http", "webhook"];
/// Repetitions of a step in the two runs whose difference counts.
const FEW: usize = 500;
const MANY: usize = 2_500;
const ROUNDS: usize = 3;
/// Part of a count that it may differ by.
const TOLERANCE: f64 = 0.05;

pub fn run() -> Outcome {
    setup::require("valgrind", "valgrind")?;
    let program = build()?;
    let mut counted = BTreeMap::new();
    for step in STEPS {
        let (few, many) = (least_count(&program, step, FEW)?, least_count(&program, step, MANY)?);
        counted.insert(step.to_owned(), many.saturating_sub(few) / (MANY - FEW) as u64);
    }
    let path = crate::root().join(COUNTS);
    if std::env::args().any(|arg| arg == "--save") {
        let lines: String = counted.iter().map(|(step, count)| format!("{step} {count}\n")).collect();
        return std::fs::write(&path, lines).map_err(|error| format!("cannot write {COUNTS}: {error}"));
    }
    let saved = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {COUNTS}: {error}"))?;
    let saved: BTreeMap<_, u64> = saved
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(step, count)| Some((step, count.parse().ok()?)))
        .collect();
    let mut differing = Vec::new();
    for (step, count) in &counted {
        let before = saved.get(&**step).copied().unwrap_or_default();
        let ratio = *count as f64 / before as f64;
        println!("{step:10} {count:>9} instructions, {before:>9} written down: {ratio:.3}");
        if !(1.0 - TOLERANCE..=1.0 + TOLERANCE).contains(&ratio) {
            differing.push(step.as_str());
        }
    }
    match differing.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{} differ from {COUNTS} by more than {TOLERANCE}; find out why, then `cargo xtask instructions --save`",
            differing.join(", ")
        )),
    }
}

fn build() -> Result<PathBuf, String> {
    let mut build = crate::cargo();
    build.args(["build", "--release", "--package", "recado-bench", "--example", "instructions"]);
    crate::run("steps of a job's way", &mut build)?;
    Ok(crate::root().join("target/release/examples/instructions"))
}

/// The least of some counts: on a busy machine an answer may come in pieces, and each costs another look.
fn least_count(program: &PathBuf, step: &str, times: usize) -> Result<u64, String> {
    let counts = (0..ROUNDS).map(|_| count(program, step, times)).collect::<Result<Vec<_>, _>>()?;
    Ok(counts.into_iter().min().unwrap_or_default())
}

/// Instructions that the program executes while it does a step so many times.
fn count(program: &PathBuf, step: &str, times: usize) -> Result<u64, String> {
    let mut counted = Command::new("valgrind");
    counted.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    let output = counted
        .args([step, &times.to_string()])
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let total = told.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    total.filter(|_| output.status.success()).ok_or_else(|| format!("callgrind failed at {step}:\n{told}"))
}
