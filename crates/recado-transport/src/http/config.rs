//! Configuration of an HTTP provider, and its faults.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::request;
use crate::secrets::{SECRET_LEN_MIN_BYTES, Secrets};

const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
const ANSWER_WAIT_DEFAULT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct HttpConfig {
    /// Every request goes below this address.
    pub base_url: Url,
    /// Sent with every request and never overridden by a job: API keys, authorization.
    pub headers: Vec<(String, String)>,
    /// Bounds name lookup, TCP and TLS together.
    pub connect_timeout: Duration,
    /// Bounds the wait for an answer's body once its status is known: the status alone tells whether the
    /// provider took it, and a body that never ends must not turn a yes into a timeout.
    pub answer_wait: Duration,
}

impl HttpConfig {
    pub fn new(base_url: Url) -> Self {
        HttpConfig {
            base_url,
            headers: Vec::new(),
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            answer_wait: ANSWER_WAIT_DEFAULT,
        }
    }

    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Reports the first reason why no provider could be reached with it. Opens nothing.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.checked_headers().map(drop)
    }

    /// Returns the headers to send, where address and headers can be used.
    pub(super) fn checked_headers(&self) -> Result<HeaderMap, ConfigError> {
        let url = &self.base_url;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ConfigError::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ConfigError::UserInfo);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(ConfigError::QueryOrFragment);
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let refused = |why| ConfigError::Header { name: name.clone(), why };
            let key: HeaderName = name.parse().map_err(|_| refused("is not a header's name"))?;
            if request::is_reserved(&key) {
                return Err(refused("is set by the transport itself; leave it out"));
            }
            let mut value =
                HeaderValue::from_str(value).map_err(|_| refused("has a value with control characters"))?;
            value.set_sensitive(true);
            if headers.insert(key, value).is_some() {
                return Err(refused("is given twice; keep one of them"));
            }
        }
        Ok(headers)
    }

    /// The secrets that the provider's answers must not show.
    pub(super) fn secrets(&self) -> Secrets {
        let credentials = self.headers.iter().map(|(_, value)| credential(value.trim()));
        let passwords = credentials.clone().filter_map(password);
        Secrets::new(credentials.map(Cow::Borrowed).chain(passwords.map(Cow::Owned)))
    }
}

/// The value without a scheme such as `Bearer`, which is a word that a provider may well use.
fn credential(value: &str) -> &str {
    match value.split_once(' ').map(|(_, rest)| rest.trim_start()) {
        Some(rest) if rest.len() >= SECRET_LEN_MIN_BYTES && !rest.contains(' ') => rest,
        _ => value,
    }
}

/// The password inside a `Basic` credential.
fn password(credential: &str) -> Option<String> {
    let pair = String::from_utf8(BASE64_STANDARD.decode(credential).ok()?).ok()?;
    Some(pair.split_once(':')?.1.to_owned())
}

/// Shows the headers' names only: their values are credentials.
impl fmt::Debug for HttpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("HttpConfig")
            .field("host", &self.base_url.host_str())
            .field("headers", &names)
            .field("connect_timeout", &self.connect_timeout)
            .field("answer_wait", &self.answer_wait)
            .finish()
    }
}

/// The reason why a provider's configuration cannot work. It repeats no value, for values may be credentials.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("the URL's scheme is `{0}`; write http:// or https://")]
    Scheme(String),
    #[error("the URL holds a user or a password; send credentials as a header, such as Authorization")]
    UserInfo,
    #[error("the URL has a query or a fragment; write it without, jobs bring their own query")]
    QueryOrFragment,
    #[error("header `{name}` {why}")]
    Header { name: String, why: &'static str },
    #[error("the default instance {0}")]
    Instance(&'static str),
    #[error("the HTTP client cannot be built: {0}")]
    Client(#[from] rustls::Error),
}
