//! Key-value entries: written on the writer's thread, inside its transaction; read by read queries.
//!
//! They are deliberately absent from the index: nothing is scheduled by them, and the file finds one by its key.

use std::borrow::Cow;
use std::path::Path;

use async_trait::async_trait;
use recado_core::checksum::sum_of;
use recado_core::{Payload, Timestamp};
use recado_store::{KeyValue, KvEntry, KvWrite, KvWritten, Namespace, StoreResult};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::rows::{self, Result};
use crate::schema::{self, FILE_NAME};
use crate::store::inspect::open_reader;
use crate::store::{EmbeddedStore, OpenError};
use crate::writer::apply::{PRUNE_ROWS_MAX, WriteTransaction};
use crate::writer::request::RequestKind;

impl WriteTransaction<'_, '_> {
    pub fn kv_write(&mut self, writes: Vec<KvWrite>, now: Timestamp) -> Result<Vec<KvWritten>> {
        let mut answers = Vec::with_capacity(writes.len());
        for write in writes {
            let written = self.write_entry(&write, now)?;
            if matches!(written, KvWritten::Done { .. }) {
                self.record(&write.audit)?;
            }
            answers.push(written);
        }
        Ok(answers)
    }

    fn write_entry(&self, write: &KvWrite, now: Timestamp) -> Result<KvWritten> {
        let (namespace, key) = (write.namespace.as_str(), &*write.key);
        let current = read_entry(self.file, write.namespace, key, now)?.map_or(0, |entry| entry.version);
        if write.expect.is_some_and(|expected| expected != current) {
            return Ok(KvWritten::Conflict { version: current });
        }
        let version = match &write.value {
            None => {
                self.execute("DELETE FROM notes WHERE shelf = ?1 AND key = ?2", [namespace, key])?;
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

    /// Removes entries whose time is over, a bounded number at a time.
    pub fn prune_entries(&self, now: Timestamp) -> Result<u64> {
        let removed = self.execute(
            "DELETE FROM notes WHERE version IN \
             (SELECT version FROM notes WHERE expiresAt <= ?1 ORDER BY expiresAt LIMIT ?2)",
            params![now.as_millis(), PRUNE_ROWS_MAX as i64],
        )?;
        Ok(removed as u64)
    }
}

/// Entries of a namespace whose time is not over.
const SELECT_ENTRIES: &str = "SELECT key, value, version, expiresAt, checksum FROM notes \
     WHERE shelf = ?1 AND (expiresAt IS NULL OR expiresAt > ?2)";

fn read_entry(file: &Connection, namespace: Namespace, key: &str, now: Timestamp) -> Result<Option<KvEntry>> {
    file.prepare_cached(&format!("{SELECT_ENTRIES} AND key = ?3"))?
        .query_row(params![namespace.as_str(), now.as_millis(), key], |row| parse_entry(row, namespace))
        .optional()
        .map(Option::flatten)
}

/// Reads a namespace of the store in this directory, which need not be open, and changes nothing. Empty where there is
/// no store.
pub fn peek_entries(dir: &Path, namespace: Namespace) -> std::result::Result<Vec<KvEntry>, OpenError> {
    let path = dir.join(FILE_NAME);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let peek = || {
        let file = open_reader(&path)?;
        // The first version had no such table.
        if schema::read_version(&file)? < 2 {
            return Ok(Vec::new());
        }
        let mut select =
            file.prepare("SELECT key, value, version, expiresAt, NULL FROM notes WHERE shelf = ?1")?;
        let found = select.query_map([namespace.as_str()], |row| parse_entry(row, namespace))?;
        Ok(found.filter_map(Result::transpose).collect::<Result<_>>()?)
    };
    peek().map_err(|error| OpenError::Schema { path: path.clone(), error })
}

#[async_trait]
impl KeyValue for EmbeddedStore {
    async fn kv_write(&self, writes: Vec<KvWrite>, now: Timestamp) -> StoreResult<Vec<KvWritten>> {
        self.write(RequestKind::Other, move |transaction| transaction.kv_write(writes, now)).await
    }

    async fn kv_get(&self, namespace: Namespace, key: &str, now: Timestamp) -> StoreResult<Option<KvEntry>> {
        let key: Box<str> = key.into();
        self.readers.query(move |file| read_entry(file, namespace, &key, now)).await
    }

    async fn kv_list(&self, namespace: Namespace, now: Timestamp) -> StoreResult<Vec<KvEntry>> {
        self.readers
            .query(move |file| {
                let mut select = file.prepare_cached(&format!("{SELECT_ENTRIES} ORDER BY key"))?;
                let values = params![namespace.as_str(), now.as_millis()];
                let found = select.query_map(values, |row| parse_entry(row, namespace))?;
                found.filter_map(Result::transpose).collect()
            })
            .await
    }
}

/// Reads a row. A damaged entry is as good as none: an address that changed in the file must not be sent to.
fn parse_entry(row: &Row<'_>, namespace: Namespace) -> Result<Option<KvEntry>> {
    let (key, value) = (rows::text(row, 0), rows::text(row, 1));
    let checksum: Option<u32> = row.get(4)?;
    let is_text = matches!((&key, &value), (Cow::Borrowed(_), Cow::Borrowed(_)));
    if !is_text || checksum.is_some_and(|checksum| checksum != checksum_of(namespace, &key, &value)) {
        tracing::error!(
            namespace = namespace.as_str(),
            key = &*key,
            "A stored key-value entry is damaged; it is left out"
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
