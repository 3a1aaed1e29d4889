//! `recado accounts`.

use clap::{Args, Subcommand};
use recado_core::CompanyId;
use recado_terminal::{Field, Paint, Screen, clean};
use recado_wire::accounts::{Account, AccountQuery};
use serde_json::json;

use super::jobs::company;
use super::{Done, ServerArgs};

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "EXAMPLES:\n  recado accounts --company acme\n  recado accounts clear instagram acme"
)]
pub struct AccountsArgs {
    #[command(subcommand)]
    command: Option<AccountsCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum AccountsCommand {
    /// List accounts whose credential a provider no longer takes.
    #[command(after_help = "EXAMPLES:\n  recado accounts list --company acme")]
    List(ListArgs),
    /// Take the mark off an account; the next success does so by itself.
    #[command(after_help = "EXAMPLES:\n  recado accounts clear instagram acme")]
    Clear(ClearArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only those of this tenant.
    #[arg(long, value_name = "ID", value_parser = company)]
    company: Option<CompanyId>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
struct ClearArgs {
    /// The provider.
    provider: String,
    /// The tenant.
    company: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(args: AccountsArgs, screen: &mut Screen) -> Done {
    match args.command {
        None => list(args.list, screen).await,
        Some(AccountsCommand::List(args)) => list(args, screen).await,
        Some(AccountsCommand::Clear(args)) => clear(args, screen).await,
    }
}

async fn list(args: ListArgs, screen: &mut Screen) -> Done {
    let list = args.server.client()?.accounts(&AccountQuery { company_id: args.company }).await?;
    if args.json {
        screen.json(&list)?;
    } else {
        let heads = ["provider", "company", "status", "since", "route", "job", "code", "reason"];
        screen.table(&heads, list.items.iter().map(row).collect())?;
    }
    Ok(())
}

async fn clear(args: ClearArgs, screen: &mut Screen) -> Done {
    args.server.client()?.clear_account(&args.provider, &args.company).await?;
    if args.json {
        screen.json(&json!({ "provider": args.provider, "companyId": args.company, "cleared": true }))?;
    } else {
        let (provider, company) = (clean(&args.provider), clean(&args.company));
        screen.line(format_args!("company {company} has no mark at {provider} any more"))?;
    }
    Ok(())
}

fn row(account: &Account) -> Vec<Field> {
    vec![
        Field::from(&account.provider),
        Field::from(&account.company_id),
        Field::painted(&account.status, Paint::Bad),
        Field::time(account.since),
        Field::from(&account.route),
        Field::from(&account.job_id),
        Field::or_dash(account.error_code.as_deref()),
        Field::from(&account.reason),
    ]
}
