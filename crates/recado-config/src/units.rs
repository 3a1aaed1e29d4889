//! Sizes and durations as people write and read them.

use std::time::Duration;

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;
pub const TIB: u64 = 1 << 40;

pub const SECOND: Duration = Duration::from_secs(1);
pub const MINUTE: Duration = Duration::from_secs(60);
pub const HOUR: Duration = Duration::from_secs(60 * 60);
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a size; write a number and a unit, such as \"512KiB\", \"64MiB\" or \"10GB\"")]
pub struct NotASize(String);

const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Reads `"512KiB"`, `"64MiB"`, `"10GB"`, `"100B"`.
pub fn parse_size(text: &str) -> Result<u64, NotASize> {
    let refused = || NotASize(text.to_owned());
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(refused)?;
    let (number, unit) = trimmed.split_at(split);
    let (_, factor) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or_else(refused)?;
    let number: f64 = number.trim().parse().map_err(|_| refused())?;
    let bytes = number * *factor as f64;
    if (0.0..=9e15).contains(&bytes) { Ok(bytes.round() as u64) } else { Err(refused()) }
}

/// The shortest exact way to write a size that [`parse_size`] reads back.
pub fn show_size(bytes: u64) -> String {
    let exact = UNITS.iter().filter(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    let ways = exact.map(|(unit, factor)| format!("{}{unit}", bytes / factor));
    ways.min_by_key(String::len).unwrap_or_else(|| format!("{bytes}B"))
}

/// A size for reading, not for reading back.
pub fn about_size(bytes: u64) -> String {
    match UNITS[..4].iter().find(|(_, factor)| bytes >= *factor) {
        Some((unit, factor)) => format!("{:.1} {unit}", bytes as f64 / *factor as f64),
        None => format!("{bytes} B"),
    }
}

/// A duration for reading, to two parts: `750ms`, `1.25s`, `6m 15s`, `1h 20m`. Rounds seconds as the dashboard does.
pub fn about_duration(duration: Duration) -> String {
    let millis = match duration.as_millis() {
        millis @ 0..60_000 => millis,
        millis => (millis + 500) / 1_000 * 1_000,
    };
    let parts = |big: u128, unit: &str, small: u128, small_unit: &str| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit} {small}{small_unit}"),
    };
    match millis {
        0 => "0s".to_owned(),
        1..1_000 => format!("{millis}ms"),
        1_000..60_000 => {
            let seconds = format!("{:.2}", millis as f64 / 1e3);
            format!("{}s", seconds.trim_end_matches('0').trim_end_matches('.'))
        }
        60_000..3_600_000 => parts(millis / 60_000, "m", millis % 60_000 / 1_000, "s"),
        3_600_000..86_400_000 => parts(millis / 3_600_000, "h", millis % 3_600_000 / 60_000, "m"),
        _ => parts(millis / 86_400_000, "d", millis % 86_400_000 / 3_600_000, "h"),
    }
}

/// A time in milliseconds for reading, to two parts.
pub fn about_millis(millis: u64) -> String {
    about_duration(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in
            [("64MiB", 64 << 20), ("1.5 KiB", 1536), ("10gb", 10_000_000_000), ("0B", 0), ("7B", 7)]
        {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
        for wrong in ["", "5", "MiB", "-1MiB", "5 elephants", "1e300GiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong:?} was read");
        }
        for text in ["64MiB", "1GiB", "1500B", "3KB", "9TB", "0B"] {
            assert_eq!(show_size(parse_size(text).unwrap()), text);
        }
    }

    #[test]
    fn durations_read_in_two_parts() {
        let of = |millis| about_duration(Duration::from_millis(millis));
        let texts = [0, 20, 750, 1_000, 1_250, 60_000, 375_000, 4_800_000, 90_000_000].map(of);
        assert_eq!(texts, ["0s", "20ms", "750ms", "1s", "1.25s", "1m", "6m 15s", "1h 20m", "1d 1h"]);
        assert_eq!([2_403_499, 2_403_500, 3_599_500].map(of), ["40m 3s", "40m 4s", "1h"]);
    }
}
