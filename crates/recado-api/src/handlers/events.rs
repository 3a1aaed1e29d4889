//! The stream of events, as Server-Sent Events.
//!
//! A listener that reconnects with the id of its last event goes on after it. Where events are missing, because they
//! are no longer kept or because the listener was too slow, the stream says so with a `gap` and goes on: it is for
//! watching. What must not be missed goes to an endpoint.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use recado_core::Event;
use recado_wire::events::{EVENT_STREAM, EventQuery, GAP, Gap, LAST_EVENT_ID_HEADER};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use crate::answer::ApiError;
use crate::extract::CheckedQuery;
use crate::openapi::ReadProblems;
use crate::state::ApiState;

const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// Keeps nginx-like proxies from buffering events.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Stream events as they happen: `id:` an event's id, `event:` its kind, `data:` its JSON on one line.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", operation_id = "listenToEvents",
    params(
        EventQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The last event received: the stream goes on after it."),
    ),
    responses(
        (
            status = 200, body = String, content_type = "text/event-stream",
            description = "Server-Sent Events without end. Each `data` is an `Event`; with `event: gap` it is a `Gap`: some are missing.",
        ),
        ReadProblems,
    )
)]
pub(crate) async fn listen(
    State(api): State<ApiState>,
    headers: HeaderMap,
    CheckedQuery(wanted): CheckedQuery<EventQuery>,
) -> Result<Response, ApiError> {
    let Some(place) = api.place_to_listen() else {
        let max = api.limits().listeners_max;
        return Err(ApiError::busy(format!(
            "there are {max} listeners already; close some, or try again later"
        )));
    };
    let last_heard = headers.get(LAST_EVENT_ID_HEADER).and_then(|value| value.to_str().ok());
    let last_heard = last_heard.filter(|id| !id.is_empty()).or(wanted.last_event_id.as_deref());
    let listening = api.engine().notifier.events.listen(last_heard);
    let gap = listening.gap.then(|| {
        let reason = "some events after your last one are no longer kept".to_owned();
        write_gap(Gap { reason, missed: None })
    });
    let listener = Listener {
        api,
        wanted,
        gap: gap.flatten(),
        missed: listening.missed.into(),
        told: listening.receiver,
        spoke_at: Instant::now(),
        _place: place,
    };
    let pieces = stream::unfold(listener, |mut listener| async {
        let piece = listener.next().await?;
        Some((Ok::<_, Infallible>(piece), listener))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

struct Listener {
    api: ApiState,
    wanted: EventQuery,
    /// The notice that events are lost to it, until it is sent.
    gap: Option<Bytes>,
    /// Events that it missed and was not sent yet. All listeners share them.
    missed: VecDeque<Arc<Event>>,
    told: Receiver<Arc<Event>>,
    spoke_at: Instant,
    _place: OwnedSemaphorePermit,
}

impl Listener {
    /// The bytes to send next; `None` when the server closes.
    async fn next(&mut self) -> Option<Bytes> {
        let piece = match self.gap.take().or_else(|| self.next_missed()) {
            Some(piece) => piece,
            None => self.receive_event().await?,
        };
        self.spoke_at = Instant::now();
        Some(piece)
    }

    fn next_missed(&mut self) -> Option<Bytes> {
        while let Some(event) = self.missed.pop_front() {
            if let Some(piece) =
                Some(event).filter(|event| self.wanted.wants(event)).and_then(|event| write_event(&event))
            {
                return Some(piece);
            }
        }
        None
    }

    async fn receive_event(&mut self) -> Option<Bytes> {
        let too_quiet_at = self.spoke_at + self.api.limits().keep_alive;
        loop {
            let heard = tokio::select! {
                () = self.api.closing().cancelled() => return None,
                heard = self.told.recv() => heard,
                () = tokio::time::sleep_until(too_quiet_at) => return Some(KEEP_ALIVE),
            };
            let piece = match heard {
                Ok(event) if self.wanted.wants(&event) => write_event(&event),
                Ok(_) => None,
                Err(RecvError::Lagged(missed)) => {
                    let reason = "you read more slowly than events happen".to_owned();
                    write_gap(Gap { reason, missed: Some(missed) })
                }
                Err(RecvError::Closed) => return None,
            };
            if piece.is_some() {
                return piece;
            }
        }
    }
}

fn write_event(event: &Event) -> Option<Bytes> {
    written(&format!("id: {}\nevent: {}", event.id, event.kind.as_str()), event)
}

/// Without an id, so that a client that comes back still names the last event.
fn write_gap(gap: Gap) -> Option<Bytes> {
    written(&format!("event: {GAP}"), &gap)
}

/// JSON never holds a line end, so it is one line of data.
fn written(head: &str, data: &impl Serialize) -> Option<Bytes> {
    let json = serde_json::to_string(data).ok()?;
    Some(format!("{head}\ndata: {json}\n\n").into())
}
