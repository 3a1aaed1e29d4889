//! The progress of one request: prepared, on its way, answered.
//!
//! The SDK reports a failure, not how far it had come, and it keeps a status to itself until the body is
//! whole. A [`Listener`] sits in its hooks and notes both. It also bounds the body, which the SDK would read
//! to the end however long it is.

use std::time::Duration;

use aws_sdk_sesv2::config::interceptors::{
    BeforeDeserializationInterceptorContextMut, BeforeDeserializationInterceptorContextRef,
    BeforeTransmitInterceptorContextRef,
};
use aws_sdk_sesv2::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_sesv2::error::BoxError;
use aws_smithy_types::body::SdkBody;
use http_body_util::Limited;
use recado_core::{Timestamp, retry_after};
use tokio::sync::watch;

/// Bytes at most of an answer's body.
const ANSWER_MAX_BYTES: usize = 64 * 1_024;

#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// Credentials, endpoint and signature: nothing has gone out.
    Preparing,
    /// With the HTTP client, which connects first.
    Transmitting,
    Answered(Head),
}

/// The head of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub status: u16,
    /// AWS's name for the error.
    pub name: Option<Box<str>>,
    retry_after: Option<Box<str>>,
}

impl Head {
    pub fn is_yes(&self) -> bool {
        (200..=299).contains(&self.status)
    }

    pub fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        retry_after::parse(self.retry_after.as_deref()?, now)
    }
}

#[derive(Debug)]
pub(crate) struct Listener(watch::Sender<Stage>);

/// The notes of a [`Listener`].
pub(crate) struct RequestProgress(watch::Receiver<Stage>);

pub(crate) fn listener() -> (Listener, RequestProgress) {
    let (tell, hear) = watch::channel(Stage::Preparing);
    (Listener(tell), RequestProgress(hear))
}

impl RequestProgress {
    pub fn stage(&self) -> Stage {
        self.0.borrow().clone()
    }

    /// Waits for a status, for ever if none comes.
    pub async fn head(&self) -> Head {
        let mut stage = self.0.clone();
        loop {
            if let Stage::Answered(head) = &*stage.borrow_and_update() {
                return head.clone();
            }
            if stage.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

impl Intercept for Listener {
    fn name(&self) -> &'static str {
        "recado"
    }

    fn read_before_transmit(
        &self,
        _context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.send_replace(Stage::Transmitting);
        Ok(())
    }

    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let (status, headers) = (context.response().status(), context.response().headers());
        self.0.send_replace(Stage::Answered(Head {
            status: status.as_u16(),
            name: headers.get("x-amzn-errortype").and_then(plain_name),
            retry_after: headers.get("retry-after").map(Into::into),
        }));
        Ok(())
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let body = context.response_mut().body_mut();
        let whole = std::mem::replace(body, SdkBody::taken());
        *body = SdkBody::from_body_1_x(Limited::new(whole, ANSWER_MAX_BYTES));
        Ok(())
    }
}

/// AWS writes `namespace#Name:address`, of which only the middle has to be there.
fn plain_name(written: &str) -> Option<Box<str>> {
    let name = written.split(':').next().unwrap_or_default();
    let name = name.rsplit('#').next().unwrap_or_default().trim();
    (!name.is_empty()).then(|| name.into())
}
