//! Reads requests, and reports every fault at once.
//!
//! A body is read strictly first: one pass, no bookkeeping. Only when that fails is it walked field by
//! field, each fault noted with where it is and what to write instead. Messages never repeat a value: the
//! same words end up in logs, and values are personal data. An explicit `null` counts as a field left out,
//! except where it takes something away.

use std::borrow::Cow;
use std::fmt;

use recado_core::json::{JsonKind, Members};
use recado_core::payload::{DEPTH_MAX, deeper_than};
use recado_core::reason::clip;
use recado_core::{Payload, Timestamp};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use serde_json::value::RawValue;

use crate::format::problem::FieldFault;

/// Faults that are listed at most.
pub const FAULTS_MAX: usize = 100;

/// Bytes at most that a message repeats of a name it does not know.
const NAME_SHOWN_MAX_BYTES: usize = 64;

/// The text is not JSON, or too deeply nested: what and where, never a piece of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotJson(pub String);

impl From<serde_json::Error> for NotJson {
    fn from(error: serde_json::Error) -> Self {
        NotJson(error.to_string())
    }
}

/// A request body that is one JSON object.
pub trait Body: DeserializeOwned {
    const FIELDS: &'static [&'static str];

    /// Reads field by field and notes every fault. A field that cannot be read gets a stand-in.
    fn from_fields(fields: &mut Fields<'_, '_>) -> Self;

    /// Notes what no type can say: bounds, blanks, fields that exclude each other.
    fn check(&self, _faults: &mut Faults) {}
}

/// A value that was read, and its faults. Without faults the value is complete.
#[derive(Debug)]
pub struct Read<T> {
    pub value: T,
    pub faults: Faults,
}

impl<T> Read<T> {
    pub fn into_result(self) -> Result<T, Vec<FieldFault>> {
        if self.faults.is_empty() { Ok(self.value) } else { Err(self.faults.into_vec()) }
    }
}

/// Reads a body that is one JSON object.
pub fn body<T: Body>(json: &str) -> Result<Read<T>, NotJson> {
    refuse_depth(json)?;
    // A derived reader would also take the fields as a list, by position.
    let strict =
        if JsonKind::of(json) == JsonKind::Object { serde_json::from_str::<T>(json).ok() } else { None };
    let Some(value) = strict else { return by_field(json) };
    let mut faults = Faults::default();
    value.check(&mut faults);
    Ok(Read { value, faults })
}

/// Reads a body field by field, without trying the fast way first.
pub fn by_field<T: Body>(json: &str) -> Result<Read<T>, NotJson> {
    refuse_depth(json)?;
    let mut faults = Faults::default();
    let members = match serde_json::from_str::<Members<'_>>(json) {
        Ok(Members(members)) => members,
        Err(error) if error.is_data() && JsonKind::of(json) != JsonKind::Object => {
            let _: &RawValue = serde_json::from_str(json)?;
            faults.note("", format!("is {}; write an object", JsonKind::of(json)));
            Vec::new()
        }
        Err(error) => return Err(error.into()),
    };
    let value = read_members(members, &mut faults);
    Ok(Read { value, faults })
}

fn read_members<'a, T: Body>(members: Vec<(Cow<'a, str>, &'a RawValue)>, faults: &mut Faults) -> T {
    let mut fields = Fields { members, faults };
    fields.refuse_repetitions();
    fields.allow_only(T::FIELDS);
    let value = T::from_fields(&mut fields);
    value.check(faults);
    value
}

fn refuse_depth(json: &str) -> Result<(), NotJson> {
    if deeper_than(json, DEPTH_MAX) {
        return Err(NotJson(format!("nested more than {DEPTH_MAX} levels deep")));
    }
    Ok(())
}

/// Everything wrong so far. One fault a place, what is said first stays; and at most [`FAULTS_MAX`].
#[derive(Debug, Default, Clone)]
pub struct Faults {
    base: String,
    found: Vec<FieldFault>,
}

impl Faults {
    /// Notes what is wrong with a field, present or missing; `""` is the whole.
    pub fn note(&mut self, name: &str, message: impl Into<String>) {
        let pointer = match name {
            "" => self.base.clone(),
            name => format!("{}/{}", self.base, escaped(name)),
        };
        self.note_at(pointer, message);
    }

    /// Notes a number in a payload that no 64-bit float comes near.
    pub fn note_out_of_range(&mut self, name: &str, payload: Option<&Payload>) {
        if payload.is_some_and(Payload::has_number_out_of_range) {
            self.note(
                name,
                "holds a number out of range; write numbers up to 1.7e308, or longer ones as text",
            );
        }
    }

    /// Notes what is wrong at a JSON pointer, unless something there, above or below is wrong already.
    pub fn note_at(&mut self, pointer: String, message: impl Into<String>) {
        if self.is_full() {
            return;
        }
        let covers = |outer: &str, inner: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let known = |fault: &FieldFault| covers(&fault.pointer, &pointer) || covers(&pointer, &fault.pointer);
        if !self.found.iter().any(known) {
            self.found.push(FieldFault { pointer, message: message.into() });
        }
    }

    /// Notes faults of what is inside a field.
    pub fn within<R>(&mut self, name: &str, inside: impl FnOnce(&mut Faults) -> R) -> R {
        let outside = self.base.len();
        self.base.push('/');
        self.base.push_str(&escaped(name));
        let result = inside(self);
        self.base.truncate(outside);
        result
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    fn is_full(&self) -> bool {
        self.found.len() >= FAULTS_MAX
    }

    pub fn into_vec(self) -> Vec<FieldFault> {
        self.found
    }
}

fn escaped(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) {
        Cow::Owned(name.replace('~', "~0").replace('/', "~1"))
    } else {
        Cow::Borrowed(name)
    }
}

/// The members of one JSON object, still unread.
#[derive(Debug)]
pub struct Fields<'a, 'f> {
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
    faults: &'f mut Faults,
}

impl<'a> Fields<'a, '_> {
    fn refuse_repetitions(&mut self) {
        let mut names: Vec<&str> = self.members.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        for same in names.chunk_by(|a, b| a == b).filter(|same| same.len() > 1) {
            self.faults.note(same[0], "is given more than once; keep one of them");
        }
    }

    fn allow_only(&mut self, known: &[&str]) {
        for (name, _) in self.members.iter().filter(|(name, _)| !known.contains(&&**name)) {
            if self.faults.is_full() {
                break;
            }
            self.faults.note(
                clip(name, NAME_SHOWN_MAX_BYTES),
                format!("is not a field here; {}", suggest(name, known)),
            );
        }
    }

    fn get(&self, name: &str) -> Option<&'a RawValue> {
        let present = self.members.iter().find(|(member, _)| member == name);
        present.map(|(_, raw)| *raw).filter(|raw| raw.get() != "null")
    }

    fn missing(&mut self, name: &str, write: &str) {
        let is_null = self.members.iter().any(|(member, _)| member == name);
        let what = if is_null { "null" } else { "missing" };
        self.faults.note(name, format!("is {what}; write {write}"));
    }

    pub fn text(&mut self, name: &str) -> Option<String> {
        let raw = self.get(name)?.get();
        match (serde_json::from_str(raw), JsonKind::of(raw)) {
            (Ok(text), _) => Some(text),
            (Err(_), JsonKind::String) => {
                self.faults.note(name, "holds half a surrogate pair; write whole characters");
                None
            }
            (Err(_), kind) => {
                self.faults.note(name, format!("is {kind}; write a string"));
                None
            }
        }
    }

    pub fn required_text(&mut self, name: &str) -> String {
        if self.get(name).is_none() {
            self.missing(name, "a string");
        }
        self.text(name).unwrap_or_default()
    }

    /// A whole number; `write` says which one, such as "whole milliseconds".
    pub fn integer<T: TryFrom<i128>>(&mut self, name: &str, write: &str) -> Option<T> {
        let raw = self.get(name)?.get();
        match integer(raw) {
            Ok(number) => Some(number),
            Err(what) => {
                self.faults.note(name, format!("is {what}; write {write}"));
                None
            }
        }
    }

    /// A whole number that `null` takes away: absent, taken away, or a number.
    pub fn integer_or_null<T: TryFrom<i128>>(&mut self, name: &str, write: &str) -> Option<Option<T>> {
        if self.members.iter().any(|(member, raw)| member == name && raw.get() == "null") {
            return Some(None);
        }
        self.integer(name, write).map(Some)
    }

    pub fn required_integer<T: TryFrom<i128> + Default>(&mut self, name: &str, write: &str) -> T {
        if self.get(name).is_none() {
            self.missing(name, write);
        }
        self.integer(name, write).unwrap_or_default()
    }

    pub fn time(&mut self, name: &str) -> Option<Timestamp> {
        self.parsed(name, |text| text.parse().map_err(|_| NOT_A_TIME))
    }

    /// A time as process engines write it.
    pub fn time_of_process_engine(&mut self, name: &str) -> Option<Timestamp> {
        self.parsed(name, |text| Timestamp::of_process_engine(&text).map_err(|_| NOT_A_TIME))
    }

    /// Any JSON, taken as it stands.
    pub fn json(&mut self, name: &str) -> Option<Payload> {
        self.get(name).map(Payload::from_raw)
    }

    /// Any JSON, `null` included, but it has to be there.
    pub fn required_json(&mut self, name: &str) -> Payload {
        match self.members.iter().find(|(member, _)| member == name) {
            Some((_, raw)) => Payload::from_raw(raw),
            None => {
                self.missing(name, "any JSON");
                Payload::trusted("null")
            }
        }
    }

    pub fn boolean(&mut self, name: &str) -> Option<bool> {
        let raw = self.get(name)?.get();
        let value = serde_json::from_str(raw).ok();
        if value.is_none() {
            self.faults.note(name, format!("is {}; write true or false", JsonKind::of(raw)));
        }
        value
    }

    /// One of a few words; `stand_in` where there is none.
    pub fn required_choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)], stand_in: T) -> T {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        if self.get(name).is_none() {
            self.missing(name, &words.join(" or "));
            return stand_in;
        }
        let Some(text) = self.text(name) else { return stand_in };
        match choices.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => *value,
            None => {
                self.faults.note(name, format!("is not one of the choices; {}", suggest(&text, &words)));
                stand_in
            }
        }
    }

    pub fn required_texts(&mut self, name: &str) -> Vec<String> {
        if self.get(name).is_none() {
            self.missing(name, "a list of strings");
        }
        self.texts(name).unwrap_or_default()
    }

    /// A list of strings. What is not a string in it is noted, and its place kept.
    pub fn texts(&mut self, name: &str) -> Option<Vec<String>> {
        let raw = self.get(name)?;
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
            self.faults.note(name, format!("is {}; write a list of strings", JsonKind::of(raw.get())));
            return None;
        };
        let mut texts = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            match serde_json::from_str(item.get()) {
                Ok(text) => texts.push(text),
                Err(_) => {
                    let what = format!("is {}; write a string", JsonKind::of(item.get()));
                    self.faults.within(name, |faults| faults.note(&index.to_string(), what));
                    texts.push(String::new());
                }
            }
        }
        Some(texts)
    }

    /// A string that another type reads; what it says about the rest is the fault.
    pub fn parsed<T, E: fmt::Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(String) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(name)?;
        parse(text).map_err(|error| self.faults.note(name, error.to_string())).ok()
    }

    /// The same for each of a list of strings.
    pub fn parsed_texts<T, E: fmt::Display>(
        &mut self,
        name: &str,
        parse: impl Fn(String) -> Result<T, E>,
    ) -> Option<Vec<T>> {
        let texts = self.texts(name)?;
        let mut read = |(index, text): (usize, String)| match parse(text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.faults.within(name, |faults| faults.note(&index.to_string(), error.to_string()));
                None
            }
        };
        Some(texts.into_iter().enumerate().filter_map(&mut read).collect())
    }

    /// An object that has to be there; `write` says what to put in its place.
    pub fn required_object<T: Body + Default>(&mut self, name: &str, write: &str) -> T {
        if self.get(name).is_none() {
            self.missing(name, write);
        }
        self.object(name).unwrap_or_default()
    }

    pub fn object<T: Body>(&mut self, name: &str) -> Option<T> {
        let raw = self.get(name)?.get();
        match serde_json::from_str::<Members<'_>>(raw) {
            Ok(Members(members)) => Some(self.faults.within(name, |faults| read_members(members, faults))),
            Err(_) => {
                self.faults.note(name, format!("is {}; write an object", JsonKind::of(raw)));
                None
            }
        }
    }
}

const NOT_A_TIME: &str = "is not a time with its offset; write RFC 3339, such as 2026-01-31T08:30:00Z or 2026-01-31T05:30:00-03:00";

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
    /// Beyond this a number so written stands for several.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let number: f64 = raw.parse().ok()?;
    let is_whole = number.fract() == 0.0 && number.abs() < EXACT_MAX;
    // Rust writes such a number without an exponent.
    is_whole.then(|| format!("{number:.0}").parse().ok()).flatten()
}

/// Suggests the name that the writer may have meant.
pub fn suggest(given: &str, known: &[&str]) -> String {
    let given = clip(given, NAME_SHOWN_MAX_BYTES).to_ascii_lowercase();
    let distance = |name: &str| strsim::osa_distance(&given, &name.to_ascii_lowercase());
    match known.iter().min_by_key(|name| distance(name)) {
        Some(near) if distance(near) <= 2 => format!("did you mean `{near}`?"),
        _ if known.is_empty() => "there is none".to_owned(),
        _ => format!("there is {}", known.join(", ")),
    }
}

/// A query: what stands after the `?`.
pub trait Query: Sized {
    const FIELDS: &'static [&'static str];

    fn from_params(params: &mut Params<'_>) -> Self;
}

/// A query without parameters.
impl Query for () {
    const FIELDS: &'static [&'static str] = &[];

    fn from_params(_: &mut Params<'_>) -> Self {}
}

/// Reads a query, given as its decoded pairs.
pub fn query<T: Query>(pairs: Vec<(String, String)>) -> Result<T, Vec<FieldFault>> {
    let mut faults = Faults::default();
    let mut params = Params { pairs, faults: &mut faults };
    params.refuse_unknown(T::FIELDS);
    let value = T::from_params(&mut params);
    Read { value, faults }.into_result()
}

#[derive(Debug)]
pub struct Params<'f> {
    pairs: Vec<(String, String)>,
    faults: &'f mut Faults,
}

impl Params<'_> {
    fn refuse_unknown(&mut self, known: &[&str]) {
        for (index, (name, value)) in self.pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let message = format!("is not a parameter here; {}", suggest(name, known));
                self.faults.note(clip(name, NAME_SHOWN_MAX_BYTES), message);
            } else if self.pairs[..index].iter().any(|(earlier, _)| earlier == name) {
                self.faults.note(name, "is given more than once; keep one of them");
            } else if value.is_empty() {
                self.faults.note(name, "is empty; give a value or leave it out");
            }
        }
    }

    pub fn text(&mut self, name: &str) -> Option<String> {
        let pair = self.pairs.iter_mut().find(|(given, value)| given == name && !value.is_empty())?;
        Some(std::mem::take(&mut pair.1))
    }

    /// A value that another type reads; what it says about the rest is the fault.
    pub fn parsed<T, E: fmt::Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(String) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(name)?;
        parse(text).map_err(|error| self.faults.note(name, error.to_string())).ok()
    }

    pub fn time(&mut self, name: &str) -> Option<Timestamp> {
        self.parsed(name, |text| text.parse().map_err(|_| NOT_A_TIME))
    }

    /// The size of a page.
    pub fn limit(&mut self) -> Option<u32> {
        let bounds = format!("is out of range; give 1 to {}", crate::PAGE_ITEMS_MAX);
        self.parsed("limit", |text| match text.parse() {
            Ok(limit) if (1..=crate::PAGE_ITEMS_MAX).contains(&limit) => Ok(limit),
            _ => Err(bounds),
        })
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        self.parsed(name, |text| match choices.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => Ok(*value),
            None => {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                Err(format!("is not one of the choices; {}", suggest(&text, &words)))
            }
        })
    }
}

/// For a time as process engines write it.
pub(crate) fn time_of_process_engine<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| Timestamp::of_process_engine(&text).map_err(serde::de::Error::custom)).transpose()
}

/// For a field that `null` takes away: being there at all is the outer `Some`.
pub(crate) fn or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// For a field that holds any JSON: one copy, and no second look at text that the parser has just passed.
pub(crate) fn payload<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Payload, D::Error> {
    <&'de RawValue>::deserialize(deserializer).map(Payload::from_raw)
}
