//! Access control.
//!
//! With a token, requests that carry it. Without one the API serves this machine's own programs, and a browser on
//! this machine is one of them: any page it shows can send requests here. So the Host header has to be one
//! of our names (a page whose name was rebound to our address still says its own), and so does the
//! Origin, where there is one (a page of another site says so). Probes stay open for all.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::response::{IntoResponse, Response};
use futures_util::future::{BoxFuture, Either};
use recado_wire::{Code, Problem};
use subtle::ConstantTimeEq;
use tower::Service;

use crate::answer::ApiError;
use crate::connections::Proof;
use crate::state::ApiOptions;
use crate::wrong_tokens::{WINDOW, WrongTokens};

/// The secret that callers show. Its `Debug` keeps it.
#[derive(Clone)]
pub struct Token(Arc<str>);

/// An empty token would let in every caller that sends one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the token is empty; write a long random one, or leave it out")]
pub struct EmptyToken;

impl Token {
    pub fn new(text: &str) -> Result<Self, EmptyToken> {
        let text = text.trim();
        if text.is_empty() { Err(EmptyToken) } else { Ok(Token(text.into())) }
    }

    /// True if these headers carry it. Takes the same time however much of it is right.
    pub(crate) fn is_shown_in(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(AUTHORIZATION).map(|value| value.as_bytes()) else { return false };
        let Some((scheme, shown)) = value.split_at_checked(7) else { return false };
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(shown.trim_ascii().ct_eq(self.0.as_bytes()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Names by which callers may address the server when there is no token, with any port. Without a list every name
/// serves: the server is meant to be reached from other machines.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Option<Arc<[String]>>);

impl Hosts {
    /// This machine's names for itself, and `more`, when the server listens on a loopback address.
    pub fn at(listening: SocketAddr, more: &[String]) -> Self {
        if !listening.ip().is_loopback() {
            return Hosts::default();
        }
        let own = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
        let own = own.into_iter().chain([host_of(&listening.to_string()).to_owned()]);
        Hosts(Some(own.chain(more.iter().map(|name| name.to_ascii_lowercase())).collect()))
    }

    fn allow(&self, host: &str) -> bool {
        let Hosts(names) = self;
        names.as_ref().is_none_or(|names| names.iter().any(|name| name.eq_ignore_ascii_case(host)))
    }
}

/// `host:port` without the port.
fn host_of(authority: &str) -> &str {
    match authority.rfind(':') {
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    }
}

/// The gate, around the whole router.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    token: Option<Token>,
    hosts: Hosts,
    wrong_tokens: Arc<WrongTokens>,
}

/// The answer to a request: a refusal after its delay, or that of the service behind the gate.
pub(crate) type Gated<F> = Either<BoxFuture<'static, Result<Response, Infallible>>, F>;

/// A refusal, and the wait before it is given.
type DelayedRefusal = (ApiError, Duration);

impl Gate {
    pub fn new(options: &ApiOptions) -> Self {
        let ApiOptions { token, hosts, .. } = options.clone();
        Gate { token, hosts, wrong_tokens: Arc::default() }
    }

    /// Lets a request in to the service behind, or refuses it.
    pub fn call<S>(&self, request: Request, behind: &mut S) -> Gated<S::Future>
    where
        S: Service<Request, Response = Response, Error = Infallible>,
    {
        match self.check(&request) {
            Ok(()) => {
                self.prove(&request);
                Either::Right(behind.call(request))
            }
            Err((refused, delay)) => Either::Left(Box::pin(async move {
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                Ok(refused.into_response())
            })),
        }
    }

    fn check(&self, request: &Request) -> Result<(), DelayedRefusal> {
        let (path, headers) = (request.uri().path(), request.headers());
        match &self.token {
            Some(token) => {
                let guarded = path.starts_with("/v1") || matches!(path, "/openapi.json" | "/metrics");
                if guarded && !token.is_shown_in(headers) { Err(self.refuse_token(request)) } else { Ok(()) }
            }
            None if path == "/healthz" => Ok(()),
            None => self.check_names(headers).map_err(|refused| (refused, Duration::ZERO)),
        }
    }

    fn refuse_token(&self, request: &Request) -> DelayedRefusal {
        let is_guess = request.headers().contains_key(AUTHORIZATION);
        let address = request.extensions().get::<Proof>().map(Proof::address).filter(|_| is_guess);
        match address.and_then(|address| self.wrong_tokens.note(address)) {
            Some(delay) => {
                let detail =
                    "this address sent too many wrong tokens; send the right one, or come back later";
                let problem = Problem::new(Code::TooManyWrongTokens, detail);
                (ApiError::after(problem, WINDOW), delay)
            }
            None => {
                let detail = "send the token as `Authorization: Bearer <token>`";
                (ApiError::new(Code::Unauthorized, detail), Duration::ZERO)
            }
        }
    }

    /// Notes with the connection that its caller was let in. Where there is a token, only those who show it were:
    /// probes and pages are open to all.
    fn prove(&self, request: &Request) {
        if let Some(proof) = request.extensions().get::<Proof>()
            && self.token.as_ref().is_none_or(|token| token.is_shown_in(request.headers()))
        {
            proof.show();
        }
    }

    fn check_names(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if !self.hosts.allow(host_of(host)) {
            return Err(ApiError::new(
                Code::HostNotAllowed,
                "without a token this server answers only to its own names; add the name to server.allowed_hosts or set server.token",
            ));
        }
        let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().unwrap_or_default();
        let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
        if !host.is_empty() && authority.eq_ignore_ascii_case(host) {
            return Ok(());
        }
        Err(ApiError::new(
            Code::OriginNotAllowed,
            "without a token only this server's own pages may use the API",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_no_part_of_a_host() {
        let rows = [
            ("localhost:7400", "localhost"),
            ("[::1]:7400", "[::1]"),
            ("[::1]", "[::1]"),
            ("a.b", "a.b"),
            ("", ""),
        ];
        for (authority, host) in rows {
            assert_eq!(host_of(authority), host, "{authority}");
        }
    }

    #[test]
    fn only_a_loopback_server_is_picky_about_its_name() {
        let loopback = Hosts::at("127.0.0.1:7400".parse().unwrap(), &["Recado.Test".to_owned()]);
        for name in ["localhost", "127.0.0.1", "[::1]", "LOCALHOST", "recado.test"] {
            assert!(loopback.allow(name), "{name}");
        }
        for name in ["evil.example", "", "127.0.0.1.evil.example"] {
            assert!(!loopback.allow(name), "{name}");
        }
        assert!(Hosts::at("127.0.0.9:1".parse().unwrap(), &[]).allow("127.0.0.9"));
        assert!(Hosts::at("0.0.0.0:7400".parse().unwrap(), &[]).allow("evil.example"));
    }

    #[test]
    fn a_token_does_not_show_itself() {
        assert_eq!(format!("{:?}", Token::new("secret").unwrap()), "Token(…)");
        assert_eq!(Token::new("  ").unwrap_err(), EmptyToken);
    }
}
