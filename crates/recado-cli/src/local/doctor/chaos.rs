//! `recado doctor --chaos`: kills a server of its own again and again on this disk, and accounts for every job.
//!
//! The server is this program, on a loopback port, in a new directory on the disk of the data directory. Existing data is
//! not touched. Its directory stays only when a check fails. A kill takes away what the process had in memory and leaves
//! what the kernel has, so a disk that lies about fsync passes: that shows only in the times, which are measured first.

mod fsync_times;
mod node;
mod place;
mod sink;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use recado_client::Client;
use recado_core::words::counted;
use recado_core::{Payload, Random};
use recado_store_redis::check::{Finding, FindingState, bad, good, note};
use recado_terminal::{Form, Screen};
use recado_wire::jobs::JobRequest;
use serde::Serialize;
use tempfile::TempDir;
use tokio::task::LocalSet;

use self::fsync_times::FsyncTimes;
use self::node::{AuditTrailCheck, Node};
use self::sink::Sink;
use crate::signals::Signals;
use crate::{Done, Stop};

pub use self::node::{COMMAND as NODE_COMMAND, NodeArgs, run as run_node};
pub use self::place::Disk;

/// Callers that enqueue side by side.
const CALLERS: usize = 4;

/// Jobs of all callers together: about 200 MB with their trail.
const JOBS_MAX: usize = 100_000;

/// The server lives at least this long before it is killed, and at most so much longer.
const LIFE_MIN: Duration = Duration::from_millis(50);
const LIFE_MORE_MS: u64 = 450;

/// Wait between two jobs of a caller, and before it repeats a job that was not answered.
const CALLER_RESTS: Duration = Duration::from_millis(2);

/// Longest time without a delivery while jobs are left.
const STANDSTILL_MAX: Duration = Duration::from_secs(30);

/// The result of all kills.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ChaosReport {
    directory: PathBuf,
    kills: u32,
    acknowledged: usize,
    /// Requests without an answer. They were repeated under the same id.
    unanswered: usize,
    delivered: usize,
    /// Acknowledged, and neither delivered nor in the store.
    lost: Vec<String>,
    /// Acknowledged and in the store, and not delivered when the doctor stopped waiting.
    late: usize,
    /// Delivered once more by the next process: the one before was killed before it could record the first.
    duplicates: usize,
    /// Delivered twice by one process.
    unexplained_duplicates: Vec<String>,
    is_audit_trail_whole: bool,
    audit_records: u64,
    /// Each with its file and record.
    audit_faults: Vec<String>,
    fsync: FsyncTimes,
}

impl ChaosReport {
    /// True if a check failed whose cause may show in the files.
    fn has_evidence(&self) -> bool {
        self.has_loss() || !self.is_audit_trail_whole
    }

    /// True if a job was lost, or delivered twice without a reason.
    fn has_loss(&self) -> bool {
        !(self.lost.is_empty() && self.unexplained_duplicates.is_empty())
    }
}

/// The answers that callers got.
#[derive(Debug, Default)]
struct Ledger {
    acknowledged: Vec<String>,
    unanswered: usize,
    begun: usize,
    stops: bool,
}

pub async fn run(disk: &Disk, kills: u32, form: Form, screen: &mut Screen) -> Done {
    // Before the directory is made: a signal from then on removes it.
    let mut signals = Signals::listen().map_err(Stop::failed)?;
    let leftovers = disk.leftovers();
    let dir = disk.make_dir()?;
    let bar = bar(form, kills);
    // Dropping the work ends the server, and then its directory goes.
    let tasks = LocalSet::new();
    let report = tokio::select! {
        report = tasks.run_until(kill_again_and_again(dir.path(), kills, &bar)) => report,
        () = signals.recv() => return Err(Stop::failed("interrupted; the server is ended and its directory removed")),
    };
    bar.finish_and_clear();
    // A full disk excuses a start that failed or a record that is missing, and no loss.
    if !report.as_ref().is_ok_and(ChaosReport::has_loss) {
        place::check_room(dir.path()).map_err(Stop::Failed)?;
    }
    let report = match report {
        Ok(report) => report,
        Err(why) => return Err(Stop::Failed(format!("{why}\n{}", keep(dir)))),
    };
    let findings = [findings(disk, &report), leftovers.iter().map(|path| left_over(path)).collect()].concat();
    screen.answer(form, &report, |screen, _| {
        findings.iter().try_for_each(|finding| super::show(screen, finding))
    })?;
    match verdict(&findings) {
        Err(why) if report.has_evidence() => Err(Stop::Failed(format!("{why}\n{}", keep(dir)))),
        verdict => verdict.map_err(Stop::failed),
    }
}

/// Leaves the directory where it is, and says so.
fn keep(dir: TempDir) -> String {
    format!("The server's files and messages are kept in {}; remove them yourself.", dir.keep().display())
}

/// Fails when a finding is bad.
fn verdict(findings: &[Finding]) -> Result<(), &'static str> {
    match findings.iter().any(|finding| finding.state == FindingState::Bad) {
        true => Err("this disk or this build does not keep what it promises"),
        false => Ok(()),
    }
}

fn bar(form: Form, kills: u32) -> ProgressBar {
    if form == Form::Json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len} kills, {eta} to go");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(kills.into()).with_style(style).with_message("killing")
}

async fn kill_again_and_again(dir: &Path, kills: u32, bar: &ProgressBar) -> Result<ChaosReport, String> {
    let fsync = FsyncTimes::measure(dir).map_err(|error| format!("cannot time the disk: {error}"))?;
    let sink = Sink::start().await.map_err(|error| format!("cannot listen on loopback: {error}"))?;
    node::write_config(dir, sink.address())?;
    let random = Random::from_entropy();
    let mut node = Node::start(dir, 0).await?;
    let ledger = Rc::new(RefCell::new(Ledger::default()));
    let client = Rc::new(RefCell::new(node.client()?));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| tokio::task::spawn_local(enqueue(caller, client.clone(), ledger.clone())))
        .collect();
    for kill in 1..=kills {
        tokio::time::sleep(LIFE_MIN + Duration::from_millis(random.next_u64() % LIFE_MORE_MS)).await;
        node.kill()?;
        node = Node::start(dir, kill).await?;
        *client.borrow_mut() = node.client()?;
        bar.inc(1);
    }
    ledger.borrow_mut().stops = true;
    for caller in callers {
        caller.await.map_err(|error| format!("a caller ended: {error}"))?;
    }
    let ledger = ledger.take();
    bar.set_message("waiting for the last deliveries");
    all_delivered(&ledger, &sink).await;
    let client = client.borrow().clone();
    let delivered = sink.deliveries();
    let (mut lost, mut late) = (Vec::new(), 0);
    for id in ledger.acknowledged.iter().filter(|id| !delivered.contains_key(*id)) {
        match client.job(id).await {
            Ok(_) => late += 1,
            Err(error) => lost.push(format!("{id}: {error}")),
        }
    }
    let acknowledged = ledger.acknowledged.iter().map(String::as_str);
    let on_record = acknowledged.filter(|id| delivered.contains_key(*id)).collect();
    let AuditTrailCheck { records, faults } = node.stop().await?.check_audit_trail(&on_record);
    let (explained, unexplained) = duplicates(&delivered);
    Ok(ChaosReport {
        directory: dir.to_owned(),
        kills,
        acknowledged: ledger.acknowledged.len(),
        unanswered: ledger.unanswered,
        delivered: delivered.len(),
        lost,
        late,
        duplicates: explained,
        unexplained_duplicates: unexplained,
        is_audit_trail_whole: faults.is_empty(),
        audit_records: records,
        audit_faults: faults,
        fsync,
    })
}

/// Enqueues until told to stop. A job without an answer is repeated under its id.
async fn enqueue(caller: usize, client: Rc<RefCell<Client>>, ledger: Rc<RefCell<Ledger>>) {
    for nth in 0_usize.. {
        if ledger.borrow().stops {
            return;
        }
        tokio::time::sleep(CALLER_RESTS).await;
        if ledger.borrow().begun >= JOBS_MAX {
            continue;
        }
        ledger.borrow_mut().begun += 1;
        let id = format!("chaos-{caller}-{nth}");
        loop {
            let at_hand = client.borrow().clone();
            match at_hand.enqueue(job(&id, caller)).await {
                Ok(_) => break ledger.borrow_mut().acknowledged.push(id),
                Err(_) if ledger.borrow().stops => return,
                Err(_) => ledger.borrow_mut().unanswered += 1,
            }
            tokio::time::sleep(CALLER_RESTS).await;
        }
    }
}

fn job(id: &str, caller: usize) -> JobRequest {
    let data = Payload::trusted(serde_json::json!({ "path": "deliver", "body": { "id": id } }).to_string());
    JobRequest { job_id: Some(id.to_owned()), ..JobRequest::new("sink", format!("company-{caller}"), data) }
}

/// Waits until everything that was acknowledged has arrived, or nothing arrives any more.
async fn all_delivered(ledger: &Ledger, sink: &Sink) {
    let (mut before, mut since) = (0, Instant::now());
    while since.elapsed() < STANDSTILL_MAX {
        let delivered = sink.deliveries();
        if ledger.acknowledged.iter().all(|id| delivered.contains_key(id)) {
            return;
        }
        if delivered.len() > before {
            (before, since) = (delivered.len(), Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Counts deliveries by a later process of what an earlier one had delivered, and names those that one process made
/// twice.
fn duplicates(delivered: &BTreeMap<String, Vec<u32>>) -> (usize, Vec<String>) {
    let (mut explained, mut unexplained) = (0, Vec::new());
    for (id, lives) in delivered {
        for pair in lives.windows(2) {
            match pair[0] < pair[1] {
                true => explained += 1,
                false => unexplained.push(id.clone()),
            }
        }
    }
    (explained, unexplained)
}

fn left_over(path: &Path) -> Finding {
    note(
        "left over",
        format!("{} of another run", path.display()),
        "remove it, unless that run goes on or you want to look at its files",
    )
}

fn findings(disk: &Disk, report: &ChaosReport) -> Vec<Finding> {
    let ChaosReport { kills, acknowledged, unanswered, lost, late, duplicates, .. } = report;
    let mut findings = vec![
        good("directory", format!("{}, {disk}", report.directory.display())),
        good(
            "kills",
            format!("{kills} times kill -9 with {CALLERS} callers, {unanswered} requests repeated"),
        ),
    ];
    findings.push(match lost.first() {
        None => good("jobs", format!("{acknowledged} acknowledged, none lost")),
        Some(first) => bad(
            "jobs",
            format!("{} of {acknowledged} acknowledged jobs are lost, for example {first}", lost.len()),
            "do not use this disk; report it with the output of --json if it is a disk that you trust",
        ),
    });
    if *late > 0 {
        findings.push(note(
            "deliveries",
            format!("{late} were still waiting"),
            "the machine is busy: try again",
        ));
    }
    findings.push(match report.unexplained_duplicates.first() {
        None if *duplicates == 0 => good("duplicates", "none"),
        None => {
            let were = counted(*duplicates as u64, "delivery was", "deliveries were");
            good("duplicates", format!("{were} under way at a kill and made again"))
        }
        Some(first) => bad(
            "duplicates",
            format!("{} without a kill between, for example {first}", report.unexplained_duplicates.len()),
            "this is a fault of the program: report it with the output of --json",
        ),
    });
    findings.push(match report.audit_faults.first() {
        None => good("audit trail", format!("{} records, verified whole", report.audit_records)),
        Some(first) => bad(
            "audit trail",
            format!("does not verify: {first}"),
            "do not use this disk; report it with the output of --json if it is a disk that you trust",
        ),
    });
    findings.push(report.fsync.finding());
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_delivery_is_explained_only_by_a_later_process() {
        let delivered =
            [("once", vec![0]), ("again", vec![0, 1]), ("twice", vec![1, 1]), ("back", vec![2, 1])];
        let delivered = delivered.map(|(id, lives)| (id.to_owned(), lives)).into();
        assert_eq!(duplicates(&delivered), (1, vec!["back".to_owned(), "twice".to_owned()]));
    }

    #[test]
    fn whatever_is_marked_as_bad_is_a_failure() {
        let in_memory = FsyncTimes::of(vec![Duration::from_millis(1)], true).finding();
        let kills = || good("kills", "20");
        assert!(verdict(&[kills(), in_memory]).is_err(), "a file system in memory keeps nothing");
        let fast = FsyncTimes::of(vec![Duration::from_micros(50)], false).finding();
        assert!(verdict(&[kills(), fast]).is_ok(), "a note is none");
    }
}
