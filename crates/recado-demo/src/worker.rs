//! A worker as a user would write it: leases claims over the API, takes them to the insurer, says how it went.

use std::time::Duration;

use recado_client::wire::leases::{FailRequest, Lease, LeaseRequest};
use recado_client::{Client, ClientError, Payload};
use serde_json::{Value, json};

use super::message::{DENIED_PROCEDURE, NO_PROCEDURE};
use super::timetable::{Episode, Timetable};

/// Claims that it takes at once.
const CLAIMS_MAX: u32 = 4;
/// Time that one claim takes it.
const CLAIM: Duration = Duration::from_millis(250);
const POLL_MS: u64 = 10_000;
/// After a call that failed.
const PAUSE: Duration = Duration::from_secs(1);

const STACK_TRACE: &str = "\
SubmissionError: SERVICE_UNAVAILABLE
    at submit (tiss/gateway.ts:88)
    at run (worker.ts:31)";

pub async fn work(client: Client, timetable: Timetable) {
    let request = LeaseRequest {
        routes: vec!["tiss-claims".to_owned()],
        max: Some(CLAIMS_MAX),
        wait_ms: Some(POLL_MS),
        lease_ms: None,
        worker_id: "faturamento-1".to_owned(),
    };
    loop {
        match client.lease(&request).await {
            Ok(leased) => {
                for lease in leased.leases {
                    // A report that is lost costs the claim its lease, and another worker takes it again.
                    let _ = submit(&client, &timetable, &lease).await;
                }
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn submit(client: &Client, timetable: &Timetable, lease: &Lease) -> Result<(), ClientError> {
    tokio::time::sleep(timetable.hasten(CLAIM)).await;
    let claim: Value = serde_json::from_str(lease.job.data.as_str()).unwrap_or_default();
    let token = &lease.lease_token;
    let settled = match refusal(&claim, timetable) {
        Some(failure) => client.fail(token, &failure).await,
        None => {
            let protocol =
                json!({ "protocolo": format!("2026{}", claim["guia"].as_str().unwrap_or_default()) });
            client.succeed(token, Some(Payload::trusted(protocol.to_string()))).await
        }
    };
    settled.map(drop)
}

/// The insurer's refusal of a claim.
fn refusal(claim: &Value, timetable: &Timetable) -> Option<FailRequest> {
    if timetable.is_on(Episode::InsurerDown) {
        let mut down = FailRequest::new("SERVICE_UNAVAILABLE: the insurer's gateway does not answer");
        down.stack_trace = Some(STACK_TRACE.to_owned());
        return Some(down);
    }
    let why = match claim["procedimento"].as_str() {
        Some(NO_PROCEDURE) => "INVALID_PROCEDURE_CODE: not in the table of procedures",
        Some(DENIED_PROCEDURE) => "AUTHORIZATION_DENIED: it needs to be authorised first",
        _ => return None,
    };
    Some(FailRequest::new(why))
}
