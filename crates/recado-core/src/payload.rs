//! A job's `data`, and the fingerprint that tells "the same request again" from "another one".

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use siphasher::sip128::{Hasher128, SipHasher24};

/// JSON text, already known to be well formed. Shared, never parsed on its way through.
///
/// Its `Debug` shows the size only: payloads hold personal data and do not belong in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Arc<str>);

impl Payload {
    pub fn new(json: &str) -> Result<Self, serde_json::Error> {
        let raw: &RawValue = serde_json::from_str(json)?;
        Ok(Payload(raw.get().into()))
    }

    /// For text that a parser or a store has already vouched for.
    pub fn trusted(json: impl Into<Arc<str>>) -> Self {
        Payload(json.into())
    }

    pub fn from_raw(raw: &RawValue) -> Self {
        Payload(raw.get().into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

impl Serialize for Payload {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serde_json::from_str::<&RawValue>(&self.0) {
            Ok(raw) => raw.serialize(serializer),
            // Damaged in a store: people see it as it is, and a list does not fail for the sake of one entry.
            Err(_) => serializer.serialize_str(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Payload::from_raw(&raw))
    }
}

/// A 128-bit digest of everything the caller asked for, blind to white space and to key order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BodyHash(pub u128);

impl BodyHash {
    /// Digests the request's parts in order. `data` is read as JSON, the rest as text.
    pub fn of(data: &Payload, parts: &[Option<&str>]) -> Result<Self, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_str(data.as_str());
        let mut hasher = start(Tag::Body);
        hasher.write_u128(Digest.deserialize(&mut reader)?);
        for part in parts {
            match part {
                None => hasher.write_u8(0),
                Some(text) => {
                    hasher.write_u8(1);
                    hasher.write_usize(text.len());
                    hasher.write(text.as_bytes());
                }
            }
        }
        Ok(BodyHash(finish(hasher)))
    }
}

/// 128 bits that stand for these texts in this order, the same in every process and version.
pub fn digest_of(parts: &[&str]) -> u128 {
    let mut hasher = start(Tag::Parts);
    for part in parts {
        hasher.write_usize(part.len());
        hasher.write(part.as_bytes());
    }
    finish(hasher)
}

#[derive(Clone, Copy)]
enum Tag {
    Null,
    Bool,
    Integer,
    Float,
    Text,
    List,
    Object,
    Member,
    Body,
    Parts,
}

// The key is fixed because digests are stored: a digest only ever meets digests of the same job id.
fn start(tag: Tag) -> SipHasher24 {
    let mut hasher = SipHasher24::new_with_keys(0x7265_6361_646f_2031, 0x626f_6479_2068_6173);
    hasher.write_u8(tag as u8);
    hasher
}

fn finish(hasher: SipHasher24) -> u128 {
    hasher.finish128().as_u128()
}

fn digest(tag: Tag, bytes: &[u8]) -> u128 {
    let mut hasher = start(tag);
    hasher.write(bytes);
    finish(hasher)
}

/// Digests a JSON value as it streams by: members of an object are added, so their order is forgotten.
struct Digest;

impl<'de> DeserializeSeed<'de> for Digest {
    type Value = u128;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u128, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Digest {
    type Value = u128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E: Error>(self) -> Result<u128, E> {
        Ok(digest(Tag::Null, &[]))
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<u128, E> {
        Ok(digest(Tag::Bool, &[u8::from(value)]))
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<u128, E> {
        Ok(digest(Tag::Integer, &i128::from(value).to_le_bytes()))
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<u128, E> {
        Ok(digest(Tag::Integer, &i128::from(value).to_le_bytes()))
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<u128, E> {
        Ok(digest(Tag::Float, &value.to_le_bytes()))
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<u128, E> {
        Ok(digest(Tag::Text, value.as_bytes()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<u128, A::Error> {
        let mut hasher = start(Tag::List);
        while let Some(item) = seq.next_element_seed(Digest)? {
            hasher.write_u128(item);
        }
        Ok(finish(hasher))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u128, A::Error> {
        let mut sum = 0_u128;
        while let Some(key) = map.next_key_seed(Digest)? {
            let mut member = start(Tag::Member);
            member.write_u128(key);
            member.write_u128(map.next_value_seed(Digest)?);
            sum = sum.wrapping_add(finish(member));
        }
        Ok(digest(Tag::Object, &sum.to_le_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(json: &str) -> BodyHash {
        BodyHash::of(&Payload::new(json).unwrap(), &[]).unwrap()
    }

    #[test]
    fn layout_does_not_matter_but_content_does() {
        assert_eq!(hash(r#"{"a":1,"b":[true,null]}"#), hash("{ \"b\": [true, null],\n \"a\": 1 }"));
        assert_eq!(hash(r#""\u0061""#), hash(r#""a""#));
        let others = [
            r#"{"a":1,"b":[null,true]}"#,
            r#"{"a":2,"b":[true,null]}"#,
            r#"{"b":1,"a":[true,null]}"#,
            r#"{"a":"1","b":[true,null]}"#,
            r#"{"a":{"b":1}}"#,
            r#"{"b":{"a":1}}"#,
            "[]",
            "{}",
            "null",
            "0",
            "\"\"",
            "false",
        ];
        let mut all: Vec<_> = others.iter().map(|json| hash(json).0).collect();
        all.push(hash(r#"{"a":1,"b":[true,null]}"#).0);
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn the_parts_beside_the_data_count_and_do_not_run_together() {
        let data = Payload::new("1").unwrap();
        let of = |parts: &[Option<&str>]| BodyHash::of(&data, parts).unwrap();
        assert_ne!(of(&[Some("ab"), Some("c")]), of(&[Some("a"), Some("bc")]));
        assert_ne!(of(&[Some("")]), of(&[None]));
    }

    #[test]
    fn nesting_beyond_the_parser_limit_is_refused_not_overflowed() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(BodyHash::of(&Payload::trusted(deep), &[]).is_err());
    }

    #[test]
    fn debug_keeps_the_content_to_itself() {
        let payload = Payload::new(r#"{"cpf":"123"}"#).unwrap();
        assert_eq!(format!("{payload:?}"), "Payload(13 bytes)");
    }
}
