//! JSON text that is read in part: its kind, and the members of an object that are still unread.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The kind of a JSON value, by its first character.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JsonKind {
    String,
    Object,
    List,
    Boolean,
    Null,
    Number,
    /// The text is not JSON.
    Invalid,
}

impl JsonKind {
    pub fn of(json: &str) -> Self {
        match json.trim_ascii_start().bytes().next() {
            Some(b'"') => JsonKind::String,
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::List,
            Some(b't' | b'f') => JsonKind::Boolean,
            Some(b'n') => JsonKind::Null,
            Some(b'-' | b'0'..=b'9') => JsonKind::Number,
            _ => JsonKind::Invalid,
        }
    }

    /// Returns words that fit after "is".
    pub fn as_str(self) -> &'static str {
        match self {
            JsonKind::String => "a string",
            JsonKind::Object => "an object",
            JsonKind::List => "a list",
            JsonKind::Boolean => "a boolean",
            JsonKind::Null => "null",
            JsonKind::Number => "a number",
            JsonKind::Invalid => "not JSON",
        }
    }
}

impl fmt::Display for JsonKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A string, borrowed from the JSON text wherever that holds no escapes.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// The members of an object, unread and in their order. Repeated names stay repeated.
#[derive(Debug)]
pub struct Members<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Deserialize<'a> for Members<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'a> Visitor<'a> for MembersVisitor {
    type Value = Members<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Members<'a>, A::Error> {
        let mut members = Vec::new();
        while let Some((Text(name), raw)) = map.next_entry()? {
            members.push((name, raw));
        }
        Ok(Members(members))
    }
}
