//! `recado holds`.

use clap::{Args, Subcommand};
use recado_wire::holds::Hold;
use recado_wire::providers::PauseRequest;

use super::{Done, ServerArgs};
use crate::screen::{Field, Paint, Screen};

#[derive(Debug, Subcommand)]
pub enum HoldsCommand {
    /// List holds: scope, reason, end.
    #[command(after_help = "EXAMPLES:\n  recado holds list\n  recado holds list --json")]
    List(ListArgs),
    /// Lift a hold, so that its jobs go out.
    #[command(after_help = "EXAMPLES:\n  recado holds lift hold_4f0c… --reason 'their receiver is mended'")]
    Lift(LiftArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
pub struct LiftArgs {
    /// The hold's id.
    id: String,
    /// Why, for the audit trail.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(command: HoldsCommand, screen: &mut Screen) -> Done {
    match command {
        HoldsCommand::List(args) => {
            let list = args.server.client()?.holds().await?;
            show(screen, &list, &list.items, args.json)
        }
        HoldsCommand::Lift(args) => {
            let request = PauseRequest { reason: args.reason };
            let hold = args.server.client()?.lift_hold(&args.id, &request).await?;
            show(screen, &hold, std::slice::from_ref(&hold), args.json)
        }
    }
}

fn show(screen: &mut Screen, whole: &impl serde::Serialize, holds: &[Hold], json: bool) -> Done {
    if json {
        screen.json(whole)?;
    } else {
        let heads = ["hold", "scope", "provider", "company", "receiver", "since", "until", "reason"];
        screen.table(&heads, holds.iter().map(row).collect())?;
    }
    Ok(())
}

fn row(hold: &Hold) -> Vec<Field> {
    vec![
        Field::from(&hold.id),
        Field::painted(hold.scope.as_str(), Paint::Warn),
        Field::from(&hold.provider),
        Field::or_dash(hold.company_id.as_ref().map(|company| company.as_str())),
        Field::or_dash(hold.endpoint_id.as_ref().or(hold.host.as_ref())),
        Field::or_dash(hold.since),
        Field::from(hold.until),
        Field::from(&hold.reason),
    ]
}
