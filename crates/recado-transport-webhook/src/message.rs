//! Reads a job's `data`: the payload to post, and its receiver.

use std::borrow::Cow;

use recado_core::Payload;
use recado_transport::data::{self, Object};
use recado_transport::{DataFault, Receiver};
use serde::Deserialize;
use url::Url;

use crate::{Guard, Secret, Target};

const EVENT_LEN_MAX_BYTES: usize = 128;
const ENDPOINT_ID_LEN_MAX_BYTES: usize = 128;

pub(crate) struct Message<'a> {
    pub to: Destination<'a>,
    pub event: Cow<'a, str>,
    /// Text of the job's payload: parsing would lose the order of members and the digits of large numbers.
    pub body: &'a str,
}

pub(crate) enum Destination<'a> {
    Endpoint(Cow<'a, str>),
    Url(Target),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Addressed<'a> {
    #[serde(borrow)]
    endpoint_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    url: Option<Cow<'a, str>>,
}

/// Reads the receiver that a job's data names: its endpoint, or its address's host and port.
pub(crate) fn receiver(data: &Payload) -> Option<Receiver> {
    let Addressed { endpoint_id, url } = data.parse().ok()?;
    if let Some(id) = endpoint_id {
        return (id.len() <= ENDPOINT_ID_LEN_MAX_BYTES).then(|| Receiver::Endpoint(id.into()));
    }
    let url = Url::parse(&url?).ok()?;
    let host = url.host_str()?;
    Some(Receiver::Host(match url.port() {
        Some(port) => format!("{host}:{port}").into(),
        None => host.into(),
    }))
}

/// `secret` signs for jobs that name a URL themselves.
pub(crate) fn read<'a>(
    data: &'a Payload,
    guard: &Guard,
    secret: Option<&Secret>,
) -> Result<Message<'a>, Vec<DataFault>> {
    data::read(data, |data| {
        data.allow_only(&["endpointId", "url", "event", "payload"]);
        let to = to(data, guard, secret);
        let event = event(data);
        let body = data.get("payload");
        if body.is_none() {
            data.fault("payload", "is missing; write what to send, any JSON but null");
        }
        Some(Message { to: to?, event: event?, body: body?.get() })
    })
}

fn to<'a>(data: &Object<'a, '_>, guard: &Guard, secret: Option<&Secret>) -> Option<Destination<'a>> {
    match (data.has("endpointId"), data.has("url")) {
        (true, true) => {
            data.fault("url", "cannot be combined with `endpointId`; give one of the two");
            endpoint(data)
        }
        (true, false) => endpoint(data),
        (false, true) => url(data, guard, secret),
        (false, false) => {
            data.fault_here("says not where to send it; write `endpointId` or `url`");
            None
        }
    }
}

fn endpoint<'a>(data: &Object<'a, '_>) -> Option<Destination<'a>> {
    let id = data.words("endpointId", "ep_2x7q")?;
    if id.len() > ENDPOINT_ID_LEN_MAX_BYTES {
        data.fault("endpointId", "is too long; write the id that the endpoint was created with");
    }
    Some(Destination::Endpoint(id))
}

fn url<'a>(data: &Object<'a, '_>, guard: &Guard, secret: Option<&Secret>) -> Option<Destination<'a>> {
    if secret.is_none() {
        data.fault(
            "url",
            "cannot be signed for, since no secret is configured; create an endpoint and write its \
             `endpointId`, or have the operator write `secret = \"whsec_…\"` under `[providers.webhook]`",
        );
    }
    let text = data.words("url", "https://hooks.example.com/orders")?;
    let Ok(url) = Url::parse(&text) else {
        data.fault("url", "is not an address; write one such as \"https://hooks.example.com/orders\"");
        return None;
    };
    if let Err(refusal) = guard.check_url(&url) {
        data.fault("url", refusal.to_string());
    }
    Some(Destination::Url(Target { url, secrets: vec![secret?.clone()], enabled: true }))
}

fn event<'a>(data: &Object<'a, '_>) -> Option<Cow<'a, str>> {
    let event = data.words("event", "order.paid")?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte);
    if event.len() > EVENT_LEN_MAX_BYTES || !event.bytes().all(plain) {
        data.fault(
            "event",
            format!(
                "is not an event's name; write up to {EVENT_LEN_MAX_BYTES} letters, digits and `._:/-`, \
                 such as \"order.paid\""
            ),
        );
    }
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_is_an_endpoint_or_the_host_and_port_of_an_address() {
        let of = |data: &str| receiver(&Payload::trusted(data));
        let host = |name: &str| Some(Receiver::Host(name.into()));
        assert_eq!(of(r#"{"endpointId":"ep_1","payload":{}}"#), Some(Receiver::Endpoint("ep_1".into())));
        assert_eq!(of(r#"{"url":"https://A.example/x?y","event":"e","payload":1}"#), host("a.example"));
        assert_eq!(of(r#"{"url":"https://a.example:443/x"}"#), host("a.example"));
        assert_eq!(of(r#"{"url":"http://127.0.0.1:8080/x"}"#), host("127.0.0.1:8080"));
        for unusable in ["{}", r#"{"url":"nowhere"}"#, "[1]"] {
            assert_eq!(of(unusable), None, "{unusable}");
        }
    }
}
