//! Masks a provider's credentials in what the provider says.
//!
//! Some providers repeat the request in an error, and their words go far: into the history of jobs, the log,
//! notices and other people's endpoints. So they are masked here first. A credential is found as it is,
//! behind JSON escapes and percent-encoded; where a text was cut in the middle of one, its beginning is found
//! at the end.
//!
//! Absent on purpose: guessing what else may be a credential, encodings that are not used for it (base64,
//! HTML), and values so short that they stand in ordinary words.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use memchr::memmem::Finder;
use recado_core::{Fault, Payload};

/// Bytes at least of a credential: a shorter one is part of too many words.
pub(crate) const SECRET_LEN_MIN_BYTES: usize = 6;
const MASK: &str = "***";
/// Times that JSON escapes are undone: providers quote in their JSON the JSON of others.
const UNESCAPINGS_MAX: usize = 3;

/// Values that must not be repeated.
#[derive(Clone, Default)]
pub struct Secrets(Vec<Finder<'static>>);

impl Secrets {
    /// Those of the values that are long enough to be told from ordinary words.
    pub fn new(values: impl IntoIterator<Item: AsRef<str>>) -> Self {
        let finder = |value: &str| Finder::new(value).into_owned();
        let values = values.into_iter().filter(|value| value.as_ref().len() >= SECRET_LEN_MIN_BYTES);
        Secrets(values.map(|value| finder(value.as_ref())).collect())
    }

    /// The text with `***` in place of each of them. It takes time in proportion to the text.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut spans = Vec::new();
        DecodedText::of(text).each_way(|reading| {
            spans.extend(self.0.iter().flat_map(|secret| reading.find(secret)));
            let cut_short = self.0.iter().filter_map(|secret| reading.find_cut_short(secret));
            spans.extend(cut_short.map(|start| start..text.len()));
        });
        masked(text, spans)
    }

    /// JSON text with `***` in place of each secret; it remains JSON.
    pub fn redact_json(&self, json: Payload) -> Payload {
        if self.0.is_empty() {
            return json;
        }
        let mut clean = String::with_capacity(json.as_str().len());
        let mut rest = json.as_str();
        while !rest.is_empty() {
            let (token, after) = rest.split_at(token_len(rest));
            match token.strip_prefix('"').and_then(|token| token.strip_suffix('"')) {
                Some(string) => clean.extend(["\"", &self.redact_json_string(string), "\""]),
                None if self.holds(token) => clean.extend(["\"", MASK, "\""]),
                None => clean.push_str(token),
            }
            rest = after;
        }
        if clean == json.as_str() { json } else { Payload::trusted(clean) }
    }

    /// Puts `***` in place of each secret in everything that a fault says in the words of others.
    pub fn redact_fault(&self, fault: &mut Fault) {
        let said = [Some(&mut fault.text), fault.code.as_mut(), fault.enhanced.as_mut()];
        for text in said.into_iter().flatten() {
            if let Cow::Owned(clean) = self.redact(text) {
                *text = clean.into();
            }
        }
    }

    fn redact_json_string<'t>(&self, string: &'t str) -> Cow<'t, str> {
        let mut spans = Vec::new();
        // Without a look at the string as it is, which might cut an escape in two.
        DecodedText::of(string).or_unescaped().each_way(|reading| {
            spans.extend(self.0.iter().flat_map(|secret| reading.find(secret)));
        });
        masked(string, spans)
    }

    fn holds(&self, value: &str) -> bool {
        self.0.iter().any(|secret| secret.needle() == value.as_bytes())
    }
}

/// Shows nothing, not even how many there are.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// A text with some of its escapes undone.
struct DecodedText<'t> {
    bytes: Cow<'t, [u8]>,
    /// Position of each byte in the text, and of the last one's end. Empty if nothing was undone.
    places: Vec<usize>,
}

impl<'t> DecodedText<'t> {
    fn of(text: &'t str) -> Self {
        DecodedText { bytes: Cow::Borrowed(text.as_bytes()), places: Vec::new() }
    }

    fn place(&self, index: usize) -> usize {
        self.places.get(index).copied().unwrap_or(index)
    }

    /// Every way to read it, one after the other: as it is, percent-decoded, and either without escapes.
    fn each_way(mut self, mut look: impl FnMut(&DecodedText<'_>)) {
        for _ in 0..=UNESCAPINGS_MAX {
            look(&self);
            if let Some(decoded) = self.decoded(b'%', percent_decode) {
                look(&decoded);
            }
            match self.decoded(b'\\', unescape) {
                Some(next) => self = next,
                None => return,
            }
        }
    }

    fn or_unescaped(self) -> Self {
        self.decoded(b'\\', unescape).unwrap_or(self)
    }

    /// Undoes every escape that begins with `mark`; nothing if there is no such mark.
    fn decoded(&self, mark: u8, decode: Decode) -> Option<DecodedText<'t>> {
        memchr::memchr(mark, &self.bytes)?;
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(&byte) = self.bytes.get(at) {
            let escape_len = if byte == mark { decode(&self.bytes[at..], &mut bytes) } else { None };
            if escape_len.is_none() {
                bytes.push(byte);
            }
            places.resize(bytes.len(), self.place(at));
            at += escape_len.unwrap_or(1);
        }
        places.push(self.place(at));
        Some(DecodedText { bytes: bytes.into(), places })
    }

    fn find(&self, secret: &Finder<'_>) -> impl Iterator<Item = Range<usize>> {
        let len = secret.needle().len();
        secret.find_iter(&self.bytes).map(move |start| self.place(start)..self.place(start + len))
    }

    /// Position of the beginning of a secret whose rest was cut off.
    fn find_cut_short(&self, secret: &Finder<'_>) -> Option<usize> {
        let mut cuts = (SECRET_LEN_MIN_BYTES..secret.needle().len()).rev();
        let cut = cuts.find(|cut| self.bytes.ends_with(&secret.needle()[..*cut]))?;
        Some(self.place(self.bytes.len() - cut))
    }
}

/// Writes what the escape at the beginning stands for, and tells how many bytes it takes.
type Decode = fn(&[u8], &mut Vec<u8>) -> Option<usize>;

fn percent_decode(text: &[u8], bytes: &mut Vec<u8>) -> Option<usize> {
    bytes.push(hex(text.get(1..3)?)? as u8);
    Some(3)
}

fn unescape(text: &[u8], bytes: &mut Vec<u8>) -> Option<usize> {
    let (character, len) = match *text.get(1)? {
        // Half of a pair is no character, and no credential holds one.
        b'u' => (char::from_u32(hex(text.get(2..6)?)?).unwrap_or(char::REPLACEMENT_CHARACTER), 6),
        b'b' => ('\u{8}', 2),
        b'f' => ('\u{c}', 2),
        b'n' => ('\n', 2),
        b'r' => ('\r', 2),
        b't' => ('\t', 2),
        plain @ (b'"' | b'\\' | b'/') => (char::from(plain), 2),
        _ => return None,
    };
    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(len)
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, digit| Some(sum * 16 + char::from(*digit).to_digit(16)?))
}

/// Bytes of the first token: a string, a number or a word, or a single character between them.
fn token_len(json: &str) -> usize {
    let mut escaped = false;
    let ends_string = |byte: u8| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    };
    let in_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let mut bytes = json.bytes();
    match bytes.next() {
        Some(b'"') => bytes.position(ends_string).map_or(json.len(), |end| end + 2),
        Some(first) if in_word(first) => {
            bytes.position(|byte| !in_word(byte)).map_or(json.len(), |end| end + 1)
        }
        _ => 1,
    }
}

fn masked(text: &str, mut spans: Vec<Range<usize>>) -> Cow<'_, str> {
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    spans.sort_unstable_by_key(|span| span.start);
    let (mut clean, mut done) = (String::new(), 0);
    for span in spans {
        if span.start >= done {
            clean.extend([&text[done..span.start], MASK]);
        }
        done = done.max(span.end);
    }
    clean.push_str(&text[done..]);
    Cow::Owned(clean)
}
