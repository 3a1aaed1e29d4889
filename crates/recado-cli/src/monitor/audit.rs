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
    Show(read::ShowArgs),
    /// Write out all that is on record, oldest first, a JSON object a line.
    Export(read::ExportArgs),
    /// Prove the trail whole, or name the record that is not.
    Verify(verify::VerifyArgs),
    /// Remove one person's data: from the trail, dead letters and jobs. The trail stays whole.
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
