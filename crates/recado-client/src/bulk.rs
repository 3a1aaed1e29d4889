//! Many dead letters at once: replayed, discarded, exported, brought back.

use std::time::Duration;

use bytes::Bytes;
use recado_wire::NDJSON;
use recado_wire::archive::{ExportQuery, ImportAnswer};
use recado_wire::bulk::{Bulk, BulkCount, BulkList, BulkRequest};
use reqwest::{Method, Response};

use crate::call::{RetrySafety, open, origin};
use crate::client::Client;
use crate::error::ClientError;

impl Client {
    /// Counts the dead letters that a bulk replay or discard would touch, and shows a few of them.
    pub async fn count_bulk(&self, act: &str, request: &BulkRequest) -> Result<BulkCount, ClientError> {
        let request = BulkRequest { dry_run: Some(true), ..request.clone() };
        self.answer(self.post(&["v1", "dlq", act], RetrySafety::Safe).json(&request)?).await
    }

    /// Begins to replay every dead letter that a filter chooses.
    pub async fn replay_all(&self, request: &BulkRequest) -> Result<Bulk, ClientError> {
        let request = BulkRequest { dry_run: None, ..request.clone() };
        self.answer(self.post(&["v1", "dlq", "replay"], RetrySafety::IfUnsent).json(&request)?).await
    }

    /// Begins to discard every dead letter that a filter chooses; the request needs a reason.
    pub async fn discard_all(&self, request: &BulkRequest) -> Result<Bulk, ClientError> {
        let request = BulkRequest { dry_run: None, ..request.clone() };
        self.answer(self.post(&["v1", "dlq", "discard"], RetrySafety::IfUnsent).json(&request)?).await
    }

    /// Bulk acts, newest first.
    pub async fn bulks(&self) -> Result<BulkList, ClientError> {
        self.answer(self.get(&["v1", "replays"])).await
    }

    /// Reads the progress of a bulk act.
    pub async fn bulk(&self, id: &str) -> Result<Bulk, ClientError> {
        self.answer(self.get(&["v1", "replays", id])).await
    }

    /// Stops a bulk act; what it has done stays done.
    pub async fn stop_bulk(&self, id: &str) -> Result<Bulk, ClientError> {
        self.answer(self.call(Method::DELETE, &["v1", "replays", id], RetrySafety::Safe)).await
    }

    /// Every dead letter that is asked for, as it comes.
    pub async fn export_dead_letters(&self, query: &ExportQuery) -> Result<Export, ClientError> {
        let call = self.get(&["v1", "dlq", "export"]).query(self.http(), query)?;
        let response = open(&call, self.request(Method::GET, call.url.clone())).await?;
        Ok(Export { url: origin(&call.url), timeout: call.timeout, response })
    }

    /// Brings archived dead letters back: lines of an archive, up to 10,000. Twice is harmless.
    pub async fn import_dead_letters(&self, lines: impl Into<Bytes>) -> Result<ImportAnswer, ClientError> {
        let mut call = self.post(&["v1", "dlq", "import"], RetrySafety::Safe);
        call.body = Some((NDJSON, lines.into()));
        self.answer(call).await
    }
}

/// An export on its way.
#[derive(Debug)]
pub struct Export {
    url: String,
    timeout: Duration,
    response: Response,
}

impl Export {
    /// The next piece; `None` when it is whole. One that breaks off is an error, not an end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        match tokio::time::timeout(self.timeout, self.response.chunk()).await {
            Ok(piece) => piece.map_err(|error| ClientError::of(&error, &self.url, self.timeout)),
            Err(_) => Err(ClientError::Timeout { url: self.url.clone(), after: self.timeout }),
        }
    }
}
