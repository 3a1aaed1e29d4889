//! Components of the API document for types that others define, with the bounds that the readers enforce.
//!
//! A field refers to one by `value_type`, so that a generated client has one type for all of them.

use recado_core::name::NAME_LEN_MAX;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::dlq::WORDS_LEN_MAX;
use crate::format::schema;
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
    ProblemCode = schema::code();
    Status = schema::status();
    Cause = schema::cause();
    ErrorClassification = schema::class();
    Blame = schema::blame();
    AttemptResult = schema::attempt_result();
    DeadLetterState = schema::dead_letter_state();
    BreakerState = schema::breaker_state();
    AuditStep = schema::audit_step();
    AuditKind = schema::audit_kind();
    EventKind = schema::event_kind();
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

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn integer(least: u64, most: u64) -> Object {
    let number = ObjectBuilder::new().schema_type(Type::Integer);
    number.minimum(Some(least)).maximum(Some(most)).build()
}
