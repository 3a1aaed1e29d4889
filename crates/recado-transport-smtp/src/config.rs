//! Configuration of a relay, and its faults.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::tls;

/// The security of a connection. Where TLS is used the certificate is checked, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// TLS from the first byte (port 465).
    ImplicitTls,
    /// TLS by STARTTLS, and no mail without it (port 587).
    StartTls,
    /// TLS by STARTTLS if the server offers it. An attacker on the path can remove the offer.
    Opportunistic,
    /// Never TLS.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    Plain,
    Login,
    /// The secret is an OAuth 2 access token.
    XOAuth2,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub secret: String,
    /// Without one, PLAIN or else LOGIN, as the server offers.
    pub mechanism: Option<Mechanism>,
}

/// Time limits of each step. The whole delivery has a deadline of its own, which the text and the answer to
/// its final dot may use up.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Name lookup and TCP.
    pub connect: Duration,
    /// Each of: the TLS handshake, the greeting, EHLO, STARTTLS, AUTH.
    pub opening: Duration,
    /// Each answer to MAIL and RCPT.
    pub envelope: Duration,
    /// The answer to DATA, before the text.
    pub data: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(10),
            opening: Duration::from_secs(10),
            envelope: Duration::from_secs(15),
            data: Duration::from_secs(15),
        }
    }
}

#[derive(Clone, Debug)]
pub struct SmtpConfig {
    pub host: String,
    pub port: u16,
    pub security: Security,
    pub credentials: Option<Credentials>,
    /// Our name at EHLO. Without it, the address that the connection comes from.
    pub hello_name: Option<String>,
    pub connections_max: usize,
    /// A connection is closed after this many, because servers count too.
    pub messages_per_connection_max: u32,
    /// An unused connection is closed after this.
    pub idle_timeout: Duration,
    pub timeouts: Timeouts,
    /// Certificates in PEM that are trusted besides the system's own: a private authority's.
    pub trusted_roots_pem: Option<String>,
}

impl SmtpConfig {
    /// A relay with every default; the port is the one that goes with the security.
    pub fn new(host: &str, security: Security) -> Self {
        SmtpConfig {
            host: host.to_owned(),
            port: if security == Security::ImplicitTls { 465 } else { 587 },
            security,
            credentials: None,
            hello_name: None,
            connections_max: 5,
            messages_per_connection_max: 100,
            idle_timeout: Duration::from_secs(30),
            timeouts: Timeouts::default(),
            trusted_roots_pem: None,
        }
    }

    /// Reads `smtps://user:password@host` (TLS), `smtp://host` (STARTTLS), with `?tls=opportunistic`,
    /// `?tls=none` and `?auth=plain`, `login` or `xoauth2`. User and password are percent-encoded.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        crate::url::read(url)
    }

    /// Reports the first reason why no relay could be reached with it. Opens nothing.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.security != Security::None {
            tls::check(self)?;
        }
        if self.connections_max == 0 || self.messages_per_connection_max == 0 {
            return Err(ConfigError::NoConnections);
        }
        let word = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
        if self.hello_name.as_deref().is_some_and(|name| !word(name)) {
            return Err(ConfigError::HelloName);
        }
        let Some(credentials) = &self.credentials else { return Ok(()) };
        let blank = credentials.user.is_empty() || credentials.secret.is_empty();
        if blank || format!("{}{}", credentials.user, credentials.secret).contains(char::is_control) {
            return Err(ConfigError::Credentials);
        }
        let may_be_plain = matches!(self.security, Security::None | Security::Opportunistic);
        if may_be_plain && !is_loopback(&self.host) {
            return Err(ConfigError::CredentialsInTheClear);
        }
        Ok(())
    }
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Shows neither the user nor the secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("mechanism", &self.mechanism).finish_non_exhaustive()
    }
}

/// The reason why a relay's configuration cannot work. It repeats no value, for values may be credentials.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "the SMTP address is not a URL; write smtps://user:password@host, with each of : / ? # [ ] @ % in \
         the user or the password percent-encoded (@ as %40)"
    )]
    NotAUrl,
    #[error("the SMTP address has another scheme; write smtps:// for TLS or smtp:// for STARTTLS")]
    Scheme,
    #[error("the SMTP address has no host; write smtps://mail.example.com")]
    NoHost,
    #[error("the SMTP address has a path or a fragment; write nothing but a query after the host")]
    Path,
    #[error("the SMTP address has a user without a password, or the reverse; write both or neither")]
    HalfCredentials,
    #[error("the user or the password is not UTF-8 once percent-decoded; encode its UTF-8 bytes")]
    Encoding,
    #[error("the SMTP address has an unknown option; known ones are tls=opportunistic, tls=none and auth=…")]
    Option,
    #[error("`tls` is not one of its choices; write required, opportunistic or none, and with smtp:// only")]
    Tls,
    #[error("`auth` is not one of its choices; write plain, login or xoauth2, and a user and a password")]
    Auth,
    #[error("the user or the password is empty or holds a control character; write it on one line")]
    Credentials,
    #[error(
        "the login might go over the network in the clear; use smtps:// or STARTTLS, or a host on this machine"
    )]
    CredentialsInTheClear,
    #[error("the name for EHLO is not one word of ASCII; write this machine's name, such as mx.example.com")]
    HelloName,
    #[error("no connection may be opened or used; allow at least one connection and one message on it")]
    NoConnections,
    #[error("the host cannot be a certificate's name; write a DNS name or an address")]
    ServerName,
    #[error("the trusted certificates are not PEM; give the file's text, from -----BEGIN CERTIFICATE-----")]
    TrustedRoots,
    #[error("TLS cannot be set up: {0}")]
    TlsSetUp(String),
}
