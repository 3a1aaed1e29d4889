//! Many dead letters at once: exported, brought back.

use std::time::Duration;

use bytes::Bytes;
use recado_wire::NDJSON;
use recado_wire::dlq::archive::{ExportQuery, ImportAnswer};
use reqwest::{Method, Response};

use crate::call::{RetrySafety, open, origin};
use crate::client::Client;
use crate::error::ClientError;

impl Client {
    /// Every dead letter that is asked for, as it comes.
    pub async fn export_dead_letters(&self, query: &ExportQuery) -> Result<Export, ClientError> {
        let call = self.get(&["v1", "dlq", "export"]).query(self.http(), query)?;
        let response = open(&call, self.request(Method::GET, call.url.clone())).await?;
        Ok(Export { url: origin(&call.url), timeout: call.timeout, response })
    }

    /// Brings archived dead letters back: lines of an archive, up to 10,000. A second import is harmless.
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
