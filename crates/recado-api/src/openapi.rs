//! The document's preface, and the problems that many routes share.

use std::collections::BTreeMap;

use recado_wire::events::{EventSchema, Gap};
use recado_wire::problem::PROBLEM_JSON;
use recado_wire::{ACTOR_LEN_MAX, Code, Problem};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder};
use utoipa::{IntoParams, IntoResponses, Modify, OpenApi as _};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Recado",
        description = "Takes jobs, keeps them durably, delivers each to an external provider, and puts what cannot be \
                       delivered where a person sees it. Times are RFC 3339 in UTC, durations `…Ms` integers. Errors \
                       are RFC 9457 problems with a stable `code` and, for bad input, every fault at once.",
    ),
    components(schemas(Problem, EventSchema, Gap)),
    modifiers(&Bearer),
    security((), ("token" = [])),
    tags(
        (name = "jobs", description = "Enqueue, look at, list, cancel."),
        (name = "leases", description = "For workers that deliver on their own."),
        (name = "decisions", description = "Retry decisions for process engines."),
        (name = "dead letters", description = "Jobs that could not be delivered, for a person to review."),
        (name = "endpoints", description = "Signed webhooks by which companies receive events."),
        (name = "events", description = "The live stream of events."),
        (name = "calls", description = "A provider asked while the caller waits."),
        (name = "accounts", description = "Companies whose credential a provider no longer accepts."),
        (name = "providers", description = "Breakers, limits, pauses and holds, and the breaker for callers' own code."),
        (name = "routes", description = "Named ways to deliver, and pausing one."),
        (name = "tenants", description = "Counts and turns of each company, and its terms."),
        (name = "nodes", description = "The processes that share the store."),
        (name = "audit", description = "The audit trail, and the erasure of one person's data."),
        (name = "alerts", description = "Alerts, and the figures behind them."),
        (name = "probes", description = "Health, readiness and documents."),
    )
)]
struct Preface;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut OpenApi) {
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
}

pub(crate) fn preface() -> OpenApi {
    Preface::openapi()
}

fn problems(codes: &[Code]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.status().to_string()).or_default().push(code.as_str());
    }
    let describe = |(status, codes): (String, Vec<&str>)| {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let description = format!("`code`: {}", codes.join(", "));
        (
            status,
            RefOr::T(ResponseBuilder::new().description(description).content(PROBLEM_JSON, content).build()),
        )
    };
    by_status.into_iter().map(describe).collect()
}

const READ: &[Code] = &[
    Code::Unauthorized,
    Code::HostNotAllowed,
    Code::OriginNotAllowed,
    Code::TooManyWrongTokens,
    Code::ValidationFailed,
    Code::Internal,
    Code::StoreUnavailable,
    Code::StoreBroken,
    Code::Overloaded,
];

const WRITE: &[Code] = &[
    Code::InvalidJson,
    Code::Unauthorized,
    Code::HostNotAllowed,
    Code::OriginNotAllowed,
    Code::TooManyWrongTokens,
    Code::RequestTimeout,
    Code::PayloadTooLarge,
    Code::UnsupportedMediaType,
    Code::ValidationFailed,
    Code::Internal,
    Code::StoreFull,
    Code::StoreUnavailable,
    Code::StoreBroken,
    Code::Stopping,
    Code::Overloaded,
];

/// The header that says who acts.
pub(crate) struct ActorHeader;

impl IntoParams for ActorHeader {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let name = ObjectBuilder::new().schema_type(Type::String);
        let name = name.min_length(Some(1)).max_length(Some(ACTOR_LEN_MAX)).pattern(Some(r"\S"));
        let header = ParameterBuilder::new().name("X-Recado-Actor").parameter_in(ParameterIn::Header);
        vec![
            header
                .required(Required::False)
                .description(Some("Who acts, without control characters."))
                .schema(Some(name))
                .build(),
        ]
    }
}

/// The problems that the gate may answer any request with.
pub(crate) struct GateProblems;

impl IntoResponses for GateProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(&[
            Code::Unauthorized,
            Code::HostNotAllowed,
            Code::OriginNotAllowed,
            Code::TooManyWrongTokens,
        ])
    }
}

/// Problems of any request that only reads.
pub(crate) struct ReadProblems;

impl IntoResponses for ReadProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(READ)
    }
}

/// Problems of any request that has a body.
pub(crate) struct WriteProblems;

impl IntoResponses for WriteProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(WRITE)
    }
}

/// Problems of a call: those of a body, and the provider's.
pub(crate) struct CallProblems;

impl IntoResponses for CallProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(&[WRITE, &[Code::ProviderUnavailable, Code::ProviderRefused]].concat())
    }
}
