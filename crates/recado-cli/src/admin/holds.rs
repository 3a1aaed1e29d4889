//! `recado holds`.

use clap::{Args, Subcommand};
use recado_core::reason::clip;
use recado_terminal::{Field, Paint, Screen};
use recado_wire::PAGE_ITEMS_MAX;
use recado_wire::holds::{Hold, HoldList, HoldQuery};
use recado_wire::providers::PauseRequest;
use recado_wire::word_of;

use crate::{Done, ServerArgs};

/// Bytes at most that the table shows of a reason; `--json` has it whole.
const REASON_SHOWN_MAX_BYTES: usize = 120;

#[derive(Debug, Subcommand)]
pub enum HoldsCommand {
    /// List holds: scope, reason, end.
    #[command(after_help = "EXAMPLES:\n  recado holds list\n  recado holds list --json")]
    List(ListArgs),
    /// Lift a hold, so that its jobs go out.
    #[command(after_help = "EXAMPLES:\n  recado holds lift hold_4f0c… --reason 'their receiver is fixed'")]
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
    /// The hold's id, as `recado holds list` shows it.
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
    /// Reason, for the audit trail.
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
            let (client, mut list) =
                (args.server.client()?, HoldList { items: Vec::new(), next_cursor: None });
            loop {
                let query = HoldQuery { limit: Some(PAGE_ITEMS_MAX), cursor: list.next_cursor };
                let page = client.holds(&query).await?;
                list.items.extend(page.items);
                list.next_cursor = page.next_cursor;
                if list.next_cursor.is_none() {
                    break;
                }
            }
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
        Field::painted(word_of(hold.scope), Paint::Warn),
        Field::from(&hold.provider),
        Field::or_dash(hold.company_id.as_ref().map(|company| company.as_str())),
        Field::or_dash(hold.endpoint_id.as_ref().or(hold.host.as_ref())),
        Field::or_dash(hold.since),
        Field::from(hold.until),
        Field::from(clip(&hold.reason, REASON_SHOWN_MAX_BYTES)),
    ]
}
