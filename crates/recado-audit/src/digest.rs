//! SHA-256, and bytes as lower-case hexadecimal. There is one way to write each value, so that every flipped
//! character of a file shows.

use std::fmt::{self, Write};

use aws_lc_rs::digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that are written as hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hex<const N: usize>(pub(crate) [u8; N]);

/// A SHA-256.
pub type Hash = Hex<32>;

impl Hash {
    /// The previous hash of a trail's first record.
    pub(crate) const NONE: Hash = Hex([0; 32]);

    pub(crate) fn of(bytes: &[u8]) -> Self {
        let digest = digest::digest(&digest::SHA256, bytes);
        Hex(digest.as_ref().try_into().expect("a SHA-256 has 32 bytes"))
    }
}

impl<const N: usize> Hex<N> {
    pub(crate) fn read(digits: &[u8]) -> Option<Self> {
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        if digits.len() != 2 * N {
            return None;
        }
        let mut bytes = [0; N];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Some(Hex(bytes))
    }
}

impl<const N: usize> fmt::Display for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut nibbles = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        nibbles.try_for_each(|nibble| f.write_char(char::from(DIGITS[usize::from(nibble)])))
    }
}

impl<const N: usize> fmt::Debug for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<const N: usize> Serialize for Hex<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom(format_args!("expected {} characters of 0-9a-f", 2 * N));
        Hex::read(text.as_bytes()).ok_or_else(wrong)
    }
}
