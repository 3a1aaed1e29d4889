//! Notices to people: a message to a named channel, delivered by the engine like any other job.
//!
//! A notice is a follow-up of the settlement it is about, so it cannot be lost between the two. The result of
//! a notice itself is told to no channel, or a broken channel would write to itself for ever.

use std::collections::BTreeMap;
use std::fmt::Write;

use recado_core::{
    BodyHash, CompanyId, Event, EventData, EventJob, JobId, NewJob, Payload, Priority, RouteName, Timestamp,
};
use serde_json::json;

/// The company of notices; its own tenant, so that they delay no other.
pub const NOTICES_COMPANY: &str = "recado";

/// The actor of acts that no person made.
pub(crate) const OURSELVES: &str = "recado";

/// Parses a caller's company id; refuses Recado's own.
pub fn caller_company(name: &str) -> Result<CompanyId, String> {
    match CompanyId::new(name) {
        Ok(_) if name == NOTICES_COMPANY => {
            Err(format!("`{NOTICES_COMPANY}` is the company of Recado's own notices; choose another"))
        }
        Ok(company) => Ok(company),
        Err(error) => Err(error.to_string()),
    }
}

/// The destination of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Channel {
    /// A signed POST of the event, to an endpoint that only notices go to.
    Webhook {
        route: RouteName,
        endpoint: Box<str>,
        shape: Shape,
    },
    Email {
        route: RouteName,
        from: Box<str>,
        to: Vec<Box<str>>,
    },
}

/// The body of a webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// The event itself.
    #[default]
    Event,
    /// One text, as Slack and those that follow it take it.
    Slack,
}

/// The channels by name, and the events each receives.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    pub channels: BTreeMap<Box<str>, Channel>,
    /// Receives dead letters of routes that name no channel, and endpoints that were switched off.
    pub default: Option<Box<str>>,
    /// Receive alerts, instead of the default one.
    pub alerts: Vec<Box<str>>,
}

impl Notices {
    /// Makes the job that delivers an event to a channel.
    pub fn notice(
        &self,
        channel: Option<&str>,
        event: &Event,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Option<NewJob> {
        let name = channel.or(self.default.as_deref())?;
        let channel = self.channels.get(name)?;
        let (route, data) = match channel {
            Channel::Webhook { route, endpoint, shape } => {
                let payload = match shape {
                    Shape::Event => json!(event),
                    Shape::Slack => json!({ "text": message(event) }),
                };
                (route, json!({ "endpointId": endpoint, "event": event.kind.as_str(), "payload": payload }))
            }
            Channel::Email { route, from, to } => {
                (route, json!({ "from": from, "to": to, "subject": subject(event), "text": text(event) }))
            }
        };
        let id = format!("{}-{}", event.id, name);
        let company = CompanyId::trusted(NOTICES_COMPANY);
        let job = follow_up(&id, route, &company, &data.to_string(), now, expires_at)?;
        Some(telling_of(event, job))
    }
}

/// Makes a job tell of an event: it carries the numbers of the person whose job the event is about, so that it is found and
/// erased together with that.
pub(crate) fn telling_of(event: &Event, job: NewJob) -> NewJob {
    let EventJob { user_id, correlation_id, .. } = event.data.job.clone();
    NewJob { user_id, correlation_id, ..job }
}

/// A job of our own making.
pub(crate) fn follow_up(
    id: &str,
    route: &RouteName,
    company: &CompanyId,
    data: &str,
    now: Timestamp,
    expires_at: Timestamp,
) -> Option<NewJob> {
    let data = Payload::trusted(data);
    let body_hash = BodyHash::of(&data, &[Some(route.as_str()), Some(company.as_str())]).ok()?;
    Some(NewJob {
        id: JobId::new(id).ok()?,
        route: route.clone(),
        company: company.clone(),
        data,
        user_id: None,
        correlation_id: None,
        traceparent: None,
        priority: Priority::default(),
        enqueued_at: now,
        due_at: now,
        expires_at,
        body_hash,
    })
}

fn subject(event: &Event) -> String {
    let EventData { job, outcome, provider, endpoint_id, alert, .. } = &event.data;
    let about = [
        ("alert", alert.name.as_deref()),
        ("route", job.route.as_deref()),
        ("provider", provider.as_deref()),
        ("error code", outcome.error_code.as_deref().filter(|_| alert.name.is_some())),
        ("company", event.company_id.as_ref().map(CompanyId::as_str)),
        ("endpoint", endpoint_id.as_deref()),
    ];
    let about: Vec<_> =
        about.iter().filter_map(|(name, value)| Some(format!("{name} {}", (*value)?))).collect();
    format!("Recado: {} ({})", event.kind.as_str(), about.join(", "))
}

/// The subject, why, and where to read on.
fn message(event: &Event) -> String {
    let EventData { outcome, reason, alert, .. } = &event.data;
    let why = reason.as_deref().or(outcome.last_error.as_deref());
    let subject = subject(event);
    let lines = [Some(&*subject), why, outcome.advice.as_deref(), alert.runbook.as_deref()];
    lines.into_iter().flatten().map(escaped).collect::<Vec<_>>().join("\n")
}

/// Text from outside must not become a link or a mention.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Writes one field per line, readable on a phone.
fn text(event: &Event) -> String {
    let mut text = format!("{}\n{}\n\n", event.kind.as_str(), event.timestamp);
    let fields = serde_json::to_value(&event.data).unwrap_or_default();
    let company = event.company_id.as_ref().map(|company| ("companyId".to_owned(), json!(company)));
    let fields = fields.as_object().cloned().unwrap_or_default();
    for (name, value) in company.into_iter().chain(fields) {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = writeln!(text, "{name}: {value}");
    }
    if let Some(job) = &event.data.job.job_id {
        let _ = writeln!(text, "\nrecado jobs show {job}\nrecado dlq show {job}");
    }
    text
}
