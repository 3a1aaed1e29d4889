//! Reads requests, and reports every fault at once.
//!
//! A body is read strictly first: one pass, no bookkeeping. Only when that fails is it walked field by
//! field, each fault noted with where it is and what to write instead. Messages never repeat a value: the
//! same words end up in logs, and values are personal data. An explicit `null` counts as a field left out,
//! except where it takes something away.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use recado_core::json::{JsonKind, Members};
use recado_core::payload::{DEPTH_MAX, deeper_than};
use recado_core::reason::clip;
use recado_core::{Payload, Timestamp};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::DURATION_MAX_MS;
use crate::dlq::WORDS_LEN_MAX;
use crate::format::problem::FieldFault;
use crate::format::value::{FieldHints, Refusal, RequestValue, Written, read_request};

pub use crate::format::value::names_of;

/// Faults that are listed at most.
pub const FAULTS_MAX: usize = 100;

/// Bytes at most that a message repeats of a name it does not know.
pub(super) const NAME_SHOWN_MAX_BYTES: usize = 64;

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
    /// Advice for fields whose type does not say enough.
    const WRITE: &'static [(&'static str, &'static str)] = &[];

    /// One of its fields tells `null` from absence.
    const NULL_TAKES_AWAY: bool = false;

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
    if JsonKind::of(json) == JsonKind::Object {
        let _: Members<'_> = serde_json::from_str(json)?;
    } else {
        let _: &RawValue = serde_json::from_str(json)?;
    }
    let hints = FieldHints { write: T::WRITE, reads_absent: !T::NULL_TAKES_AWAY, ..FieldHints::default() };
    let whole = Written::Json(json.trim_ascii());
    let mut read = read_request(whole, hints, Faults::default(), |body| body.read::<T>())
        .map_err(|refusal| NotJson(refusal.to_string()))?;
    read.value.check(&mut read.faults);
    Ok(read)
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

    /// Notes a number that is not within its bounds; `instead` says what to write.
    pub(crate) fn check_range<T: PartialOrd>(
        &mut self,
        name: &str,
        given: Option<T>,
        range: RangeInclusive<T>,
        instead: impl fmt::Display,
    ) {
        if given.is_some_and(|given| !range.contains(&given)) {
            self.note(name, format!("is out of range; {instead}"));
        }
    }

    /// Notes text without anything to read in it.
    pub(crate) fn check_blank(&mut self, name: &str, text: &str, fault: &str) {
        if text.trim().is_empty() {
            self.note(name, fault);
        }
    }

    /// Notes a time that is too long.
    pub(crate) fn check_duration(&mut self, name: &str, given_ms: Option<u64>) {
        let bounds = format!("give at most {DURATION_MAX_MS} (366 days)");
        self.check_range(name, given_ms, 0..=DURATION_MAX_MS, bounds);
    }

    /// Notes a note or a reason that is too long.
    pub(crate) fn check_length(&mut self, name: &str, words: Option<&str>) {
        if words.is_some_and(|words| words.chars().count() > WORDS_LEN_MAX) {
            self.note(name, format!("is too long; write at most {WORDS_LEN_MAX} characters"));
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

    pub(super) fn is_full(&self) -> bool {
        self.found.len() >= FAULTS_MAX
    }

    pub fn into_vec(self) -> Vec<FieldFault> {
        self.found
    }
}

pub(super) fn escaped(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) {
        Cow::Owned(name.replace('~', "~0").replace('/', "~1"))
    } else {
        Cow::Borrowed(name)
    }
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
pub trait Query: DeserializeOwned {
    /// Least, most and unit of the whole numbers.
    const RANGES: &'static [(&'static str, u64, u64, &'static str)] =
        &[("limit", 1, crate::PAGE_ITEMS_MAX as u64, "")];

    fn names() -> Vec<&'static str> {
        names_of::<Self>().to_vec()
    }

    fn from_params(params: RequestValue<'_, '_>) -> Result<Self, Refusal> {
        Self::deserialize(params)
    }
}

/// A query without parameters.
impl Query for () {
    fn from_params(_: RequestValue<'_, '_>) -> Result<Self, Refusal> {
        Ok(())
    }
}

/// Reads a query, given as its decoded pairs.
pub fn query<T: Query>(pairs: Vec<(String, String)>) -> Result<T, Vec<FieldFault>> {
    let mut faults = Faults::default();
    note_strange_params(&pairs, &T::names(), &mut faults);
    let hints = FieldHints { ranges: T::RANGES, ..FieldHints::default() };
    match read_request(Written::Parameters(&pairs), hints, faults, T::from_params) {
        Ok(read) => read.into_result(),
        Err(refusal) => Err(vec![FieldFault { pointer: String::new(), message: refusal.to_string() }]),
    }
}

fn note_strange_params(pairs: &[(String, String)], known: &[&str], faults: &mut Faults) {
    for (index, (name, value)) in pairs.iter().enumerate() {
        if !known.contains(&name.as_str()) {
            let message = format!("is not a parameter here; {}", suggest(name, known));
            faults.note(clip(name, NAME_SHOWN_MAX_BYTES), message);
        } else if pairs[..index].iter().any(|(earlier, _)| earlier == name) {
            faults.note(name, "is given more than once; keep one of them");
        } else if value.is_empty() {
            faults.note(name, "is empty; give a value or leave it out");
        }
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

/// For an object that is not taken as a list, which a derived reader would do.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.map(|OnlyObject(value)| value))
}

struct OnlyObject<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OnlyObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("object", names_of::<T>(), OnlyObjectVisitor(PhantomData))
    }
}

struct OnlyObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OnlyObjectVisitor<T> {
    type Value = OnlyObject<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<OnlyObject<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members)).map(OnlyObject)
    }
}

/// For a field that holds any JSON: one copy, and no second look at text that the parser has just passed.
pub(crate) fn payload<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Payload, D::Error> {
    <&'de RawValue>::deserialize(deserializer).map(Payload::from_raw)
}
