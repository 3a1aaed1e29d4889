//! One record as a line: the bytes, what is hashed, and what the next line refers to.
//!
//! ```text
//! {"v":1,"sequence":7,"previous":"…","archivedAt":"…","source":"…","sourceSequence":3,"event":{…},"commitment":"…"   ← body
//!  ,"personal":{"salt":"…",…}                                                                                  ← erasable
//!  ,"hash":"…","signature":"…"}                                                                                ← seal
//! ```
//!
//! - `commitment` is the SHA-256 of the `personal` object, whose salt keeps it from being guessed afterwards.
//! - `hash` is the SHA-256 of the body; the signature, where there is one, is over sequence and hash.
//! - `previous` is the SHA-256 of the seal of the line before, `"hash"` and the closing brace included; in the
//!   first line, zeros.
//!
//! All of it is bytes as they stand, so there is nothing to canonicalise, and no byte that nothing covers. An
//! erasure's line has `"erasure":{…}` instead of source, event, commitment and personal part. Once erased, a
//! personal part reads `{"erasedBy":9}`. `v` is the version of all this: lines of an older one stay as they are.

use recado_core::Timestamp;

use crate::digest::{Hash, Hex};
use crate::erasure::Erasure;
use crate::key::{PublicKey, Purpose, Signature, SigningKey};
use crate::record::{Entry, Facts, Personal};

const START: &[u8] = br#"{"v":1,"sequence":"#;
const PREVIOUS: &[u8] = br#","previous":""#;
const ARCHIVED_AT: &[u8] = br#"","archivedAt":""#;
const SOURCE: &[u8] = br#"","source":""#;
const ERASURE: &[u8] = br#"","erasure":{"#;
const COMMITMENT: &[u8] = br#","commitment":""#;
const PERSONAL: &str = r#","personal":{"#;
const ERASED_BY: &[u8] = br#"{"erasedBy":"#;
const HASH: &[u8] = br#","hash":""#;
const SIGNATURE: &[u8] = br#"","signature":""#;
const END: &[u8] = br#""}"#;

/// `2026-11-15T12:17:52.183Z`
const TIME_LEN: usize = 24;
const HEX_HASH_LEN: usize = 64;
const HEX_SIGNATURE_LEN: usize = 128;

const OUR_JSON: &str = "our own types are JSON";

/// Bytes at a line's end that show whether it is signed.
pub(crate) const SIGNED_SEAL_LEN: usize =
    HASH.len() + HEX_HASH_LEN + SIGNATURE.len() + HEX_SIGNATURE_LEN + END.len();

/// The end of the chain, which the next line continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) sequence: u64,
    /// The SHA-256 of the last line's seal.
    pub(crate) seal: Hash,
}

impl Link {
    pub(crate) const START: Link = Link { sequence: 0, seal: Hash::NONE };
}

/// The statement that a signed line makes: up to here, nothing can change any more. Auditors keep these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    pub sequence: u64,
    pub hash: Hash,
    pub signature: Signature,
}

impl Checkpoint {
    fn sign(sequence: u64, hash: Hash, key: &SigningKey) -> Self {
        let signature = key.sign(Purpose::CHECKPOINT, &Self::content(sequence, hash));
        Checkpoint { sequence, hash, signature }
    }

    fn content(sequence: u64, hash: Hash) -> Vec<u8> {
        format!("{sequence}\n{hash}\n").into_bytes()
    }

    pub(crate) fn is_signed_by(&self, key: &PublicKey) -> bool {
        key.verifies(Purpose::CHECKPOINT, &Self::content(self.sequence, self.hash), &self.signature)
    }

    pub(crate) fn link(&self) -> Link {
        let seal = seal(self.hash, Some(self.signature));
        Link { sequence: self.sequence, seal: Hash::of(&seal) }
    }
}

pub(crate) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect(OUR_JSON)
}

/// From `"hash"` to the closing brace.
fn seal(hash: Hash, signature: Option<Signature>) -> Vec<u8> {
    let mut seal = Vec::with_capacity(SIGNED_SEAL_LEN);
    seal.extend_from_slice(&HASH[1..]);
    seal.extend_from_slice(hash.to_string().as_bytes());
    if let Some(signature) = signature {
        seal.extend_from_slice(SIGNATURE);
        seal.extend_from_slice(signature.to_string().as_bytes());
    }
    seal.extend_from_slice(END);
    seal
}

/// Writes lines one after the other, each continuing the last.
pub(crate) struct Writer<'a> {
    pub(crate) bytes: Vec<u8>,
    pub(crate) link: Link,
    key: &'a SigningKey,
    archived_at: Timestamp,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(link: Link, key: &'a SigningKey, archived_at: Timestamp) -> Self {
        Writer { bytes: Vec::new(), link, key, archived_at }
    }

    /// Writes an event's line up to its seal, and returns the hash of its body.
    pub(crate) fn begin_event(&mut self, entry: &Entry, salt: [u8; 16]) -> Hash {
        let personal = json(&Personal::of(&entry.event, &Hex(salt).to_string()));
        let start = self.begin();
        self.put(&[br#","source":"#]);
        self.put_json(&entry.source);
        self.put(&[br#","sourceSequence":"#]);
        self.put_json(&entry.sequence);
        self.put(&[br#","event":"#]);
        Facts::serialize(&entry.event, &mut serde_json::Serializer::new(&mut self.bytes)).expect(OUR_JSON);
        self.put(&[COMMITMENT, Hash::of(personal.as_bytes()).to_string().as_bytes(), b"\""]);
        let hash = Hash::of(&self.bytes[start..]);
        self.put(&[br#","personal":"#, personal.as_bytes()]);
        hash
    }

    pub(crate) fn erasure(&mut self, erasure: &Erasure) -> Checkpoint {
        let start = self.begin();
        self.put(&[br#","erasure":"#]);
        self.put_json(erasure);
        let hash = Hash::of(&self.bytes[start..]);
        self.end_signed(hash)
    }

    fn begin(&mut self) -> usize {
        let start = self.bytes.len();
        let (sequence, previous, at) = (self.link.sequence + 1, self.link.seal, self.archived_at);
        self.put(&[START]);
        self.put_json(&sequence);
        self.put(&[PREVIOUS, previous.to_string().as_bytes(), br#"","archivedAt":"#]);
        self.put_json(&at);
        start
    }

    pub(crate) fn end_signed(&mut self, hash: Hash) -> Checkpoint {
        let checkpoint = Checkpoint::sign(self.link.sequence + 1, hash, self.key);
        self.end(hash, Some(checkpoint.signature));
        checkpoint
    }

    pub(crate) fn end(&mut self, hash: Hash, signature: Option<Signature>) {
        let seal = seal(hash, signature);
        self.bytes.push(b',');
        self.bytes.extend_from_slice(&seal);
        self.bytes.push(b'\n');
        self.link = Link { sequence: self.link.sequence + 1, seal: Hash::of(&seal) };
    }

    fn put(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
    }

    fn put_json(&mut self, value: &impl serde::Serialize) {
        serde_json::to_writer(&mut self.bytes, value).expect(OUR_JSON);
    }
}

/// A line taken apart. That it has this shape says nothing about whether it is authentic.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) sequence: u64,
    pub(crate) previous: Hash,
    pub(crate) archived_at: &'a str,
    pub(crate) content: SealedContent<'a>,
    pub(crate) hash: Hash,
    pub(crate) signature: Option<Signature>,
    body: &'a [u8],
    seal: &'a [u8],
}

#[derive(Clone, Copy)]
pub(crate) enum SealedContent<'a> {
    Event { commitment: Hash, personal: SealedPersonal<'a> },
    Erasure,
}

#[derive(Clone, Copy)]
pub(crate) enum SealedPersonal<'a> {
    /// The object's bytes.
    Kept(&'a [u8]),
    /// By the record with this sequence.
    Erased(u64),
}

impl<'a> Line<'a> {
    pub(crate) fn read(line: &'a [u8]) -> Option<Self> {
        let rest = line.strip_prefix(START)?;
        let (sequence, rest) = parse_number(rest)?;
        let (previous, rest) = rest.strip_prefix(PREVIOUS)?.split_at_checked(HEX_HASH_LEN)?;
        let (at, rest) = rest.strip_prefix(ARCHIVED_AT)?.split_at_checked(TIME_LEN)?;
        let (front, hash, signature) = split_seal(line)?;
        let seal = &line[front.len() + 1..];
        let (body, content) = if rest.starts_with(ERASURE) {
            (front, SealedContent::Erasure)
        } else if rest.starts_with(SOURCE) {
            split_personal(front)?
        } else {
            return None;
        };
        Some(Line {
            sequence,
            previous: Hash::read(previous)?,
            archived_at: std::str::from_utf8(at).ok()?,
            content,
            hash,
            signature,
            body,
            seal,
        })
    }

    /// Returns true if its hash is that of its body.
    pub(crate) fn is_intact(&self) -> bool {
        Hash::of(self.body) == self.hash
    }

    pub(crate) fn link(&self) -> Link {
        Link { sequence: self.sequence, seal: Hash::of(self.seal) }
    }

    pub(crate) fn checkpoint(&self) -> Option<Checkpoint> {
        let (sequence, hash) = (self.sequence, self.hash);
        self.signature.map(|signature| Checkpoint { sequence, hash, signature })
    }

    /// The same line without its personal part, if it has one.
    pub(crate) fn erased(&self, by: u64) -> Option<Vec<u8>> {
        let SealedContent::Event { personal: SealedPersonal::Kept(_), .. } = self.content else {
            return None;
        };
        let blank = format!(r#","personal":{{"erasedBy":{by}}},"#);
        Some([self.body, blank.as_bytes(), self.seal, b"\n"].concat())
    }
}

impl SealedPersonal<'_> {
    pub(crate) fn fits(&self, commitment: Hash) -> bool {
        match self {
            SealedPersonal::Kept(object) => Hash::of(object) == commitment,
            SealedPersonal::Erased(_) => true,
        }
    }
}

/// Returns true if this could be the end of a signed line, newline left out.
pub(crate) fn ends_signed(line: &[u8]) -> bool {
    split_seal(line).is_some_and(|(_, _, signature)| signature.is_some())
}

/// Splits a line into the body before the seal and the seal's hash and signature.
fn split_seal(line: &[u8]) -> Option<(&[u8], Hash, Option<Signature>)> {
    let rest = line.strip_suffix(END)?;
    let signed = rest.len().checked_sub(HEX_SIGNATURE_LEN).and_then(|at| {
        let (rest, hex) = rest.split_at(at);
        Some((rest.strip_suffix(SIGNATURE)?, hex))
    });
    let (rest, signature) = match signed {
        Some((rest, hex)) => (rest, Some(Hex::read(hex)?)),
        None => (rest, None),
    };
    let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(HEX_HASH_LEN)?)?;
    Some((rest.strip_suffix(HASH)?, Hash::read(hash)?, signature))
}

/// An event's body, and its commitment and personal part.
fn split_personal(front: &[u8]) -> Option<(&[u8], SealedContent<'_>)> {
    // Quotes inside of texts are escaped, so this can only be the key.
    let at = std::str::from_utf8(front).ok()?.find(PERSONAL)?;
    let (body, personal) = (&front[..at], &front[at + PERSONAL.len() - 1..]);
    let (rest, commitment) = body.strip_suffix(b"\"")?.split_at_checked(at.checked_sub(1 + HEX_HASH_LEN)?)?;
    rest.strip_suffix(COMMITMENT)?;
    let personal = match personal.strip_prefix(ERASED_BY) {
        Some(rest) => match parse_number(rest)? {
            (by, b"}") => SealedPersonal::Erased(by),
            _ => return None,
        },
        None => SealedPersonal::Kept(personal),
    };
    Some((body, SealedContent::Event { commitment: Hash::read(commitment)?, personal }))
}

/// A number as we write it: no sign, no leading zero.
fn parse_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at(digits);
    if number.first() == Some(&b'0') {
        return None;
    }
    Some((std::str::from_utf8(number).ok()?.parse().ok()?, rest))
}
