//! Reads a request by the `Deserialize` of its types, and goes on after a fault.
//!
//! A value that its type refuses is noted with where it is and what to write instead; the type then reads a stand-in,
//! so that the other fields have their turn. This works because the readers that serde derives ask for a value by its
//! type (`next_value::<T>`, `next_element::<T>`), which can be read twice.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use recado_core::json::{JsonKind, Members};
use recado_core::reason::clip;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;

use crate::format::read::{Faults, NAME_SHOWN_MAX_BYTES, Read, escaped, suggest};

/// The words for a whole number that its request says nothing else about.
const MILLISECONDS: &str = "whole milliseconds from 0 on";

/// A value that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The reason, in words that follow the value's name.
    #[error("{0}")]
    Fault(String),
    /// The struct lacks this field, and its type has no default.
    #[error("{0} is missing")]
    NoField(&'static str),
}

impl serde::de::Error for Refusal {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Refusal::Fault(reason.to_string())
    }

    fn missing_field(name: &'static str) -> Self {
        Refusal::NoField(name)
    }
}

/// Text for the faults of fields whose types do not say enough.
#[derive(Clone, Copy, Debug, Default)]
pub struct FieldHints {
    /// Advice for a field of a body.
    pub write: &'static [(&'static str, &'static str)],
    /// Least, most and unit of a whole number in a query.
    pub ranges: &'static [(&'static str, u64, u64, &'static str)],
    /// Absent fields are read from the start: to its types, absence and `null` are the same.
    pub reads_absent: bool,
}

/// One request that is being read.
#[derive(Debug)]
struct RequestReading {
    faults: RefCell<Faults>,
    hints: FieldHints,
    /// Absent fields are read, too, so that the types of required ones refuse that in their own words.
    reads_absent: bool,
}

/// The source of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Written<'de> {
    Json(&'de str),
    /// A whole query.
    Parameters(&'de [(String, String)]),
    Parameter(&'de str),
    /// Nothing, where something has to be.
    Missing,
    /// The plainest value of the type, in place of a faulty one.
    StandIn,
}

/// A request, or a part of it: reads any type, and notes the faults of the parts.
#[derive(Clone, Debug)]
pub struct RequestValue<'de, 'r> {
    written: Written<'de>,
    pointer: String,
    reading: &'r RequestReading,
}

/// Reads a whole request. An error means that a type refuses its own stand-in.
pub(super) fn read_request<T>(
    written: Written<'_>,
    hints: FieldHints,
    faults: Faults,
    read: impl Fn(RequestValue<'_, '_>) -> Result<T, Refusal>,
) -> Result<Read<T>, Refusal> {
    let mut reading =
        RequestReading { faults: RefCell::new(faults), hints, reads_absent: hints.reads_absent };
    loop {
        match read(RequestValue { written, pointer: String::new(), reading: &reading }) {
            Err(Refusal::NoField(_)) if !reading.reads_absent => reading.reads_absent = true,
            result => return result.map(|value| Read { value, faults: reading.faults.into_inner() }),
        }
    }
}

impl<'de> RequestValue<'de, '_> {
    /// Reads the value; notes its fault and reads a stand-in if it has one.
    pub(super) fn read<T: Deserialize<'de>>(self) -> Result<T, Refusal> {
        match T::deserialize(self.clone()) {
            Err(Refusal::Fault(reason)) => {
                let reason = self.without_value(reason);
                self.reading.faults.borrow_mut().note_at(self.pointer.clone(), reason);
                T::deserialize(RequestValue { written: Written::StandIn, ..self })
            }
            result => result,
        }
    }

    /// Cuts the value off a reason that begins with it: values are personal data.
    fn without_value(&self, reason: String) -> String {
        let text = match self.written {
            Written::Json(json) => serde_json::from_str(json).unwrap_or_default(),
            Written::Parameter(text) => text.to_owned(),
            _ => String::new(),
        };
        reason.strip_prefix(&format!("`{text}` ")).map(str::to_owned).unwrap_or(reason)
    }

    fn is_absent(&self) -> bool {
        matches!(self.written, Written::Missing | Written::Json("null"))
    }

    fn refuse(&self, write: &str) -> Refusal {
        let what = match self.written {
            Written::Json(json) => JsonKind::of(json).as_str(),
            _ => "missing",
        };
        Refusal::Fault(format!("is {what}; write {write}"))
    }

    fn is_named(&self, name: &str) -> bool {
        self.pointer.rsplit('/').next() == Some(name)
    }

    /// Advice for this field.
    fn words(&self, usual: &'static str) -> &'static str {
        let hint = self.reading.hints.write.iter().find(|(name, _)| self.is_named(name));
        hint.map_or(usual, |(_, words)| words)
    }

    fn text(&self, write: &str) -> Result<String, Refusal> {
        match self.written {
            Written::StandIn => Ok(String::new()),
            Written::Parameter(text) => Ok(text.to_owned()),
            Written::Json(json) if JsonKind::of(json) == JsonKind::String => serde_json::from_str(json)
                .map_err(|_| {
                    Refusal::Fault("holds half a surrogate pair; write whole characters".to_owned())
                }),
            _ if self.is_absent() => Err(self.refuse(write)),
            _ => Err(self.refuse(self.words("a string"))),
        }
    }

    fn number(&self) -> Result<f64, Refusal> {
        let write = self.words("a number");
        let number = match self.written {
            Written::StandIn => return Ok(0.0),
            Written::Json(json) if JsonKind::of(json) == JsonKind::Number => json.parse().ok(),
            Written::Parameter(text) => text.parse().ok(),
            _ => return Err(self.refuse(write)),
        };
        let number = number.filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| Refusal::Fault(format!("is out of range; write {write}")))
    }

    fn integer<T: TryFrom<i128> + Default>(&self) -> Result<T, Refusal> {
        let write = self.words(MILLISECONDS);
        match self.written {
            Written::StandIn => Ok(T::default()),
            Written::Json(json) => {
                integer(json).map_err(|what| Refusal::Fault(format!("is {what}; write {write}")))
            }
            Written::Parameter(text) => {
                let range = self.reading.hints.ranges.iter().find(|(name, ..)| self.is_named(name));
                let (_, least, most, unit) = range.copied().unwrap_or(("", 0, u64::MAX, ""));
                let number = text.parse().ok().filter(|number| (least..=most).contains(number));
                let number = number.and_then(|number| T::try_from(number.into()).ok());
                number.ok_or_else(|| Refusal::Fault(format!("is out of range; give {least} to {most}{unit}")))
            }
            Written::Missing | Written::Parameters(_) => Err(self.refuse(write)),
        }
    }

    /// The members of an object, those that stand for it in a query, or none in a stand-in.
    fn members(&self, known: &[&str]) -> Result<Vec<(Cow<'de, str>, Written<'de>)>, Refusal> {
        match self.written {
            Written::StandIn => Ok(Vec::new()),
            Written::Parameters(pairs) => {
                let given = pairs.iter().filter(|(_, value)| !value.is_empty());
                Ok(given.map(|(name, value)| (Cow::Borrowed(&**name), Written::Parameter(value))).collect())
            }
            Written::Json(json) if JsonKind::of(json) == JsonKind::Object => {
                let Members(members) = serde_json::from_str(json).map_err(serde::de::Error::custom)?;
                self.note_strange_names(&members, known);
                Ok(members.into_iter().map(|(name, raw)| (name, Written::Json(raw.get()))).collect())
            }
            _ if self.is_absent() => Err(self.refuse(self.words("an object"))),
            _ => Err(self.refuse("an object")),
        }
    }

    /// Notes names that an object repeats, and names that are not its fields.
    fn note_strange_names(&self, members: &[(Cow<'_, str>, &RawValue)], known: &[&str]) {
        let mut faults = self.reading.faults.borrow_mut();
        let place = |name: &str| format!("{}/{}", self.pointer, escaped(name));
        let mut names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        for same in names.chunk_by(|a, b| a == b).filter(|same| same.len() > 1) {
            faults.note_at(place(same[0]), "is given more than once; keep one of them");
        }
        for (name, _) in members.iter().filter(|(name, _)| !known.contains(&&**name)) {
            if faults.is_full() {
                break;
            }
            let message = format!("is not a field here; {}", suggest(name, known));
            faults.note_at(place(clip(name, NAME_SHOWN_MAX_BYTES)), message);
        }
    }

    fn part(&self, name: impl fmt::Display, written: Written<'de>) -> Self {
        RequestValue { written, pointer: format!("{}/{name}", self.pointer), reading: self.reading }
    }
}

macro_rules! whole_numbers {
    ($($deserialize:ident $visit:ident,)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
            visitor.$visit(self.integer()?)
        }
    )*};
}

impl<'de> Deserializer<'de> for RequestValue<'de, '_> {
    type Error = Refusal;

    whole_numbers! { deserialize_u8 visit_u8, deserialize_u32 visit_u32, deserialize_u64 visit_u64, }

    /// Reads text, unless one of the methods below asks for another type.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_string(self.text(self.words("a string"))?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_f64(self.number()?)
    }

    /// One that is left out is false.
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.written {
            Written::Json("true") => visitor.visit_bool(true),
            Written::Json("false" | "null") | Written::Missing | Written::StandIn => {
                visitor.visit_bool(false)
            }
            _ => Err(self.refuse("true or false")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.written {
            Written::Json("null") | Written::Missing | Written::StandIn => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// JSON that is taken as it stands: only serde_json knows how to pass it on.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let json = match self.written {
            Written::Json(json) => json,
            Written::StandIn => "null",
            _ => return Err(self.refuse("any JSON")),
        };
        let mut raw = serde_json::Deserializer::from_str(json);
        raw.deserialize_newtype_struct(name, visitor).map_err(serde::de::Error::custom)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        let list = self.words("a list of strings");
        let items: Vec<&'de RawValue> = match self.written {
            Written::StandIn => Vec::new(),
            Written::Json(json) => serde_json::from_str(json).map_err(|_| self.refuse(list))?,
            _ => return Err(self.refuse(list)),
        };
        let item = |(at, item): (usize, &'de RawValue)| ("", self.part(at, Written::Json(item.get())));
        visitor.visit_seq(RequestParts { rest: items.into_iter().enumerate().map(item), value: None })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let members = self.members(fields)?;
        let absent = self.reading.reads_absent.then_some(Written::Missing);
        let part = |name: &&'static str| {
            let given = members.iter().find(|(member, _)| member == name).map(|(_, written)| *written);
            Some((*name, self.part(name, given.or(absent)?)))
        };
        visitor.visit_map(RequestParts { rest: fields.iter().filter_map(part), value: None })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        choices: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let text = match (self.written, choices) {
            (Written::StandIn, [first, ..]) => (*first).to_owned(),
            _ => self.text(&choices.join(" or "))?,
        };
        match choices.iter().find(|choice| **choice == text) {
            Some(choice) => visitor.visit_enum((*choice).into_deserializer()),
            None => Err(Refusal::Fault(format!("is not one of the choices; {}", suggest(&text, choices)))),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u16 u128 f32 char str string bytes byte_buf unit unit_struct tuple tuple_struct map
        identifier ignored_any
    }
}

/// The fields of an object or the items of a list, one after the other.
struct RequestParts<'de, 'r, I> {
    rest: I,
    value: Option<RequestValue<'de, 'r>>,
}

impl<'de, 'r, I: Iterator<Item = (&'static str, RequestValue<'de, 'r>)>> MapAccess<'de>
    for RequestParts<'de, 'r, I>
{
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refusal> {
        let Some((name, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(name.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refusal> {
        seed.deserialize(self.value.take().ok_or(Refusal::NoField("value"))?)
    }

    fn next_value<V: Deserialize<'de>>(&mut self) -> Result<V, Refusal> {
        self.value.take().ok_or(Refusal::NoField("value"))?.read()
    }
}

impl<'de, 'r, I: Iterator<Item = (&'static str, RequestValue<'de, 'r>)>> SeqAccess<'de>
    for RequestParts<'de, 'r, I>
{
    type Error = Refusal;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refusal> {
        self.rest.next().map(|(_, item)| seed.deserialize(item)).transpose()
    }

    /// An item whose type refuses the stand-in is left out.
    fn next_element<T: Deserialize<'de>>(&mut self) -> Result<Option<T>, Refusal> {
        Ok(self.rest.find_map(|(_, item)| item.read().ok()))
    }
}

/// The names on the wire that a type is made of: a struct's fields, or an enum's choices.
pub fn names_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // It asks for them first, and is refused anything more.
    let _ = T::deserialize(NamesOf(&mut names));
    names
}

struct NamesOf<'n>(&'n mut &'static [&'static str]);

impl<'de> Deserializer<'de> for NamesOf<'_> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refusal> {
        Err(Refusal::NoField("value"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        choices: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        self.deserialize_struct(name, choices, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

/// The number, or what it is instead, in words that fit after "is".
fn integer<T: TryFrom<i128>>(raw: &str) -> Result<T, &'static str> {
    match raw.parse::<i128>() {
        Ok(number) => T::try_from(number).map_err(|_| if number < 0 { "negative" } else { "too large" }),
        Err(_) if JsonKind::of(raw) != JsonKind::Number => Err(JsonKind::of(raw).as_str()),
        Err(_) if raw.contains(['.', 'e', 'E']) => {
            whole(raw).and_then(|number| T::try_from(number).ok()).ok_or("not a whole number")
        }
        Err(_) => Err("too large"),
    }
}

/// Reads a whole number that is written with a fraction or an exponent, such as `5.0`: JSON Schema calls it an integer.
fn whole(raw: &str) -> Option<i128> {
    /// Beyond this, a number with a fraction or an exponent stands for several whole ones.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let number: f64 = raw.parse().ok()?;
    let is_whole = number.fract() == 0.0 && number.abs() < EXACT_MAX;
    // Rust writes such a number without an exponent.
    is_whole.then(|| format!("{number:.0}").parse().ok()).flatten()
}
