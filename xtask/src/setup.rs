//! Installs what the tests need and the machine lacks; names what it cannot install.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;

/// A program that a test runs, and the Debian package that brings it.
const PROGRAMS: [(&str, &str); 11] = [
    ("cc", "gcc"),
    ("mount", "mount"),
    ("smtpd", "opensmtpd"),
    ("python3", "python3"),
    ("redis-server", "redis-server"),
    ("valkey-server", "valkey-server"),
    ("chromium", "chromium"),
    ("chromedriver", "chromium-driver"),
    ("promtool", "prometheus"),
    ("node", "nodejs"),
    ("npm", "npm"),
];

/// Python programs that tests talk to, each pinned, in a virtual environment below `target`.
const PEERS: [(&str, &str); 3] = [
    ("moto_server", "moto[server]==5.2.5"),
    ("schemathesis", "schemathesis==4.32.5"),
    ("openapi-python-client", "openapi-python-client==0.29.1"),
];

/// The package that generates a TypeScript client, pinned by its lock file. It is installed below `target`.
const NPM_PACKAGE: &str = "crates/recado/tests/systems/described/typescript";

pub fn run() -> Outcome {
    println!("── set-up");
    for (program, package) in PROGRAMS {
        require(program, package)?;
    }
    peers()?;
    npm_package()?;
    for (component, command) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        let works =
            crate::cargo().args([command, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !works.is_ok_and(|status| status.success()) {
            crate::run("rustup", Command::new("rustup").args(["component", "add", component]))?;
        }
    }
    println!("everything the tests need is here");
    Ok(())
}

/// Installs a program unless the machine has it.
pub fn require(program: &str, package: &str) -> Outcome {
    if is_here(program) {
        return Ok(());
    }
    println!("{program} is missing");
    install(package).map_err(|why| format!("{why}; install the Debian package `{package}` yourself"))
}

fn peers() -> Outcome {
    let environment = crate::root().join("target/peers/venv");
    let missing: Vec<_> =
        PEERS.iter().filter(|(program, _)| !environment.join("bin").join(program).exists()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !environment.join("bin/pip").exists() {
        let make =
            || crate::run("python3 -m venv", Command::new("python3").args(["-m", "venv"]).arg(&environment));
        // Debian splits off what `venv` needs.
        make().or_else(|_| install("python3-venv").and_then(|()| make()))?;
    }
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]);
    crate::run("pip install", pip.args(missing.iter().map(|(_, requirement)| *requirement)))
}

/// Installs the npm package anew whenever its lock file has changed.
fn npm_package() -> Outcome {
    let (from, to) = (crate::root().join(NPM_PACKAGE), crate::root().join("target/peers/typescript"));
    let read = |path: std::path::PathBuf| std::fs::read(path).unwrap_or_default();
    let installed = to.join("node_modules/installed-lock.json");
    let wanted = read(from.join("package-lock.json"));
    if read(installed.clone()) == wanted {
        return Ok(());
    }
    let copy = |name: &str| std::fs::copy(from.join(name), to.join(name));
    std::fs::create_dir_all(&to)
        .and_then(|()| copy("package.json"))
        .and_then(|_| copy("package-lock.json"))
        .map_err(|error| format!("cannot write to {}: {error}", to.display()))?;
    let mut npm = Command::new("npm");
    crate::run(
        "npm ci",
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]).arg(&to),
    )?;
    std::fs::write(&installed, wanted)
        .map_err(|error| format!("cannot write {}: {error}", installed.display()))
}

fn is_here(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("PATH=$PATH:/usr/sbin command -v {program}")])
        .stdout(Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
}

fn install(package: &str) -> Outcome {
    run_apt(&["update"])?;
    let install = ["install", "--yes", "--no-install-recommends", package];
    run_apt(&install).or_else(|why| match backports()? {
        Some(sources) => {
            run_apt(&[&sources, "update"])?;
            run_apt(&[[&*sources].as_slice(), &install].concat())
        }
        None => Err(why),
    })
}

/// Sources of what came after an older Debian: the machine's own mirror and its backports, as an option for
/// `apt-get`. The machine's sources stay as they are.
fn backports() -> Result<Option<String>, String> {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let Some(name) = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")) else {
        return Ok(None);
    };
    let targets =
        Command::new("apt-get").args(["indextargets", "--format", "$(REPO_URI) $(CODENAME)"]).output();
    let targets = targets.map_err(|error| format!("cannot run apt-get: {error}"))?.stdout;
    let targets = String::from_utf8_lossy(&targets).into_owned();
    let mirror = targets.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix(' '));
    let Some(mirror) = mirror else { return Ok(None) };
    let dir = crate::root().join("target/peers");
    let list = dir.join("backports.list");
    let lines = format!("deb {mirror} {name} main\ndeb {mirror} {name}-backports main\n");
    std::fs::create_dir_all(&dir)
        .and_then(|()| std::fs::write(&list, lines))
        .map_err(|error| format!("cannot write {}: {error}", list.display()))?;
    Ok(Some(format!("-oDir::Etc::SourceList={}", list.display())))
}

/// Longest wait of one command for another package manager.
const LOCK_WAIT: Duration = Duration::from_secs(600);

/// Pause between two tries while another package manager is at work.
const LOCK_LOOK_EVERY: Duration = Duration::from_secs(5);

fn run_apt(args: &[&str]) -> Outcome {
    let what = format!("apt-get {}", args.join(" "));
    println!("\n── {what}");
    let began = Instant::now();
    loop {
        let left = LOCK_WAIT.saturating_sub(began.elapsed());
        let mut command = Command::new("apt-get");
        // apt-get waits for dpkg's lock itself and says so; it does not wait for that of its lists.
        command.arg(format!("-oDPkg::Lock::Timeout={}", left.as_secs())).args(args);
        let command =
            command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C").stdout(Stdio::inherit());
        let ended = command.output().map_err(|error| format!("{what}: cannot run apt-get: {error}"))?;
        if ended.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&ended.stderr);
        if !is_locked(&words) || began.elapsed() >= LOCK_WAIT {
            return Err(format!("{what}: {}\n{}", ended.status, words.trim_end()));
        }
        println!(
            "another package manager is at work; trying again every {} s, for at most {} s more",
            LOCK_LOOK_EVERY.as_secs(),
            left.as_secs()
        );
        std::thread::sleep(LOCK_LOOK_EVERY);
    }
}

/// Tells the failure of `apt-get` that passes when another package manager has ended.
fn is_locked(words: &str) -> bool {
    ["Could not get lock", "Unable to lock", "Unable to acquire the dpkg frontend lock"]
        .iter()
        .any(|said| words.contains(said))
}

#[cfg(test)]
mod tests {
    use super::is_locked;

    #[test]
    fn a_lock_of_another_package_manager_is_waited_for_and_no_other_failure() {
        let lists = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)\n\
                     E: Unable to lock directory /var/lib/apt/lists/";
        let dpkg = "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?";
        assert!(is_locked(lists) && is_locked(dpkg));
        assert!(!is_locked("E: Unable to locate package redis-servr"));
    }
}
