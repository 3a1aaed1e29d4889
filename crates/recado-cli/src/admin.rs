//! Commands that pause, resume and limit: providers, routes, tenants, holds, accounts, endpoints; and suggested rules.

pub mod accounts;
pub mod endpoints;
pub mod holds;
pub mod providers;
pub mod routes;
pub mod rules;
pub mod tenants;

use clap::{Args, Subcommand};
use recado_core::CompanyId;

use crate::AskArgs;
use crate::delivery::jobs::company;

/// A list of all tenants' things, or of one tenant's.
#[derive(Debug, Args)]
pub struct OfTenantArgs {
    /// Only those of this tenant.
    #[arg(long, value_name = "ID", value_parser = company)]
    company: Option<CompanyId>,
    #[command(flatten)]
    ask: AskArgs,
}

/// A command that lists, unless another one is named.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct OrList<C: Subcommand, L: Args> {
    #[command(subcommand)]
    command: Option<C>,
    #[command(flatten)]
    list: L,
}

impl<C: Subcommand, L: Args> OrList<C, L> {
    fn or(self, list: fn(L) -> C) -> C {
        self.command.unwrap_or_else(|| list(self.list))
    }
}
