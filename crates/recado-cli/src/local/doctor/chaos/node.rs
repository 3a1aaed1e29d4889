//! The server that `recado doctor --chaos` kills: this program, in a directory of its own.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use recado_audit::{Evidence, Finding, Query, verify, walk};
use recado_client::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::Done;
use crate::local::serve::{self, ServeArgs};

/// The hidden command of the server, which ends with the doctor.
pub const COMMAND: &str = "doctor-node";

/// The server is ready within this, or has failed.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A request to the server takes longer only when it stands still.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The server ends within this when it is told to, or stands still.
const STOPPED_WITHIN: Duration = Duration::from_secs(60);

/// The server's data directory, in its directory.
const DATA: &str = "data";

/// Standard error of all servers, beside it.
const MESSAGES: &str = "server-messages.txt";

#[derive(Debug, Args)]
pub struct NodeArgs {
    #[command(flatten)]
    serve: ServeArgs,
}

/// Serves until the doctor kills it or ends.
pub fn run(args: NodeArgs) -> Done {
    // The doctor never writes to this pipe. The kernel closes it when the doctor ends, however it ends.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::abort();
    });
    serve::run(args.serve)
}

/// A running server. It is killed when dropped.
pub struct Node {
    dir: PathBuf,
    child: Child,
    address: String,
}

impl Node {
    /// Starts the server in this directory, once more.
    pub async fn start(dir: &Path, life: u32) -> Result<Self, String> {
        let mut command = program(dir)?;
        command.args([COMMAND, "--config", "recado.toml", "--data-dir", DATA, "--listen", "127.0.0.1:0"]);
        let messages = File::options().create(true).append(true).open(dir.join(MESSAGES));
        let messages = messages.map_err(|error| format!("cannot write {MESSAGES}: {error}"))?;
        command.env("LIFE", life.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(messages);
        let mut child = command.spawn().map_err(|error| format!("cannot start a server: {error}"))?;
        let (tell, told) = oneshot::channel();
        let stdout = child.stdout.take();
        // Its log is read to the end, or the server would wait for a reader.
        std::thread::spawn(move || {
            let mut tell = Some(tell);
            for line in
                stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines().map_while(Result::ok))
            {
                if let Some(address) = ready_at(&line)
                    && let Some(tell) = tell.take()
                {
                    let _ = tell.send(address);
                }
            }
        });
        let mut node = Node { dir: dir.to_owned(), child, address: String::new() };
        match tokio::time::timeout(READY_WITHIN, told).await {
            Ok(Ok(address)) => node.address = address,
            Ok(Err(_)) => return Err(format!("the server did not start after kill {life}")),
            Err(_) => return Err(format!("the server was not ready within {} s", READY_WITHIN.as_secs())),
        }
        Ok(node)
    }

    pub fn client(&self) -> Result<Client, String> {
        let client = Client::new(&self.address, None).map_err(|error| error.to_string())?;
        Ok(client.with_timeout(ANSWER_WITHIN))
    }

    /// Stops it the usual way, which brings its audit trail up to date.
    pub async fn stop(mut self) -> Result<StoppedNode, String> {
        let failed = |why: &dyn std::fmt::Display| format!("cannot stop the server: {why}");
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| failed(&"it has no id"))?;
        kill_process(pid, Signal::TERM).map_err(|error| failed(&error))?;
        let asked = Instant::now();
        while asked.elapsed() < STOPPED_WITHIN {
            match self.child.try_wait().map_err(|error| failed(&error))? {
                Some(status) if status.success() => {
                    return Ok(StoppedNode { trail: self.dir.join(DATA).join("audit") });
                }
                Some(status) => return Err(failed(&status)),
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        Err(failed(&format_args!("it still runs after {} s", STOPPED_WITHIN.as_secs())))
    }

    pub fn kill(&mut self) -> Result<(), String> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(|error| format!("cannot kill the server: {error}"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// This program in the directory, without the caller's variables: they may name another store.
fn program(dir: &Path) -> Result<Command, String> {
    let itself = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(itself);
    command.current_dir(dir).env_clear();
    Ok(command)
}

pub fn write_config(dir: &Path, sink: SocketAddr) -> Result<(), String> {
    let config = format!(
        "[providers.sink]\ntransport = \"http\"\nurl = \"http://{sink}/\"\nheaders = {{ X-Life = \"${{LIFE}}\" }}\n\
         concurrency = 32\n\
         [routes.sink]\nprovider = \"sink\"\n\
         policy = {{ base = \"50ms\", factor = 2, cap = \"500ms\", jitter = \"±25%\", max_attempts = 50 }}\n\
         [engine]\npoison_after = 100\n"
    );
    let file = dir.join("recado.toml");
    std::fs::write(&file, config).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// A server that was stopped the usual way. Only its audit trail can be verified: a kill may leave the end of a trail
/// without its signature or its head, which the next start puts right.
pub struct StoppedNode {
    trail: PathBuf,
}

pub struct AuditTrailCheck {
    pub records: u64,
    pub faults: Vec<String>,
}

impl StoppedNode {
    /// Verifies the trail, and that it has a record of each of these jobs.
    pub fn check_audit_trail(&self, jobs: &BTreeSet<&str>) -> AuditTrailCheck {
        let mut missing = jobs.clone();
        let walked = walk(&self.trail, &Query::default(), |record| {
            missing.remove(&*record.event().claim_id);
            ControlFlow::Continue(())
        });
        let verified = verify(&self.trail, &Evidence::default());
        let with_file = |finding: &Finding| match finding.segment {
            Some(month) => format!("{}: {finding}", self.trail.join(format!("{month}.jsonl")).display()),
            None => format!("{}: {finding}", self.trail.display()),
        };
        let (records, mut faults) = match verified {
            Ok(report) => (report.records, report.findings.iter().map(with_file).collect()),
            Err(error) => (0, vec![error.to_string()]),
        };
        match walked {
            // What does not verify need not be readable.
            Err(error) if faults.is_empty() => faults.push(error.to_string()),
            Err(_) => {}
            Ok(()) => {
                let shown = self.trail.display();
                faults.extend(
                    missing.iter().map(|job| format!("{shown}: no record of {job}, which was delivered")),
                );
            }
        }
        AuditTrailCheck { records, faults }
    }
}

/// The address in the server's line that says that it is ready.
fn ready_at(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    let address = line["address"].as_str().filter(|_| line["message"] == "Recado is ready")?;
    Some(address.to_owned())
}

#[cfg(test)]
mod tests {
    use recado_audit::{Entry, Options, Trail};
    use recado_core::{AuditEvent, AuditKind, Timestamp};

    use super::*;

    /// A node whose process says goodbye in a file when it is told to stop.
    fn node(dir: &Path) -> Node {
        let script = "trap 'echo > goodbye; exit 0' TERM; echo > ready; while :; do sleep 0.01; done";
        let child = Command::new("sh").args(["-c", script]).current_dir(dir).spawn().expect("a shell");
        while !dir.join("ready").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Node { dir: dir.to_owned(), child, address: String::new() }
    }

    fn write_trail(dir: &Path, jobs: &[&str]) {
        let now = Timestamp::from_millis(1_790_000_000_000);
        let event = |job: &str| AuditEvent::claim(job, "sink", AuditKind::Delivered, now);
        let entries: Vec<_> = (1..)
            .zip(jobs)
            .map(|(sequence, job)| Entry { source: "store".into(), sequence, event: event(job) })
            .collect();
        let mut trail = Trail::open(&dir.join(DATA).join("audit"), &Options::default()).expect("a trail");
        trail.append(&entries, now).expect("records");
    }

    #[tokio::test]
    async fn a_trail_is_verified_after_its_server_has_ended_by_itself() {
        let dir = tempfile::tempdir().expect("a directory");
        write_trail(dir.path(), &["one", "two"]);
        let stopped = node(dir.path()).stop().await.expect("it stops");
        assert!(dir.path().join("goodbye").exists(), "it was told to stop, and not killed");
        let check = stopped.check_audit_trail(&["one", "two"].into());
        assert_eq!((check.records, check.faults), (2, Vec::new()));
    }

    #[tokio::test]
    async fn a_fault_in_the_trail_is_named_with_its_file_and_record() {
        let dir = tempfile::tempdir().expect("a directory");
        write_trail(dir.path(), &["one", "two"]);
        let stopped = node(dir.path()).stop().await.expect("it stops");
        let missing = stopped.check_audit_trail(&["two", "three"].into()).faults;
        assert!(matches!(&missing[..], [only] if only.contains("no record of three")), "{missing:?}");
        let files =
            std::fs::read_dir(&stopped.trail).expect("a trail").map(|file| file.expect("a file").path());
        let segment = files.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
        let segment = segment.expect("a month");
        let text = std::fs::read_to_string(&segment).expect("records");
        std::fs::write(&segment, text.replacen("DELIVERED", "CANCELLED", 1)).expect("a file");
        let faults = stopped.check_audit_trail(&BTreeSet::new()).faults;
        let place = format!("{}: segment", segment.display());
        assert!(faults[0].starts_with(&place) && faults[0].contains("line 1"), "{faults:?}");
    }
}
