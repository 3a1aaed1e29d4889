//! The single looks. Each answers with what it found and, when that is not good, with what to do.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use recado_client::{Client, ClientError};
use recado_config::catalogue::Environment;
use recado_config::units::about_size;
use recado_config::{Config, Inputs};
use recado_core::Timestamp;
use recado_core::words::counted;
use recado_server::migrate::{InMove, MOVES, in_move_by};
use recado_server::serve::place;
use recado_store_redis::check::{Finding, bad, good, note};
use recado_wire::alerts::Alert;
use recado_wire::health::{Health, Ready};

use super::ServerState;

/// Time for timing durable writes.
const FSYNC_TIMED: Duration = Duration::from_millis(400);

/// Fewer durable writes a second than this make a slow server.
const FSYNC_RATE_LOW: f64 = 50.0;

/// More durable writes a second than this, one after the other, no disk makes: less than 10 µs each.
const FSYNC_RATE_HIGH: f64 = 100_000.0;

/// Plausible range of the machine's clock.
const YEARS: [&str; 2] = ["2026-01-01T00:00:00Z", "2100-01-01T00:00:00Z"];

/// Clock and file system may disagree by this much.
const SKEW_MAX: Duration = Duration::from_secs(5);

pub fn configuration(config: &Config, inputs: &Inputs) -> Vec<Finding> {
    let file = config.file.as_deref().unwrap_or("no file, built-in defaults");
    let mut findings = vec![good("configuration", format!("{file}, {}", config.environment))];
    for other in Environment::ALL.into_iter().filter(|other| *other != config.environment) {
        if let Err(faults) = Config::check_elsewhere(inputs, other) {
            findings.push(note("configuration elsewhere", format!("faulty in {other}"), faults));
        }
    }
    findings.extend(config.file.as_deref().and_then(readable_by_others));
    let usable = config.usable_route_names();
    findings.push(if usable.is_empty() {
        note("routes", "none takes jobs", "`recado config show` says what each one lacks")
    } else {
        let (count, of, names) = (usable.len(), config.routes.len(), usable.join(", "));
        good("routes", format!("{count} of {of} take jobs: {names}"))
    });
    findings
}

/// A configuration file that other users of the machine may read.
fn readable_by_others(file: &str) -> Option<Finding> {
    let mode = std::fs::metadata(file).ok()?.permissions().mode();
    (mode & 0o004 != 0).then(|| {
        note(
            "configuration file",
            format!("{file} can be read by every user of this machine"),
            format!("it may hold secrets: chmod 600 {file}"),
        )
    })
}

/// The store itself, if `serve` would refuse it: it cannot be read, has an unknown format, or is an end of a move.
pub fn store(name: &str, in_move: Result<Option<InMove>, String>) -> Option<Finding> {
    const UNREADABLE: &str =
        "the server will not start on it: do what the message says, or put a backup in its place";
    const IN_MOVE: &str = "it is one end of a move between stores; the server will not start on it";
    match in_move {
        Ok(in_move) => in_move.map(|in_move| bad("store", IN_MOVE, in_move.refusal(name))),
        Err(error) => Some(bad("store", error, UNREADABLE)),
    }
}

/// The move that keeps the store in this directory from being served.
fn in_move(dir: &Path) -> Result<Option<InMove>, String> {
    let entries = recado_store_embedded::peek_entries(dir, MOVES).map_err(|error| error.to_string())?;
    in_move_by(&entries).map_err(|error| error.to_string())
}

/// The directory, who has it, how much room there is and how fast it is.
pub fn data_dir(config: &Config, server: ServerState, now: Timestamp) -> Vec<Finding> {
    let dir = &config.settings.store.data_dir;
    let shown = dir.display();
    let there = nearest_existing(dir);
    let mut findings = Vec::new();
    if dir.exists() && !dir.is_dir() {
        let fix = "move it away, or choose a directory with --data-dir";
        return vec![bad("data directory", format!("{shown} is not a directory"), fix)];
    }
    let rate = match fsync_rate(&there, now) {
        Ok(measured) => {
            let state = if there == *dir { "can be written" } else { "does not exist yet and can be made" };
            findings.push(good("data directory", format!("{shown} {state}")));
            measured
        }
        Err(error) => {
            let fix =
                format!("{}, or choose another directory with --data-dir: {error}", way_to_write(&error));
            findings.push(bad("data directory", format!("{shown} cannot be written"), fix));
            findings.push(room(&there, config));
            return findings;
        }
    };
    findings.push(match recado_store_embedded::lock_holder(dir) {
        None => good("lock", "no process has locked the data directory"),
        Some(holder) if server == ServerState::Answers => {
            good("lock", format!("process {holder} has locked it, and the server answers"))
        }
        Some(holder) => bad(
            "lock",
            format!("process {holder} has locked the data directory, and no server answers"),
            format!("look at process {holder}; end it before starting another, or give --url if it listens elsewhere"),
        ),
    });
    findings.extend(store(&place(config), in_move(dir)));
    findings.push(room(&there, config));
    findings.push(speed(&rate));
    if rate.skew > SKEW_MAX {
        let found = format!("the file system's clock is {} s away from this machine's", rate.skew.as_secs());
        let fix = "synchronise the clocks of this machine and its file server";
        findings.push(note("file times", found, fix));
    }
    findings
}

/// The alert of the running server that its trail's files fall behind, if it fires.
pub async fn audit_late(client: &Client) -> Option<Alert> {
    // A server that does not answer this is told of in a line of its own.
    client.alerts().await.ok()?.items.into_iter().find(|alert| alert.name == "audit_late")
}

/// The trail's own directory, which may be on another disk, and what the running server says of its files.
pub fn audit_dir(config: &Config, late: Option<Alert>) -> Finding {
    let dir = &config.audit_dir();
    let shown = dir.display();
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
    let there = absolute.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let probe = there.join(probe_name());
    let written = File::create(&probe).and_then(|mut file| file.write_all(&[0; 4096]));
    let _ = std::fs::remove_file(&probe);
    match (written, late) {
        (Ok(()), Some(alert)) => note(
            "audit trail",
            format!("{shown} can be written from here, yet the server has an alert: {}", alert.message),
            format!(
                "its log says why (`Cannot write the audit trail`): make room, or let its user write there; {}",
                alert.runbook
            ),
        ),
        (Ok(()), None) if there == absolute => good("audit trail", format!("{shown} can be written")),
        (Ok(()), None) => good("audit trail", format!("{shown} does not exist yet and can be made")),
        (Err(error), _) => bad(
            "audit trail",
            format!("{shown} cannot be written; records stay in the store until it can"),
            format!("{}, or name another directory in [audit] dir: {error}", way_to_write(&error)),
        ),
    }
}

/// The thing to do about a directory that cannot be written.
fn way_to_write(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space there",
        _ => "let this user write there",
    }
}

pub fn nearest_existing(dir: &Path) -> PathBuf {
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    if dir.is_dir() {
        return dir.to_owned();
    }
    absolute.ancestors().find(|dir| dir.is_dir()).map_or_else(|| PathBuf::from("/"), Path::to_owned)
}

fn room(dir: &Path, config: &Config) -> Finding {
    let Ok(disk) = rustix::fs::statvfs(dir) else {
        return note("disk", "cannot tell how much is free", "look with `df`");
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let reserve = config.reserve_bytes();
    let found = format!("{} free, {} kept back", about_size(free), about_size(reserve));
    if free <= reserve {
        bad("disk", found, "new jobs are refused: free some space, or lower store.reserve")
    } else if free < reserve.saturating_mul(4) {
        note("disk", found, "free some space soon: below the reserve new jobs are refused")
    } else {
        good("disk", found)
    }
}

struct Rate {
    per_second: f64,
    /// Difference between this machine's clock and the file's time.
    skew: Duration,
}

fn speed(rate: &Rate) -> Finding {
    let found = format!("{:.0} durable writes a second, one after the other", rate.per_second);
    if rate.per_second > FSYNC_RATE_HIGH {
        let fix = "no disk is that fast: this one is memory, or it ignores fsync, and a power cut takes jobs that were \
                   acknowledged; name a directory on a real disk with --data-dir";
        note("disk speed", found, fix)
    } else if rate.per_second < FSYNC_RATE_LOW {
        let fix = "jobs that arrive together share a write, yet a faster disk would help";
        note("disk speed", found, fix)
    } else {
        good("disk speed", found)
    }
}

/// A fresh file name.
fn probe_name() -> String {
    format!(".recado-doctor-{}", std::process::id())
}

/// Pages of the probe's file at most, so that it finds room on a disk that is nearly full.
const PAGES_MAX: u32 = 64;

/// Times durable writes with a file of its own.
fn fsync_rate(dir: &Path, now: Timestamp) -> io::Result<Rate> {
    let path = dir.join(probe_name());
    let measured = (|| {
        let file = File::create(&path)?;
        let page = [0u8; 4096];
        let started = Instant::now();
        let mut writes = 0_u32;
        while started.elapsed() < FSYNC_TIMED {
            file.write_all_at(&page, u64::from(writes % PAGES_MAX) * 4_096)?;
            file.sync_data()?;
            writes += 1;
        }
        let per_second = f64::from(writes) / started.elapsed().as_secs_f64();
        let written = file.metadata()?.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let ours = Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or(0)) + started.elapsed();
        Ok(Rate { per_second, skew: written.abs_diff(ours) })
    })();
    let _ = std::fs::remove_file(&path);
    measured
}

pub async fn port(config: &Config, server: ServerState) -> Finding {
    let address = config.settings.server.listen;
    match (tokio::net::TcpListener::bind(address).await, server) {
        (Ok(_), ServerState::Answers) => note(
            "port",
            format!("{address} is free, though a server answers at the URL"),
            "the running server uses another configuration: compare --config and --listen",
        ),
        (Ok(_), ServerState::Silent) => good("port", format!("{address} is free")),
        (Err(_), ServerState::Answers) => {
            good("port", format!("{address} is in use, and the server answers"))
        }
        (Err(error), ServerState::Silent) => bad(
            "port",
            format!("cannot listen on {address}: {error}"),
            "end the program that listens there, or choose another address with --listen",
        ),
    }
}

pub fn clock(now: Timestamp) -> Finding {
    let [first, last] = YEARS.map(|year| year.parse::<Timestamp>().unwrap_or_default());
    if (first..last).contains(&now) {
        return good("clock", now);
    }
    let fix = "set the time, for example with `timedatectl set-ntp true`";
    bad("clock", format!("{now} cannot be right"), fix)
}

pub async fn server(client: &Client, health: Result<Health, ClientError>, url: &str) -> Vec<Finding> {
    let health = match health {
        Ok(health) => health,
        Err(error) => {
            let fix = "start one with `recado serve`, or give its address with --url";
            return vec![note("server", error, fix)];
        }
    };
    let mut findings = vec![good("server", format!("{url} answers, version {}", health.version))];
    findings.push(match client.ready().await {
        Ok(ready) if ready.status == Ready::Ready => {
            let counts = ready.counts.map(|counts| {
                let (waiting, leased) = (counts.delayed + counts.ready, counts.leased);
                let dead_letters = counted(counts.dead_letters, "dead letter", "dead letters");
                format!(": {waiting} waiting, {leased} under way, {dead_letters}")
            });
            good("ready", format!("it takes jobs{}", counts.unwrap_or_default()))
        }
        Ok(ready) if ready.reasons.is_empty() => {
            bad("ready", "it does not say why", "look at the server's log")
        }
        Ok(ready) => bad("ready", ready.reasons.join("; "), "look at the server's log"),
        Err(error) => bad("ready", error, "look at the server's log"),
    });
    if let Err(error) = client.openapi().await {
        let fix = "give the server's token with --token or RECADO_TOKEN";
        findings.push(bad("token", error, fix));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_asks_for_space_and_not_for_permission() {
        let full = io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
        assert_eq!(way_to_write(&full), "free some space there");
        assert_eq!(way_to_write(&io::ErrorKind::PermissionDenied.into()), "let this user write there");
    }
}
