//! Outcomes of a transport, unjudged: [`crate::classify`] judges them.

use std::time::Duration;

use crate::values::named_enum::named_enum;
use crate::values::payload::Payload;

#[derive(Clone, Debug)]
pub enum Outcome {
    /// The provider took it. What it answered is kept when it is JSON and small.
    Accepted {
        answer: Option<Payload>,
    },
    /// A message to several recipients: each had an answer of its own.
    Partial(PartialDelivery),
    Failed(Fault),
}

impl Outcome {
    /// The fault, where it is a shortage of our own.
    pub fn shortage(&self) -> Option<&Fault> {
        match self {
            Outcome::Failed(fault) if fault.kind == FaultKind::Shortage => Some(fault),
            _ => None,
        }
    }
}

impl From<Result<Option<Payload>, Fault>> for Outcome {
    fn from(answered: Result<Option<Payload>, Fault>) -> Self {
        match answered {
            Ok(answer) => Outcome::Accepted { answer },
            Err(fault) => Outcome::Failed(fault),
        }
    }
}

/// The recipients who took a message, and those who did not.
#[derive(Clone, Debug, Default)]
pub struct PartialDelivery {
    pub accepted: Vec<Box<str>>,
    /// Never empty: where all recipients took it, the outcome is [`Outcome::Accepted`].
    pub refused: Vec<RefusedRecipient>,
}

/// One recipient that did not get it.
#[derive(Clone, Debug)]
pub struct RefusedRecipient {
    pub recipient: Box<str>,
    pub fault: Fault,
}

/// Everything known about one failure, as the far end or the network put it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// The other side's name for the error: an SMTP code, an SES error name, a worker's code, an HTTP status.
    pub code: Option<Box<str>>,
    /// SMTP enhanced status code, such as `5.1.1`.
    pub enhanced: Option<Box<str>>,
    pub status: Option<u16>,
    pub text: Box<str>,
    pub retry_after: Option<Duration>,
    /// The request was handed over before it failed, so the provider may have taken it.
    pub uncertain: bool,
    pub stack_trace: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultKind {
    /// The provider answered with a refusal.
    #[default]
    Answer,
    Network(NetworkKind),
    /// Our own code panicked on this job.
    Panic,
    /// The payload cannot be turned into a request.
    InvalidPayload,
    /// This process lacked a resource before it could ask: descriptors, memory, ports, names, its store.
    /// Nothing was handed over.
    Shortage,
}

named_enum! {
    pub enum NetworkKind {
        Dns = "dns",
        Connect = "connect",
        Tls = "tls",
        Timeout = "timeout",
        /// The connection ended after the request was handed over.
        Dropped = "dropped",
        /// The answer was not in the protocol that was spoken.
        Protocol = "protocol",
    }
}

impl Fault {
    /// Describes a provider's refusal, by its code and its text.
    pub fn answer(code: &str, text: &str) -> Self {
        Fault { code: Some(code.into()), text: text.into(), ..Fault::default() }
    }

    pub fn network(kind: NetworkKind, text: &str) -> Self {
        Fault {
            kind: FaultKind::Network(kind),
            text: text.into(),
            uncertain: matches!(kind, NetworkKind::Dropped),
            ..Fault::default()
        }
    }

    pub fn panic(text: &str) -> Self {
        Fault { kind: FaultKind::Panic, text: text.into(), ..Fault::default() }
    }

    pub fn shortage(text: &str) -> Self {
        Fault { kind: FaultKind::Shortage, text: text.into(), ..Fault::default() }
    }

    pub fn invalid_payload(text: &str) -> Self {
        Fault { kind: FaultKind::InvalidPayload, text: text.into(), ..Fault::default() }
    }
}

/// Finds an SMTP enhanced status code (`class.subject.detail`) at the start of a reply's text.
pub fn enhanced_code(text: &str) -> Option<&str> {
    let word = text.split_whitespace().next()?;
    let mut parts = word.split('.');
    let class = parts.next()?;
    let digits = |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let shaped = matches!(class, "2" | "4" | "5")
        && parts.next().is_some_and(digits)
        && parts.next().is_some_and(digits);
    (shaped && parts.next().is_none()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::enhanced_code;

    #[test]
    fn enhanced_codes_are_found_only_where_they_stand() {
        assert_eq!(enhanced_code("5.1.1 no such user"), Some("5.1.1"));
        assert_eq!(enhanced_code("4.7.28 slow down"), Some("4.7.28"));
        for text in ["no such user 5.1.1", "3.1.1 x", "5.1 x", "5.1.1.1 x", "5.1.1234", ""] {
            assert_eq!(enhanced_code(text), None, "{text}");
        }
    }
}
