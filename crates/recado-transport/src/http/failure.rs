//! Failures of an exchange: how far it came, and so whether the provider may have taken the request.
//!
//! Absent on purpose: the request's URL, headers and body. The text is ours plus the innermost cause, which
//! speaks of sockets, names and certificates only.

use std::error::Error;
use std::io;
use std::io::ErrorKind::{self, BrokenPipe, ConnectionReset, InvalidData, UnexpectedEof};
use std::iter::successors;

use recado_core::words::describe_tls_error;
use recado_core::{Fault, NetworkKind};

use crate::shortage;

/// A fault raised by Recado's own resolver or connector: it passes through the HTTP client unchanged.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.text)]
pub struct FaultError(pub Fault);

pub(super) fn fault_of(error: &reqwest::Error) -> Fault {
    if let Some(FaultError(fault)) = find_cause(error) {
        return fault.clone();
    }
    if let Some(shortage) = shortage::of_causes(error).filter(|_| error.is_connect()) {
        return shortage;
    }
    if error.is_builder() {
        return Fault::invalid_payload("no request can be made of this data");
    }
    // Hyper gives a request back untouched when the connection went away before its first byte.
    let never_sent = find_cause::<hyper::Error>(error).is_some_and(hyper::Error::is_canceled);
    let handed_over = !error.is_connect() && !never_sent;
    let kind = if handed_over { after_hand_over(error) } else { before_hand_over(error) };
    let cause = causes(error).last().map(ToString::to_string).unwrap_or_default();
    let words = format!("{}: {}", describe_kind(kind), describe_tls_error(&cause));
    Fault { uncertain: handed_over, ..Fault::network(kind, &words) }
}

/// The causes of an error, the innermost last.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(error.source(), |&cause| cause.source())
}

fn find_cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

fn before_hand_over(error: &reqwest::Error) -> NetworkKind {
    let is_secured = error.url().is_some_and(|url| url.scheme() == "https");
    match find_cause::<io::Error>(error).map(innermost_kind) {
        _ if error.is_dns() => NetworkKind::Dns,
        _ if error.is_timeout() => NetworkKind::Timeout,
        // The connection stood, and the handshake on it failed.
        Some(InvalidData | UnexpectedEof | ConnectionReset | BrokenPipe) if is_secured => NetworkKind::Tls,
        _ => NetworkKind::Connect,
    }
}

fn after_hand_over(error: &reqwest::Error) -> NetworkKind {
    match find_cause::<hyper::Error>(error) {
        _ if error.is_timeout() => NetworkKind::Timeout,
        Some(error) if error.is_parse() => NetworkKind::Protocol,
        _ => NetworkKind::Dropped,
    }
}

/// The TLS layer wraps one I/O error in another of no particular kind, out of reach of `source`.
fn innermost_kind(error: &io::Error) -> ErrorKind {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<io::Error>()) {
        Some(inner) => innermost_kind(inner),
        None => error.kind(),
    }
}

fn describe_kind(kind: NetworkKind) -> &'static str {
    match kind {
        NetworkKind::Dns => "the provider's name cannot be resolved",
        NetworkKind::Connect => "no connection to the provider",
        NetworkKind::Tls => "no secure connection to the provider",
        NetworkKind::Timeout => "the provider took too long",
        NetworkKind::Dropped => "the connection was lost after the request was sent",
        NetworkKind::Protocol => "the provider's answer is not HTTP",
    }
}
