//! SHA-256, and bytes as lower-case hexadecimal. There is one way to write each value, so that every flipped
//! character of a file shows.

use std::fmt;

use aws_lc_rs::digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash(pub(crate) [u8; 32]);

impl Hash {
    /// The previous hash of a trail's first record.
    pub(crate) const NONE: Hash = Hash([0; 32]);

    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
        Hash(hash)
    }

    pub(crate) fn hex(&self) -> String {
        encode(&self.0)
    }

    pub(crate) fn read(hex: &[u8]) -> Option<Self> {
        decode(hex).map(Hash)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode(&self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_hex(deserializer).map(Hash)
    }
}

pub(crate) fn read_hex<'de, D: Deserializer<'de>, const N: usize>(
    deserializer: D,
) -> Result<[u8; N], D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = || serde::de::Error::custom(format_args!("expected {} characters of 0-9a-f", 2 * N));
    decode(text.as_bytes()).ok_or_else(wrong)
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

pub(crate) fn decode<const N: usize>(hex: &[u8]) -> Option<[u8; N]> {
    let nibble = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if hex.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(bytes)
}
