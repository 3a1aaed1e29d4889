//! The deadlines of one connection.
//!
//! ```text
//!   accepted ─▶ head ──request──▶ busy ──answer──▶ idle ──first byte──▶ head …
//!               10 s                               75 s
//! ```
//!
//! hyper has one timer for a header and for the silence before it, which would make either too long or too
//! short. Here the header's time starts with its first byte. A busy connection has no deadline of its own:
//! its handler bounds what it waits for. An answer that its reader does not take counts as silence; one
//! that goes on without end, as the stream of events does, gives a sign of life within the idle time.
//!
//! The timer is set when a connection falls asleep with less time than the timer knows of, which a request
//! that arrives in one piece never does. So requests cost two looks at the clock and no timer.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::io::{InspectReader, InspectWriter};
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::connections::Proof;
use crate::serve::ServeLimits;

/// Bytes that are read or written ahead per connection.
const BUFFER_MAX_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A header is on its way.
    Head,
    /// A handler has the request.
    Busy,
    /// Between two requests.
    Idle,
}

/// The connection's current work, and its begin. Only its own task uses it.
#[derive(Debug)]
struct Clock(Mutex<(Phase, Instant)>);

impl Clock {
    fn enter(&self, phase: Phase) {
        *self.0.lock() = (phase, Instant::now());
    }

    fn is_idle(&self) -> bool {
        self.0.lock().0 == Phase::Idle
    }

    /// The first byte of the next header ends the silence.
    fn on_read(&self) {
        if self.is_idle() {
            self.enter(Phase::Head);
        }
    }

    /// A reader that takes its answer is not silent.
    fn on_write(&self) {
        if self.is_idle() {
            self.enter(Phase::Idle);
        }
    }

    /// The time when the connection has used up its time; a busy one has all it wants.
    fn deadline(&self, limits: &ServeLimits) -> Option<Instant> {
        match *self.0.lock() {
            (Phase::Head, since) => Some(since + limits.header_timeout),
            (Phase::Idle, since) => Some(since + limits.idle_timeout),
            (Phase::Busy, _) => None,
        }
    }
}

/// Serves HTTP/1 until the caller closes the connection, its time is up, or `closing` is cancelled and the request at
/// hand is answered.
pub(crate) async fn serve_connection(
    stream: TcpStream,
    router: Router,
    limits: &ServeLimits,
    closing: CancellationToken,
    proof: &Proof,
) {
    let clock = Arc::new(Clock(Mutex::new((Phase::Head, Instant::now()))));
    let read_clock = clock.clone();
    let stream = InspectReader::new(stream, move |_| read_clock.on_read());
    let written_clock = clock.clone();
    let stream = InspectWriter::new(stream, move |_| written_clock.on_write());
    let handle = |mut request: hyper::Request<Incoming>| {
        clock.enter(Phase::Busy);
        request.extensions_mut().insert(proof.clone());
        let answering = router.clone().call(request.map(Body::new));
        let clock = clock.clone();
        async move {
            let answer = answering.await;
            clock.enter(Phase::Idle);
            answer
        }
    };
    let mut http = http1::Builder::new();
    http.header_read_timeout(None).max_header_size(limits.header_max_bytes).max_buf_size(BUFFER_MAX_BYTES);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service_fn(handle)));
    let mut closing = pin!(closing.cancelled());
    let mut is_closing = false;
    let mut alarm = pin!(tokio::time::sleep(limits.header_timeout));
    poll_fn(|cx| {
        if !is_closing && closing.as_mut().poll(cx).is_ready() {
            is_closing = true;
            connection.as_mut().graceful_shutdown();
        }
        // Connection errors are not logged; requests have their own answers.
        if connection.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        loop {
            let deadline = clock.deadline(limits);
            if let Some(deadline) = deadline.filter(|deadline| *deadline < alarm.deadline()) {
                alarm.as_mut().reset(deadline);
            }
            if alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            match deadline {
                Some(deadline) if deadline <= now => return Poll::Ready(()),
                Some(deadline) => alarm.as_mut().reset(deadline),
                None => alarm.as_mut().reset(now + limits.idle_timeout),
            }
        }
    })
    .await;
}
