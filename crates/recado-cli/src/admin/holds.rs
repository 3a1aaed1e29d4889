//! `recado holds`.

use clap::{Args, Subcommand};
use recado_core::reason::clip;
use recado_terminal::{Column, Field, Paint, Screen};
use recado_wire::PAGE_ITEMS_MAX;
use recado_wire::holds::{Hold, HoldList, HoldQuery};
use recado_wire::providers::PauseRequest;
use recado_wire::word_of;

use crate::{AskArgs, Done};

/// Bytes at most that the table shows of a reason; `--json` has it whole.
const REASON_SHOWN_MAX_BYTES: usize = 120;

#[derive(Debug, Subcommand)]
pub enum HoldsCommand {
    /// List holds: scope, reason, end.
    #[command(after_help = "EXAMPLES:\n  recado holds list\n  recado holds list --json")]
    List(AskArgs),
    /// Lift a hold, so that its jobs go out.
    #[command(after_help = "EXAMPLES:\n  recado holds lift hold_4f0c… --reason 'their receiver is fixed'")]
    Lift(LiftArgs),
}

#[derive(Debug, Args)]
pub struct LiftArgs {
    /// The hold's id, as `recado holds list` shows it.
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
    /// Reason, for the audit trail.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
}

pub async fn run(command: HoldsCommand, screen: &mut Screen) -> Done {
    match command {
        HoldsCommand::List(ask) => {
            let (client, mut list) = (ask.client()?, HoldList { items: Vec::new(), next_cursor: None });
            loop {
                let query = HoldQuery { limit: Some(PAGE_ITEMS_MAX), cursor: list.next_cursor };
                let page = client.holds(&query).await?;
                list.items.extend(page.items);
                list.next_cursor = page.next_cursor;
                if list.next_cursor.is_none() {
                    break;
                }
            }
            ask.show(screen, &list, |screen, list| screen.table(&list.items, COLUMNS))
        }
        HoldsCommand::Lift(LiftArgs { id, reason, ask }) => {
            let hold = ask.client()?.lift_hold(&id, &PauseRequest { reason }).await?;
            ask.show(screen, &hold, |screen, hold| screen.table([hold], COLUMNS))
        }
    }
}

const COLUMNS: &[Column<Hold>] = &[
    ("hold", |hold| Field::from(&hold.id)),
    ("scope", |hold| Field::painted(word_of(hold.scope), Paint::Warn)),
    ("provider", |hold| Field::from(&hold.provider)),
    ("company", |hold| Field::or_dash(hold.company_id.as_ref())),
    ("receiver", |hold| Field::or_dash(hold.endpoint_id.as_ref().or(hold.host.as_ref()))),
    ("since", |hold| Field::or_dash(hold.since)),
    ("until", |hold| Field::from(hold.until)),
    ("reason", |hold| Field::from(clip(&hold.reason, REASON_SHOWN_MAX_BYTES))),
];
