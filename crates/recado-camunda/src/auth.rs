//! Authentication to the process engine.
//!
//! OAuth tokens are kept until shortly before they expire, and one request at a time fetches a new one: token
//! services count requests, and Camunda's own allows about one a second.

use std::fmt;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::rest::{EngineError, bounded, origin, parse_url, root_of};

const TOKEN_TIMEOUT: Duration = Duration::from_secs(15);

/// Time before its end when a token is no longer used, so that none expires on its way.
const TOKEN_MARGIN: Duration = Duration::from_secs(30);

/// For token services that do not say how long.
const TOKEN_LIFE_DEFAULT_SECONDS: u64 = 300;

/// A text that never shows up in `Debug`.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[derive(Debug)]
pub enum Auth {
    None,
    Bearer(Secret),
    Basic { user: String, password: Secret },
    OAuth(OAuth),
}

impl Auth {
    /// The request with credentials, and the OAuth token that it carries.
    pub(crate) async fn sign(
        &self,
        http: &Client,
        request: RequestBuilder,
    ) -> Result<(RequestBuilder, Option<Secret>), EngineError> {
        Ok(match self {
            Auth::None => (request, None),
            Auth::Bearer(token) => (request.bearer_auth(token.reveal()), None),
            Auth::Basic { user, password } => (request.basic_auth(user, Some(password.reveal())), None),
            Auth::OAuth(oauth) => {
                let token = oauth.token(http).await?;
                (request.bearer_auth(token.reveal()), Some(token))
            }
        })
    }

    /// Forgets a token that was refused, unless there is a newer one already.
    pub(crate) async fn forget(&self, refused: &Secret) {
        if let Auth::OAuth(oauth) = self {
            oauth.kept.lock().await.take_if(|(token, _)| token.reveal() == refused.reveal());
        }
    }
}

/// OAuth 2 client credentials.
#[derive(Debug)]
pub struct OAuth {
    url: Url,
    client_id: String,
    client_secret: Secret,
    audience: Option<String>,
    /// The token, and the time until which it serves.
    kept: Mutex<Option<(Secret, Instant)>>,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    expires_in: Option<u64>,
}

impl OAuth {
    pub fn new(
        url: &str,
        client_id: impl Into<String>,
        client_secret: Secret,
        audience: Option<String>,
    ) -> Result<Self, EngineError> {
        Ok(OAuth {
            url: parse_url(url, "https://login.cloud.camunda.io/oauth/token")?,
            client_id: client_id.into(),
            client_secret,
            audience,
            kept: Mutex::new(None),
        })
    }

    async fn token(&self, http: &Client) -> Result<Secret, EngineError> {
        let mut kept = self.kept.lock().await;
        if let Some((token, _)) = kept.as_ref().filter(|(_, until)| Instant::now() < *until) {
            return Ok(token.clone());
        }
        let granted = self.fetch(http).await?;
        let life = Duration::from_secs(granted.expires_in.unwrap_or(TOKEN_LIFE_DEFAULT_SECONDS));
        // A token that lives for a minute or less would otherwise never be used twice.
        let margin = TOKEN_MARGIN.min(life / 2);
        let token = Secret::new(granted.access_token);
        *kept = Some((token.clone(), Instant::now() + (life - margin)));
        Ok(token)
    }

    async fn fetch(&self, http: &Client) -> Result<Granted, EngineError> {
        let refused = |cause: String| EngineError::Token { origin: origin(&self.url), cause };
        let mut form = vec![
            ("grant_type", "client_credentials"),
            ("client_id", &self.client_id),
            ("client_secret", self.client_secret.reveal()),
        ];
        form.extend(self.audience.as_deref().map(|audience| ("audience", audience)));
        let sent = http.post(self.url.clone()).timeout(TOKEN_TIMEOUT).form(&form).send().await;
        let response = sent.map_err(|error| refused(root_of(&error.without_url())))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST => {
                let status = response.status();
                return Err(refused(format!("{status}; check the client's id, secret and audience")));
            }
            status => return Err(refused(status.to_string())),
        }
        let body = bounded(response).await.map_err(|error| refused(root_of(&error.without_url())))?;
        serde_json::from_slice(&body).map_err(|_| refused("the answer holds no `access_token`".to_owned()))
    }
}
