//! The engine's spans in a trace: a span for each job and call that comes in, and one for each attempt.
//!
//! ```text
//! the caller's span ─┬─ enqueue (or call)  without a caller's span, this one begins the trace
//!                    ├─ attempt 1          and stands in the caller's place
//!                    └─ attempt 2
//! ```
//!
//! An attempt's span has the id that its request carries to the provider ([`TraceParent::attempt`]), so what the
//! provider records stands below it. Whether a trace is recorded is decided where it begins.
//!
//! Absent on purpose: payloads, addresses and whatever a provider said; and sending, which is a [`Tracer`]'s.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{
    AttemptResult, Class, CompanyId, Job, JobId, Lease, Random, RouteName, Timestamp, TraceParent,
    Transition, Verdict,
};
use recado_observe::gauges::Spans;
use tokio::time::Instant;

/// Takes spans to their collector.
///
/// - `record` never waits: spans without room are dropped and counted.
pub trait Tracer: Send + Sync + fmt::Debug {
    /// Returns true if a trace that begins here is recorded.
    fn samples(&self, trace_id: u128) -> bool;

    fn record(&self, span: Span);

    /// Counts of spans so far, by result.
    fn spans(&self) -> Spans;
}

/// Something that took a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub name: &'static str,
    pub kind: SpanKind,
    pub context: TraceParent,
    /// Absent where the trace begins.
    pub parent: Option<u64>,
    pub started_at: Timestamp,
    pub took: Duration,
    pub failed: bool,
    pub attributes: Vec<(&'static str, Attribute)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A request to us.
    Server,
    /// A request from us.
    Client,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    Text(Box<str>),
    Number(i64),
    Flag(bool),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Attribute::Text(text.into())
    }
}

/// A span that has begun. It is recorded when it ends, and not at all when it is dropped. Kept in a box, because
/// mostly there is none.
#[derive(Debug)]
pub(crate) struct OpenSpan {
    span: Span,
    began: Instant,
}

/// The result of an attempt, for its trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptSummary<'a> {
    pub result: AttemptResult,
    pub class: Option<Class>,
    pub rule: Option<&'a str>,
}

impl<'a> From<&'a Verdict> for AttemptSummary<'a> {
    fn from(verdict: &'a Verdict) -> Self {
        let (result, failure) = match verdict {
            Verdict::Delivered { .. } => (AttemptResult::Sent, None),
            Verdict::Partial { refused, .. } => (AttemptResult::Partial, refused.last().map(|(_, why)| why)),
            Verdict::Failed(failure) if failure.uncertain => (AttemptResult::Uncertain, Some(failure)),
            Verdict::Failed(failure) => (AttemptResult::Failed, Some(failure)),
        };
        AttemptSummary {
            result,
            class: failure.map(|failure| failure.class),
            rule: failure.map(|failure| &*failure.rule),
        }
    }
}

/// Records spans, where a tracer takes them.
#[derive(Clone, Debug)]
pub(crate) struct Traces {
    /// Absent where no traces are recorded.
    pub tracer: Option<Arc<dyn Tracer>>,
    pub random: Arc<Random>,
}

impl Traces {
    /// Counts of spans so far, by result.
    pub fn spans(&self) -> Option<Spans> {
        self.tracer.as_ref().map(|tracer| tracer.spans())
    }

    /// Something that a caller asks for begins, in the caller's trace or in one of its own. The span is there only
    /// if the trace is recorded.
    pub fn open(
        &self,
        name: &'static str,
        traceparent: &mut Option<TraceParent>,
        (job_id, route, company): (&JobId, &RouteName, &CompanyId),
        started_at: Timestamp,
    ) -> Option<Box<OpenSpan>> {
        let tracer = self.tracer.as_ref()?;
        let parent = *traceparent;
        let context = match parent {
            Some(parent) => parent.with_span(self.random.next_u64()),
            None => {
                let trace_id = u128::from(self.random.next_u64()) << 64 | u128::from(self.random.next_u64());
                let begun = TraceParent::new(trace_id, self.random.next_u64())?;
                let begun = if tracer.samples(trace_id) { begun.sampled() } else { begun };
                *traceparent.insert(begun)
            }
        };
        let span = || Span {
            name,
            kind: SpanKind::Server,
            context,
            parent: parent.map(TraceParent::span_id),
            started_at,
            took: Duration::ZERO,
            failed: false,
            attributes: vec![
                ("jobId", job_id.as_str().into()),
                ("route", route.as_str().into()),
                ("companyId", company.as_str().into()),
            ],
        };
        context.is_sampled().then(|| Box::new(OpenSpan { span: span(), began: Instant::now() }))
    }

    /// Ends a span that began with [`Traces::open`], successfully.
    pub fn close(&self, open: Option<Box<OpenSpan>>, more: (&'static str, Attribute)) {
        let (Some(tracer), Some(open)) = (&self.tracer, open) else { return };
        let OpenSpan { mut span, began } = *open;
        span.took = began.elapsed();
        span.attributes.push(more);
        tracer.record(span);
    }

    /// Ends a span that began with [`Traces::open`], as failed.
    pub fn close_failed(&self, mut open: Option<Box<OpenSpan>>, more: (&'static str, Attribute)) {
        if let Some(open) = &mut open {
            open.span.failed = true;
        }
        self.close(open, more);
    }

    /// Records the attempt that a transition ends, if it ends one.
    pub fn record_attempt(
        &self,
        lease: &Lease,
        provider: &str,
        transition: &Transition,
        lasted: (Timestamp, Duration),
    ) {
        if let Some(attempt) = transition.attempt() {
            let (class, rule) = (attempt.error_classification, attempt.rule.as_deref());
            let summary = AttemptSummary { result: attempt.result, class, rule };
            self.record(&lease.job, lease.attempt, provider, summary, lasted);
        }
    }

    /// Records an attempt, if its trace is recorded.
    pub fn record(
        &self,
        job: &Job,
        attempt: u32,
        provider: &str,
        summary: AttemptSummary<'_>,
        (started_at, took): (Timestamp, Duration),
    ) {
        let (Some(tracer), Some(parent)) = (&self.tracer, job.traceparent) else { return };
        if !parent.is_sampled() {
            return;
        }
        let mut attributes = vec![
            ("jobId", job.id.as_str().into()),
            ("route", job.route.as_str().into()),
            ("companyId", job.company.as_str().into()),
            ("provider", provider.into()),
            ("attempt", Attribute::Number(i64::from(attempt))),
            ("result", summary.result.as_str().into()),
        ];
        attributes.extend(summary.class.map(|class| ("errorClassification", class.as_str().into())));
        attributes.extend(summary.rule.map(|rule| ("rule", rule.into())));
        tracer.record(Span {
            name: "attempt",
            kind: SpanKind::Client,
            context: parent.attempt(job.id.as_str(), attempt),
            parent: Some(parent.span_id()),
            started_at,
            took,
            failed: summary.result != AttemptResult::Sent,
            attributes,
        });
    }
}
