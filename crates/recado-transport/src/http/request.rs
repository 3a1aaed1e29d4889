//! From a job's `data` to a request that stays below the provider's address and within its credentials.

use std::borrow::Cow;
use std::fmt;

use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode;
use recado_core::trace::TRACEPARENT;
use recado_core::{Payload, TraceParent};
use url::Url;

use crate::DataFault;
use crate::data::{self, Object};

/// Headers at most that a job may bring.
const HEADERS_MAX: usize = 64;
/// Parameters at most in a job's query.
const PARAMETERS_MAX: usize = 256;
/// Bytes at most of the whole address; servers refuse longer ones.
const URL_LEN_MAX_BYTES: usize = 8 * 1_024;
/// Times a path is decoded before it is judged: once for each party on the way that might do so.
const DECODINGS_MAX: usize = 3;

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
/// Carries the job's id on every attempt.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// One request, its address whole.
pub struct Request {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Request {
    /// A POST of JSON text.
    pub fn json(url: Url, body: Vec<u8>) -> Self {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        Request { method: Method::POST, url, headers, body }
    }

    /// Says which trace it belongs to, unless the job says that itself.
    pub fn trace(&mut self, traceparent: Option<TraceParent>) {
        let written = traceparent.and_then(|parent| HeaderValue::from_str(&parent.to_string()).ok());
        if let Some(value) = written {
            self.headers.entry(TRACEPARENT).or_insert(value);
        }
    }
}

/// Shows neither headers nor body: they hold credentials and personal data.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("host", &self.url.host_str())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Headers that belong to the connection or to Recado, so that neither jobs nor operators set them.
pub(super) fn is_reserved(name: &HeaderName) -> bool {
    const RESERVED: [&str; 12] = [
        "connection",
        "content-length",
        "expect",
        "host",
        IDEMPOTENCY_KEY,
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    RESERVED.contains(&name.as_str())
}

/// `own` are the provider's configured headers.
pub(super) fn read(data: &Payload, base: &Url, own: &HeaderMap) -> Result<Request, Vec<DataFault>> {
    data::read(data, |data| {
        data.allow_only(&["method", "path", "query", "headers", "body", "bodyBase64"]);
        let method = data.choice("method", &METHODS).unwrap_or("POST");
        let url = url(data, base);
        let mut headers = headers(data, own);
        let (body, content_type) = body(data);
        if let Some(content_type) = content_type.filter(|_| !own.contains_key(CONTENT_TYPE)) {
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content_type));
        }
        Some(Request { method: method.parse().ok()?, url, headers, body: body.into_owned() })
    })
}

fn url(data: &Object<'_, '_>, base: &Url) -> Url {
    let mut url = base.clone();
    if let Some(path) = data.text("path") {
        check_path(data, &path);
        url.set_path(&format!("{}/{}", base.path().trim_end_matches('/'), path.trim_start_matches('/')));
    }
    for (name, value) in query(data) {
        url.query_pairs_mut().append_pair(&name, &value);
    }
    if url.as_str().len() > URL_LEN_MAX_BYTES {
        data.fault_here(format!(
            "makes too long an address; keep it within {URL_LEN_MAX_BYTES} bytes, or use `body`"
        ));
    }
    url
}

fn check_path(data: &Object<'_, '_>, path: &str) {
    let refuse = |message| data.fault("path", message);
    let mut plain = Cow::Borrowed(path.as_bytes());
    if path.contains('%') {
        for _ in 0..DECODINGS_MAX {
            plain = Cow::Owned(percent_decode(&plain).collect());
        }
    }
    if path.starts_with("//") || path.contains("://") {
        refuse("names a host; write only the part below the provider's URL, such as \"v1/messages\"");
    }
    if path.contains('?') {
        refuse("holds a `?`; write the query in `query`");
    }
    if path.contains('#') {
        refuse("holds a `#`; fragments are never sent, leave it out");
    }
    if plain.contains(&b'\\') {
        refuse("holds a backslash; separate its parts with `/`");
    }
    if plain.iter().any(u8::is_ascii_control) {
        refuse("holds a control character; leave it out");
    }
    // Some servers drop what follows a `;` before they look for dots.
    let step = |part: &[u8]| matches!(part.split(|byte| *byte == b';').next(), Some(b"." | b".."));
    if plain.split(|byte| matches!(byte, b'/' | b'\\')).any(step) {
        refuse("holds a `.` or `..` part; write the path out, it has to stay below the provider's URL");
    }
}

fn query<'a>(data: &Object<'a, '_>) -> Vec<(String, Cow<'a, str>)> {
    let Some(query) = data.object("query") else { return Vec::new() };
    if query.members().count() > PARAMETERS_MAX {
        query.fault_here(format!("holds too many parameters; give at most {PARAMETERS_MAX}, or use `body`"));
        return Vec::new();
    }
    let pairs = query.members().filter_map(|(name, raw)| {
        let value = match raw.get().as_bytes().first() {
            Some(b'"') => query.text(name)?,
            Some(b'[' | b'{') => {
                query.fault(name, data::describe_instead(raw.get(), "a string, a number, true or false"));
                return None;
            }
            _ => Cow::Borrowed(raw.get()),
        };
        Some((name.to_owned(), value))
    });
    pairs.collect()
}

fn headers(data: &Object<'_, '_>, own: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some(given) = data.object("headers") else { return headers };
    if given.members().count() > HEADERS_MAX {
        given.fault_here(format!("holds too many headers; give at most {HEADERS_MAX}"));
        return headers;
    }
    for (name, _) in given.members() {
        let value = given.text(name);
        let Ok(key) = name.parse::<HeaderName>() else {
            given.fault(name, "is not a header's name; use letters, digits and `-`");
            continue;
        };
        if key == IDEMPOTENCY_KEY {
            given.fault(name, "is set to the job's id on every attempt; leave it out and choose the `jobId`");
        } else if is_reserved(&key) {
            given.fault(name, "belongs to the connection; leave it out");
        } else if own.contains_key(&key) {
            given.fault(name, "is set by the provider's configuration; leave it out");
        } else if headers.contains_key(&key) {
            given.fault(name, "is given twice in different case; keep one of them");
        }
        match value.map(|value| HeaderValue::from_str(&value)) {
            Some(Ok(value)) => drop(headers.insert(key, value)),
            Some(Err(_)) => {
                given.fault(name, "holds a line break or another control character; leave it out")
            }
            None => {}
        }
    }
    headers
}

/// The bytes to send and what they are, unless the job says that itself.
fn body<'a>(data: &Object<'a, '_>) -> (Cow<'a, [u8]>, Option<&'static str>) {
    let json = data.get("body");
    let bytes = data.base64("bodyBase64");
    if json.is_some() && data.has("bodyBase64") {
        data.fault("bodyBase64", "cannot be combined with `body`; give one of the two");
    }
    match (json, bytes) {
        // As written: parsing would lose the order of members and the digits of large numbers.
        (Some(json), _) => (Cow::Borrowed(json.get().as_bytes()), Some("application/json")),
        (None, Some(bytes)) => (Cow::Owned(bytes), Some("application/octet-stream")),
        (None, None) => (Cow::Borrowed(&[]), None),
    }
}
