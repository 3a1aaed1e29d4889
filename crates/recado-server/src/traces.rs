//! Spans on their way to an OpenTelemetry collector, by OTLP over HTTP in JSON.
//!
//! ```text
//! engine ─▶ record (never waits) ─▶ queue (bounded) ─▶ one task: batches, tries again, gives up ─▶ collector
//! ```
//!
//! A collector that is slow or away costs spans, which are counted, and never a delivery. At a stop what is queued
//! gets one more try.
//!
//! Deliberately absent: gRPC and protobuf, metrics and logs by OTLP (Prometheus and standard output have those), and
//! events of the `tracing` library: a span here is a step of a job, not a function of ours.

mod otlp;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use recado_config::Traces;
use recado_core::{Fault, Payload};
use recado_engine::Clock;
use recado_engine::traces::{Span, Tracer};
use recado_observe::gauges::Spans;
use recado_transport::http::{Answer, Bounds, HttpClient, Request};
use recado_transport::{Url, Wanted};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Spans at most that wait for the collector.
const QUEUE_SPANS_MAX: usize = 16_384;

/// Spans at most in one request.
const BATCH_SPANS_MAX: usize = 512;

/// Time that a batch waits to become larger.
const BATCH_WAIT: Duration = Duration::from_secs(1);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Tries at most for one batch, and the wait after the first; it doubles.
const TRIES_MAX: u32 = 4;
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// Longest wait that a collector may ask for: spans go stale.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(30);

/// Time that a stop waits for queued spans.
const FLUSH_MAX: Duration = Duration::from_secs(5);

/// Statuses that the specification calls worth another try.
const RETRIED: [u16; 4] = [429, 502, 503, 504];

/// Takes spans while the engine runs.
#[derive(Debug)]
pub struct Exporter {
    queue: mpsc::Sender<Span>,
    sample: f64,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    exported: AtomicU64,
    dropped: AtomicU64,
}

/// The task that sends; [`Exporting::stop`] ends it.
#[derive(Debug)]
pub struct Exporting {
    closing: CancellationToken,
    task: JoinHandle<()>,
}

/// Begins to export, if the configuration says where to.
pub fn start(
    config: &Traces,
    node: &str,
    clock: Arc<dyn Clock>,
) -> Result<Option<(Arc<Exporter>, Exporting)>, String> {
    let Some(endpoint) = config.endpoint.clone() else { return Ok(None) };
    let client = HttpClient::new(CONNECT_TIMEOUT, REQUEST_TIMEOUT)
        .map_err(|error| format!("cannot set up the export of traces: {error}"))?;
    let (queue, spans) = mpsc::channel(QUEUE_SPANS_MAX);
    let counts = Arc::new(Counts::default());
    let closing = CancellationToken::new();
    let sender = Sender {
        client,
        endpoint,
        headers: headers(config),
        resource: otlp::resource(node),
        clock,
        counts: counts.clone(),
        closing: closing.clone(),
        in_trouble: false,
    };
    let task = tokio::spawn(sender.run(spans));
    Ok(Some((Arc::new(Exporter { queue, sample: config.sample, counts }), Exporting { closing, task })))
}

/// A value that cannot be a header is a fault of the configuration already.
fn headers(config: &Traces) -> HeaderMap {
    let pairs = config.headers.iter().flatten().filter_map(|(name, value)| {
        let mut value = HeaderValue::from_str(value.reveal()).ok()?;
        value.set_sensitive(true);
        Some((name.parse::<HeaderName>().ok()?, value))
    });
    pairs.collect()
}

impl Tracer for Exporter {
    /// By the trace's own id, so that every system that samples by the same share chooses the same traces.
    fn samples(&self, trace_id: u128) -> bool {
        let place = (trace_id as u64 >> 1) as f64 / (1_u64 << 63) as f64;
        place < self.sample
    }

    fn record(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn spans(&self) -> Spans {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Spans { exported: read(&self.counts.exported), dropped: read(&self.counts.dropped) }
    }
}

impl Exporting {
    /// Sends what is queued, for as long as a stop can wait.
    pub async fn stop(self) {
        self.closing.cancel();
        if tokio::time::timeout(FLUSH_MAX, self.task).await.is_err() {
            tracing::warn!("The last spans of traces were not taken in time");
        }
    }
}

struct Sender {
    client: HttpClient,
    endpoint: Url,
    headers: HeaderMap,
    resource: serde_json::Value,
    clock: Arc<dyn Clock>,
    counts: Arc<Counts>,
    closing: CancellationToken,
    /// The last batch was lost, and the log says so.
    in_trouble: bool,
}

/// The result of one try.
enum Tried {
    Taken { rejected: u64 },
    Later { after: Option<Duration>, why: String },
    Refused { why: String },
}

impl Sender {
    async fn run(mut self, mut spans: mpsc::Receiver<Span>) {
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = self.closing.cancelled() => break,
                _ = spans.recv_many(&mut batch, BATCH_SPANS_MAX) => {}
            }
            if batch.is_empty() {
                return;
            }
            let _ = tokio::time::timeout(BATCH_WAIT, self.closing.cancelled()).await;
            self.send(take(&mut batch, &mut spans)).await;
        }
        loop {
            match take(&mut batch, &mut spans) {
                last if last.is_empty() => return,
                more => self.send(more).await,
            }
        }
    }

    async fn send(&mut self, batch: Vec<Span>) {
        let count = batch.len() as u64;
        let body = otlp::request(&self.resource, &batch);
        let mut wait = RETRY_WAIT;
        for tries_left in (0..TRIES_MAX).rev() {
            match self.try_once(&body).await {
                Tried::Taken { rejected } => return self.taken(count, rejected.min(count)),
                Tried::Refused { why } => return self.lost(count, &why),
                Tried::Later { why, .. } if tries_left == 0 || self.closing.is_cancelled() => {
                    return self.lost(count, &why);
                }
                Tried::Later { after, .. } => {
                    let pause = after.unwrap_or(wait).min(RETRY_WAIT_MAX);
                    let _ = tokio::time::timeout(pause, self.closing.cancelled()).await;
                    wait *= 2;
                }
            }
        }
    }

    async fn try_once(&self, body: &[u8]) -> Tried {
        let mut request = Request::json(self.endpoint.clone(), body.to_vec());
        request.headers.extend(self.headers.clone());
        let bounds = Bounds { now: self.clock.now(), timeout: REQUEST_TIMEOUT, answer: Wanted::Answer };
        match tokio::time::timeout(REQUEST_TIMEOUT, self.client.exchange(request, bounds)).await {
            Ok(Ok(Answer { json, .. })) => Tried::Taken { rejected: rejected(json.as_ref()) },
            Ok(Err(fault)) => judge(fault),
            Err(_) => Tried::Later { after: None, why: "it took too long".to_owned() },
        }
    }

    fn taken(&mut self, count: u64, rejected: u64) {
        self.counts.exported.fetch_add(count - rejected, Ordering::Relaxed);
        self.counts.dropped.fetch_add(rejected, Ordering::Relaxed);
        if std::mem::take(&mut self.in_trouble) {
            tracing::info!("The collector of traces takes spans again");
        }
    }

    /// Said once, not with every batch.
    fn lost(&mut self, count: u64, why: &str) {
        self.counts.dropped.fetch_add(count, Ordering::Relaxed);
        if !std::mem::replace(&mut self.in_trouble, true) {
            tracing::warn!(
                why,
                "The collector of traces does not take spans; they are dropped until it does, and deliveries continue"
            );
        }
    }
}

/// Takes the batch at hand and the spans that came since, up to a batch.
fn take(batch: &mut Vec<Span>, spans: &mut mpsc::Receiver<Span>) -> Vec<Span> {
    let room = BATCH_SPANS_MAX - batch.len();
    batch.extend(std::iter::from_fn(|| spans.try_recv().ok()).take(room));
    std::mem::take(batch)
}

/// A collector's words are not repeated: they may hold anything.
fn judge(fault: Fault) -> Tried {
    match fault.status {
        None => Tried::Later { after: None, why: fault.text.into() },
        Some(status) if RETRIED.contains(&status) => {
            Tried::Later { after: fault.retry_after, why: format!("it answers {status}") }
        }
        Some(status) => Tried::Refused { why: format!("it answers {status}") },
    }
}

/// A yes may be one to some only.
fn rejected(answer: Option<&Payload>) -> u64 {
    let answer = answer.and_then(|answer| answer.parse::<serde_json::Value>().ok()).unwrap_or_default();
    let rejected = &answer["partialSuccess"]["rejectedSpans"];
    // Protobuf's JSON writes large numbers as text.
    rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
