//! The `Retry-After` header: seconds, a date, or garbage.

use std::time::Duration;

use crate::values::time::Timestamp;

/// A century: longer waits are cut to this, which outlasts every job.
const SECONDS_MAX: f64 = 3.2e9;

/// Reads a `Retry-After` value. A date in the past means "now"; a date beyond the calendar is read as its end; a value
/// that cannot be read means nothing.
pub fn parse(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    match number(value) {
        Some(seconds) => Some(wait_of(seconds)),
        None => Some(date(value)?.since(now)),
    }
}

/// Reads a `Retry-After-Ms` value, which OpenAI sends.
pub fn parse_millis(value: &str) -> Option<Duration> {
    Some(wait_of(number(value.trim())? / 1e3))
}

/// Reads digits, with a fraction if there is one. A sign, an exponent or a word is garbage.
fn number(value: &str) -> Option<f64> {
    value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.').then(|| value.parse().ok())?
}

fn wait_of(seconds: f64) -> Duration {
    Duration::from_millis((seconds.min(SECONDS_MAX) * 1e3).ceil() as u64)
}

/// Reads a date in any of the three forms of RFC 9110: today's, RFC 850's and that of C's `asctime`.
fn date(value: &str) -> Option<Timestamp> {
    let today = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value);
    let date = today.or_else(|_| {
        let forms = ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"];
        let read = |form| jiff::civil::DateTime::strptime(form, value);
        let date = read(forms[0]).or_else(|_| read(forms[1])).or_else(|_| read(forms[2]))?;
        // The last day of the year 9999 is a date that servers send, and later than a timestamp can be.
        let zoned = date.to_zoned(jiff::tz::TimeZone::UTC);
        Ok::<_, jiff::Error>(zoned.map_or(jiff::Timestamp::MAX, |date| date.timestamp()))
    });
    date.ok().map(|date| Timestamp::from_millis(date.as_millisecond()))
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
        assert_eq!(parse("Thursday, 01-Jan-26 00:02:00 GMT", now), Some(Duration::from_secs(120)));
        assert_eq!(parse("Thu Jan  1 00:02:00 2026", now), Some(Duration::from_secs(120)));
        assert_eq!(parse("Thu Jan 15 00:00:00 2026", now), Some(Duration::from_secs(14 * 86_400)));
        assert_eq!(parse("Wednesday, 31-Dec-25 00:00:00 GMT", now), Some(Duration::ZERO));
        assert_eq!(parse("Wed, 31 Dec 2025 00:00:00 GMT", now), Some(Duration::ZERO));
        let century = Some(Duration::from_secs(3_000_000_000));
        assert!(parse("99999999999999999999", now) > century);
        assert!(parse("Fri, 31 Dec 9999 23:59:59 GMT", now) > century);
        assert!(parse("Fri Dec 31 23:59:59 9999", now) > century);
        assert_eq!(parse_millis(" 1500.5"), Some(Duration::from_millis(1501)));
        assert!(parse_millis("99999999999999999999") > century);
        assert_eq!(parse_millis("-1"), None);
        for garbage in ["", "soon", "-3", "NaN", "Thursday, 32-Jan-26 00:02:00 GMT", "Thu Jan  1 2026"] {
            assert_eq!(parse(garbage, now), None, "{garbage}");
        }
    }
}
