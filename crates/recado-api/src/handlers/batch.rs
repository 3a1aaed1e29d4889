//! Many jobs in one request, each on its own merits.

use std::fmt;

use recado_core::TraceParent;
use recado_core::json::JsonKind;
use recado_engine::{Accepted, Submission};
use recado_wire::BATCH_JOBS_MAX;
use recado_wire::jobs::{BatchAnswer, BatchItem, JobRequest};
use recado_wire::read::NotJson;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::handlers::jobs::{read_outcome, read_submission};
use crate::handlers::prelude::*;

/// Bodies up to this size are read where they arrive; larger ones would hold up the other connections.
const READ_IN_PLACE_MAX_BYTES: usize = 16 << 10;

/// Enqueue up to 10,000 jobs: a JSON list, or one job a line. One bad item does not refuse the others.
#[utoipa::path(
    post, path = "/v1/jobs/batch", tag = "jobs", operation_id = "enqueueBatch",
    params(("traceparent" = Option<String>, Header, description = "The caller's span, for jobs that name none.")),
    request_body(
        content((Vec<JobRequest> = "application/json"), (String = "application/x-ndjson")),
        description = "A list of jobs, or one job a line (`application/x-ndjson`)."
    ),
    responses(
        (status = 200, description = "The result of each item, in the order given.", body = BatchAnswer),
        WriteProblems,
    )
)]
pub async fn enqueue_batch(api: ApiState, reader: Reader, request: Request) -> ApiResult {
    let heard = extract::traceparent(request.headers());
    let (format, received) = body::batch(&api, request).await?;
    if received.bytes.len() <= READ_IN_PLACE_MAX_BYTES {
        return take_in(api, reader, format, received, heard).await;
    }
    let turn = api.batch_turn().await;
    let here = tokio::runtime::Handle::current();
    let elsewhere = tokio::task::spawn_blocking(move || {
        let answer = here.block_on(take_in(api, reader, format, received, heard));
        drop(turn);
        answer
    });
    elsewhere.await.unwrap_or_else(|error| {
        tracing::error!(%error, "A batch could not be accepted");
        Err(ApiError::new(Code::Internal, "the batch could not be accepted; the log says more"))
    })
}

async fn take_in(
    api: ApiState,
    reader: Reader,
    format: Format,
    received: Received,
    heard: Option<TraceParent>,
) -> ApiResult {
    let mut submissions = Vec::new();
    let mut places: Vec<ApiResult<()>> = Vec::new();
    for item in split(format, &received.bytes, BATCH_JOBS_MAX)? {
        places.push(read_item(&api, item, heard).map(|submission| submissions.push(submission)));
    }
    let mut answers = api.engine.intake.submit(submissions).await?.into_iter();
    let mut answer = BatchAnswer {
        accepted: 0,
        duplicates: 0,
        refused: 0,
        durability: api.engine.inspect().durability().as_str().to_owned(),
        items: Vec::with_capacity(places.len()),
    };
    for (index, place) in (0..).zip(places) {
        let outcome = place.and_then(|()| read_outcome(answers.next()));
        match &outcome {
            Ok(Accepted { duplicate: false, .. }) => answer.accepted += 1,
            Ok(Accepted { duplicate: true, .. }) => answer.duplicates += 1,
            Err(_) => answer.refused += 1,
        }
        answer.items.push(show_item(index, outcome));
    }
    reader.ok(&api, &answer)
}

fn read_item(api: &ApiState, item: &[u8], heard: Option<TraceParent>) -> ApiResult<Submission> {
    read_submission(api, body::item_text(api, item, "job")?, heard)
}

fn show_item(index: u64, outcome: ApiResult<Accepted>) -> BatchItem {
    match outcome {
        Ok(Accepted { job_id, status, duplicate }) => {
            let (job_id, status, duplicate) = (Some(job_id), Some(status), Some(duplicate));
            BatchItem { index, job_id, status, duplicate, error: None }
        }
        Err(refused) => {
            let error = Some(refused.into_problem());
            BatchItem { index, job_id: None, status: None, duplicate: None, error }
        }
    }
}

/// The items of a batch, unread. What is wrong with one of them is found later.
pub(crate) fn split(format: Format, bytes: &[u8], max_items: usize) -> ApiResult<Vec<&[u8]>> {
    let items: Vec<&[u8]> = match format {
        Format::Json => items_of_list(body::text(bytes)?, max_items)?,
        Format::Ndjson => {
            let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
            lines.filter(|line| !line.is_empty()).take(max_items + 1).collect()
        }
    };
    if items.len() > max_items {
        let detail = format!("the batch has more than {max_items} items; send several batches");
        return Err(ApiError::new(Code::PayloadTooLarge, detail));
    }
    Ok(items)
}

fn items_of_list(json: &str, max_items: usize) -> ApiResult<Vec<&[u8]>> {
    if json.trim_ascii().is_empty() {
        return Err(ApiError::new(Code::InvalidJson, "the body is empty; send a JSON list"));
    }
    if JsonKind::of(json) != JsonKind::List {
        let _: &RawValue = serde_json::from_str(json).map_err(NotJson::from)?;
        return Err(ApiError::invalid_at("", format!("is {}; write a list", JsonKind::of(json))));
    }
    let mut reader = serde_json::Deserializer::from_str(json);
    let items = reader.deserialize_seq(FirstItems { max: max_items + 1 }).map_err(NotJson::from)?;
    reader.end().map_err(NotJson::from)?;
    Ok(items)
}

/// Keeps the first `max` items and only checks the rest, so that a list of millions costs no memory.
struct FirstItems {
    max: usize,
}

impl<'de> Visitor<'de> for FirstItems {
    type Value = Vec<&'de [u8]>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while items.len() < self.max {
            let Some(item) = seq.next_element::<&'de RawValue>()? else { return Ok(items) };
            items.push(item.get().as_bytes());
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(items)
    }
}
