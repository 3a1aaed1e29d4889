//! Reads the answers of scripts piece by piece.
//!
//! A script answers what this version's Rust expects, or the two do not belong together: then nothing that is read
//! can be trusted.

use recado_core::{Payload, Timestamp};
use recado_store::StoreError;
use redis::Value;

/// One answer, or one part of one.
#[derive(Debug)]
pub struct Answer(pub Value);

impl Answer {
    pub fn list(self) -> Result<Vec<Answer>, StoreError> {
        match self.0 {
            Value::Array(items) => Ok(items.into_iter().map(Answer).collect()),
            _ => Err(unexpected()),
        }
    }

    /// A list of exactly so many.
    pub fn parts<const COUNT: usize>(self) -> Result<[Answer; COUNT], StoreError> {
        self.list()?.try_into().map_err(|_| unexpected())
    }

    pub fn bytes(self) -> Result<Vec<u8>, StoreError> {
        match self.0 {
            Value::BulkString(bytes) => Ok(bytes),
            Value::SimpleString(text) => Ok(text.into_bytes()),
            _ => Err(unexpected()),
        }
    }

    pub fn text(self) -> Result<String, StoreError> {
        String::from_utf8(self.bytes()?).map_err(|_| unexpected())
    }

    pub fn number(self) -> Result<i64, StoreError> {
        match self.0 {
            Value::Int(number) => Ok(number),
            other => Answer(other).text()?.parse().map_err(|_| unexpected()),
        }
    }

    pub fn count(self) -> Result<u64, StoreError> {
        u64::try_from(self.number()?).map_err(|_| unexpected())
    }

    pub fn time(self) -> Result<Timestamp, StoreError> {
        self.number().map(Timestamp::from_millis)
    }

    /// A job's data. What is no text any more is damaged: it is shown, and never taken for JSON.
    pub fn payload(self) -> Result<Payload, StoreError> {
        let text = String::from_utf8(self.bytes()?)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned() + "\u{fffd}");
        Ok(Payload::trusted(text))
    }

    /// `1` or `0`.
    pub fn yes(self) -> Result<bool, StoreError> {
        self.number().map(|number| number == 1)
    }

    /// Absent when the script answered `false`.
    pub fn there(self) -> Option<Answer> {
        match self.0 {
            Value::Nil => None,
            _ => Some(self),
        }
    }
}

pub fn unexpected() -> StoreError {
    StoreError::Broken(
        "a script answered what this version does not know; run one version on all nodes".to_owned(),
    )
}
