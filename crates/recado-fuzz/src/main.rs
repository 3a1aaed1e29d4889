//! `cargo xtask fuzz [TARGET] [--seconds N] [--input FILE]`: see `cargo xtask help`.

#![expect(clippy::print_stdout, reason = "a command-line tool speaks on standard output")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use recado_core::Random;
use recado_fuzz::{TARGETS, Target, run};

/// Seconds for each target when none are given.
const SECONDS_DEFAULT: u64 = 60;

fn main() -> ExitCode {
    match fuzz(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn fuzz(arguments: &[String]) -> Result<(), String> {
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)
    };
    let known = || TARGETS.map(|target| target.name).join(", ");
    let chosen = match arguments.first().filter(|first| !first.starts_with("--")) {
        None => TARGETS.iter().collect(),
        Some(name) => vec![
            Target::named(name).ok_or_else(|| format!("there is no target `{name}`; known: {}", known()))?,
        ],
    };
    if let (Some(file), [target]) = (option("--input"), &chosen[..]) {
        (target.check)(&std::fs::read(file).map_err(|error| format!("{file}: {error}"))?);
        println!("{}: {file} breaks nothing", target.name);
        return Ok(());
    }
    let seconds = option("--seconds").map_or(Ok(SECONDS_DEFAULT), |text| text.parse());
    let seconds = seconds.map_err(|_| "--seconds takes a whole number")?;
    for target in chosen {
        let seed = Random::from_entropy().next_u64();
        let end = Instant::now() + Duration::from_secs(seconds);
        println!("{}: {seconds} s from seed {seed}", target.name);
        let count = run(target, seed, |_| Instant::now() < end).map_err(|broken| {
            let (name, file) = (target.name, broken.kept_as.display());
            format!("{name} is broken: {}\nTo repeat it: cargo xtask fuzz {name} --input {file}", broken.why)
        })?;
        println!("{}: {count} inputs, nothing broken", target.name);
    }
    Ok(())
}
