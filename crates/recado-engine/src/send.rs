//! Hands a job to its transport, within a timeout, whatever the transport does.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use recado_core::{Fault, NetworkKind, Outcome};
use recado_transport::{Delivery, Transport, patience};

/// Sends once. A transport that panics or hangs is a failed attempt like any other.
pub(crate) async fn send(transport: &Arc<dyn Transport>, delivery: Delivery<'_>) -> Outcome {
    let timeout = delivery.timeout;
    let guarded = AssertUnwindSafe(transport.send(delivery)).catch_unwind();
    match patience::within(timeout, guarded).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => Outcome::Failed(Fault::panic(&panic_text(panic.as_ref()))),
        Err(_) => timed_out(timeout),
    }
}

fn timed_out(timeout: Duration) -> Outcome {
    let words = format!("no answer within {}", recado_core::time::show_duration(timeout));
    // It was cut off somewhere between connecting and reading the answer: it may have arrived.
    Outcome::Failed(Fault { uncertain: true, ..Fault::network(NetworkKind::Timeout, &words) })
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the transport panicked: {}", text.unwrap_or("no message"))
}
