//! Set-up, checks and long tests: `cargo xtask help`.

#![expect(clippy::print_stdout, reason = "a command-line tool speaks on standard output")]

mod ci;
mod instructions;
mod licences;
mod mutants;
mod planted;
mod proof;
mod requirements;
mod rooms;
mod setup;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask COMMAND

  test         the inner loop: format, lints, and the tests of units, the reference and embedded stores, engine
               and API
  ci           everything that must hold before a change lands: set-up, format, lints, tidy, tests
  nightly      what takes longer: the waits of real policies, long kills, chaos, the whole matrix, mutants, fuzzing,
               planted faults, instruction counts
  setup        installs what the tests need and the machine lacks
  tidy         dependency direction, rooms of the engine, licences, file sizes, links, requirements
  kill-loop    kills the server 100 times while it works, and audits what came of every job
               (KILLS=n for another number; the test suite runs a short one)
  chaos        three nodes on one Redis: kills a node each second for a minute, kills Redis, cuts its connections,
               and audits what came of every job (CHAOS=n for n times the short run of the test suite; 10)
  mutants [PART] takes one safeguard at a time out of a copy (an fsync, a fence, a tenant filter …), and expects the
               test that is named for it to fail; PART chooses some by name
  fuzz [TARGET] feeds mutated inputs to all that comes from outside, or to one target, from a new seed; --seconds N for
               each (60), --input FILE repeats one input; the test suite runs a fixed number of them
  sim          runs 1,000 seeds of the simulator (--seeds 0..n for others; see docs/simulator.md)
  planted      puts known faults back, one at a time, and expects the simulator to find each (a part of a name for one)
  matrix       strikes the built program at every write of every operation (MATRIX=n at n of each; the test suite at two)
  soak         bounded traffic for hours (--hours 2), memory and descriptors each minute, and whether they stay flat
  proof [PART…] runs all parts or the ones named (matrix, kills, jobs, chaos, sim, new-seeds, soak), keeps their results
               below docs/proof/runs, and writes docs/proof.md of the results that are there (--page: the page alone;
               --quick: short runs of all parts but new-seeds and soak, ten minutes, results and page below
               target/proof; MATRIX, KILLS, JOBS, CHAOS, SEEDS, NEW_SEEDS and HOURS set lengths)
  instructions counts what the steps of a job's way execute, and compares with bench/instructions.txt (--save writes it)
  help         this text
";

/// A check that failed, in words.
pub type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let command = std::env::args().nth(1).unwrap_or_default();
    let options: Vec<_> = std::env::args().skip(2).collect();
    let outcome = match command.as_str() {
        "test" => ci::inner_loop(),
        "ci" => ci::run(),
        "nightly" => nightly(),
        "setup" => setup::run(),
        "tidy" => tidy::run(),
        "instructions" => instructions::run(),
        "sim" => sim(),
        "planted" => planted::run(),
        "kill-loop" => kill_loop(),
        "chaos" => chaos(),
        "fuzz" => fuzz(),
        "mutants" => mutants::run(std::env::args().nth(2).as_deref()),
        "matrix" => matrix(),
        "soak" => soak(&options),
        "proof" => proof::write(&options),
        "" | "help" | "--help" | "-h" => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        other => {
            println!("there is no command `{other}`\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("\nxtask {command} failed: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the simulator, built as the tests are.
pub fn sim() -> Outcome {
    let given: Vec<String> = std::env::args().skip(2).collect();
    let mut seeds = build_simulator(&root())?;
    match given.is_empty() {
        true => seeds.args(["--seeds", "0..1000", "--all-faults"]),
        false => seeds.args(given),
    };
    run("simulated runs", &mut seeds)
}

/// Builds the simulator of a tree, and returns the command that runs it.
pub fn build_simulator(tree: &Path) -> Result<Command, String> {
    let target = root().join("target");
    let mut build = cargo();
    build.current_dir(tree).env("CARGO_TARGET_DIR", &target);
    // The same selection of crates and features as in the other steps: no dependency is built again.
    build.args(["build", "--quiet", "--workspace", "--all-features", "--bin", "recado-sim"]);
    run("build of the simulator", &mut build)?;
    Ok(Command::new(target.join("debug/recado-sim")))
}

/// Runs what takes too long for every change.
fn nightly() -> Outcome {
    ci::real_waits()?;
    kill_loop()?;
    chaos()?;
    mutants::run(None)?;
    fuzz()?;
    planted::run()?;
    matrix()?;
    instructions::run()
}

/// Fuzzes for as long as the arguments say.
fn fuzz() -> Outcome {
    let mut cargo = cargo();
    cargo.args(["run", "--quiet", "--package", "recado-fuzz", "--"]).args(std::env::args().skip(2));
    run("fuzz", &mut cargo)
}

fn kill_loop() -> Outcome {
    long_test("kill loop", &["kill_loop", "--", "--nocapture"], "RECADO_KILLS", ("KILLS", "100"))
}

fn chaos() -> Outcome {
    // One after another, so that each has the machine to itself.
    let args = ["cluster", "--", "--nocapture", "--test-threads", "1", "chaos::", "redis_faults::"];
    long_test("chaos", &args, "RECADO_CHAOS", ("CHAOS", "10"))
}

fn matrix() -> Outcome {
    long_test("matrix", &["matrix", "--", "--nocapture"], "RECADO_MATRIX", ("MATRIX", "full"))
}

fn soak(options: &[String]) -> Outcome {
    let hours = match options {
        [] => "2",
        [name, hours] if name == "--hours" && hours.parse::<f64>().is_ok() => hours,
        _ => return Err("write `cargo xtask soak --hours 2`".to_owned()),
    };
    let mut cargo = cargo();
    cargo.args([
        "test",
        "--release",
        "--package",
        "recado",
        "--test",
        "matrix",
        "--",
        "--ignored",
        "--nocapture",
        "soak",
    ]);
    cargo.env("RECADO_SOAK_HOURS", hours);
    run("soak", &mut cargo)
}

/// Runs a test of the built program for as long as our variable, or else its default, says.
fn long_test(what: &str, args: &[&str], its_variable: &str, (ours, default): (&str, &str)) -> Outcome {
    let length = std::env::var(ours).unwrap_or_else(|_| default.to_owned());
    let mut cargo = cargo();
    cargo.args(["test", "--release", "--package", "recado", "--test"]).args(args).env(its_variable, length);
    run(what, &mut cargo)
}

/// The workspace's folder: of the checkout that this is run from, wherever it was built.
pub fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = Path::new(&here);
    here.parent().map_or_else(|| here.to_owned(), Path::to_owned)
}

pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// Runs a command in the open; its failure is ours.
pub fn run(what: &str, command: &mut Command) -> Outcome {
    println!("\n── {what}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what}: {status}")),
        Err(error) => Err(format!("{what}: cannot run {:?}: {error}", command.get_program())),
    }
}

/// Runs a command beside another one, and returns its title with what it printed, and its outcome.
pub fn record(what: &str, command: &mut Command) -> (String, Outcome) {
    match command.output() {
        Ok(output) => {
            let [errors, text] = [&output.stderr, &output.stdout].map(|text| String::from_utf8_lossy(text));
            let outcome = output.status.success().then_some(()).ok_or(format!("{what}: {}", output.status));
            (format!("\n── {what}\n{errors}{text}"), outcome)
        }
        Err(error) => {
            (String::new(), Err(format!("{what}: cannot run {:?}: {error}", command.get_program())))
        }
    }
}

/// Returns what a command prints; its failure is ours.
pub fn output(what: &str, command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| format!("cannot run {what}: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        // Some say what failed on standard output: the simulator lists its broken seeds there.
        false => Err(format!(
            "{what}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}
