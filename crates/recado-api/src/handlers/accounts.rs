//! Accounts whose credential a provider no longer accepts.

use recado_engine::notify::accounts;
use recado_wire::accounts::{Account, AccountList, AccountQuery};

use crate::handlers::prelude::*;

fn show_account(account: &accounts::Account) -> Account {
    let accounts::Account { provider, company_id, status, since, reason, error_code, route, job_id } =
        account.clone();
    Account { provider, company_id, status, since, reason, error_code, route, job_id }
}

/// Accounts that are marked, and why.
#[utoipa::path(
    get, path = "/v1/accounts", tag = "accounts", operation_id = "listAccounts", params(AccountQuery),
    responses((status = 200, body = AccountList), ReadProblems)
)]
pub async fn list(api: ApiState, CheckedQuery(query): CheckedQuery<AccountQuery>) -> ApiResult {
    let company = query.company_id.as_ref().map(|company| company.as_str());
    let marked = api.engine.notifier.accounts.list(company);
    answer::ok(&AccountList { items: marked.iter().map(|account| show_account(account)).collect() })
}

/// Clear the mark of an account after its user has signed in again.
#[utoipa::path(
    delete, path = "/v1/accounts/{provider}/{companyId}", tag = "accounts", operation_id = "clearAccount",
    params(("provider" = String, Path), ("companyId" = String, Path), ActorHeader),
    responses((status = 204, description = "The mark is gone."), AccountNotMarked, ReadProblems)
)]
pub async fn clear(
    api: ApiState,
    TwoPathSegments(provider, company): TwoPathSegments,
    actor: Actor,
) -> ApiResult {
    if api.engine.notifier.accounts.remove_mark(&provider, &company, &actor).await? {
        return answer::done();
    }
    let [provider, company] = [&provider, &company].map(|name| shown_name(name));
    Err(ApiError::not_found(format!("company `{company}` has no mark at provider `{provider}`")))
}
