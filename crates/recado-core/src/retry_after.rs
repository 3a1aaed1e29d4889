//! The `Retry-After` header: seconds, a date, or garbage.

use std::time::Duration;

use crate::time::Timestamp;

/// A century: whoever asks for more gets this, which outlasts every job.
const SECONDS_MAX: f64 = 3.2e9;

/// Reads a `Retry-After` value. A date in the past means "now"; what cannot be read means nothing.
pub fn parse(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        let asked = seconds >= 0.0;
        return asked.then(|| Duration::from_millis((seconds.min(SECONDS_MAX) * 1e3).ceil() as u64));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Timestamp::from_millis(date.as_millisecond()).since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_dates_and_garbage() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(parse("7", now), Some(Duration::from_secs(7)));
        assert_eq!(parse(" 1.5 ", now), Some(Duration::from_millis(1500)));
        assert_eq!(parse("Thu, 01 Jan 2026 00:02:00 GMT", now), Some(Duration::from_secs(120)));
        assert_eq!(parse("Wed, 31 Dec 2025 00:00:00 GMT", now), Some(Duration::ZERO));
        assert!(parse("99999999999999999999", now) > Some(Duration::from_secs(3_000_000_000)));
        for garbage in ["", "soon", "-3", "NaN"] {
            assert_eq!(parse(garbage, now), None, "{garbage}");
        }
    }
}
