//! `recado audit`: shows and exports the trail, verifies it, and erases one person's data.
//!
//! `show` and `export` ask a server, or read a trail's files by themselves where `--dir` names them. `verify` always
//! reads the files: a proof of a server's honesty must not ask it.

mod erase;
mod files;
mod read;
mod verify;

use clap::Subcommand;
use recado_terminal::Screen;
use recado_wire::audit::AuditSubject;

use crate::Done;

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Show what is on record, newest first.
    #[command(
        after_help = "EXAMPLES:\n  recado audit show --job order-1042\n  recado audit show --actor ana --since 2026-11-01T00:00:00Z\n  recado audit show --company acme --kind BURIED --json\n  recado audit show --dir ./recado-data/audit --user u-81"
    )]
    Show(read::AuditShowArgs),
    /// Write out all that is on record, oldest first, a JSON object a line.
    #[command(
        after_help = "EXAMPLES:\n  recado audit export --since 2026-01-01T00:00:00Z --out audit-2026.ndjson\n  recado audit export --subject user=u-81 --company acme --out u-81.ndjson\n\n--subject is for the access request of one person (LGPD, article 18)."
    )]
    Export(read::AuditExportArgs),
    /// Verify that the trail is complete and unchanged, or name each record that is wrong.
    #[command(
        after_help = "EXAMPLES:\n  recado audit verify\n  recado audit verify --dir /mnt/copy/audit --public-key public.pem --checkpoint kept.json\n\nAn auditor keeps public.pem and a checkpoint now and then, somewhere else: see docs/audit.md."
    )]
    Verify(verify::VerifyArgs),
    /// Remove one person's data: from the trail, dead letters and jobs. The trail stays whole.
    #[command(
        after_help = "EXAMPLES:\n  recado audit erase --subject user=u-81 --company acme --reason 'LGPD request 17'\n  recado audit erase --subject claim=guia-17 --reason 'LGPD request 18' --with-jobs --yes\n\nIt is put on record who asked for it, when and why. The reason stays: give a reference and no name.\n\nLog files, backups and dlq-archive/ are not touched: erase the person there yourself."
    )]
    Erase(erase::EraseArgs),
}

pub async fn run(command: AuditCommand, screen: &mut Screen) -> Done {
    match command {
        AuditCommand::Show(args) => read::show(args, screen).await,
        AuditCommand::Export(args) => read::export(args, screen).await,
        AuditCommand::Verify(args) => verify::run(&args, screen).await,
        AuditCommand::Erase(args) => erase::run(args, screen).await,
    }
}

/// Reads whose data is meant.
fn person(text: &str) -> Result<AuditSubject, String> {
    let advice = "write user=ID, correlation=ID, claim=ID or job=ID";
    let (by, id) = text.split_once('=').filter(|(_, id)| !id.is_empty()).ok_or(advice)?;
    let (id, unknown) = (Some(id.to_owned()), AuditSubject::default());
    match by {
        "user" => Ok(AuditSubject { user_id: id, ..unknown }),
        "correlation" => Ok(AuditSubject { correlation_id: id, ..unknown }),
        "claim" => Ok(AuditSubject { claim_id: id, ..unknown }),
        "job" => Ok(AuditSubject { job_id: id, ..unknown }),
        _ => Err(advice.to_owned()),
    }
}
