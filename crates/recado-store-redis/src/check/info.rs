//! A server's report on itself: `INFO` and `CONFIG GET` by name.

use std::collections::HashMap;

use redis::Value;

#[derive(Debug, Clone, Default)]
pub struct Info(HashMap<String, String>);

impl Info {
    /// Reads the answer to `INFO`.
    pub fn read(answer: &Value) -> Option<Self> {
        let text = match answer {
            Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?,
            Value::VerbatimString { text, .. } => text,
            _ => return None,
        };
        let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        Some(Info(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }

    /// Reads the answer to `CONFIG GET`.
    pub fn of_pairs(answer: &Value) -> Option<Self> {
        redis::from_redis_value_ref(answer).ok().map(Info)
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}
