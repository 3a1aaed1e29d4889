//! Accepts connections, with a limit on everything, and lets them go gracefully.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use recado_wire::problem::PROBLEM_JSON;
use recado_wire::{Code, Problem};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::serve_connection;
use crate::connections::Connections;

/// Pause after an accept that failed for want of something (file descriptors, memory).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Time at least between two lines in the log about such failures.
const FAILURE_LOG_REST: Duration = Duration::from_secs(60);

/// Connections beyond the limit that get an answer at the same time; more are closed without one.
const REFUSALS_MAX: usize = 64;

/// Time that a refused connection has to send the rest of its request and to read why.
const REFUSAL_LINGER: Duration = Duration::from_millis(250);

/// Bounds of connections, whatever is asked on them.
#[derive(Clone, Debug)]
pub struct ServeLimits {
    pub connections_max: usize,
    /// Connections of one address.
    pub address_connections_max: usize,
    /// Connections of callers that have not shown a right token yet.
    pub unproven_connections_max: usize,
    /// Such connections of one address.
    pub unproven_address_connections_max: usize,
    /// Request line and headers together.
    pub header_max_bytes: usize,
    /// From a header's first byte to its last; for the first one, from when the connection was made.
    pub header_timeout: Duration,
    /// Silence between two requests.
    pub idle_timeout: Duration,
    /// Time that a stop waits for requests at hand.
    pub stop_grace: Duration,
}

impl ServeLimits {
    /// Connections at most, where nothing else bounds them.
    pub const CONNECTIONS_MAX: usize = 10_000;

    /// The shares that one address and callers not let in yet have of so many connections.
    pub fn for_connections(max: usize) -> Self {
        ServeLimits {
            connections_max: max,
            address_connections_max: (max / 4 * 3).max(1),
            unproven_connections_max: (max / 2).max(1),
            unproven_address_connections_max: (max / 4).max(1),
            header_max_bytes: 32 << 10,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            stop_grace: Duration::from_secs(30),
        }
    }
}

impl Default for ServeLimits {
    fn default() -> Self {
        ServeLimits::for_connections(ServeLimits::CONNECTIONS_MAX)
    }
}

/// Serves until `shutdown` resolves; then accepts no more, closes idle connections, answers the requests at
/// hand, and returns. What is not done after the grace is cut off.
///
/// Long polls end early only when [`crate::ApiOptions::closing`] is cancelled: use the same token for both.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ServeLimits,
    shutdown: impl Future<Output = ()>,
) {
    let limits = Arc::new(limits);
    let (closing, cut) = (CancellationToken::new(), CancellationToken::new());
    let connections = TaskTracker::new();
    let all = Connections::new(limits.clone());
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let mut failure = RepeatedFailure::default();
    let mut shutdown = pin!(shutdown);
    loop {
        let (stream, address) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = accept(&listener, &mut failure) => accepted,
        };
        let Some(place) = all.enter(address.ip()) else {
            if let Ok(refusal) = refusals.clone().try_acquire_owned() {
                connections.spawn(async move {
                    let _ = tokio::time::timeout(REFUSAL_LINGER, refuse(stream)).await;
                    drop(refusal);
                });
            }
            continue;
        };
        let (router, limits) = (router.clone(), limits.clone());
        let (closing, cut) = (closing.clone(), cut.clone());
        connections.spawn(async move {
            tokio::select! {
                () = serve_connection(stream, router, &limits, closing, &place.0) => {}
                () = place.0.cut().cancelled() => {}
                () = cut.cancelled() => {}
            }
            drop(place);
        });
        all.settle().await;
    }
    drop(listener);
    closing.cancel();
    connections.close();
    if tokio::time::timeout(limits.stop_grace, connections.wait()).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "Requests are still running after the grace; they are cut off"
        );
        cut.cancel();
        connections.wait().await;
    }
}

/// Decides which of many failures alike are logged: the first, and then one a minute at most.
#[derive(Debug, Default)]
struct RepeatedFailure {
    logged_at: Option<Instant>,
    unlogged: u64,
}

impl RepeatedFailure {
    /// Counts a failure. Returns the number of failures since the last line where another line is due.
    fn line_due(&mut self, now: Instant) -> Option<u64> {
        self.unlogged += 1;
        if self.logged_at.is_some_and(|at| now.duration_since(at) < FAILURE_LOG_REST) {
            return None;
        }
        self.logged_at = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

async fn accept(listener: &TcpListener, failure: &mut RepeatedFailure) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                // Answers are small and whole: waiting to fill a packet only makes them late.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "Cannot turn TCP_NODELAY on");
                }
                return (stream, address);
            }
            Err(error) if is_the_peers_fault(&error) => {}
            Err(error) => {
                if let Some(failures) = failure.line_due(Instant::now()) {
                    tracing::warn!(%error, failures, "Cannot accept a connection; trying again");
                }
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

fn is_the_peers_fault(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Answers that there is no room, and waits until the caller has read it.
async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(&overloaded_response()).await?;
    stream.shutdown().await?;
    let mut unread = [0; 1_024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

fn overloaded_response() -> Bytes {
    let problem = Problem::new(Code::TooManyConnections, "close some, or come back in a moment");
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {PROBLEM_JSON}\r\ncontent-length: {}\r\nretry-after: 1\r\n\
         cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n",
        body.len()
    );
    Bytes::from(head + &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_failures_alike_the_first_is_logged_and_then_one_line_a_minute_with_their_number() {
        let (mut failure, begin) = (RepeatedFailure::default(), Instant::now());
        let lines = (0..1_210).filter_map(|tenth| {
            let after = ACCEPT_RETRY * tenth;
            failure.line_due(begin + after).map(|failures| (after.as_secs(), failures))
        });
        assert_eq!(lines.collect::<Vec<_>>(), [(0, 1), (60, 600), (120, 600)]);
    }
}
