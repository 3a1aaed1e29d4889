//! Events, as the stream and the callbacks carry them.
//!
//! An event has one form everywhere, the core's; here is what is around it on the stream.

use recado_core::{CompanyId, JobId, RouteName};
use serde::{Deserialize, Serialize, Serializer};

use crate::format::read::{Params, Query, suggest};

pub use recado_core::{Event, EventData, EventKind};

/// The content type of the stream.
pub const EVENT_STREAM: &str = "text/event-stream";

/// Names the last event heard, so that the stream goes on after it.
pub const LAST_EVENT_ID_HEADER: &str = "last-event-id";

/// The `event:` line where events are missing from the stream.
pub const GAP: &str = "gap";

/// Some events are missing here: a listener that needs them all reads the jobs themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Gap {
    pub reason: String,
    /// Number of missing events, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
}

/// Selects events; every given condition must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct EventQuery {
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::format::components::Name>, inline))]
    pub company_id: Option<CompanyId>,
    /// One or more, separated by commas; every event when absent.
    #[serde(rename = "event", serialize_with = "with_commas", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, example = "JobSent,JobFailed"))]
    pub events: Vec<EventKind>,
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::format::components::Name>, inline))]
    pub route: Option<RouteName>,
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::format::components::Name>, inline))]
    pub job_id: Option<JobId>,
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::format::components::NotEmpty>, inline))]
    pub correlation_id: Option<String>,
    /// The same as the header `Last-Event-ID`, for those who cannot set it.
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::format::components::NotEmpty>, inline))]
    pub last_event_id: Option<String>,
}

impl Query for EventQuery {
    const FIELDS: &'static [&'static str] =
        &["companyId", "event", "route", "jobId", "correlationId", "lastEventId"];

    fn from_params(params: &mut Params<'_>) -> Self {
        EventQuery {
            company_id: params.parsed("companyId", CompanyId::new),
            events: params.parsed("event", |text| kinds(&text)).unwrap_or_default(),
            route: params.parsed("route", RouteName::new),
            job_id: params.parsed("jobId", JobId::new),
            correlation_id: params.text("correlationId"),
            last_event_id: params.text("lastEventId"),
        }
    }
}

impl EventQuery {
    pub fn wants(&self, event: &Event) -> bool {
        fn fits(wanted: Option<&str>, found: Option<&str>) -> bool {
            wanted.is_none() || wanted == found
        }
        let company = event.company_id.as_ref().map(CompanyId::as_str);
        (self.events.is_empty() || self.events.contains(&event.kind))
            && fits(self.company_id.as_ref().map(CompanyId::as_str), company)
            && fits(self.route.as_ref().map(RouteName::as_str), event.data.job.route.as_deref())
            && fits(self.job_id.as_ref().map(JobId::as_str), event.data.job.job_id.as_deref())
            && fits(self.correlation_id.as_deref(), event.data.job.correlation_id.as_deref())
    }
}

/// Reads names of events, separated by commas.
pub fn kinds(text: &str) -> Result<Vec<EventKind>, String> {
    let known: Vec<_> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let kind = |name: &str| {
        EventKind::parse(name).ok_or_else(|| format!("names no event; {}", suggest(name, &known)))
    };
    text.split(',').map(str::trim).map(kind).collect()
}

fn with_commas<S: Serializer>(kinds: &[EventKind], serializer: S) -> Result<S::Ok, S::Error> {
    let names: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
    serializer.serialize_str(&names.join(","))
}

#[cfg(feature = "openapi")]
mod described {
    use utoipa::openapi::{RefOr, Schema};
    use utoipa::{PartialSchema, ToSchema};

    /// An event, for the document.
    #[derive(Debug)]
    pub struct Event;

    impl PartialSchema for Event {
        fn schema() -> RefOr<Schema> {
            RefOr::T(Schema::Object(crate::format::schema::event()))
        }
    }

    impl ToSchema for Event {}
}

#[cfg(feature = "openapi")]
pub use described::Event as EventSchema;
