//! The first byte of a head: small values that would take a byte each, as one number.

use recado_core::Priority;

use super::Phase;

/// Fields of the first byte of a head. `jobs.lua`, `header`, reads all but the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstByte {
    pub priority: Priority,
    pub phase: Phase,
    /// The end of life is a time of its own, and not a number of milliseconds after the due time that fits in four bytes.
    pub has_long_life: bool,
    /// The due time is the time of the enqueue.
    pub was_due: bool,
}

const PRIORITIES: u8 = 9;
const PHASES: u8 = Phase::ALL.len() as u8;

impl FirstByte {
    /// A head of format 2 begins with the first byte of a time, which is less until the year 2527.
    pub const LEAST: u8 = 16;

    pub fn to_byte(self) -> u8 {
        let marks = u8::from(self.was_due) * 2 + u8::from(self.has_long_life);
        Self::LEAST + (marks * PHASES + self.phase as u8) * PRIORITIES + self.priority.level() - 1
    }

    /// Absent when the byte is none of these.
    pub fn of(byte: u8) -> Option<Self> {
        let value = byte.checked_sub(Self::LEAST)?;
        let marks = value / PRIORITIES / PHASES;
        Some(FirstByte {
            priority: Priority::new(value % PRIORITIES + 1)?,
            phase: Phase::ALL[usize::from(value / PRIORITIES % PHASES)],
            has_long_life: marks & 1 != 0,
            was_due: marks & 2 != 0,
        })
        .filter(|_| marks < 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_reads_back_as_what_it_was_made_of_and_no_other_byte_is_one() {
        let made: Vec<FirstByte> = (0..=u8::MAX).filter_map(FirstByte::of).collect();
        assert_eq!(made.len(), 4 * Phase::ALL.len() * 9, "each combination is a byte of its own");
        let bytes: Vec<u8> = made.iter().map(|first| first.to_byte()).collect();
        assert_eq!(bytes, (FirstByte::LEAST..FirstByte::LEAST + 180).collect::<Vec<_>>());
    }
}
