//! The reason for a failure, in words; it cannot be empty.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes at most that are kept of a provider's words.
pub const REASON_LEN_MAX_BYTES: usize = 4_096;

/// A failure's explanation: never empty, never blank, bounded.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Reason(Box<str>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a failure needs a reason: say in words what went wrong")]
pub struct BlankReason;

impl Reason {
    pub fn new(text: &str) -> Result<Self, BlankReason> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(BlankReason);
        }
        // For SQLite a text that begins with NUL is empty, and what follows one is hard to search.
        let without_nul = trimmed.replace('\0', "\u{fffd}");
        Ok(Reason(clip(&without_nul, REASON_LEN_MAX_BYTES).into()))
    }

    /// Words of our own, which are never blank.
    pub fn of(words: &str) -> Self {
        Reason::or(words, format_args!(""))
    }

    /// The other side's words, or `otherwise` when it said nothing.
    pub fn or(text: &str, otherwise: fmt::Arguments<'_>) -> Self {
        Reason::new(text)
            .or_else(|_| Reason::new(&otherwise.to_string()))
            .unwrap_or_else(|_| Reason("failed without saying why".into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Reason {
    type Error = BlankReason;
    fn try_from(text: String) -> Result<Self, BlankReason> {
        Reason::new(&text)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// The longest prefix of `text` within `max_bytes` that ends at a character.
pub fn clip(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_cannot_be_blank() {
        assert_eq!(Reason::new(""), Err(BlankReason));
        assert_eq!(Reason::new(" \n\t"), Err(BlankReason));
        assert!(serde_json::from_str::<Reason>("\"  \"").is_err());
        assert_eq!(Reason::or("  ", format_args!("status {}", 500)).as_str(), "status 500");
        assert!(!Reason::or("", format_args!("")).as_str().is_empty());
    }

    #[test]
    fn a_reason_keeps_no_nul() {
        assert_eq!(Reason::new("\0 550 no\0").unwrap().as_str(), "\u{fffd} 550 no\u{fffd}");
        assert_eq!(serde_json::from_str::<Reason>(r#""\u0000""#).unwrap().as_str(), "\u{fffd}");
    }

    #[test]
    fn a_long_reason_is_clipped_at_a_character() {
        let reason = Reason::new(&"é".repeat(REASON_LEN_MAX_BYTES)).unwrap();
        assert!(reason.as_str().len() <= REASON_LEN_MAX_BYTES);
        assert!(reason.as_str().chars().all(|c| c == 'é'));
    }
}
