//! The body of a request, bounded in size and in time.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, EXPECT};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use recado_wire::Code;
use recado_wire::providers::PauseRequest;
use recado_wire::read::{self, Body as Readable};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::answer::{ApiError, ApiResult};
use crate::state::ApiState;

/// Bytes of a body that is too large that are read and thrown away, so that its sender gets to read why.
const DISCARDED_MAX_BYTES: usize = 64 << 20;

/// Some editors put it before UTF-8. JSON has no place for it.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A body that has arrived.
#[derive(Debug)]
pub(crate) struct Received {
    pub bytes: Bytes,
    _room: Vec<OwnedSemaphorePermit>,
}

impl Received {
    /// Returns the body as text, which may be JSON.
    pub fn text(&self) -> ApiResult<&str> {
        if self.is_empty() {
            return Err(ApiError::new(Code::InvalidJson, "the body is empty; send a JSON object"));
        }
        text(&self.bytes)
    }

    fn is_empty(&self) -> bool {
        self.bytes.trim_ascii().is_empty()
    }

    /// Reads it as a request that may have faults, and refuses it with all of them if it has.
    fn read<T: Readable>(&self) -> ApiResult<T> {
        Ok(read::body::<T>(self.text()?)?.into_result()?)
    }
}

pub(crate) fn text(bytes: &[u8]) -> ApiResult<&str> {
    if bytes.starts_with(BYTE_ORDER_MARK) {
        let detail = "the body begins with a byte order mark; send UTF-8 without one";
        return Err(ApiError::new(Code::InvalidJson, detail));
    }
    std::str::from_utf8(bytes).map_err(|_| ApiError::new(Code::InvalidJson, "the body is not UTF-8"))
}

/// A JSON body as an argument, the last one: a request that may have faults.
#[derive(Debug)]
pub(crate) struct Json<T>(pub T);

impl<T: Readable> FromRequest<ApiState> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &ApiState) -> ApiResult<Self> {
        json(api, request).await?.read().map(Json)
    }
}

/// A JSON body that may be left out, and its content type with it, as an argument, the last one.
#[derive(Debug)]
pub(crate) struct OptionalJson<T>(pub T);

impl<T: Readable + Default> FromRequest<ApiState> for OptionalJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &ApiState) -> ApiResult<Self> {
        let named = request.headers().contains_key(CONTENT_TYPE);
        if named && format_of(request.headers()) != Some(Format::Json) {
            return Err(unsupported("application/json"));
        }
        let received = receive(api, request, api.limits().body_max_bytes).await?;
        match received.is_empty() {
            true => Ok(OptionalJson(T::default())),
            false if named => received.read().map(OptionalJson),
            false => Err(unsupported("application/json")),
        }
    }
}

/// The reason of a pause, of a resume or of a lifted hold, if the body has one.
#[derive(Debug)]
pub(crate) struct Reason(pub Option<String>);

impl FromRequest<ApiState> for Reason {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &ApiState) -> ApiResult<Self> {
        let OptionalJson(asked) = OptionalJson::<PauseRequest>::from_request(request, api).await?;
        Ok(Reason(given(asked.reason.as_deref()).map(str::to_owned)))
    }
}

/// The words that a caller gives, unless they are blank.
pub(crate) fn given(words: Option<&str>) -> Option<&str> {
    words.map(str::trim).filter(|words| !words.is_empty())
}

/// One item of a list as text. It may be as large as a body of its own.
pub(crate) fn item_text<'a>(api: &ApiState, item: &'a [u8], name: &str) -> ApiResult<&'a str> {
    let max_bytes = api.limits().body_max_bytes;
    if item.len() > max_bytes {
        let detail = format!("the {name} has more than {max_bytes} bytes");
        return Err(ApiError::new(Code::PayloadTooLarge, detail));
    }
    text(item)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    /// One JSON value a line.
    Ndjson,
}

/// The content type, if it is a known one.
fn format_of(headers: &HeaderMap) -> Option<Format> {
    let value = headers.get(CONTENT_TYPE)?.as_bytes();
    if value == b"application/json" {
        return Some(Format::Json);
    }
    let essence = value.split(|byte| *byte == b';').next().unwrap_or_default();
    match essence.trim_ascii().to_ascii_lowercase().as_slice() {
        b"application/json" => Some(Format::Json),
        b"application/x-ndjson" | b"application/ndjson" => Some(Format::Ndjson),
        other if other.starts_with(b"application/") && other.ends_with(b"+json") => Some(Format::Json),
        _ => None,
    }
}

fn unsupported(wanted: &str) -> ApiError {
    ApiError::new(Code::UnsupportedMediaType, format!("send the body with `Content-Type: {wanted}`"))
}

/// A JSON body.
pub(crate) async fn json(api: &ApiState, request: Request) -> ApiResult<Received> {
    if format_of(request.headers()) != Some(Format::Json) {
        return Err(unsupported("application/json"));
    }
    receive(api, request, api.limits().body_max_bytes).await
}

/// A JSON list.
pub(crate) async fn list(api: &ApiState, request: Request) -> ApiResult<Received> {
    match batch(api, request).await? {
        (Format::Json, received) => Ok(received),
        (Format::Ndjson, _) => Err(unsupported("application/json")),
    }
}

/// A batch: a JSON list, or one JSON value a line.
pub(crate) async fn batch(api: &ApiState, request: Request) -> ApiResult<(Format, Received)> {
    let Some(format) = format_of(request.headers()) else {
        return Err(unsupported("application/json (a list) or application/x-ndjson (one job a line)"));
    };
    let received = receive(api, request, api.limits().batch_body_max_bytes).await?;
    Ok((format, received))
}

/// One JSON value a line.
pub(crate) async fn lines(api: &ApiState, request: Request) -> ApiResult<Received> {
    if format_of(request.headers()) != Some(Format::Ndjson) {
        return Err(unsupported("application/x-ndjson"));
    }
    receive(api, request, api.limits().batch_body_max_bytes).await
}

async fn receive(api: &ApiState, request: Request, max_bytes: usize) -> ApiResult<Received> {
    let timeout = api.limits().body_timeout;
    let waits = request.headers().contains_key(EXPECT);
    let mut body = request.into_body();
    let declared = body.size_hint().lower();
    if declared > max_bytes as u64 {
        // A sender that declares more than would be thrown away hears the answer now or not at all.
        if !waits && declared <= DISCARDED_MAX_BYTES as u64 {
            discard(&mut body, timeout).await;
        }
        return Err(too_large(max_bytes));
    }
    let deadline = Instant::now() + timeout;
    let first = match next(&mut body, deadline, timeout).await? {
        // Almost every body is one piece, and is used where it lies.
        Some(first) if body.is_end_stream() => return whole(first, max_bytes),
        Some(first) => first,
        None => return whole(Bytes::new(), max_bytes),
    };
    gather(api, first, body, deadline, max_bytes).await
}

fn whole(bytes: Bytes, max_bytes: usize) -> ApiResult<Received> {
    if bytes.len() > max_bytes {
        Err(too_large(max_bytes))
    } else {
        Ok(Received { bytes, _room: Vec::new() })
    }
}

/// Puts a body together that comes in pieces, paying for its room as it grows.
async fn gather(
    api: &ApiState,
    first: Bytes,
    mut body: Body,
    deadline: Instant,
    max_bytes: usize,
) -> ApiResult<Received> {
    let timeout = api.limits().body_timeout;
    let mut gathered = BytesMut::new();
    let mut room = Vec::new();
    let mut reserved_bytes = 0;
    let mut piece = Some(first);
    while let Some(bytes) = piece {
        let length = gathered.len() + bytes.len();
        if length > max_bytes {
            drop((gathered, room));
            discard(&mut body, timeout).await;
            return Err(too_large(max_bytes));
        }
        if length > reserved_bytes {
            let more = length.next_power_of_two().clamp(64 << 10, max_bytes.max(64 << 10)) - reserved_bytes;
            let Some(reserved) = api.reserve(more) else {
                return Err(ApiError::busy("too many large requests arrive at once; try again in a moment"));
            };
            room.push(reserved);
            reserved_bytes += more;
            gathered.reserve(reserved_bytes - gathered.len());
        }
        gathered.extend_from_slice(&bytes);
        piece = next(&mut body, deadline, timeout).await?;
    }
    Ok(Received { bytes: gathered.freeze(), _room: room })
}

async fn next(body: &mut Body, deadline: Instant, timeout: Duration) -> ApiResult<Option<Bytes>> {
    loop {
        match tokio::time::timeout_at(deadline, body.frame()).await {
            Ok(None) => return Ok(None),
            Ok(Some(Ok(frame))) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
            // This answer has no reader: the connection is gone.
            Ok(Some(Err(_))) => {
                return Err(ApiError::new(
                    Code::InvalidJson,
                    "the connection closed before the whole body arrived",
                ));
            }
            Err(_) => {
                let detail = format!("the body did not arrive within {} s", timeout.as_secs_f32());
                return Err(ApiError::new(Code::RequestTimeout, detail));
            }
        }
    }
}

/// A sender that is cut off while it sends often never reads the answer.
async fn discard(body: &mut Body, timeout: Duration) {
    let reading = async {
        let mut discarded = 0;
        while let Some(Ok(frame)) = body.frame().await {
            discarded += frame.data_ref().map_or(0, Bytes::len);
            if discarded > DISCARDED_MAX_BYTES {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(timeout, reading).await;
}

fn too_large(max_bytes: usize) -> ApiError {
    ApiError::new(Code::PayloadTooLarge, format!("the body has more than {max_bytes} bytes, the maximum"))
}
