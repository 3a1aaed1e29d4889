//! The trace that a job belongs to, as W3C Trace Context writes it: `traceparent`.
//!
//! The caller's span is kept with the job, and every attempt is a child of it. An attempt's own span is
//! computed from the attempt, so that its id is the same before and after a restart.
//!
//! Absent on purpose: `tracestate`. It is a list of other vendors' remarks without a bound that all keep to,
//! and nothing here would read it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::values::payload::digest_of;

/// The header's name, and the field's.
pub const TRACEPARENT: &str = "traceparent";

/// Bytes of the one version that is written.
const WRITTEN_LEN: usize = 55;

/// The flag that says: this trace is being recorded.
const SAMPLED: u8 = 1;

/// One span of one trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TraceParent {
    trace: u128,
    span: u64,
    flags: u8,
}

/// Says why a text is no trace context, without repeating it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "is not a W3C traceparent; write 00-, 32 hexadecimal digits of the trace, -, 16 of the span, - and 2 of flags, \
     in lower case, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01, or leave it out"
)]
pub struct NotATraceParent;

impl TraceParent {
    /// A span of a trace that is not recorded; `None` for the zeros that mean no trace or no span.
    pub fn new(trace: u128, span: u64) -> Option<Self> {
        (trace != 0 && span != 0).then_some(TraceParent { trace, span, flags: 0 })
    }

    /// The same span of a trace that is recorded.
    pub fn sampled(self) -> Self {
        TraceParent { flags: self.flags | SAMPLED, ..self }
    }

    pub fn trace_id(self) -> u128 {
        self.trace
    }

    pub fn span_id(self) -> u64 {
        self.span
    }

    /// Returns true if the trace's originator records it.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Another span of the same trace.
    pub fn with_span(self, span: u64) -> Self {
        TraceParent { span: span.max(1), ..self }
    }

    /// The span of one attempt at one job, below this one.
    pub fn attempt(self, job_id: &str, attempt: u32) -> Self {
        let digest = digest_of(&[&self.to_string(), job_id, &attempt.to_string()]);
        self.with_span(digest as u64)
    }

    pub fn to_bytes(self) -> [u8; 25] {
        let mut bytes = [0; 25];
        bytes[..16].copy_from_slice(&self.trace.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.span.to_be_bytes());
        bytes[24] = self.flags;
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (trace, rest) = bytes.split_first_chunk::<16>()?;
        let (span, flags) = rest.split_first_chunk::<8>()?;
        let [flags] = flags else { return None };
        let (trace, span) = (u128::from_be_bytes(*trace), u64::from_be_bytes(*span));
        (trace != 0 && span != 0).then_some(TraceParent { trace, span, flags: *flags })
    }
}

impl FromStr for TraceParent {
    type Err = NotATraceParent;

    /// Reads version 00, and of later versions the part that they promise to keep.
    fn from_str(text: &str) -> Result<Self, NotATraceParent> {
        let (known, rest) = text.split_at_checked(WRITTEN_LEN).ok_or(NotATraceParent)?;
        let mut parts = known.split('-');
        let mut part = |len: usize| parts.next().filter(|part| is_hex(part, len)).ok_or(NotATraceParent);
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let ends_well = match version {
            "ff" => false,
            "00" => rest.is_empty(),
            _ => rest.is_empty() || rest.starts_with('-'),
        };
        let trace = u128::from_str_radix(trace, 16).map_err(|_| NotATraceParent)?;
        let span = u64::from_str_radix(span, 16).map_err(|_| NotATraceParent)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| NotATraceParent)?;
        if !ends_well || trace == 0 || span == 0 {
            return Err(NotATraceParent);
        }
        Ok(TraceParent { trace, span, flags })
    }
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceParent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_is_read_is_written_again_and_survives_as_bytes() {
        let read: TraceParent = WRITTEN.parse().unwrap();
        assert_eq!(read.to_string(), WRITTEN);
        assert_eq!(TraceParent::from_bytes(&read.to_bytes()), Some(read));
        assert_eq!(serde_json::from_str::<TraceParent>(&format!("\"{WRITTEN}\"")).unwrap(), read);
        assert_eq!(serde_json::to_string(&read).unwrap(), format!("\"{WRITTEN}\""));
        assert_eq!((read.span_id(), read.is_sampled()), (0x00f0_67aa_0ba9_02b7, true));
    }

    #[test]
    fn later_versions_are_read_as_far_as_they_are_known() {
        for later in [
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-is",
        ] {
            assert_eq!(later.parse::<TraceParent>().unwrap().to_string(), WRITTEN, "{later}");
        }
    }

    #[test]
    fn what_the_specification_calls_invalid_is_refused_and_not_repeated() {
        for wrong in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more",
            "+0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ] {
            let error = wrong.parse::<TraceParent>().expect_err(wrong);
            assert!(wrong.is_empty() || !error.to_string().contains(&format!("`{wrong}`")));
        }
        assert_eq!(TraceParent::from_bytes(&[0; 25]), None);
        assert_eq!(TraceParent::from_bytes(&[1; 24]), None);
        assert_eq!(TraceParent::new(0, 1), None);
    }

    #[test]
    fn attempts_have_spans_of_their_own_that_can_be_computed_again() {
        let parent: TraceParent = WRITTEN.parse().unwrap();
        let (first, second) = (parent.attempt("a", 1), parent.attempt("a", 2));
        assert_eq!(first, parent.attempt("a", 1));
        let spans = [parent, first, second, parent.attempt("b", 1)].map(TraceParent::span_id);
        assert_eq!(spans.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
        assert_eq!((first.trace_id(), first.is_sampled()), (parent.trace_id(), true));
    }
}
