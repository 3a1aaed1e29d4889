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
        (name = "routes", description = "Named ways to deliver, pausing one, and suggested classification rules."),
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

const GATE: &[Code] =
    &[Code::Unauthorized, Code::HostNotAllowed, Code::OriginNotAllowed, Code::TooManyWrongTokens];

const READ: &[Code] =
    &[Code::ValidationFailed, Code::Internal, Code::StoreUnavailable, Code::StoreBroken, Code::Overloaded];

const BODY: &[Code] = &[
    Code::InvalidJson,
    Code::RequestTimeout,
    Code::PayloadTooLarge,
    Code::UnsupportedMediaType,
    Code::StoreFull,
    Code::Stopping,
];

/// A response for each status of these codes.
fn problems(codes: &[&[Code]]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in Code::ALL.iter().filter(|code| codes.iter().any(|some| some.contains(code))) {
        by_status.entry(code.status()).or_default().push(code.as_str());
    }
    let describe =
        |(status, codes): (u16, Vec<&str>)| refusal(status, &format!("`code`: {}", codes.join(", ")));
    by_status.into_iter().flat_map(describe).collect()
}

fn refusal(status: u16, description: &str) -> BTreeMap<String, RefOr<Response>> {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let response = ResponseBuilder::new().description(description).content(PROBLEM_JSON, content).build();
    BTreeMap::from([(status.to_string(), RefOr::T(response))])
}

/// Declares the responses that routes name in their descriptions.
macro_rules! responses {
    ($($(#[$doc:meta])* $name:ident = $responses:expr;)*) => {
        $(
            $(#[$doc])*
            pub(crate) struct $name;

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<Response>> {
                    $responses
                }
            }
        )*
    };
}

responses! {
    /// The problems that the gate may answer any request with.
    GateProblems = problems(&[GATE]);
    /// Problems of any request that only reads.
    ReadProblems = problems(&[GATE, READ]);
    /// Problems of any request that has a body.
    WriteProblems = problems(&[GATE, READ, BODY]);
    /// Problems of a call: those of a body, and the provider's.
    CallProblems = problems(&[GATE, READ, BODY, &[Code::ProviderUnavailable, Code::ProviderRefused]]);
    AccountNotMarked = refusal(404, "The account is not marked.");
    NoSuchBulkAct = refusal(404, "There is no such bulk act.");
    NoSuchDeadLetter = refusal(404, "There is no such dead letter.");
    NoSuchEndpoint = refusal(404, "There is no such endpoint.");
    NoSuchFile = refusal(404, "There is no such file.");
    NoSuchHold = refusal(404, "There is no such hold; it may be over.");
    NoSuchJob = refusal(404, "There is no such job.");
    NoSuchProvider = refusal(404, "There is no such provider.");
    NoSuchRoute = refusal(404, "There is no such route.");
    NotALeaseToken = refusal(404, "The text is not a lease token.");
    NothingOnRecord = refusal(404, "There is no such job, and nothing on record about one.");
    UnknownCompany = refusal(404, "The company is unknown.");
    BreakerMissing = refusal(409, "It has no breaker.");
    DiscardConflict = refusal(409, "It is being replayed, or it failed for good again just now.");
    EnqueueConflict = refusal(409, "The id belongs to a job with another body.");
    ErasureConflict = refusal(
        409,
        "Jobs of the person wait or are being delivered, or another node writes the trail: nothing was touched."
    );
    LeaseLost = refusal(409, "The lease is no longer yours; nothing changed.");
    ReplayConflict = refusal(
        409,
        "It is on its way with other data, or what would be sent is damaged in the store."
    );
    TooLateToCancel = refusal(409, "Too late: it is being delivered, or has ended.");
    TooManyBulkActs = refusal(409, "Too many bulk acts run already.");
    TooManyEndpoints = refusal(409, "The company has the maximum number of endpoints.");
}

/// The header that says who acts.
pub(crate) struct ActorHeader;

impl IntoParams for ActorHeader {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let name = ObjectBuilder::new().schema_type(Type::String);
        let name = name.min_length(Some(1)).max_length(Some(ACTOR_LEN_MAX)).pattern(Some(r"\S"));
        let header = ParameterBuilder::new().name("X-Recado-Actor").parameter_in(ParameterIn::Header);
        let header = header.required(Required::False).schema(Some(name));
        vec![header.description(Some("Who acts, without control characters.")).build()]
    }
}
