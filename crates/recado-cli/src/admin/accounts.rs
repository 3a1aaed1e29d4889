//! `recado accounts`.

use clap::{Args, Subcommand};
use recado_terminal::{Column, Field, Paint, Screen, clean};
use recado_wire::accounts::{Account, AccountQuery};
use serde_json::json;

use super::{OfTenantArgs, OrList};
use crate::{AskArgs, Done};

#[derive(Debug, Subcommand)]
pub enum AccountsCommand {
    /// List accounts whose credential a provider no longer takes.
    #[command(after_help = "EXAMPLES:\n  recado accounts list --company acme")]
    List(OfTenantArgs),
    /// Unmark an account; a successful delivery does so too.
    #[command(after_help = "EXAMPLES:\n  recado accounts clear instagram acme")]
    Clear(ClearArgs),
}

#[derive(Debug, Args)]
pub struct ClearArgs {
    /// The provider.
    provider: String,
    /// The tenant.
    company: String,
    #[command(flatten)]
    ask: AskArgs,
}

pub async fn run(args: OrList<AccountsCommand, OfTenantArgs>, screen: &mut Screen) -> Done {
    match args.or(AccountsCommand::List) {
        AccountsCommand::List(OfTenantArgs { company, ask }) => {
            let list = ask.client()?.accounts(&AccountQuery { company_id: company }).await?;
            ask.show(screen, &list, |screen, list| screen.table(&list.items, COLUMNS))
        }
        AccountsCommand::Clear(ClearArgs { provider, company, ask }) => {
            ask.client()?.clear_account(&provider, &company).await?;
            let cleared = json!({ "provider": provider, "companyId": company, "cleared": true });
            ask.show(screen, &cleared, |screen, _| {
                let (provider, company) = (clean(&provider), clean(&company));
                screen.line(format_args!("company {company} has no mark at {provider} any more"))
            })
        }
    }
}

const COLUMNS: &[Column<Account>] = &[
    ("provider", |account| Field::from(&account.provider)),
    ("company", |account| Field::from(&account.company_id)),
    ("status", |account| Field::painted(&account.status, Paint::Bad)),
    ("since", |account| Field::time(account.since)),
    ("route", |account| Field::from(&account.route)),
    ("job", |account| Field::from(&account.job_id)),
    ("code", |account| Field::or_dash(account.error_code.as_ref())),
    ("reason", |account| Field::from(&account.reason)),
];
