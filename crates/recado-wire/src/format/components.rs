//! Components of the API document for types that others define, with the bounds that the readers enforce.
//!
//! A field refers to one by `value_type`, so that a generated client has one type for all of them.

use recado_core::name::NAME_LEN_MAX;
use recado_core::{EventAlert, EventJob, EventOutcome};
use serde::de::DeserializeOwned;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, Object, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::dlq::WORDS_LEN_MAX;
use crate::format::problem::Code;
use crate::format::read::names_of;
use crate::jobs::{PERSON_ID_LEN_MAX, TTL_MIN_MS};
use crate::{DURATION_MAX_MS, PAGE_ITEMS_MAX};

/// Text with something to read in it.
const NOT_BLANK: &str = r"\S";

macro_rules! components {
    ($($(#[$doc:meta])* $name:ident = $schema:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                RefOr::T(Schema::Object($schema))
            }
        }

        impl ToSchema for $name {}
    )*};
}

components! {
    ProblemCode = words(Code::ALL.iter().map(|code| code.as_str()));
    Status = choices::<recado_core::Status>();
    Cause = choices::<recado_core::Cause>();
    ErrorClassification = choices::<recado_core::Class>();
    Blame = choices::<recado_core::Blame>();
    AttemptResult = choices::<recado_core::AttemptResult>();
    DeadLetterState = choices::<recado_core::DeadLetterState>();
    BreakerState = choices::<recado_core::breaker::BreakerState>();
    LimitCode = described(choices::<recado_core::limit::LimitKind>(), "Bound that is reached.");
    PauseCode = described(choices::<recado_core::limit::PauseScope>(), "Subject of a person's pause.");
    GroupBy = described(choices::<recado_core::dead_letter::GroupBy>(), "Field to count dead letters by.");
    BulkAct = choices::<recado_core::dead_letter::bulk::BulkAct>();
    BulkState = choices::<recado_core::dead_letter::bulk::BulkState>();
    CanaryState = choices::<recado_core::dead_letter::bulk::CanaryState>();
    AlertSeverity = choices::<recado_core::alert::Severity>();
    AlertUnit = described(choices::<recado_core::alert::Unit>(), "Unit of a figure, which says how to write it.");
    AuditStep = words(recado_core::audit::AuditStep::all().map(|step| step.as_str()));
    AuditKind = choices::<recado_core::AuditKind>();
    EventKind = choices::<recado_core::EventKind>();
    DecisionErrorCode = choices::<recado_core::tiss_decision::TissErrorCode>();
    /// An event as the core writes it: a test holds the two together.
    Event = event();
    /// The id of a job, a company or a route, as `recado_core::name` checks it.
    Name = text().min_length(Some(1)).max_length(Some(NAME_LEN_MAX)).pattern(Some("^[A-Za-z0-9._:-]+$")).build();
    /// The id of a user or of a correlation.
    PersonId = text().min_length(Some(1)).max_length(Some(PERSON_ID_LEN_MAX)).build();
    /// A note or a reason that may be blank.
    Note = text().max_length(Some(WORDS_LEN_MAX)).build();
    /// A reason that has to say something.
    Reason = text().min_length(Some(1)).max_length(Some(WORDS_LEN_MAX)).pattern(Some(NOT_BLANK)).build();
    /// Text with something to read in it.
    NotBlank = text().min_length(Some(1)).pattern(Some(NOT_BLANK)).build();
    /// Text that is not empty.
    NotEmpty = text().min_length(Some(1)).build();
    /// Items on one page of a list.
    PageLimit = integer(1, u64::from(PAGE_ITEMS_MAX));
    /// A time in whole milliseconds.
    DurationMs = integer(0, DURATION_MAX_MS);
    /// Time that a job is worth delivering, in whole milliseconds.
    TimeToLiveMs = integer(TTL_MIN_MS, DURATION_MAX_MS);
}

/// Any JSON at all.
pub(crate) fn any() -> Schema {
    Schema::Object(ObjectBuilder::new().schema_type(SchemaType::AnyValue).build())
}

fn event() -> Object {
    let time = || text().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
    let mut data = ObjectBuilder::new().description(Some("Each kind fills what it knows."));
    let own = ["provider", "endpointId", "failures", "actor", "reason"];
    let groups: [&[&'static str]; 5] =
        [names_of::<EventJob>(), &["status"], names_of::<EventOutcome>(), &own, names_of::<EventAlert>()];
    for name in groups.concat() {
        let schema = match name {
            "errorClassification" => ErrorClassification::schema(),
            "blame" => Blame::schema(),
            "cause" => Cause::schema(),
            "nextRetryTime" | "since" => time().into(),
            "attempt" | "retryCount" | "mayHaveArrived" | "nextRetryDelayMs" | "backoffMinutes"
            | "failures" => ObjectBuilder::new().schema_type(Type::Integer).into(),
            _ => text().into(),
        };
        data = data.property(name, schema);
    }
    ObjectBuilder::new()
        .property("id", text())
        .property("type", EventKind::schema())
        .property("timestamp", time())
        .property("companyId", text())
        .property("data", data)
        .required("id")
        .required("type")
        .required("timestamp")
        .required("data")
        .build()
}

fn choices<T: DeserializeOwned>() -> Object {
    words(names_of::<T>().iter().copied())
}

fn described(schema: Object, what: &str) -> Object {
    ObjectBuilder::from(schema).description(Some(what)).build()
}

fn words(words: impl IntoIterator<Item = &'static str>) -> Object {
    text().enum_values(Some(words)).build()
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn integer(least: u64, most: u64) -> Object {
    let number = ObjectBuilder::new().schema_type(Type::Integer);
    number.minimum(Some(least)).maximum(Some(most)).build()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use recado_core::{
        Blame, Cause, Class, CompanyId, Event, EventAlert, EventData, EventJob, EventKind, EventOutcome,
        Timestamp,
    };
    use serde_json::Value;

    fn names(value: &Value) -> BTreeSet<String> {
        value.as_object().into_iter().flat_map(|members| members.keys().cloned()).collect()
    }

    #[test]
    fn t20_an_event_is_described_with_every_field_that_it_has() {
        let (text, now) = (|| Some("x".into()), Timestamp::from_millis(0));
        let data = EventData {
            job: EventJob {
                job_id: text(),
                claim_id: text(),
                route: text(),
                user_id: text(),
                correlation_id: text(),
            },
            status: text(),
            outcome: EventOutcome {
                attempt: Some(1),
                retry_count: Some(1),
                error_code: text(),
                last_error: text(),
                error_classification: Some(Class::Transient),
                rule: text(),
                blame: Some(Blame::Provider),
                cause: Some(Cause::Exhausted),
                may_have_arrived: Some(1),
                advice: text(),
                advice_pt: text(),
                next_retry_time: Some(now),
                next_retry_delay_ms: Some(1),
                backoff_minutes: Some(1),
            },
            provider: text(),
            endpoint_id: text(),
            failures: Some(1),
            actor: text(),
            reason: text(),
            alert: EventAlert {
                name: text(),
                severity: text(),
                since: Some(now),
                reason_pt: text(),
                runbook: text(),
            },
        };
        let company = Some(CompanyId::trusted("acme"));
        let event = Event::new(EventKind::JobFailed, company, &["x"], now, data);
        let event = serde_json::to_value(event).expect("an event is JSON");
        let described = serde_json::to_value(super::event()).expect("a schema is JSON");
        assert_eq!(names(&described["properties"]), names(&event));
        assert_eq!(names(&described["properties"]["data"]["properties"]), names(&event["data"]));
    }
}
