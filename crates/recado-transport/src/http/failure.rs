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
use url::Url;

use crate::shortage;

/// The data makes no request.
pub(super) fn no_request() -> Fault {
    Fault::invalid_payload("no request can be made of this data")
}

/// A lookup failed.
pub fn not_resolved(error: &io::Error) -> Fault {
    shortage::of_io(error).unwrap_or_else(|| describe(NetworkKind::Dns, error))
}

/// No connection came about. Where it was to be secured, one that stood and was cut is a failure of TLS.
pub(super) fn not_connected(url: &Url, error: &(dyn Error + 'static)) -> Fault {
    let mut causes = successors(Some(error), |&cause| cause.source());
    let cut = causes.find_map(|cause| cause.downcast_ref::<io::Error>()).map(innermost_kind);
    let kind = match cut {
        Some(InvalidData | UnexpectedEof | ConnectionReset | BrokenPipe) if url.scheme() == "https" => {
            NetworkKind::Tls
        }
        _ => NetworkKind::Connect,
    };
    shortage::of_causes(error).unwrap_or_else(|| describe(kind, error))
}

/// Connecting took too long.
pub(super) fn connect_timed_out() -> Fault {
    describe(NetworkKind::Timeout, &io::Error::from(ErrorKind::TimedOut))
}

/// The request was sent, at least in part, and no answer came.
pub(super) fn after_hand_over(error: &hyper::Error) -> Fault {
    let kind = if error.is_parse() { NetworkKind::Protocol } else { NetworkKind::Dropped };
    Fault { uncertain: true, ..describe(kind, error) }
}

fn describe(kind: NetworkKind, error: &(dyn Error + 'static)) -> Fault {
    let cause = successors(Some(error), |&cause| cause.source()).last().map(ToString::to_string);
    let words = format!("{}: {}", describe_kind(kind), describe_tls_error(&cause.unwrap_or_default()));
    Fault::network(kind, &words)
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
