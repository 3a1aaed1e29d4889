//! `recado audit verify`.
//!
//! A directory that all files were removed from looks like a new one. So where nothing is found the store is asked, which
//! knows how far it was archived; unless a server has it to itself, or only a copy of the trail is here.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use recado_audit::{Checkpoint, Evidence, PublicKey, Report, verify};
use recado_config::{Config, Flags};
use recado_core::Random;
use recado_core::words::counted;
use recado_engine::audit::archived_in;
use recado_server::serve;
use recado_terminal::{Field, Paint, Screen};

use crate::data::read_file;
use crate::{ConfigArgs, Done, FormArgs, Stop};

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Directory of the trail [default: the configuration's].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The key that it must be signed with, as it was kept elsewhere [default: public.pem beside the trail].
    #[arg(long, value_name = "FILE")]
    public_key: Option<PathBuf>,
    /// A checkpoint that was kept elsewhere, as --json shows it. May be given several times.
    #[arg(long, value_name = "FILE")]
    checkpoint: Vec<PathBuf>,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    config: ConfigArgs,
}

pub async fn run(args: &VerifyArgs, screen: &mut Screen) -> Done {
    let (dir, config) = match &args.dir {
        Some(dir) => (dir.clone(), None),
        None => {
            let config = Config::load_stores(&args.config.inputs(Flags::default())?)?;
            (config.audit_dir(), Some(config))
        }
    };
    if !dir.is_dir() {
        if args.form.json {
            screen.json(&Report::default())?;
        }
        return nothing_in(&dir, config.as_ref(), args.form, screen).await;
    }
    let mut evidence = Evidence::default();
    if let Some(path) = &args.public_key {
        let wrong = |error| Stop::Usage(format!("{}: {error}", path.display()));
        evidence.public_key = Some(read_file(path)?.parse::<PublicKey>().map_err(wrong)?);
    }
    for path in &args.checkpoint {
        evidence.checkpoints.push(checkpoint(path)?);
    }
    let report = verify(&dir, &evidence).map_err(Stop::failed)?;
    let shown = screen.answer(args.form.get(), &report, |screen, report| show(screen, report, &dir));
    if report.is_whole() {
        shown?;
        return if report.is_empty() {
            nothing_in(&dir, config.as_ref(), args.form, screen).await
        } else {
            Ok(())
        };
    }
    // The exit code tells a reader who did not read to the end.
    let faults = match (report.findings.len(), report.more) {
        (1, false) => "1 fault".to_owned(),
        (count, more) => format!("{count}{} faults", if more { " or more" } else { "" }),
    };
    Err(Stop::Failed(format!("the trail is not whole: {faults}; first of all, keep a copy as evidence")))
}

/// Says what it means that no record is there.
async fn nothing_in(dir: &Path, config: Option<&Config>, form: FormArgs, screen: &mut Screen) -> Done {
    let dir = dir.display();
    let was_archived = match config {
        Some(config) => was_archived(config).await,
        None => None,
    };
    match was_archived {
        // The report says it to a program: that there are no records.
        Some(false) if form.json => Ok(()),
        Some(false) => Ok(screen.line(format_args!("The store says that nothing was archived yet."))?),
        Some(true) => Err(Stop::Failed(format!(
            "there is no trail in {dir}, and the store says that records were archived: the files were removed, or \
             another node has them"
        ))),
        None => Err(Stop::Failed(format!(
            "there is no trail in {dir}: either nothing was archived there yet, or all of its files were removed. Name \
             another directory with --dir, give a --checkpoint that was kept elsewhere, or see what the log said when \
             the server started"
        ))),
    }
}

/// Returns true if the store let go of any record; `None` when it cannot be asked.
async fn was_archived(config: &Config) -> Option<bool> {
    if config.redis.is_none()
        && !config.settings.store.data_dir.join(recado_store_embedded::FILE_NAME).exists()
    {
        return None;
    }
    let (store, clock) = serve::open(config, Arc::new(Random::from_entropy())).await.ok()?;
    let archived = archived_in(&*store, clock.now()).await;
    store.close().await.ok()?;
    Some(archived.ok()?.values().any(|number| *number > 0))
}

/// One by itself, or a whole report that has one.
fn checkpoint(path: &Path) -> Result<Checkpoint, Stop> {
    let text = read_file(path)?;
    let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let inner = value.get("checkpoint").unwrap_or(&value).clone();
    serde_json::from_value(inner).map_err(|_| {
        let path = path.display();
        Stop::Usage(format!(
            "{path} holds no checkpoint; give sequence, hash and signature as `--json` shows them"
        ))
    })
}

fn show(screen: &mut Screen, report: &Report, dir: &Path) -> io::Result<()> {
    let (word, paint) = match (report.is_whole(), report.is_empty()) {
        (true, true) => ("nothing is here", Paint::Bad),
        (true, false) => ("whole", Paint::Good),
        (false, _) => ("not whole", Paint::Bad),
    };
    let dropped = counted(report.dropped as u64, "month", "months") + ", and the summary of each fits";
    let erased = counted(report.erased, "record", "records") + ", each by an erasure on record";
    let newest = report.checkpoint.as_ref().map(|newest| format!("{} {}", newest.sequence, newest.hash));
    screen.pairs([
        ("trail", Field::from(dir.display())),
        ("state", Field::painted(word, paint)),
        ("records", Field::from(report.records)),
        ("months", Field::from(report.segments)),
        ("dropped", Field::if_any((report.dropped > 0).then_some(dropped))),
        ("erased", Field::if_any((report.erased > 0).then_some(erased))),
        ("newest signed", Field::if_any(newest)),
    ])?;
    for sequence in &report.unchecked {
        screen.line(format_args!(
            "checkpoint {sequence} could not be checked: the month of its record was dropped"
        ))?;
    }
    if !report.findings.is_empty() {
        screen.line("")?;
    }
    report.findings.iter().try_for_each(|finding| screen.line(finding))
}
