//! The trail's signing key: an ed25519 key, made at first use, and its public half for auditors.
//!
//! Both are PEM, so that `openssl` can read them. Absent on purpose: changing the key of a trail. A trail has
//! one key; for another key, begin another directory.

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::digest::Hex;
use crate::error::{Error, io};
use crate::files::{self, Durability};

/// Prefix of the 32 bytes of an ed25519 key in a SubjectPublicKeyInfo (RFC 8410).
const PUBLIC_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The purpose of a signature, so that none can be passed off as another.
#[derive(Clone, Copy)]
pub(crate) struct Purpose(&'static str);

impl Purpose {
    pub(crate) const CHECKPOINT: Purpose = Purpose("checkpoint");
    pub(crate) const HEAD: Purpose = Purpose("head");
    pub(crate) const ERASURE: Purpose = Purpose("erasure");
    pub(crate) const SUMMARY: Purpose = Purpose("summary");

    fn message(self, content: &[u8]) -> Vec<u8> {
        [b"recado audit ", self.0.as_bytes(), b"\n", content].concat()
    }
}

pub(crate) struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// Reads the key, or makes it where there is none.
    pub(crate) fn load_or_make(path: &Path) -> Result<Self, Error> {
        match Self::load(path) {
            Err(Error::KeyMissing { .. }) => Self::make(path),
            loaded => loaded,
        }
    }

    pub(crate) fn load(path: &Path) -> Result<Self, Error> {
        let text = files::if_there(std::fs::read_to_string(path)).map_err(io(path))?;
        let text = text.ok_or_else(|| Error::KeyMissing { path: path.to_owned() })?;
        let refused = || Error::NotAKey { path: path.to_owned() };
        let der = decode_pem("PRIVATE KEY", &text).ok_or_else(refused)?;
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map(SigningKey).map_err(|_| refused())
    }

    fn make(path: &Path) -> Result<Self, Error> {
        let failed = |_| io(path)(std::io::Error::other("no key could be drawn"));
        let key = Ed25519KeyPair::generate().map_err(failed)?;
        let der = key.to_pkcs8v1().map_err(failed)?;
        let pem = encode_pem("PRIVATE KEY", der.as_ref());
        files::replace(path, Durability::OnDisk, |file| file.write_all(pem.as_bytes()))?;
        Ok(SigningKey(key))
    }

    pub(crate) fn public(&self) -> PublicKey {
        PublicKey(self.0.public_key().as_ref().try_into().expect("an ed25519 key has 32 bytes"))
    }

    pub(crate) fn sign(&self, purpose: Purpose, content: &[u8]) -> Signature {
        let signature = self.0.sign(&purpose.message(content));
        Hex(signature.as_ref().try_into().expect("an ed25519 signature has 64 bytes"))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

/// The key that an auditor keeps, to check who signed. Written and read as PEM.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an ed25519 public key; give the text of the trail's public.pem")]
pub struct NotAPublicKey;

impl PublicKey {
    pub(crate) fn verifies(&self, purpose: Purpose, content: &[u8], signature: &Signature) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(&purpose.message(content), &signature.0).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_pem("PUBLIC KEY", &[&PUBLIC_PREFIX[..], &self.0].concat()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", Hex(self.0))
    }
}

impl FromStr for PublicKey {
    type Err = NotAPublicKey;

    fn from_str(text: &str) -> Result<Self, NotAPublicKey> {
        let der = decode_pem("PUBLIC KEY", text).ok_or(NotAPublicKey)?;
        let key = der.strip_prefix(&PUBLIC_PREFIX).ok_or(NotAPublicKey)?;
        key.try_into().map(PublicKey).map_err(|_| NotAPublicKey)
    }
}

/// An ed25519 signature.
pub type Signature = Hex<64>;

/// Short enough for one line: no key here needs to be folded.
fn encode_pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64_STANDARD.encode(der))
}

fn decode_pem(label: &str, text: &str) -> Option<Vec<u8>> {
    let inner = text.trim().strip_prefix(&format!("-----BEGIN {label}-----"))?;
    let inner = inner.strip_suffix(&format!("-----END {label}-----"))?;
    let encoded: String = inner.split_whitespace().collect();
    BASE64_STANDARD.decode(encoded).ok()
}
