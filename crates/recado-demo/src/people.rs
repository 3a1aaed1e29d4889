//! The people around the engine: they set companies up, send their jobs, and repair what broke.

use std::time::Duration;

use recado_client::wire::bulk::{BulkFilter, BulkRequest};
use recado_client::wire::dlq::DeadLetterFilter;
use recado_client::wire::endpoints::{EndpointRequest, Secret};
use recado_client::wire::tenants::TenantChange;
use recado_client::{Client, ClientError};
use recado_core::{CompanyId, RouteName};

use super::far_ends::receiver;
use super::settings::url;
use super::timetable::Timetable;
use super::traffic::{HOSPITAL, LISTENERS, Traffic, hastened};
use super::world::{DEAD_PATH, World};

/// Jobs of one request at most.
const INTAKE_MAX: usize = 500;
/// After a request that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// Sent first when many are replayed.
const CANARIES: u32 = 2;

/// Sets the companies up; the id of the endpoint whose receiver dies.
pub async fn prepare(client: &Client, world: &World) -> Result<String, ClientError> {
    let mut first = None;
    for company in LISTENERS {
        let mut endpoint = EndpointRequest::new(company, format!("{}/{company}", url(world.receiver)));
        endpoint.secret = Some(Secret::new(receiver::SECRET));
        endpoint.events = Some(["JobFailed", "JobRetryExhausted", "token_expired"].map(str::to_owned).into());
        endpoint.description = Some("CRM".to_owned());
        let added = client.add_endpoint(&endpoint).await?;
        first.get_or_insert(added.id.to_string());
    }
    let change = TenantChange { weight: Some(2), ..TenantChange::default() };
    client.set_tenant(HOSPITAL, &change).await?;
    Ok(first.unwrap_or_default())
}

/// Sends what the companies have to send, when they do.
pub async fn send(client: Client, timetable: Timetable, traffic: Traffic) {
    let mut traffic = traffic.peekable();
    while let Some((at, _)) = traffic.peek() {
        timetable.reached(*at).await;
        let now = timetable.position();
        let due: Vec<_> =
            std::iter::from_fn(|| traffic.next_if(|(at, _)| *at <= now)).take(INTAKE_MAX).collect();
        let jobs = due.into_iter().map(|(_, job)| hastened(job, &timetable));
        // The ids are the companies' own, so a repetition after a lost answer sends nothing twice.
        if client.enqueue_batch(jobs).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The receiver is well again: its endpoint is switched on, and what it missed is replayed.
pub async fn repair(client: Client, endpoint: String) -> Result<(), ClientError> {
    client.enable_endpoint(&endpoint).await?;
    let company = DEAD_PATH.trim_start_matches('/');
    let request = BulkRequest {
        filter: BulkFilter {
            entries: DeadLetterFilter {
                company_id: CompanyId::new(company).ok(),
                route: RouteName::new("webhook").ok(),
                ..DeadLetterFilter::default()
            },
            ..BulkFilter::default()
        },
        canary: Some(CANARIES),
        reason: Some("the receiver is back".to_owned()),
        ..BulkRequest::default()
    };
    client.replay_all(&request).await.map(drop)
}
