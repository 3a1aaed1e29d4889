//! `recado audit erase`.

use clap::Args;
use recado_terminal::{Field, Screen};
use recado_wire::audit::{AuditSubject, ErasureDone, ErasureRequest};

use super::person;
use crate::confirm::confirm;
use crate::{AskArgs, Done};

#[derive(Debug, Args)]
pub struct EraseArgs {
    /// Person to erase: user=ID, correlation=ID, claim=ID or job=ID.
    #[arg(long, value_name = "SUBJECT", value_parser = person)]
    subject: AuditSubject,
    /// Only what this tenant sent.
    #[arg(long, value_name = "ID")]
    company: Option<String>,
    /// Reason, for the record: a reference such as a request's number, and no name.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Cancel the person's jobs that still wait, too.
    #[arg(long)]
    with_jobs: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    ask: AskArgs,
}

pub async fn run(args: EraseArgs, screen: &mut Screen) -> Done {
    if !args.yes {
        let what = "one person's data for good: from the audit trail, dead letters and jobs";
        confirm(&format!("This will remove {what}."), &format!("this would remove {what}; add --yes"))?;
    }
    let subject = AuditSubject { company_id: args.company, ..args.subject };
    let request = ErasureRequest { subject, reason: args.reason, with_jobs: args.with_jobs };
    args.ask.show(screen, &args.ask.client()?.erase(&request).await?, show)
}

fn show(screen: &mut Screen, done: &ErasureDone) -> std::io::Result<()> {
    let recorded: Vec<String> = done.recorded_as.iter().map(ToString::to_string).collect();
    screen.pairs([
        ("records erased", Field::from(done.records)),
        ("put on record as", Field::or_dash(Some(recorded.join(", ")).filter(|numbers| !numbers.is_empty()))),
        ("jobs cancelled", Field::from(done.jobs_cancelled)),
        ("dead letters discarded", Field::from(done.dead_letters_discarded)),
        ("jobs forgotten", Field::from(done.jobs_forgotten)),
        ("callbacks and notices erased", Field::from(done.follow_ups_erased)),
    ])
}
