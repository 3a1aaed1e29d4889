//! The month that a segment is of.

use std::fmt;
use std::str::FromStr;

use recado_core::Timestamp;
use serde::{Deserialize, Serialize};

/// A calendar month, UTC. Written `2026-11`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Month(u32);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a month; write year and month, such as 2026-11")]
pub struct NotAMonth;

impl Month {
    /// Times before 1970 count as 1970: no clock of ours was ever there.
    pub fn of(at: Timestamp) -> Self {
        let text = at.max(Timestamp::default()).to_string();
        text[..7].parse().expect("a time since 1970 is written with its year and month first")
    }

    /// Returns the months since `earlier`; zero when it is not earlier.
    pub fn since(self, earlier: Month) -> u32 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.0 / 12, self.0 % 12 + 1)
    }
}

impl fmt::Debug for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Month {
    type Err = NotAMonth;

    fn from_str(text: &str) -> Result<Self, NotAMonth> {
        let (year, month) = text.split_once('-').ok_or(NotAMonth)?;
        let number = |text: &str, digits: usize| {
            let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| is_number)
        };
        match (number(year, 4), number(month, 2)) {
            (Some(year), Some(month @ 1..=12)) => Ok(Month(year * 12 + month - 1)),
            _ => Err(NotAMonth),
        }
    }
}

impl From<Month> for String {
    fn from(month: Month) -> String {
        month.to_string()
    }
}

impl TryFrom<String> for Month {
    type Error = NotAMonth;
    fn try_from(text: String) -> Result<Self, NotAMonth> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_reads_back_what_it_writes_and_nothing_else() {
        for text in ["2026-11", "1970-01", "2027-12", "9999-12"] {
            assert_eq!(text.parse::<Month>().unwrap().to_string(), text);
        }
        for text in ["2026-13", "2026-00", "2026-1", "226-11", "2026_11", "+026-11", "2026-11 ", ""] {
            assert_eq!(text.parse::<Month>(), Err(NotAMonth), "{text}");
        }
    }

    #[test]
    fn a_time_belongs_to_the_month_it_is_written_with() {
        let at = |text: &str| Month::of(text.parse().unwrap()).to_string();
        assert_eq!(at("2026-11-30T23:59:59.999Z"), "2026-11");
        assert_eq!(at("2026-12-01T00:00:00.000Z"), "2026-12");
        assert_eq!(Month::of(Timestamp::from_millis(-1)).to_string(), "1970-01");
        assert_eq!(Month::of(Timestamp::MAX).to_string(), "9999-12");
    }
}
