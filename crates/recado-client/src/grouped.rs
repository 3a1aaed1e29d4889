//! Groups the calls of many callers into few requests.
//!
//! While a request is in flight, jobs queue up; the next request takes them all. So a lone caller never
//! waits, and a thousand callers share a handful of requests and, on the server, a handful of fsyncs.

use recado_wire::jobs::{BatchAnswer, BatchItem, JobAccepted, JobRequest};
use tokio::sync::{mpsc, oneshot};

use crate::client::{Client, assign_id, encode_line};
use crate::error::ClientError;

/// Bounds of a [`GroupedEnqueuer`].
#[derive(Clone, Copy, Debug)]
pub struct GroupLimits {
    /// Jobs that wait for a request; more wait in `enqueue`.
    pub queue_jobs_max: usize,
    /// Jobs in one request.
    pub group_jobs_max: usize,
    /// Bytes in one request, give or take one job.
    pub group_max_bytes: usize,
}

impl Default for GroupLimits {
    fn default() -> Self {
        GroupLimits { queue_jobs_max: 10_000, group_jobs_max: 1_000, group_max_bytes: 8 << 20 }
    }
}

/// Enqueues jobs of many concurrent callers in as few requests as their number allows. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GroupedEnqueuer {
    queue: mpsc::Sender<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    line: Vec<u8>,
    answer: oneshot::Sender<Result<JobAccepted, ClientError>>,
}

impl GroupedEnqueuer {
    /// Starts the task that sends. It ends when the last clone is gone and every caller has its answer.
    pub fn start(client: Client, limits: GroupLimits) -> Self {
        let (queue, waiting) = mpsc::channel(limits.queue_jobs_max.max(1));
        tokio::spawn(run(client, limits, waiting));
        GroupedEnqueuer { queue }
    }

    /// Enqueues one job and answers once it is durable, or with what is wrong with this one.
    pub async fn enqueue(&self, mut job: JobRequest) -> Result<JobAccepted, ClientError> {
        assign_id(&mut job);
        let line = encode_line(&job)?;
        let (answer, answered) = oneshot::channel();
        let gone = || ClientError::Setup("the task that sends has ended with its runtime".to_owned());
        self.queue.send(Waiting { line, answer }).await.map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }
}

async fn run(client: Client, limits: GroupLimits, mut waiting: mpsc::Receiver<Waiting>) {
    while let Some(first) = waiting.recv().await {
        let mut lines = first.line;
        let mut callers = vec![first.answer];
        while callers.len() < limits.group_jobs_max
            && lines.len() < limits.group_max_bytes
            && let Ok(next) = waiting.try_recv()
        {
            lines.extend_from_slice(&next.line);
            callers.push(next.answer);
        }
        let outcomes = outcomes(client.enqueue_lines(lines).await, callers.len());
        for (caller, outcome) in callers.into_iter().zip(outcomes) {
            // A caller who has gone away does not care.
            let _ = caller.send(outcome);
        }
    }
}

fn outcomes(
    answer: Result<BatchAnswer, ClientError>,
    callers: usize,
) -> Vec<Result<JobAccepted, ClientError>> {
    match answer {
        Ok(BatchAnswer { items, durability, .. }) if items.len() == callers => {
            items.into_iter().map(|item| outcome(item, &durability)).collect()
        }
        Ok(answer) => {
            let cause = format!("{} results for {callers} jobs", answer.items.len());
            vec![Err(ClientError::Decode { url: "/v1/jobs/batch".to_owned(), cause }); callers]
        }
        Err(error) => vec![Err(error); callers],
    }
}

fn outcome(item: BatchItem, durability: &str) -> Result<JobAccepted, ClientError> {
    match item {
        BatchItem { error: Some(problem), .. } => Err(ClientError::Problem(Box::new(problem))),
        BatchItem { job_id: Some(job_id), status: Some(status), duplicate: Some(duplicate), .. } => {
            Ok(JobAccepted { job_id, status, duplicate, durability: durability.to_owned() })
        }
        BatchItem { index, .. } => {
            let cause = format!("item {index} has neither a result nor an error");
            Err(ClientError::Decode { url: "/v1/jobs/batch".to_owned(), cause })
        }
    }
}
