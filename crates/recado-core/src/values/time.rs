//! Instants as milliseconds since the Unix epoch, and durations as people write them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time, UTC, to the millisecond. RFC 3339 on the wire, an integer in stores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const MAX: Timestamp = Timestamp(253_402_207_200_000); // the last day RFC 3339 can write

    pub const fn from_millis(millis: i64) -> Self {
        Timestamp(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Saturates at [`Timestamp::MAX`], so that an absurd delay stays writable.
    pub fn plus(self, delay: Duration) -> Self {
        let millis = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_add(millis).min(Self::MAX.0))
    }

    /// Returns the time passed since `earlier`; zero when it is not earlier.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clamped = self.0.clamp(-Self::MAX.0, Self::MAX.0);
        match jiff::Timestamp::from_millisecond(clamped) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => write!(f, "{clamped}ms"),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a time with its offset; write RFC 3339, such as 2026-01-31T08:30:00Z or 2026-01-31T05:30:00-03:00"
)]
pub struct NotATime(String);

impl FromStr for Timestamp {
    type Err = NotATime;

    /// Reads RFC 3339. A time without an offset is refused: its writer may have meant any of them. The very end of
    /// what can be written, which people write for "never", is [`Timestamp::MAX`].
    fn from_str(text: &str) -> Result<Self, NotATime> {
        match text.parse::<jiff::Timestamp>() {
            Ok(instant) => Ok(Timestamp(instant.as_millisecond())),
            Err(_) if is_in_the_last_year(text) => Ok(Timestamp::MAX),
            Err(_) => Err(NotATime(text.to_owned())),
        }
    }
}

impl Timestamp {
    /// Reads a time as process engines write it: without an offset it is UTC.
    pub fn of_process_engine(text: &str) -> Result<Self, NotATime> {
        let refused = |_| NotATime(text.to_owned());
        text.parse().or_else(|_: NotATime| {
            let civil: jiff::civil::DateTime = text.parse().map_err(refused)?;
            let instant = jiff::tz::Offset::UTC.to_timestamp(civil).map_err(refused)?;
            Ok(Timestamp(instant.as_millisecond()))
        })
    }
}

/// The last hours of the year 9999 are a date and time that jiff has no instant for.
fn is_in_the_last_year(text: &str) -> bool {
    let pieces = jiff::fmt::temporal::Pieces::parse(text);
    pieces.is_ok_and(|pieces| {
        pieces.date().year() == 9999 && pieces.time().is_some() && pieces.offset().is_some()
    })
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a duration; write a number and a unit, such as \"500ms\", \"30s\", \"5m\", \"24h\" or \"7d\""
)]
pub struct NotADuration(String);

/// Reads `"500ms"`, `"1s"`, `"1.5s"`, `"5m"`, `"24h"`, `"7d"`.
pub fn parse_duration(text: &str) -> Result<Duration, NotADuration> {
    let refused = || NotADuration(text.to_owned());
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(refused)?;
    let (number, unit) = trimmed.split_at(split);
    let number: f64 = number.trim().parse().map_err(|_| refused())?;
    let unit_ms = match unit {
        "ms" => 1.0,
        "s" => 1e3,
        "m" | "min" => 60e3,
        "h" => 3_600e3,
        "d" => 86_400e3,
        _ => return Err(refused()),
    };
    let millis = number * unit_ms;
    if !millis.is_finite() || !(0.0..=3.2e14).contains(&millis) {
        return Err(refused());
    }
    Ok(Duration::from_millis(millis.round() as u64))
}

/// A duration in whole milliseconds, at most `u64::MAX`.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The shortest exact way to write a duration in one unit that [`parse_duration`] reads back.
pub fn show_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    for (unit_ms, unit) in units {
        if millis > 0 && millis.is_multiple_of(unit_ms) {
            return format!("{}{unit}", millis / unit_ms);
        }
    }
    if millis == 0 { "0s".to_owned() } else { format!("{millis}ms") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_reads_back_what_it_writes() {
        let at = Timestamp::from_millis(1_736_677_800_123);
        assert_eq!(at.to_string(), "2025-01-12T10:30:00.123Z");
        assert_eq!(at.to_string().parse::<Timestamp>().unwrap(), at);
        for never in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999-03:00"] {
            assert_eq!(never.parse::<Timestamp>().unwrap(), Timestamp::MAX, "{never}");
        }
        for wrong in ["yesterday", "9999-12-31", "9999-13-01T00:00:00Z"] {
            assert!(wrong.parse::<Timestamp>().is_err(), "{wrong}");
        }
        assert_eq!(Timestamp::MAX.plus(Duration::from_secs(1)), Timestamp::MAX);
        assert!(Timestamp::MAX.to_string().starts_with("9999-"));
    }

    #[test]
    fn a_time_without_an_offset_is_refused_but_from_process_engines() {
        for text in ["2025-01-12T10:30:00", "2025-01-12 10:30:00", "9999-12-31T23:59:59"] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
        let at = Timestamp::from_millis(1_736_677_800_000);
        for text in ["2025-01-12T10:30:00", "2025-01-12T10:30:00Z", "2025-01-12T07:30:00-03:00"] {
            assert_eq!(Timestamp::of_process_engine(text).unwrap(), at, "{text}");
        }
    }

    #[test]
    fn durations_read_as_people_write_them() {
        for (text, millis) in [
            ("500ms", 500),
            ("1s", 1_000),
            ("1.5s", 1_500),
            ("5m", 300_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
        for wrong in ["", "5", "s", "-1s", "5 parsecs", "NaNs", "1e300d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong:?} was read");
        }
        for text in ["500ms", "1s", "90s", "5m", "1d", "7d", "0s", "1500ms"] {
            assert_eq!(show_duration(parse_duration(text).unwrap()), text);
        }
    }
}
