//! `recado audit erase`.

use clap::Args;
use recado_audit::Identity;
use recado_terminal::{Field, Screen};
use recado_wire::audit::{AuditSubject, ErasureDone, ErasureRequest};

use super::{Person, person};
use crate::confirm::confirm;
use crate::{Done, ServerArgs};

#[derive(Debug, Args)]
pub struct EraseArgs {
    /// Whose data: user=ID, correlation=ID, claim=ID or job=ID.
    #[arg(long, value_name = "WHO", value_parser = person)]
    subject: Person,
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
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(args: EraseArgs, screen: &mut Screen) -> Done {
    if !args.yes {
        let what = "one person's data for good: from the audit trail, dead letters and jobs";
        confirm(&format!("This will remove {what}."), &format!("this would remove {what}; add --yes"))?;
    }
    let mut subject = AuditSubject { company_id: args.company, ..AuditSubject::default() };
    let (place, id) = match &args.subject.0 {
        Identity::User(id) => (&mut subject.user_id, id),
        Identity::Correlation(id) => (&mut subject.correlation_id, id),
        Identity::Claim(id) => (&mut subject.claim_id, id),
        Identity::Job(id) => (&mut subject.job_id, id),
    };
    *place = Some(id.to_string());
    let request = ErasureRequest { subject, reason: args.reason, with_jobs: args.with_jobs };
    let done = args.server.client()?.erase(&request).await?;
    if args.json {
        screen.json(&done)?;
    } else {
        show(&done, screen)?;
    }
    Ok(())
}

fn show(done: &ErasureDone, screen: &mut Screen) -> std::io::Result<()> {
    let recorded: Vec<String> = done.recorded_as.iter().map(ToString::to_string).collect();
    screen.pairs(vec![
        ("records erased", Field::from(done.records)),
        ("put on record as", Field::or_dash(Some(recorded.join(", ")).filter(|numbers| !numbers.is_empty()))),
        ("jobs cancelled", Field::from(done.jobs_cancelled)),
        ("dead letters discarded", Field::from(done.dead_letters_discarded)),
        ("jobs forgotten", Field::from(done.jobs_forgotten)),
        ("callbacks and notices erased", Field::from(done.follow_ups_erased)),
    ])
}
