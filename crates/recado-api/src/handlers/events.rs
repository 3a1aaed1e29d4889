//! The stream of events, as Server-Sent Events.
//!
//! A listener that reconnects with the id of its last event goes on after it. Where events are missing, because they
//! are no longer kept or because the listener was too slow, the stream says so with a `gap` and goes on: it is for
//! watching. What must not be missed goes to an endpoint.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderName};
use axum::response::IntoResponse;
use axum::response::sse::{self, KeepAlive, Sse};
use futures_util::stream;
use recado_core::Event;
use recado_wire::events::{EventQuery, GAP, Gap, LAST_EVENT_ID_HEADER};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::handlers::prelude::*;

/// Keeps nginx-like proxies from buffering events.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Stream events as they happen: `id:` an event's id, `event:` its kind, `data:` its JSON on one line.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", operation_id = "listenToEvents",
    params(
        EventQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The last event received: the stream continues after it."),
    ),
    responses(
        (
            status = 200, body = String, content_type = "text/event-stream",
            description = "Server-Sent Events without end. Each `data` is an `Event`; with `event: gap` it is a `Gap`: some are missing.",
        ),
        ReadProblems,
    )
)]
pub async fn listen(
    api: ApiState,
    headers: HeaderMap,
    CheckedQuery(wanted): CheckedQuery<EventQuery>,
) -> ApiResult {
    let Some(permit) = api.listener_permit() else {
        let max = api.limits().listeners_max;
        return Err(ApiError::busy(format!(
            "there are {max} listeners already; close some, or try again later"
        )));
    };
    let last_event_id = headers.get(LAST_EVENT_ID_HEADER).and_then(|value| value.to_str().ok());
    let last_event_id = last_event_id.filter(|id| !id.is_empty()).or(wanted.last_event_id.as_deref());
    let listening = api.engine.notifier.events.listen(last_event_id);
    let gap = listening.gap.then(|| {
        let reason = "some events after your last one are no longer kept".to_owned();
        write_gap(Gap { reason, missed: None })
    });
    let keep_alive = KeepAlive::new().interval(api.limits().keep_alive).text("keep-alive");
    let listener = Listener {
        api,
        wanted,
        gap: gap.flatten(),
        missed: listening.missed.into(),
        receiver: listening.receiver,
        _permit: permit,
    };
    let pieces = stream::unfold(listener, |mut listener| async {
        let piece = listener.next().await?;
        Some((Ok::<_, Infallible>(piece), listener))
    });
    let headers = [(CACHE_CONTROL, "no-store"), (X_ACCEL_BUFFERING, "no")];
    Ok((headers, Sse::new(pieces).keep_alive(keep_alive)).into_response())
}

struct Listener {
    api: ApiState,
    wanted: EventQuery,
    /// The notice that events are lost to it, until it is sent.
    gap: Option<sse::Event>,
    /// Events that it missed and was not sent yet. All listeners share them.
    missed: VecDeque<Arc<Event>>,
    receiver: Receiver<Arc<Event>>,
    _permit: OwnedSemaphorePermit,
}

impl Listener {
    /// The event to send next; `None` when the server closes.
    async fn next(&mut self) -> Option<sse::Event> {
        match self.gap.take().or_else(|| self.next_missed()) {
            Some(piece) => Some(piece),
            None => self.receive_event().await,
        }
    }

    fn next_missed(&mut self) -> Option<sse::Event> {
        let wanted = &self.wanted;
        let mut missed = std::iter::from_fn(|| self.missed.pop_front());
        missed.find_map(|event| {
            Some(event).filter(|event| wanted.wants(event)).and_then(|event| write_event(&event))
        })
    }

    async fn receive_event(&mut self) -> Option<sse::Event> {
        loop {
            let received = tokio::select! {
                () = self.api.options.closing.cancelled() => return None,
                received = self.receiver.recv() => received,
            };
            let piece = match received {
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

fn write_event(event: &Event) -> Option<sse::Event> {
    sse::Event::default().id(&event.id).event(event.kind.as_str()).json_data(event).ok()
}

/// Without an id, so that a client that comes back still names the last event.
fn write_gap(gap: Gap) -> Option<sse::Event> {
    sse::Event::default().event(GAP).json_data(gap).ok()
}
