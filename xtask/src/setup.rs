//! Installs what the tests need and the machine lacks; names what it cannot install.

use std::process::{Command, Stdio};

use crate::Outcome;

/// A program that a test runs, and the Debian package that brings it.
const PROGRAMS: [(&str, &str); 2] = [("cc", "gcc"), ("mount", "mount")];

pub fn run() -> Outcome {
    println!("── set-up");
    let missing: Vec<_> = PROGRAMS.iter().filter(|(program, _)| !is_here(program)).collect();
    for (program, package) in &missing {
        println!("{program} is missing");
        install(package).map_err(|why| format!("{why}; install the Debian package `{package}` yourself"))?;
    }
    for component in ["rustfmt", "clippy"] {
        let command = if component == "clippy" { "clippy" } else { "fmt" };
        let works =
            crate::cargo().args([command, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !works.is_ok_and(|status| status.success()) {
            crate::run("rustup", Command::new("rustup").args(["component", "add", component]))?;
        }
    }
    println!("everything the tests need is here");
    Ok(())
}

fn is_here(program: &str) -> bool {
    let found =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

fn install(package: &str) -> Outcome {
    run_apt(&["update"])?;
    run_apt(&["install", "--yes", "--no-install-recommends", package])
}

fn run_apt(args: &[&str]) -> Outcome {
    crate::run(
        &format!("apt-get {}", args.join(" ")),
        Command::new("apt-get").args(args).env("DEBIAN_FRONTEND", "noninteractive"),
    )
}
