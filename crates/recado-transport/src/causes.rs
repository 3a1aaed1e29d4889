//! The causes behind an HTTP client's error, which tell how far an exchange came.

use std::error::Error;
use std::io;
use std::io::ErrorKind::{self, BrokenPipe, ConnectionReset, InvalidData, UnexpectedEof};
use std::iter::successors;

use recado_core::NetworkKind;

/// Returns the causes of an error, the innermost last.
pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(error.source(), |&cause| cause.source())
}

/// Returns the first cause of this type.
pub fn find_cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// Returns true if the request was never sent: hyper gives it back untouched when the connection went away before
/// its first byte.
pub fn was_never_sent(error: &(dyn Error + 'static)) -> bool {
    find_cause::<hyper::Error>(error).is_some_and(hyper::Error::is_canceled)
}

/// Returns true if the connection stood and the TLS handshake on it failed.
pub fn failed_in_handshake(error: &(dyn Error + 'static)) -> bool {
    let kind = find_cause::<io::Error>(error).map(innermost_kind);
    matches!(kind, Some(InvalidData | UnexpectedEof | ConnectionReset | BrokenPipe))
}

/// Names the failure of a connection after the request was sent and before its time was over.
pub fn kind_after_hand_over(error: &(dyn Error + 'static)) -> NetworkKind {
    match find_cause::<hyper::Error>(error) {
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
