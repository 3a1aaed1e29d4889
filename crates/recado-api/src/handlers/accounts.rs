//! Accounts whose credential a provider no longer accepts.

use axum::extract::State;
use axum::response::Response;
use recado_engine::notify::accounts;
use recado_wire::accounts::{Account, AccountList, AccountQuery};
use recado_wire::{Code, Problem};

use crate::answer::{self, ApiError, shown_name};
use crate::extract::{Actor, CheckedQuery, TwoPathSegments};
use crate::openapi::{ActorHeader, ReadProblems};
use crate::state::ApiState;

fn show_account(account: &accounts::Account) -> Account {
    Account {
        provider: account.provider.clone(),
        company_id: account.company_id.clone(),
        status: account.status.clone(),
        since: account.since,
        reason: account.reason.clone(),
        error_code: account.error_code.clone(),
        route: account.route.clone(),
        job_id: account.job_id.clone(),
    }
}

/// Accounts that are marked, and why.
#[utoipa::path(
    get, path = "/v1/accounts", tag = "accounts", operation_id = "listAccounts", params(AccountQuery),
    responses((status = 200, body = AccountList), ReadProblems)
)]
pub(crate) async fn list(
    State(api): State<ApiState>,
    CheckedQuery(query): CheckedQuery<AccountQuery>,
) -> Result<Response, ApiError> {
    let company = query.company_id.as_ref().map(|company| company.as_str());
    let items =
        api.engine().notifier.accounts.list(company).iter().map(|account| show_account(account)).collect();
    Ok(answer::ok(&AccountList { items }))
}

/// Clear the mark of an account after its user has signed in again.
#[utoipa::path(
    delete, path = "/v1/accounts/{provider}/{companyId}", tag = "accounts", operation_id = "clearAccount",
    params(
        ("provider" = String, Path), ("companyId" = String, Path),
        ActorHeader
    ),
    responses(
        (status = 204, description = "The mark is gone."),
        (status = 404, description = "The account is not marked.", body = Problem, content_type = "application/problem+json"),
        ReadProblems,
    )
)]
pub(crate) async fn clear(
    State(api): State<ApiState>,
    TwoPathSegments(provider, company): TwoPathSegments,
    Actor(actor): Actor,
) -> Result<Response, ApiError> {
    if api.engine().notifier.accounts.remove_mark(&provider, &company, &actor).await? {
        return Ok(answer::done());
    }
    let [provider, company] = [&provider, &company].map(|name| shown_name(name));
    Err(ApiError::new(Code::NotFound, format!("company `{company}` has no mark at provider `{provider}`")))
}
