//! Failures of an exchange: AWS's name for it, or how far it came before the network failed.
//!
//! Absent on purpose: the request, and every judgement. A name stays as AWS spells it, and where AWS gives
//! none there is none, so that the status alone decides.

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sesv2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sesv2::operation::send_email::SendEmailError;
use hyper_util::client::legacy;
use recado_core::reason::clip;
use recado_core::words::describe_tls_error;
use recado_core::{Fault, NetworkKind, Timestamp};
use recado_transport::causes::{
    causes, failed_in_handshake, find_cause, kind_after_hand_over, was_never_sent,
};
use recado_transport::http::FAULT_TEXT_MAX_BYTES;
use recado_transport::shortage;

use crate::answer::Head;

/// From here on AWS repeats the request that it was sent, session token included.
const REQUEST_REPEATED: &str = "The Canonical String for this request";

/// From here on the SDK repeats what a `credential_process` of the operator's wrote, whatever that is.
const PROCESS_OUTPUT: &str = "Stderr:";

/// Describes a refusal, in AWS's own words as far as they arrived.
pub(crate) fn refusal(head: &Head, error: Option<&SdkError<SendEmailError>>, now: Timestamp) -> Fault {
    let meta = error.map(ProvideErrorMetadata::meta);
    let name = head.name.as_deref().or_else(|| meta?.code());
    let message = meta.and_then(|meta| meta.message()).map(str::to_owned);
    let text = message.or_else(|| error.and_then(body)).unwrap_or_default();
    let text = before(&text, REQUEST_REPEATED);
    Fault {
        code: name.map(Into::into),
        status: Some(head.status),
        text: clip(text, FAULT_TEXT_MAX_BYTES).into(),
        retry_after: head.retry_after(now),
        ..Fault::default()
    }
}

/// A yes without a message id: it did not come from SES.
pub(crate) fn not_ses() -> Fault {
    let text = "the answer is a yes without a message id, so it is not from SES; check the endpoint";
    Fault { uncertain: true, ..Fault::network(NetworkKind::Protocol, text) }
}

/// Nothing went out, for want of credentials.
pub(crate) fn unsigned(error: &SdkError<SendEmailError>) -> Fault {
    if let Some(shortage) = causes(error).find_map(|cause| shortage::of_io(cause.downcast_ref()?)) {
        return shortage;
    }
    let (code, advice) = match find_cause(error) {
        Some(CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_)) => (
            "CredentialsNotFound",
            "no AWS credentials were found; write them, or give the process a profile or a role",
        ),
        // An identity service that is slow or down is worth another try.
        _ => (
            "CredentialsUnavailable",
            "AWS credentials could not be loaded; check the service that hands them out",
        ),
    };
    Fault::answer(code, &with_cause(advice, error))
}

/// The scheme of the endpoint that was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scheme {
    Https,
    Http,
}

/// Describes a request that got no answer.
pub(crate) fn unanswered(error: &SdkError<SendEmailError>, scheme: Scheme) -> Fault {
    if let Some(shortage) = causes(error).find_map(|cause| shortage::of_io(cause.downcast_ref()?)) {
        return shortage;
    }
    let connecting = find_cause::<legacy::Error>(error).is_some_and(legacy::Error::is_connect);
    let handed_over = !connecting && !was_never_sent(error);
    let kind = if handed_over { after_hand_over(error) } else { before_hand_over(error, scheme) };
    Fault { uncertain: handed_over, ..Fault::network(kind, &with_cause(describe_kind(kind), error)) }
}

fn before_hand_over(error: &SdkError<SendEmailError>, scheme: Scheme) -> NetworkKind {
    if timed_out(error) {
        return NetworkKind::Timeout;
    }
    // The type of this one is private; its words are not.
    if causes(error).any(|cause| cause.to_string() == "dns error") {
        return NetworkKind::Dns;
    }
    if scheme == Scheme::Https && failed_in_handshake(error) {
        NetworkKind::Tls
    } else {
        NetworkKind::Connect
    }
}

fn after_hand_over(error: &SdkError<SendEmailError>) -> NetworkKind {
    if timed_out(error) {
        return NetworkKind::Timeout;
    }
    kind_after_hand_over(error)
}

fn timed_out(error: &SdkError<SendEmailError>) -> bool {
    match error {
        SdkError::TimeoutError(_) => true,
        SdkError::DispatchFailure(failure) => failure.is_timeout(),
        _ => false,
    }
}

fn describe_kind(kind: NetworkKind) -> &'static str {
    match kind {
        NetworkKind::Dns => "the name of SES's endpoint cannot be resolved",
        NetworkKind::Connect => "no connection to SES",
        NetworkKind::Tls => "no secure connection to SES",
        NetworkKind::Timeout => "SES took too long",
        NetworkKind::Dropped => "the connection was lost after the request was sent",
        NetworkKind::Protocol => "the answer is not HTTP",
    }
}

/// The text of an answer that is not the JSON of AWS: a proxy's page, as a rule.
fn body(error: &SdkError<SendEmailError>) -> Option<String> {
    let bytes = error.raw_response()?.body().bytes()?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

fn with_cause(words: &str, error: &SdkError<SendEmailError>) -> String {
    let cause = causes(error).last().map(ToString::to_string).unwrap_or_default();
    clip(&format!("{words}: {}", describe_tls_error(before(&cause, PROCESS_OUTPUT))), FAULT_TEXT_MAX_BYTES)
        .to_owned()
}

fn before<'a>(text: &'a str, mark: &str) -> &'a str {
    text.split(mark).next().unwrap_or_default().trim()
}
