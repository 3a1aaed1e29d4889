//! A job's `data`, and the fingerprint that tells "the same request again" from "another one".

use std::cell::Cell;
use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::values::json::Members;

/// Levels at most that JSON may be nested, whether a caller or a provider sends it: many readers of JSON give up a
/// little deeper, and the API serves what it was given within an answer of its own.
pub const DEPTH_MAX: usize = 100;

/// JSON text, already known to be well formed. Shared, never parsed on its way through.
///
/// Its `Debug` shows the size only: payloads hold personal data and do not belong in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Arc<str>);

impl Payload {
    pub fn new(json: &str) -> Result<Self, serde_json::Error> {
        let raw: &RawValue = serde_json::from_str(json)?;
        let payload = Payload(raw.get().into());
        if deeper_than(raw.get(), DEPTH_MAX) {
            Err(Error::custom(format_args!("nested more than {DEPTH_MAX} levels deep")))
        } else if payload.has_number_out_of_range() {
            Err(Error::custom("number out of range"))
        } else {
            Ok(payload)
        }
    }

    /// Returns true when it holds a number beyond every 64-bit float, such as `1e999`: many readers of JSON refuse it, or
    /// read infinity.
    pub fn has_number_out_of_range(&self) -> bool {
        let mut number = None;
        for (at, byte) in outside_texts(&self.0).chain([(self.0.len(), b' ')]) {
            let in_number = matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
            match number {
                // The letters of `true` and `false` begin no number.
                None if in_number && !byte.is_ascii_alphabetic() => number = Some(at),
                Some(from) if !in_number => {
                    number = None;
                    if self.0[from..at].parse::<f64>().is_ok_and(f64::is_infinite) {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }

    /// Wraps text that a parser or a store has already checked.
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

/// Returns true when JSON text opens more than `max` levels. Exact for well-formed text; a parser refuses the rest.
pub fn deeper_than(json: &str, max: usize) -> bool {
    let opens = |byte: &u8| matches!(byte, b'{' | b'[');
    if json.as_bytes().iter().filter(|byte| opens(byte)).count() <= max {
        return false;
    }
    let mut depth = 0_usize;
    for (_, byte) in outside_texts(json) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > max {
            return true;
        }
    }
    false
}

/// The bytes of JSON text that stand outside its strings, each with its position. Quotes stand outside.
fn outside_texts(json: &str) -> impl Iterator<Item = (usize, u8)> {
    let (mut in_text, mut escaped) = (false, false);
    json.bytes().enumerate().filter(move |(_, byte)| match byte {
        _ if escaped => {
            escaped = false;
            false
        }
        b'\\' if in_text => {
            escaped = true;
            false
        }
        b'"' => {
            in_text = !in_text;
            true
        }
        _ => !in_text,
    })
}

/// A digest of everything the caller asked for, blind to white space and to key order.
///
/// Two are the same if their last [`KEPT_BYTES`](BodyHash::KEPT_BYTES) are: a store may keep no more, and one that keeps more
/// gets digests from stores that do not.
#[derive(Clone, Copy, Debug)]
pub struct BodyHash(pub u128);

impl PartialEq for BodyHash {
    fn eq(&self, other: &Self) -> bool {
        self.kept() == other.kept()
    }
}

impl Eq for BodyHash {}

impl BodyHash {
    /// Bytes that are compared. Another body under a known id passes for the same one once in 281 million million times.
    pub const KEPT_BYTES: usize = 6;

    /// The part that is compared.
    pub fn kept(self) -> [u8; BodyHash::KEPT_BYTES] {
        let [.., a, b, c, d, e, f] = self.0.to_be_bytes();
        [a, b, c, d, e, f]
    }

    /// The digest of which this part was kept.
    pub fn of_kept(kept: [u8; BodyHash::KEPT_BYTES]) -> Self {
        BodyHash(kept.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte)))
    }

    /// Digests the request's parts in order. `data` is read as JSON, the rest as text.
    pub fn of(data: &Payload, parts: &[Option<&str>]) -> Result<Self, serde_json::Error> {
        let mut hasher = start(Tag::Body);
        hasher.write_u128(digest_of_json(data.as_str())?);
        write_texts(&mut hasher, parts);
        Ok(BodyHash(finish(hasher)))
    }
}

/// Writes each text behind its length, so that no two lists of texts are written alike.
pub(crate) fn write_texts(hasher: &mut impl Hasher, texts: &[Option<&str>]) {
    for text in texts {
        match text {
            None => hasher.write_u8(0),
            Some(text) => {
                hasher.write_u8(1);
                hasher.write_u64(text.len() as u64);
                hasher.write(text.as_bytes());
            }
        }
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
    Decimal,
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

/// Digests a JSON text. It streams by once, unless it holds numbers that a float may round: those are read again as
/// they are written.
fn digest_of_json(json: &str) -> Result<u128, serde_json::Error> {
    let saw_float = Cell::new(false);
    let digest =
        Digest { saw_float: &saw_float }.deserialize(&mut serde_json::Deserializer::from_str(json))?;
    if saw_float.get() { exact_digest(json) } else { Ok(digest) }
}

/// Digests a JSON value as it streams by: members of an object are added, so their order is forgotten.
#[derive(Clone, Copy)]
struct Digest<'f> {
    saw_float: &'f Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for Digest<'_> {
    type Value = u128;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u128, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Digest<'_> {
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
        self.saw_float.set(true);
        Ok(digest(Tag::Float, &value.to_le_bytes()))
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<u128, E> {
        Ok(digest(Tag::Text, value.as_bytes()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<u128, A::Error> {
        let mut hasher = start(Tag::List);
        while let Some(item) = seq.next_element_seed(self)? {
            hasher.write_u128(item);
        }
        Ok(finish(hasher))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u128, A::Error> {
        let mut sum = 0_u128;
        while let Some(key) = map.next_key_seed(self)? {
            sum = sum.wrapping_add(member(key, map.next_value_seed(self)?));
        }
        Ok(digest(Tag::Object, &sum.to_le_bytes()))
    }
}

fn member(key: u128, value: u128) -> u128 {
    let mut hasher = start(Tag::Member);
    hasher.write_u128(key);
    hasher.write_u128(value);
    finish(hasher)
}

/// The same digest, of text whose nesting is known to be bounded, with each number as exact as it is written.
fn exact_digest(json: &str) -> Result<u128, serde_json::Error> {
    match json.trim_start().as_bytes().first() {
        Some(b'[') => {
            let mut hasher = start(Tag::List);
            for item in serde_json::from_str::<Vec<&RawValue>>(json)? {
                hasher.write_u128(exact_digest(item.get())?);
            }
            Ok(finish(hasher))
        }
        Some(b'{') => {
            let mut sum = 0_u128;
            for (name, value) in serde_json::from_str::<Members<'_>>(json)?.0 {
                let key = digest(Tag::Text, name.as_bytes());
                sum = sum.wrapping_add(member(key, exact_digest(value.get())?));
            }
            Ok(digest(Tag::Object, &sum.to_le_bytes()))
        }
        Some(b'-' | b'0'..=b'9') => number_digest(json.trim()),
        _ => digest_of_json(json),
    }
}

/// A float stands for a number that it shows exactly; any other is digested by its decimal digits.
fn number_digest(text: &str) -> Result<u128, serde_json::Error> {
    let saw_float = Cell::new(false);
    let rounded =
        Digest { saw_float: &saw_float }.deserialize(&mut serde_json::Deserializer::from_str(text))?;
    let number = Decimal::read(text);
    if !saw_float.get() || number == Decimal::read(&format!("{:e}", serde_json::from_str::<f64>(text)?)) {
        return Ok(rounded);
    }
    let mut hasher = start(Tag::Decimal);
    hasher.write_u8(u8::from(number.is_negative));
    hasher.write_i64(number.exponent);
    hasher.write(number.digits.as_bytes());
    Ok(finish(hasher))
}

/// A decimal number: its digits without zeros at either end, and the power of ten of the last one.
#[derive(PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads a number in JSON's notation.
    fn read(text: &str) -> Self {
        let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        // An exponent beyond 64 bits belongs to a number that no float comes near.
        let exponent: i64 = exponent.strip_prefix('+').unwrap_or(exponent).parse().unwrap_or(i64::MIN);
        let all = format!("{whole}{fraction}");
        let digits = all.trim_end_matches('0');
        let places = fraction.len() as i64 - (all.len() - digits.len()) as i64;
        let digits = digits.trim_start_matches('0').to_owned();
        let exponent = if digits.is_empty() { 0 } else { exponent.saturating_sub(places) };
        Decimal { is_negative, digits, exponent }
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
    fn numbers_are_compared_as_exactly_as_they_are_written() {
        for (one, other) in [
            ("18446744073709551616", "18446744073709551617"),
            ("-9223372036854775809", "-9223372036854775810"),
            ("1000000000000000000000001", "1000000000000000000000002"),
            ("0.1", "0.10000000000000000001"),
            ("1e-400", "0.0"),
            ("1e-400", "2e-400"),
            ("1", "-1"),
        ] {
            assert_ne!(hash(one), hash(other));
            let within = |number: &str| hash(&format!(r#"{{"a":[{number},{{"b":{number}}}]}}"#));
            assert_ne!(within(one), within(other), "{one} {other}");
        }
        let swapped = |a: &str, b: &str| hash(&format!(r#"{{"a":{a},"b":{b}}}"#));
        assert_ne!(
            swapped("18446744073709551616", "18446744073709551617"),
            swapped("18446744073709551617", "18446744073709551616")
        );
        for (one, other) in [
            ("18446744073709551617", "184467440737095516170e-1"),
            ("0.10000000000000000001", "0.100000000000000000010"),
            ("1e23", "100000000000000000000000"),
            (r#"{"a":1.5,"b":"x"}"#, r#"{ "b":"\u0078", "a":15e-1 }"#),
        ] {
            assert_eq!(hash(one), hash(other), "{one} {other}");
        }
    }

    #[test]
    fn digests_that_older_versions_stored_still_match() {
        for (json, stored) in [
            (r#"{"a":1,"b":[true,null]}"#, 121494213404777178195308083053812293528),
            (r#"{"amount":12.5,"list":[0.1,-3e7,"x"],"n":{"m":1}}"#, 22200352255635664719536281934581022425),
            ("18446744073709551615", 336403051289082851762080739614936095010),
            ("-0", 102310425610294482982064778823784267848),
        ] {
            assert_eq!(hash(json).0, stored, "{json}");
        }
    }

    #[test]
    fn text_beyond_the_depth_that_readers_take_is_no_payload() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Payload::new(&nested(DEPTH_MAX)).is_ok());
        assert!(Payload::new(&nested(DEPTH_MAX + 1)).is_err());
        let brackets_in_text = format!(r#"{{"a":"\"{}"}}"#, "[".repeat(1_000));
        assert!(Payload::new(&brackets_in_text).is_ok());
    }

    #[test]
    fn a_number_beyond_every_float_is_found_and_nothing_that_looks_like_one() {
        for beyond in ["1e999", "[0,-1E+400]", r#"{"a":{"b":[1,2e309]}}"#, &format!("1{}", "0".repeat(400))] {
            assert!(Payload::trusted(beyond).has_number_out_of_range(), "{beyond}");
            assert!(Payload::new(beyond).is_err(), "{beyond}");
        }
        for fine in ["1e308", "-0.1e-999", r#"{"1e999":"1e999","b":true,"c":"\\\"1e999"}"#, "[false,null,1]"]
        {
            assert!(!Payload::trusted(fine).has_number_out_of_range(), "{fine}");
            assert!(Payload::new(fine).is_ok(), "{fine}");
        }
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

    #[test]
    fn a_store_that_keeps_a_part_of_a_digest_knows_the_body_by_it() {
        let whole = BodyHash(u128::MAX / 7);
        assert_eq!(BodyHash::of_kept(whole.kept()), whole);
        for bit in [0, 47] {
            assert_ne!(BodyHash(whole.0 ^ 1 << bit), whole, "bit {bit}");
        }
    }
}
