//! Failures of an exchange: how far it came, and so whether the provider may have taken the request.
//!
//! Absent on purpose: the request's URL, headers and body. The text is ours plus the innermost cause, which
//! speaks of sockets, names and certificates only.

use recado_core::words::describe_tls_error;
use recado_core::{Fault, NetworkKind};

use crate::causes::{causes, failed_in_handshake, find_cause, kind_after_hand_over, was_never_sent};
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
    let handed_over = !error.is_connect() && !was_never_sent(error);
    let kind = if handed_over { after_hand_over(error) } else { before_hand_over(error) };
    let cause = causes(error).last().map(ToString::to_string).unwrap_or_default();
    let words = format!("{}: {}", describe_kind(kind), describe_tls_error(&cause));
    Fault { uncertain: handed_over, ..Fault::network(kind, &words) }
}

fn before_hand_over(error: &reqwest::Error) -> NetworkKind {
    if error.is_dns() {
        return NetworkKind::Dns;
    }
    if error.is_timeout() {
        return NetworkKind::Timeout;
    }
    let is_secured = error.url().is_some_and(|url| url.scheme() == "https");
    if is_secured && failed_in_handshake(error) { NetworkKind::Tls } else { NetworkKind::Connect }
}

fn after_hand_over(error: &reqwest::Error) -> NetworkKind {
    if error.is_timeout() {
        return NetworkKind::Timeout;
    }
    kind_after_hand_over(error)
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
