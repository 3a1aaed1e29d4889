//! Notes: written on the writer's thread, inside its transaction; read by the readers.
//!
//! They are deliberately absent from the index: nothing is scheduled by them, and the file finds one by its key.

use std::borrow::Cow;

use recado_core::checksum::sum_of;
use recado_core::{Payload, Timestamp};
use recado_store::{KvEntry, KvWrite, KvWritten, Namespace};
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::apply::{Apply, PRUNE_ROWS_MAX};
use crate::rows;

impl Apply<'_> {
    pub fn kv_write(&mut self, writes: Vec<KvWrite>, now: Timestamp) -> Result<Vec<KvWritten>> {
        let mut answers = Vec::with_capacity(writes.len());
        for write in writes {
            let noted = self.write_note(&write, now)?;
            if matches!(noted, KvWritten::Done { .. }) {
                self.record(&write.audit)?;
            }
            answers.push(noted);
        }
        Ok(answers)
    }

    fn write_note(&self, write: &KvWrite, now: Timestamp) -> Result<KvWritten> {
        let (namespace, key) = (write.namespace.as_str(), &*write.key);
        let current = note(self.file, write.namespace, key, now)?.map_or(0, |note| note.version);
        if write.expect.is_some_and(|expected| expected != current) {
            return Ok(KvWritten::Conflict { version: current });
        }
        let version = match &write.value {
            None => {
                self.file
                    .prepare_cached("DELETE FROM notes WHERE shelf = ?1 AND key = ?2")?
                    .execute([namespace, key])?;
                0
            }
            Some(value) => self
                .file
                .prepare_cached(
                    "INSERT OR REPLACE INTO notes (shelf, key, value, expiresAt, checksum) \
                     VALUES (?1, ?2, ?3, ?4, ?5) RETURNING version",
                )?
                .query_row(
                    params![
                        namespace,
                        key,
                        value.as_str(),
                        write.expires_at.map(Timestamp::as_millis),
                        checksum_of(write.namespace, key, value.as_str()),
                    ],
                    |row| row.get(0),
                )?,
        };
        Ok(KvWritten::Done { version })
    }

    /// Removes notes whose time is over, a bounded number at a time.
    pub fn prune_notes(&self, now: Timestamp) -> Result<u64> {
        let removed = self
            .file
            .prepare_cached(
                "DELETE FROM notes WHERE version IN \
                 (SELECT version FROM notes WHERE expiresAt <= ?1 ORDER BY expiresAt LIMIT ?2)",
            )?
            .execute(params![now.as_millis(), PRUNE_ROWS_MAX as i64])?;
        Ok(removed as u64)
    }
}

pub fn note(file: &Connection, namespace: Namespace, key: &str, now: Timestamp) -> Result<Option<KvEntry>> {
    file.prepare_cached(
        "SELECT key, value, version, expiresAt, checksum FROM notes \
         WHERE shelf = ?1 AND key = ?2 AND (expiresAt IS NULL OR expiresAt > ?3)",
    )?
    .query_row(params![namespace.as_str(), key, now.as_millis()], |row| read(row, namespace))
    .optional()
    .map(Option::flatten)
}

pub fn notes(file: &Connection, namespace: Namespace, now: Timestamp) -> Result<Vec<KvEntry>> {
    let mut select = file.prepare_cached(
        "SELECT key, value, version, expiresAt, checksum FROM notes \
         WHERE shelf = ?1 AND (expiresAt IS NULL OR expiresAt > ?2) ORDER BY key",
    )?;
    let found = select.query_map(params![namespace.as_str(), now.as_millis()], |row| read(row, namespace))?;
    found.filter_map(Result::transpose).collect()
}

/// A damaged note is as good as none: an address that changed in the file must not be sent to.
fn read(row: &Row<'_>, namespace: Namespace) -> Result<Option<KvEntry>> {
    let (key, value) = (rows::text(row, 0), rows::text(row, 1));
    let checksum: Option<u32> = row.get(4)?;
    let is_text = matches!((&key, &value), (Cow::Borrowed(_), Cow::Borrowed(_)));
    if !is_text || checksum.is_some_and(|checksum| checksum != checksum_of(namespace, &key, &value)) {
        tracing::error!(
            namespace = namespace.as_str(),
            key = &*key,
            "a stored note is damaged; it is left out"
        );
        return Ok(None);
    }
    Ok(Some(KvEntry {
        value: Payload::trusted(value),
        key: key.into(),
        version: row.get(2)?,
        expires_at: row.get::<_, Option<i64>>(3)?.map(Timestamp::from_millis),
    }))
}

fn checksum_of(namespace: Namespace, key: &str, value: &str) -> u32 {
    sum_of(&[Some(namespace.as_str()), Some(key), Some(value)])
}
