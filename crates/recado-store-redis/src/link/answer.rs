//! Reads the answers of scripts and commands.
//!
//! A script answers what this version's Rust expects, or the two do not belong together: then nothing that is read
//! can be trusted.

use recado_core::Payload;
use recado_store::{StoreError, StoreResult};
use redis::{FromRedisValue, ParsingError, Value};

pub fn read<T: FromRedisValue>(answer: Value) -> StoreResult<T> {
    T::from_redis_value(answer).map_err(|_| unexpected())
}

pub fn unexpected() -> StoreError {
    StoreError::Broken(
        "a script answered what this version does not know; run one version on all nodes".to_owned(),
    )
}

/// A job's data. What is no text any more is damaged: it is shown, and never taken for JSON.
#[derive(Debug)]
pub struct Data(pub Payload);

impl Data {
    pub fn of(bytes: &[u8]) -> Self {
        Data(match std::str::from_utf8(bytes) {
            Ok(text) => Payload::trusted(text),
            Err(_) => Payload::trusted(String::from_utf8_lossy(bytes).into_owned() + "\u{fffd}"),
        })
    }
}

impl FromRedisValue for Data {
    fn from_redis_value(answer: Value) -> Result<Self, ParsingError> {
        Ok(Data::of(&Vec::<u8>::from_redis_value(answer)?))
    }
}
