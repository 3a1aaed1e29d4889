//! Events, as the stream and the callbacks carry them.
//!
//! An event has one form everywhere, the core's; here is what is around it on the stream.

use recado_core::{CompanyId, JobId, RouteName};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::{IntoParams, ToSchema};

use crate::format::components;
use crate::format::read::{Query, suggest};

pub use recado_core::{Event, EventData, EventKind};

/// The content type of the stream.
pub const EVENT_STREAM: &str = "text/event-stream";

/// Names the last event heard, so that the stream goes on after it.
pub const LAST_EVENT_ID_HEADER: &str = "last-event-id";

/// The `event:` line where events are missing from the stream.
pub const GAP: &str = "gap";

/// Some events are missing here: a listener that needs them all reads the jobs themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    pub reason: String,
    /// Number of missing events, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
}

/// Selects events; every given condition must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    #[param(value_type = Option<components::Name>, inline)]
    pub company_id: Option<CompanyId>,
    /// One or more, separated by commas; every event when absent.
    #[serde(rename = "event", default, with = "with_commas", skip_serializing_if = "Vec::is_empty")]
    #[param(value_type = Option<String>, example = "JobSent,JobFailed")]
    pub events: Vec<EventKind>,
    #[param(value_type = Option<components::Name>, inline)]
    pub route: Option<RouteName>,
    #[param(value_type = Option<components::Name>, inline)]
    pub job_id: Option<JobId>,
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub correlation_id: Option<String>,
    /// The same as the header `Last-Event-ID`, for those who cannot set it.
    #[param(value_type = Option<components::NotEmpty>, inline)]
    pub last_event_id: Option<String>,
}

impl Query for EventQuery {}

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

/// Names of events in a query, as one text.
mod with_commas {
    use super::{Deserialize, Deserializer, EventKind, Serializer, kinds};

    pub fn serialize<S: Serializer>(kinds: &[EventKind], serializer: S) -> Result<S::Ok, S::Error> {
        let names: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
        serializer.serialize_str(&names.join(","))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<EventKind>, D::Error> {
        let names = Option::<String>::deserialize(deserializer)?;
        names.map_or(Ok(Vec::new()), |names| kinds(&names)).map_err(serde::de::Error::custom)
    }
}

pub use crate::format::components::Event as EventSchema;
