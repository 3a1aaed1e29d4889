//! The calls of the API, one row each.

use recado_core::Payload;
use recado_wire::accounts::{AccountList, AccountQuery};
use recado_wire::alerts::AlertList;
use recado_wire::audit::{AuditList, AuditQuery, AuditTrail};
use recado_wire::bulk::{Bulk, BulkCount, BulkList, BulkRequest};
use recado_wire::decisions::{Decision, DecisionRequest};
use recado_wire::dlq::{
    DeadLetter, DeadLetterList, DeadLetterQuery, DeadLetterStats, DeadLetterStatsQuery, DiscardRequest,
    Discarded, ReplayRequest, ReplayStarted,
};
use recado_wire::endpoints::{
    Endpoint, EndpointChange, EndpointList, EndpointQuery, EndpointRequest, EndpointTested,
};
use recado_wire::health::Health;
use recado_wire::holds::{Hold, HoldList, HoldQuery};
use recado_wire::jobs::{JobCancelled, JobList, JobQuery, JobView};
use recado_wire::kpis::{KpiQuery, Kpis};
use recado_wire::leases::{
    ExtendRequest, FailRequest, LeaseExtended, LeaseSettled, SettleAnswer, SettleRequest, SucceedRequest,
};
use recado_wire::nodes::NodeList;
use recado_wire::providers::{
    BreakerRequest, CallPermit, FailureReport, PauseRequest, Provider, ProviderList, SuccessReport,
};
use recado_wire::routes::{Route, RouteList};
use recado_wire::tenants::{Tenant, TenantChange, TenantList, TenantQuery};
use reqwest::Method;

use crate::call::RetrySafety::{IfUnsent, Safe};
use crate::client::Client;
use crate::error::ClientError;

/// Writes a method of [`Client`] for each row: its arguments and its answer, the HTTP method and path, when it is safe
/// to repeat, and what it sends: a query with `GET`, a body with any other method.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($($given:ident: $type:ty),*) -> $answer:ty {
        $method:ident [$($segment:expr),*] $repeat:ident $(, $sent:expr)?
    })*) => {
        impl Client {$(
            $(#[$doc])*
            pub async fn $name(&self, $($given: $type),*) -> Result<$answer, ClientError> {
                let call = self.call(Method::$method, &[$($segment),*], $repeat);
                $(let call = call.with(self.http(), $sent)?;)?
                self.answer(call).await
            }
        )*}
    };
}

calls! {
    job(job_id: &str) -> JobView { GET ["v1", "jobs", job_id] Safe }
    jobs(query: &JobQuery) -> JobList { GET ["v1", "jobs"] Safe, query }
    /// Cancels a job that has not been sent.
    cancel(job_id: &str) -> JobCancelled { DELETE ["v1", "jobs", job_id] Safe }

    audit(job_id: &str) -> AuditTrail { GET ["v1", "jobs", job_id, "audit"] Safe }
    /// Reads the audit trail, archived or not yet.
    audit_trail(query: &AuditQuery) -> AuditList { GET ["v1", "audit"] Safe, query }

    succeed(lease_token: &str, result: Option<Payload>) -> LeaseSettled {
        POST ["v1", "leases", lease_token, "succeed"] IfUnsent, &SucceedRequest { result }
    }
    fail(lease_token: &str, failure: &FailRequest) -> LeaseSettled {
        POST ["v1", "leases", lease_token, "fail"] IfUnsent, failure
    }
    extend(lease_token: &str, lease_ms: u64) -> LeaseExtended {
        POST ["v1", "leases", lease_token, "extend"] Safe, &ExtendRequest { lease_ms }
    }
    /// Reports on many leases, each on its own; answers in order.
    settle(reports: &[SettleRequest]) -> SettleAnswer { POST ["v1", "leases", "settle"] IfUnsent, reports }
    /// Asks whether to retry a failed submission, and when.
    decide(request: &DecisionRequest) -> Decision { POST ["v1", "decisions"] IfUnsent, request }

    dead_letters(query: &DeadLetterQuery) -> DeadLetterList { GET ["v1", "dlq"] Safe, query }
    dead_letter(job_id: &str) -> DeadLetter { GET ["v1", "dlq", job_id] Safe }
    dead_letter_stats(query: &DeadLetterStatsQuery) -> DeadLetterStats { GET ["v1", "dlq", "stats"] Safe, query }
    /// Puts a dead letter back in line; the same again while it is on its way changes nothing.
    replay(job_id: &str, request: &ReplayRequest) -> ReplayStarted {
        POST ["v1", "dlq", job_id, "replay"] IfUnsent, request
    }
    /// Gives a dead letter up for good.
    discard(job_id: &str, reason: &str) -> Discarded {
        POST ["v1", "dlq", job_id, "discard"] IfUnsent, &DiscardRequest { reason: reason.to_owned() }
    }
    /// Counts the dead letters that a bulk replay or discard would touch, and shows a few of them.
    count_bulk(act: &str, request: &BulkRequest) -> BulkCount {
        POST ["v1", "dlq", act] Safe, &BulkRequest { dry_run: Some(true), ..request.clone() }
    }
    /// Begins to replay every dead letter that a filter chooses.
    replay_all(request: &BulkRequest) -> Bulk {
        POST ["v1", "dlq", "replay"] IfUnsent, &BulkRequest { dry_run: None, ..request.clone() }
    }
    /// Begins to discard every dead letter that a filter chooses; the request needs a reason.
    discard_all(request: &BulkRequest) -> Bulk {
        POST ["v1", "dlq", "discard"] IfUnsent, &BulkRequest { dry_run: None, ..request.clone() }
    }
    /// Bulk acts, newest first.
    bulks() -> BulkList { GET ["v1", "replays"] Safe }
    /// Reads the progress of a bulk act.
    bulk(id: &str) -> Bulk { GET ["v1", "replays", id] Safe }
    /// Stops a bulk act; what it has done stays done.
    stop_bulk(id: &str) -> Bulk { DELETE ["v1", "replays", id] Safe }

    /// Adds an endpoint; its secret is in the answer, and is never shown again.
    add_endpoint(request: &EndpointRequest) -> Endpoint { POST ["v1", "endpoints"] IfUnsent, request }
    endpoints(query: &EndpointQuery) -> EndpointList { GET ["v1", "endpoints"] Safe, query }
    endpoint(id: &str) -> Endpoint { GET ["v1", "endpoints", id] Safe }
    /// Changes what is given. A new secret is in the answer, and is never shown again.
    change_endpoint(id: &str, change: &EndpointChange) -> Endpoint { PATCH ["v1", "endpoints", id] IfUnsent, change }
    /// Switches an endpoint on again; its count of failures starts over.
    enable_endpoint(id: &str) -> Endpoint { POST ["v1", "endpoints", id, "enable"] Safe }
    /// Posts a signed test to an endpoint. A refusal by the receiver is a result, not an error.
    test_endpoint(id: &str) -> EndpointTested { POST ["v1", "endpoints", id, "test"] IfUnsent }

    /// Accounts whose credential a provider no longer takes.
    accounts(query: &AccountQuery) -> AccountList { GET ["v1", "accounts"] Safe, query }

    /// Every provider: its breaker, its limits, what waits for it.
    providers() -> ProviderList { GET ["v1", "providers"] Safe }
    provider(name: &str) -> Provider { GET ["v1", "providers", name] Safe }
    /// Opens or closes a provider's breaker by hand.
    turn_breaker(name: &str, request: &BreakerRequest) -> Provider {
        POST ["v1", "providers", name, "breaker"] IfUnsent, request
    }
    pause_provider(name: &str, request: &PauseRequest) -> Provider {
        POST ["v1", "providers", name, "pause"] IfUnsent, request
    }
    resume_provider(name: &str, request: &PauseRequest) -> Provider {
        POST ["v1", "providers", name, "resume"] IfUnsent, request
    }
    /// Asks whether the caller's own code may call a provider now; a no is an answer, too. After a yes,
    /// report the result by [`Client::report_success`] or [`Client::report_failure`].
    permit(name: &str) -> CallPermit { POST ["v1", "providers", name, "permit"] IfUnsent }
    report_success(name: &str, report: &SuccessReport) -> Provider {
        POST ["v1", "providers", name, "success"] IfUnsent, report
    }
    /// Only what the provider is to blame for is worth reporting.
    report_failure(name: &str, report: &FailureReport) -> Provider {
        POST ["v1", "providers", name, "failure"] IfUnsent, report
    }

    /// Lists the holds that answers from outside imposed.
    holds(query: &HoldQuery) -> HoldList { GET ["v1", "holds"] Safe, query }
    /// Lifts a hold on every node.
    lift_hold(id: &str, request: &PauseRequest) -> Hold { DELETE ["v1", "holds", id] IfUnsent, request }

    /// Every route: who carries it, what waits on it, what holds it back.
    routes() -> RouteList { GET ["v1", "routes"] Safe }
    pause_route(name: &str, request: &PauseRequest) -> Route { POST ["v1", "routes", name, "pause"] IfUnsent, request }
    resume_route(name: &str, request: &PauseRequest) -> Route {
        POST ["v1", "routes", name, "resume"] IfUnsent, request
    }

    /// The nodes that share the store: their health, their share of the work.
    nodes() -> NodeList { GET ["v1", "nodes"] Safe }
    /// Reads the firing alerts, and every rule.
    alerts() -> AlertList { GET ["v1", "alerts"] Safe }
    /// Reads the retry KPIs of the node that answers.
    kpis(query: &KpiQuery) -> Kpis { GET ["v1", "kpis"] Safe, query }

    /// Lists tenants by company: counts, terms, and why each waits.
    tenants(query: &TenantQuery) -> TenantList { GET ["v1", "tenants"] Safe, query }
    tenant(company_id: &str) -> Tenant { GET ["v1", "tenants", company_id] Safe }
    /// Changes a tenant's terms; absent ones stay.
    set_tenant(company_id: &str, change: &TenantChange) -> Tenant { PUT ["v1", "tenants", company_id] IfUnsent, change }

    health() -> Health { GET ["healthz"] Safe }
    /// The server's description of itself.
    openapi() -> serde_json::Value { GET ["openapi.json"] Safe }
}
