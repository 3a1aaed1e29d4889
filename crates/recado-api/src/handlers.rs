//! One file for each resource of the API: its verbs, from request to answer.

mod accounts;
mod alerts;
mod audit;
mod batch;
mod calls;
mod decisions;
mod dlq;
mod endpoints;
mod events;
mod holds;
mod jobs;
mod kpis;
mod leases;
pub(crate) mod metrics;
mod nodes;
pub(crate) mod probes;
mod providers;
mod routes;
mod rules;
mod simulations;
mod tenants;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::dashboard;
use crate::openapi::preface;
use crate::state::ApiState;

/// The parts that handlers are made of: extractors, answers, and the responses that descriptions name.
pub(crate) mod prelude {
    pub(crate) use axum::extract::Request;
    pub(crate) use axum::http::StatusCode;
    pub(crate) use recado_wire::{Code, PAGE_ITEMS_DEFAULT, Problem};

    pub(crate) use crate::answer::{self, ApiError, ApiResult, shown_name};
    pub(crate) use crate::answer_memory::{AnswerPermit, ItemPermit, Reader};
    pub(crate) use crate::body::{self, Format, Json, OptionalJson, Reason, Received, given};
    pub(crate) use crate::cursor::{self, List};
    pub(crate) use crate::extract::{self, Actor, CheckedQuery, InPath, NoQuery, TwoPathSegments};
    pub(crate) use crate::openapi::*;
    pub(crate) use crate::state::ApiState;
}

/// Every route there is. Each is added with its description, so that none can be missing from the document.
pub(crate) fn described() -> OpenApiRouter<ApiState> {
    OpenApiRouter::with_openapi(preface())
        .routes(routes!(jobs::enqueue, jobs::list))
        .routes(routes!(batch::enqueue_batch))
        .routes(routes!(jobs::show, jobs::cancel))
        .routes(routes!(jobs::audit))
        .routes(routes!(leases::lease))
        .routes(routes!(leases::settle))
        .routes(routes!(leases::succeed))
        .routes(routes!(leases::fail))
        .routes(routes!(leases::extend))
        .routes(routes!(decisions::decide))
        .routes(routes!(dlq::list))
        .routes(routes!(dlq::stats))
        .routes(routes!(dlq::archive::export))
        .routes(routes!(dlq::archive::import))
        .routes(routes!(dlq::bulk::replay))
        .routes(routes!(dlq::bulk::discard))
        .routes(routes!(dlq::bulk::list))
        .routes(routes!(dlq::bulk::show, dlq::bulk::stop))
        .routes(routes!(dlq::show))
        .routes(routes!(dlq::replay))
        .routes(routes!(dlq::discard))
        .routes(routes!(endpoints::add, endpoints::list))
        .routes(routes!(endpoints::show, endpoints::change, endpoints::remove))
        .routes(routes!(endpoints::enable))
        .routes(routes!(endpoints::test))
        .routes(routes!(events::listen))
        .routes(routes!(calls::call))
        .routes(routes!(accounts::list))
        .routes(routes!(accounts::clear))
        .routes(routes!(providers::list))
        .routes(routes!(providers::show))
        .routes(routes!(providers::turn))
        .routes(routes!(providers::pause))
        .routes(routes!(providers::resume))
        .routes(routes!(providers::permit))
        .routes(routes!(providers::success))
        .routes(routes!(providers::failure))
        .routes(routes!(holds::list))
        .routes(routes!(holds::lift))
        .routes(routes!(routes::list))
        .routes(routes!(routes::pause))
        .routes(routes!(routes::resume))
        .routes(routes!(rules::suggest))
        .routes(routes!(simulations::simulate))
        .routes(routes!(tenants::list))
        .routes(routes!(tenants::show, tenants::set))
        .routes(routes!(nodes::list))
        .routes(routes!(alerts::list))
        .routes(routes!(audit::list))
        .routes(routes!(audit::erase))
        .routes(routes!(kpis::show))
        .routes(routes!(metrics::metrics))
        .routes(routes!(probes::healthz))
        .routes(routes!(probes::readyz))
        .routes(routes!(probes::openapi_json))
        .routes(routes!(dashboard::index))
        .routes(routes!(dashboard::asset))
}
