//! One entry of the store, changed by compare-and-set.

use recado_core::{AuditEvent, Payload, Timestamp};
use recado_store::{KeyValue, KvEntry, KvWrite, KvWritten, Namespace, StoreError, StoreResult};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Tries at a compare-and-set before giving up; each loss means that another writer won.
pub(crate) const WRITE_TRIES_MAX: usize = 32;

/// The namespace and key of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryKey<'a> {
    pub namespace: Namespace,
    pub key: &'a str,
}

/// A change of an entry, and what it puts on record.
pub(crate) struct Edit<T> {
    /// Absent to remove the entry.
    pub value: Option<T>,
    pub expires_at: Option<Timestamp>,
    pub audit: Vec<AuditEvent>,
}

/// An entry before and after an update.
pub(crate) struct Updated<T> {
    pub found: Option<T>,
    /// The value that the store has now, with its version; absent when it was removed or kept.
    pub written: Option<(T, u64)>,
}

/// Reads an entry, has `change` make an edit of it, and writes that if the entry is still the one that was read; again
/// when another writer was faster. Without an edit nothing is written. A value that cannot be read counts as absent.
pub(crate) async fn update_entry<T: Serialize + DeserializeOwned>(
    kv: &dyn KeyValue,
    key: EntryKey<'_>,
    now: Timestamp,
    mut change: impl FnMut(Option<&T>) -> Option<Edit<T>>,
) -> StoreResult<Updated<T>> {
    for _ in 0..WRITE_TRIES_MAX {
        let entry = kv.kv_get(key.namespace, key.key, now).await?;
        let found: Option<T> = entry.as_ref().and_then(read_entry);
        let Some(Edit { value, expires_at, audit }) = change(found.as_ref()) else {
            return Ok(Updated { found, written: None });
        };
        let write = write_of(key, value.as_ref(), Some(version_of(entry.as_ref())))?;
        if let Some(version) = write_entry(kv, KvWrite { expires_at, audit, ..write }, now).await? {
            return Ok(Updated { found, written: value.map(|value| (value, version)) });
        }
    }
    Err(StoreError::Unavailable("an entry kept changing while it was written".to_owned()))
}

/// Returns the version of an entry; zero when there is none.
pub(crate) fn version_of(entry: Option<&KvEntry>) -> u64 {
    entry.map_or(0, |entry| entry.version)
}

/// Reads an entry's value; `None` when it is of another form.
pub(crate) fn read_entry<T: DeserializeOwned>(entry: &KvEntry) -> Option<T> {
    entry.value.parse().ok()
}

/// Makes the write of a value, or of its removal, on top of a version; on top of whatever is there when `expect` is
/// absent.
pub(crate) fn write_of(
    key: EntryKey<'_>,
    value: Option<&impl Serialize>,
    expect: Option<u64>,
) -> StoreResult<KvWrite> {
    let json = |value| {
        serde_json::to_string(value)
            .map(Payload::trusted)
            .map_err(|error| StoreError::Unavailable(format!("cannot write an entry: {error}")))
    };
    Ok(KvWrite {
        namespace: key.namespace,
        key: key.key.into(),
        value: value.map(json).transpose()?,
        expect,
        expires_at: None,
        audit: Vec::new(),
    })
}

/// Writes one entry and returns its new version; `None` when another writer was faster.
pub(crate) async fn write_entry(
    kv: &dyn KeyValue,
    write: KvWrite,
    now: Timestamp,
) -> StoreResult<Option<u64>> {
    match kv.kv_write(vec![write], now).await?.first() {
        Some(KvWritten::Done { version }) => Ok(Some(*version)),
        Some(KvWritten::Conflict { .. }) => Ok(None),
        None => Err(StoreError::Unavailable("the store answered no result".to_owned())),
    }
}
