//! Reads a job's `data`, and reports every fault at once with its place.
//!
//! A reader takes what it needs from an [`Object`] and goes on after a fault; [`read`] hands out a value
//! only when there was none. Messages name fields and say what to write instead; they never repeat a
//! value, because the same words end up in logs and in the dead letter queue. An explicit `null` counts
//! as a field left out. Absent on purpose: a schema language.

use std::borrow::Cow;
use std::cell::RefCell;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use recado_core::json::{JsonKind, Members};
use recado_core::reason::clip;
use recado_core::{Fault, Payload};
use serde_json::value::RawValue;

use crate::DataFault;

pub use recado_core::json::Text;

/// Faults listed at most.
const FAULTS_TOLD_MAX: usize = 100;
/// Bytes at most of an unknown name that are compared with the known ones.
const NAME_COMPARED_MAX_BYTES: usize = 64;

/// Runs `reader` over `data`, which has to be an object.
pub fn read<'a, T>(
    data: &'a Payload,
    reader: impl FnOnce(&Object<'a, '_>) -> Option<T>,
) -> Result<T, Vec<DataFault>> {
    let faults = RefCell::default();
    let value = match Object::open(data.as_str(), String::new(), &faults) {
        Some(object) => reader(&object),
        None => None,
    };
    match (value, faults.into_inner()) {
        (Some(value), faults) if faults.is_empty() => Ok(value),
        (_, faults) => Err(faults),
    }
}

/// The fault of a job whose data passed the check and turned out unusable after all.
pub fn unusable(faults: &[DataFault]) -> Fault {
    let lines: Vec<_> =
        faults.iter().map(|fault| format!("data{} {}", fault.pointer, fault.message)).collect();
    Fault::invalid_payload(&lines.join("; "))
}

/// One JSON object within `data`, its members still unread.
#[derive(Debug)]
pub struct Object<'a, 'f> {
    pointer: String,
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
    faults: &'f RefCell<Vec<DataFault>>,
}

impl<'a, 'f> Object<'a, 'f> {
    fn open(json: &'a str, pointer: String, faults: &'f RefCell<Vec<DataFault>>) -> Option<Self> {
        let members = serde_json::from_str::<Members<'a>>(json);
        let object = Object { pointer, members: Vec::new(), faults };
        match members {
            Ok(Members(members)) => {
                let object = Object { members, ..object };
                object.refuse_repetitions();
                Some(object)
            }
            Err(_) => {
                object.fault_here(describe_instead(json, "an object"));
                None
            }
        }
    }

    fn refuse_repetitions(&self) {
        let mut names: Vec<_> = self.members.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        let repeated = names.chunk_by(|a, b| a == b).filter(|same| same.len() > 1);
        repeated.for_each(|same| self.fault(same[0], "is given more than once; keep one of them"));
    }

    /// Notes what is wrong with a member, present or missing.
    pub fn fault(&self, name: &str, message: impl Into<String>) {
        self.fault_at(&name.replace('~', "~0").replace('/', "~1"), message);
    }

    /// Notes what is wrong at a JSON pointer below this object, written without its first slash.
    pub fn fault_at(&self, below: &str, message: impl Into<String>) {
        self.note(format!("{}/{below}", self.pointer), message.into());
    }

    /// Notes what is wrong with the object as a whole.
    pub fn fault_here(&self, message: impl Into<String>) {
        self.note(self.pointer.clone(), message.into());
    }

    fn note(&self, pointer: String, message: String) {
        let mut faults = self.faults.borrow_mut();
        if faults.len() < FAULTS_TOLD_MAX {
            faults.push(DataFault { pointer, message });
        }
    }

    /// Refuses every member that is not one of `known`.
    pub fn allow_only(&self, known: &[&str]) {
        let unknown = self.members.iter().filter(|(name, _)| !known.contains(&&**name));
        for (name, _) in unknown.take(FAULTS_TOLD_MAX) {
            self.fault(name, format!("is not a field here; {}", suggest(name, known)));
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.members().find_map(|(member, raw)| (member == name).then_some(raw))
    }

    pub fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.members.iter().filter(|(_, raw)| raw.get() != "null").map(|(name, raw)| (&**name, *raw))
    }

    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        let raw = self.get(name)?.get();
        match serde_json::from_str::<Text<'a>>(raw) {
            Ok(Text(text)) => Some(text),
            Err(_) => {
                self.fault(name, describe_instead(raw, "a string"));
                None
            }
        }
    }

    /// A string that has to be there and to say something.
    pub fn words(&self, name: &str, such_as: &str) -> Option<Cow<'a, str>> {
        if !self.has(name) {
            self.fault(name, format!("is missing; write a string, such as \"{such_as}\""));
        }
        let text = self.text(name)?;
        if text.trim().is_empty() {
            self.fault(name, format!("is empty; write a string, such as \"{such_as}\""));
            return None;
        }
        Some(text)
    }

    /// One of a few words, in any case.
    pub fn choice<'c>(&self, name: &str, choices: &[&'c str]) -> Option<&'c str> {
        let text = self.text(name)?;
        let chosen = choices.iter().find(|choice| choice.eq_ignore_ascii_case(&text));
        if chosen.is_none() {
            self.fault(name, format!("is not one of the choices; {}", suggest(&text, choices)));
        }
        chosen.copied()
    }

    pub fn object(&self, name: &str) -> Option<Object<'a, 'f>> {
        Object::open(self.get(name)?.get(), format!("{}/{name}", self.pointer), self.faults)
    }

    pub fn list(&self, name: &str, such_as: &str) -> Option<Vec<&'a RawValue>> {
        let raw = self.get(name)?.get();
        let list = serde_json::from_str(raw).ok();
        if list.is_none() {
            self.fault(name, format!("{}, such as {such_as}", describe_instead(raw, "a list")));
        }
        list
    }

    pub fn base64(&self, name: &str) -> Option<Vec<u8>> {
        let text = self.text(name)?;
        match BASE64_STANDARD.decode(&*text) {
            Ok(bytes) => Some(bytes),
            Err(_) => {
                self.fault(
                    name,
                    "is not base64; use the standard alphabet with padding, and no `data:` prefix",
                );
                None
            }
        }
    }
}

/// Describes JSON text that holds something else than wanted.
pub fn describe_instead(json: &str, wanted: &str) -> String {
    let kind = JsonKind::of(json).as_str();
    // The one thing that is well formed and yet cannot be read: half of a surrogate pair.
    if kind == wanted {
        r"holds a broken \u escape; write the character itself".to_owned()
    } else {
        format!("is {kind}; write {wanted}")
    }
}

fn suggest(given: &str, known: &[&str]) -> String {
    let given = clip(given, NAME_COMPARED_MAX_BYTES).to_ascii_lowercase();
    let distance = |name: &str| strsim::osa_distance(&given, &name.to_ascii_lowercase());
    match known.iter().min_by_key(|name| distance(name)) {
        Some(near) if distance(near) <= 2 => format!("did you mean `{near}`?"),
        _ => format!("there is {}", known.join(", ")),
    }
}
