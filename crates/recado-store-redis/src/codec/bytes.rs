//! Compact binary values: what the scripts and the records are written in.
//!
//! Numbers that scripts read have a fixed width and the highest byte first, as Lua's `struct` reads them.

use recado_core::Timestamp;

/// Milliseconds fit in six bytes until the year 10889.
const TIME_BYTES: usize = 6;

#[derive(Debug, Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    /// A time before 1970 is kept as 1970.
    pub fn time(&mut self, at: Timestamp) {
        let millis = u64::try_from(at.as_millis()).unwrap_or(0);
        self.0.extend_from_slice(&millis.to_be_bytes()[8 - TIME_BYTES..]);
    }

    pub fn short(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    /// Up to 255 bytes after their count.
    pub fn name(&mut self, bytes: &[u8]) {
        let count = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
        self.0.push(count);
        self.0.extend_from_slice(&bytes[..usize::from(count)]);
    }

    /// Up to 65,535 bytes after their count, in two bytes; longer text is cut where a letter ends.
    pub fn text(&mut self, text: &str) {
        let mut end = text.len().min(usize::from(u16::MAX));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.short(end as u16);
        self.0.extend_from_slice(&text.as_bytes()[..end]);
    }

    /// Seven bits a byte, the lowest first.
    pub fn number(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Small when it is close to zero on either side.
    pub fn difference(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)).cast_unsigned());
    }

    pub fn fixed(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub fn long(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

/// Reads what [`Writer`] wrote; nothing when there is less than that.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn fixed(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.fixed(1).map(|bytes| bytes[0])
    }

    pub fn time(&mut self) -> Option<Timestamp> {
        let millis = self.fixed(TIME_BYTES)?.iter().fold(0, |sum, byte| sum << 8 | i64::from(*byte));
        Some(Timestamp::from_millis(millis))
    }

    pub fn short(&mut self) -> Option<u16> {
        self.fixed(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    pub fn name(&mut self) -> Option<&'a [u8]> {
        let count = self.byte()?;
        self.fixed(usize::from(count))
    }

    pub fn text(&mut self) -> Option<&'a str> {
        let count = self.short()?;
        std::str::from_utf8(self.fixed(usize::from(count))?).ok()
    }

    pub fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub fn difference(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    pub fn long(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.number()?).ok()?;
        self.fixed(count)
    }

    pub fn long_text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.long()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_reads_back_as_it_was_written() {
        let mut written = Writer::default();
        written.byte(7);
        written.time(Timestamp::MAX);
        written.time(Timestamp::from_millis(-5));
        written.short(513);
        written.name(b"acme");
        written.text("até");
        for number in [0, 127, 128, u64::MAX] {
            written.number(number);
        }
        for number in [0, -1, 1, 300, i64::MIN, i64::MAX] {
            written.difference(number);
        }
        written.long(b"rest");
        let mut read = Reader(&written.0);
        assert_eq!(read.byte(), Some(7));
        assert_eq!(read.time(), Some(Timestamp::MAX));
        assert_eq!(read.time(), Some(Timestamp::from_millis(0)));
        assert_eq!(read.short(), Some(513));
        assert_eq!(read.name(), Some(&b"acme"[..]));
        assert_eq!(read.text(), Some("até"));
        assert_eq!([0; 4].map(|_| read.number()), [0, 127, 128, u64::MAX].map(Some));
        assert_eq!([0; 6].map(|_| read.difference()), [0, -1, 1, 300, i64::MIN, i64::MAX].map(Some));
        assert_eq!(read.long(), Some(&b"rest"[..]));
        assert_eq!((read.byte(), read.number(), read.long()), (None, None, None));
    }

    #[test]
    fn text_that_is_too_long_is_cut_at_a_letter() {
        let mut written = Writer::default();
        written.text(&"é".repeat(40_000));
        assert_eq!(Reader(&written.0).text().map(str::len), Some(65_534));
    }
}
