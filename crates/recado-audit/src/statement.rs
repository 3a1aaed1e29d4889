//! Small signed files beside the segments.
//!
//! `{"statement":{…},"signature":"…"}`: the signature is over the statement's bytes as they stand.

use std::io::Write;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Error;
use crate::files::{self, Durability};
use crate::key::{PublicKey, Purpose, Signature};
use crate::line::json;
use crate::trail::Trail;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow)]
    statement: &'a RawValue,
    signature: Signature,
}

impl Trail {
    pub(crate) fn write_statement(
        &self,
        path: &Path,
        purpose: Purpose,
        statement: &impl Serialize,
        durability: Durability,
    ) -> Result<(), Error> {
        let statement = json(statement);
        let signature = self.key.sign(purpose, statement.as_bytes());
        files::replace(path, durability, |file| {
            writeln!(file, r#"{{"statement":{statement},"signature":"{signature}"}}"#)
        })
    }
}

/// Reads the statement of a file, if this key signed it for this purpose.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8], purpose: Purpose, key: &PublicKey) -> Option<T> {
    let envelope: Envelope<'_> = serde_json::from_slice(bytes).ok()?;
    let statement = envelope.statement.get();
    if !key.verifies(purpose, statement.as_bytes(), &envelope.signature) {
        return None;
    }
    serde_json::from_str(statement).ok()
}
