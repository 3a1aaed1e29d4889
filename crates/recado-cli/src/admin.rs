//! Commands that hold back or let go: providers, routes, tenants, holds, accounts, endpoints.

pub mod accounts;
pub mod endpoints;
pub mod holds;
pub mod providers;
pub mod routes;
pub mod tenants;

use clap::Args;
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
