//! One entry of the store, changed by compare-and-set.

use recado_core::{AuditEvent, Payload, Timestamp};
use recado_store::{KeyValue, KvEntry, KvWrite, KvWritten, Namespace, StoreError};
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

/// A change of an entry, and what the caller hears of it.
pub(crate) enum Edit<T, R> {
    Write {
        value: T,
        expires_at: Option<Timestamp>,
        audit: Vec<AuditEvent>,
        result: R,
    },
    Remove {
        audit: Vec<AuditEvent>,
        result: R,
    },
    /// Nothing is written.
    Keep(R),
}

/// An entry after an update.
pub(crate) struct Updated<T, R> {
    /// The value that the store has now, with its version; absent when it was removed or kept.
    pub written: Option<(T, u64)>,
    pub result: R,
}

/// Reads an entry, has `change` make an edit of it, and writes that if the entry is still the one that was read; again
/// when another writer was faster. A value that cannot be read counts as absent.
pub(crate) async fn update_entry<T: Serialize + DeserializeOwned, R>(
    kv: &dyn KeyValue,
    key: EntryKey<'_>,
    now: Timestamp,
    mut change: impl FnMut(Option<T>) -> Edit<T, R>,
) -> Result<Updated<T, R>, StoreError> {
    for _ in 0..WRITE_TRIES_MAX {
        let found = kv.kv_get(key.namespace, key.key, now).await?;
        let version = version_of(found.as_ref());
        let edit = change(found.as_ref().and_then(read_entry));
        let (value, expires_at, audit, result) = match edit {
            Edit::Write { value, expires_at, audit, result } => (Some(value), expires_at, audit, result),
            Edit::Remove { audit, result } => (None, None, audit, result),
            Edit::Keep(result) => return Ok(Updated { written: None, result }),
        };
        let write = KvWrite { expires_at, audit, ..write_of(key, value.as_ref(), Some(version))? };
        if let Some(version) = write_entry(kv, write, now).await? {
            return Ok(Updated { written: value.map(|value| (value, version)), result });
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
) -> Result<KvWrite, StoreError> {
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
) -> Result<Option<u64>, StoreError> {
    match kv.kv_write(vec![write], now).await?.first() {
        Some(KvWritten::Done { version }) => Ok(Some(*version)),
        Some(KvWritten::Conflict { .. }) => Ok(None),
        None => Err(StoreError::Unavailable("the store answered no result".to_owned())),
    }
}
