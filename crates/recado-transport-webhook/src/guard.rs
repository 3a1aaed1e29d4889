//! Guards against addresses that a user supplied and that must not be reached.
//!
//! A URL passes two doors. [`Guard::check_url`] judges what is written in it, in whatever notation, for
//! an address that is written down is never looked up. Names pass [`Guard::check_address`] with each
//! address that a lookup finds, at the moment of the connection, and only what passed is connected to: a
//! name that changes its mind between two lookups gains nothing.
//!
//! Absent on purpose: lists of bad names, because the owner of a name can point it anywhere; and rules
//! on ports, for receivers listen where they like.

use std::net::IpAddr;

use ipnet::IpNet;
use recado_core::{EngineCode, Fault};
use url::{Host, Url};

use crate::ranges::is_public;

/// Bytes at most of an address; many receivers refuse longer ones.
const URL_LEN_MAX_BYTES: usize = 2 * 1_024;

/// Names that mean something on the inside only, and all names below them.
const INTERNAL: [&str; 5] = ["localhost", "localdomain", "local", "internal", "home.arpa"];

/// Lets through what is public and encrypted, and what the operator lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Ranges that may be reached although they are not public, with or without TLS: `webhooks.allow`.
    /// IPv4 ranges cover the IPv6 addresses mapped to them.
    pub allowed: Vec<IpNet>,
    /// Allows public addresses without TLS: `webhooks.allow_http`.
    pub allow_http: bool,
}

/// The reason why an address may not be reached. It goes to the tenant, so it names no address that a lookup
/// found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("is not a web address; write one that begins with https://")]
    Scheme,
    #[error(
        "is not encrypted; write https://, or have the operator add its range to `webhooks.allow` \
         or set `webhooks.allow_http`"
    )]
    Plain,
    #[error("holds a user or a password; leave them out, the signature identifies the sender")]
    UserInfo,
    #[error("has a fragment; leave out the `#` and what follows, it is never sent")]
    Fragment,
    #[error("has port 0; write the port that the receiver listens on")]
    Port,
    #[error("is too long; keep it within {URL_LEN_MAX_BYTES} bytes")]
    TooLong,
    #[error(
        "does not lead to a public address; write one that does, or have the operator add its range to \
         `webhooks.allow`"
    )]
    Address,
}

/// The scheme of a webhook's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scheme {
    Https,
    Http,
}

impl Guard {
    /// Judges all of an address that can be judged without a lookup.
    pub fn check_url(&self, url: &Url) -> Result<(), Refusal> {
        let scheme = match url.scheme() {
            "https" => Scheme::Https,
            "http" => Scheme::Http,
            _ => return Err(Refusal::Scheme),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::UserInfo);
        }
        if url.fragment().is_some() {
            return Err(Refusal::Fragment);
        }
        if url.port() == Some(0) {
            return Err(Refusal::Port);
        }
        if url.as_str().len() > URL_LEN_MAX_BYTES {
            return Err(Refusal::TooLong);
        }
        match url.host() {
            Some(Host::Ipv4(ip)) => self.check_address(ip.into(), None, scheme),
            Some(Host::Ipv6(ip)) => self.check_address(ip.into(), None, scheme),
            Some(Host::Domain(name)) => self.check_name(name, scheme),
            None => Err(Refusal::Scheme),
        }
    }

    /// Judges one address; `name` is what a lookup found it under.
    pub(crate) fn check_address(
        &self,
        ip: IpAddr,
        name: Option<&str>,
        scheme: Scheme,
    ) -> Result<(), Refusal> {
        let canonical = ip.to_canonical();
        if self.allowed.iter().any(|range| range.contains(&canonical)) {
            return Ok(());
        }
        if name.is_some_and(is_internal) || !is_public(ip) {
            return Err(Refusal::Address);
        }
        self.check_scheme(scheme)
    }

    /// Only what the operator lists makes up for a name or a scheme, so an empty list decides at once.
    fn check_name(&self, name: &str, scheme: Scheme) -> Result<(), Refusal> {
        if !self.allowed.is_empty() {
            return Ok(());
        }
        if is_internal(name) {
            return Err(Refusal::Address);
        }
        self.check_scheme(scheme)
    }

    fn check_scheme(&self, scheme: Scheme) -> Result<(), Refusal> {
        if scheme == Scheme::Https || self.allow_http { Ok(()) } else { Err(Refusal::Plain) }
    }
}

fn is_internal(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    let is_below = |parent: &str| name.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'));
    !name.contains('.') || INTERNAL.iter().any(|parent| name == *parent || is_below(parent))
}

impl From<Refusal> for Fault {
    /// The route's classifier judges this code as permanent.
    fn from(refusal: Refusal) -> Fault {
        Fault::answer(EngineCode::AddressRefused.as_str(), &format!("the webhook's address {refusal}"))
    }
}
