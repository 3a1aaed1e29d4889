//! Answers of SES: a receipt, or AWS's name for the failure.
//!
//! Absent on purpose: every judgement. A name stays as AWS spells it, and where AWS gives none there is none, so that
//! the status alone decides.

use std::time::Duration;

use http::header::RETRY_AFTER;
use recado_core::reason::clip;
use recado_core::{Fault, NetworkKind, Payload, Timestamp, retry_after};
use recado_transport::http::{Body, BodyEnd, FAULT_TEXT_MAX_BYTES, Response};
use serde_json::{Value, json};

/// Bytes at most of an answer's body.
const ANSWER_MAX_BYTES: usize = 64 * 1_024;

/// From here on AWS repeats the request that it was sent, session token included.
const REQUEST_REPEATED: &str = "The Canonical String for this request";

/// Reads an answer, and its body for at most `wait`.
pub(crate) async fn read(
    response: Response,
    wait: Duration,
    now: Timestamp,
) -> Result<Option<Payload>, Fault> {
    let status = response.status;
    let header = |name: &str| response.headers.get(name)?.to_str().ok();
    let name = header("x-amzn-errortype").and_then(plain_name);
    let retry_after = header(RETRY_AFTER.as_str()).and_then(|written| retry_after::parse(written, now));
    let body = Body::read(response, ANSWER_MAX_BYTES, wait).await;
    let whole = (body.end == BodyEnd::Whole).then_some(&*body.bytes);
    if status.is_success() {
        return whole.map_or(Ok(None), receipt);
    }
    let refusal = whole.map(Refusal::read).unwrap_or_default();
    let text = refusal.text.split(REQUEST_REPEATED).next().unwrap_or_default().trim();
    Err(Fault {
        code: name.or(refusal.name),
        status: Some(status.as_u16()),
        text: clip(text, FAULT_TEXT_MAX_BYTES).into(),
        retry_after,
        ..Fault::default()
    })
}

/// SES's own id of the message, by which its events and its support know it.
fn receipt(body: &[u8]) -> Result<Option<Payload>, Fault> {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let id = answer["MessageId"].as_str().ok_or_else(not_ses)?;
    Ok(Payload::new(&json!({ "messageId": id }).to_string()).ok())
}

/// A yes without a message id: it did not come from SES.
fn not_ses() -> Fault {
    let text = "the answer is a yes without a message id, so it is not from SES; check the endpoint";
    Fault { uncertain: true, ..Fault::network(NetworkKind::Protocol, text) }
}

/// The body of a no: AWS's name for it and its words, or the whole text of one that is not AWS's JSON, a proxy's
/// page as a rule.
#[derive(Default)]
struct Refusal {
    name: Option<Box<str>>,
    text: String,
}

impl Refusal {
    fn read(body: &[u8]) -> Self {
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let first = |names: &[&str]| names.iter().find_map(|name| json[name].as_str());
        let words = first(&["message", "Message", "errorMessage"]).map(str::to_owned);
        Refusal {
            name: first(&["code", "__type"]).and_then(plain_name),
            text: words.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned()),
        }
    }
}

/// AWS writes `namespace#Name:address`, of which only the middle has to be there.
fn plain_name(written: &str) -> Option<Box<str>> {
    let name = written.split(':').next().unwrap_or_default();
    let name = name.rsplit('#').next().unwrap_or_default().trim();
    (!name.is_empty()).then(|| name.into())
}
