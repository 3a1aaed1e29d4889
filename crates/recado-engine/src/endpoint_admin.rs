//! Acts on endpoints: add, change, switch on, try out, remove.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{AuditEvent, AuditKind, EventKind, Fault};
use recado_store::AuditLog;
use recado_transport_webhook::{Secret, TestResult, Webhook};

use crate::admission::gate::Gate;
use crate::environment::Environment;
use crate::notify::Notifier;
use crate::notify::endpoints::{Endpoint, EndpointChange, EndpointError};
use crate::notify::notices::caller_company;

/// Timeout of a test delivery: as long as a delivery may take.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Characters at most of an endpoint's description.
pub const DESCRIPTION_LEN_MAX: usize = 256;

/// An endpoint as a caller writes it. To change one, what is absent stays.
#[derive(Clone, Debug, Default)]
pub struct EndpointDraft {
    pub company_id: Option<String>,
    pub url: Option<String>,
    pub description: Option<String>,
    pub events: Option<Vec<String>>,
    /// Drawn when a new endpoint brings none.
    pub secret: Option<String>,
    pub enabled: Option<bool>,
}

#[derive(Debug, thiserror::Error)]
pub enum EndpointRefusal {
    /// Everything wrong with it: JSON pointer and what to write instead.
    #[error("the endpoint is not valid")]
    Invalid(Vec<(String, String)>),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// No route delivers webhooks.
    #[error("no route delivers webhooks here; give one transport \"webhook\"")]
    NoCarrier,
    #[error("the system gives no random numbers; send a secret of your own")]
    NoRandomness,
}

/// A test delivery: what the receiver said and how long it took, or why it was not reached.
pub type Tested = Result<TestResult, Fault>;

type Faults = Vec<(String, String)>;

/// Acts of operators and callers on endpoints.
#[derive(Debug)]
pub struct EndpointAdmin {
    pub(crate) notifier: Arc<Notifier>,
    pub(crate) gate: Arc<Gate>,
    /// The transport that delivers to endpoints, if there is one.
    pub(crate) webhook: Option<Arc<Webhook>>,
    pub(crate) audit: Arc<dyn AuditLog>,
    pub(crate) env: Arc<Environment>,
}

impl EndpointAdmin {
    fn webhook(&self) -> Result<&Arc<Webhook>, EndpointRefusal> {
        self.webhook.as_ref().ok_or(EndpointRefusal::NoCarrier)
    }

    pub async fn add(&self, draft: EndpointDraft, actor: &str) -> Result<Arc<Endpoint>, EndpointRefusal> {
        let mut faults = Faults::new();
        let company = match draft.company_id.as_deref().map(caller_company) {
            Some(Ok(company)) => Some(company),
            Some(Err(why)) => fault(&mut faults, "/companyId", why),
            None => fault(&mut faults, "/companyId", "is missing; name the company".to_owned()),
        };
        if draft.url.is_none() {
            fault::<()>(&mut faults, "/url", "is missing; write where the company listens".to_owned());
        }
        let mut change = self.checked(draft, &mut faults)?;
        let (Some(company), true) = (company, faults.is_empty()) else {
            return Err(EndpointRefusal::Invalid(faults));
        };
        if change.secret.is_none() {
            change.secret = Some(Secret::generate(random()?));
        }
        change.enabled = None;
        let id = self.env.random.uuid_v7(self.env.now());
        let endpoint = self.notifier.endpoints.add(company, change, actor, id).await?;
        tracing::info!(endpointId = %endpoint.id, companyId = %endpoint.company_id, actor, "Endpoint added");
        Ok(endpoint)
    }

    pub async fn change(
        &self,
        id: &str,
        draft: EndpointDraft,
        actor: &str,
    ) -> Result<Arc<Endpoint>, EndpointRefusal> {
        let mut faults = Faults::new();
        if draft.company_id.is_some() {
            fault::<()>(&mut faults, "/companyId", "cannot change; make another endpoint".to_owned());
        }
        let change = self.checked(draft, &mut faults)?;
        if !faults.is_empty() {
            return Err(EndpointRefusal::Invalid(faults));
        }
        let before = self.notifier.endpoints.get(id);
        let endpoint = self.notifier.endpoints.change(id, change, actor).await?;
        if before.is_none_or(|before| before.url != endpoint.url) {
            self.gate.drop_endpoint_holds(&endpoint.company_id, id);
        }
        tracing::info!(endpointId = id, enabled = endpoint.enabled, actor, "Endpoint changed");
        Ok(endpoint)
    }

    pub async fn remove(&self, id: &str, actor: &str) -> Result<(), EndpointRefusal> {
        let company = self.notifier.endpoints.remove(id, actor).await?;
        self.gate.drop_endpoint_holds(&company, id);
        tracing::info!(endpointId = id, actor, "Endpoint removed");
        Ok(())
    }

    /// Posts a signed test at once. It neither counts nor is repeated. It is on record before it goes out.
    pub async fn test(&self, id: &str, actor: &str) -> Result<Tested, EndpointRefusal> {
        let now = self.env.now();
        let endpoint = self.notifier.endpoints.get(id).ok_or(EndpointError::Unknown)?;
        let target = endpoint.target(now).ok_or(EndpointError::Unknown)?;
        let message = format!("test_{}", self.env.random.uuid_v7(now).to_simple());
        let webhook = self.webhook()?;
        let audit = AuditEvent::about_endpoint(id, &endpoint.company_id, AuditKind::EndpointTested, now);
        self.audit.record(vec![audit.by(Some(actor))]).await.map_err(EndpointError::from)?;
        Ok(webhook.test(&target, &message, now, TEST_TIMEOUT).await)
    }

    fn checked(&self, draft: EndpointDraft, faults: &mut Faults) -> Result<EndpointChange, EndpointRefusal> {
        let guard = self.webhook()?.guard();
        let url = draft.url.and_then(|text| match text.parse() {
            Ok(url) => match guard.check_url(&url) {
                Ok(()) => Some(url.as_str().into()),
                Err(refusal) => fault(faults, "/url", refusal.to_string()),
            },
            Err(_) => fault(
                faults,
                "/url",
                "is not a web address; write one such as https://example.com/hooks".to_owned(),
            ),
        });
        let secret = draft.secret.and_then(|text| match text.parse::<Secret>() {
            Ok(secret) => Some(secret),
            Err(error) => fault(faults, "/secret", error.to_string()),
        });
        if draft.description.as_ref().is_some_and(|text| text.chars().count() > DESCRIPTION_LEN_MAX) {
            fault::<()>(
                faults,
                "/description",
                format!("is too long; give at most {DESCRIPTION_LEN_MAX} characters"),
            );
        }
        let events = draft.events.map(|names| kinds(&names, faults));
        Ok(EndpointChange {
            url,
            description: draft.description.map(Into::into),
            events,
            secret,
            enabled: draft.enabled,
        })
    }
}

fn kinds(names: &[String], faults: &mut Faults) -> Vec<EventKind> {
    let known: Vec<_> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let mut kinds = Vec::new();
    for (index, name) in names.iter().enumerate() {
        match EventKind::parse(name) {
            Some(kind) if kinds.contains(&kind) => {}
            Some(kind) => kinds.push(kind),
            None => {
                let message = format!("is not an event; write one of {}", known.join(", "));
                fault::<()>(faults, &format!("/events/{index}"), message);
            }
        }
    }
    kinds
}

fn fault<T>(faults: &mut Faults, pointer: &str, message: String) -> Option<T> {
    faults.push((pointer.to_owned(), message));
    None
}

/// From the system's own source: a secret must not be guessed.
fn random() -> Result<[u8; 32], EndpointRefusal> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| EndpointRefusal::NoRandomness)?;
    Ok(bytes)
}

/// Returns true for a 2xx answer.
pub fn is_success(tested: &Tested) -> bool {
    tested.as_ref().is_ok_and(|result| (200..300).contains(&result.status))
}
