//! Key-value entries: small values with versions, all in one slot. The audit records of their writes are in that slot,
//! too, as the trail's last part: no script could write to another slot in the same step.
//!
//! Their keys are named after notes and shelves, as the first version called entries and namespaces.

use async_trait::async_trait;
use recado_core::{Payload, Timestamp};
use recado_store::{KeyValue, KvEntry, KvWrite, KvWritten, Namespace, StoreResult, Waker};

use crate::codec::bytes::Reader;
use crate::codec::keys::Root;
use crate::codec::record::json;
use crate::format;
use crate::link::{Link, OpenError, RedisOptions, ScriptCall};
use crate::store::RedisStore;

/// The part of the keys that key-value entries have.
pub const KV_PART: &str = "notes";

/// Writes at most in one call: no other client is served while a script runs.
const CALL_WRITES_MAX: usize = 500;

#[async_trait]
impl KeyValue for RedisStore {
    async fn kv_write(&self, writes: Vec<KvWrite>, now: Timestamp) -> StoreResult<Vec<KvWritten>> {
        let written = self.write_kv(&writes, now).await?;
        if written.iter().any(|written| matches!(written, KvWritten::Done { .. })) {
            self.wakeups.announce_kv(&self.link);
        }
        self.copy_circuits(&writes, &written, now).await;
        Ok(written)
    }

    fn kv_changes(&self) -> Option<Waker> {
        Some(self.wakeups.kv_waker())
    }

    async fn kv_get(&self, namespace: Namespace, key: &str, now: Timestamp) -> StoreResult<Option<KvEntry>> {
        let mut command = redis::cmd("HGET");
        command.arg(namespace_key(&self.kv_root, namespace)).arg(key);
        let found: Option<Vec<u8>> = self.link.command(&command).await?;
        let entry = found.and_then(|value| read_or_report(namespace, key, &value));
        Ok(entry.filter(|entry| entry.is_there(now)))
    }

    async fn kv_list(&self, namespace: Namespace, now: Timestamp) -> StoreResult<Vec<KvEntry>> {
        read_entries(&self.link, &self.kv_root, namespace, now).await
    }

    async fn kv_versions(&self, namespaces: &[Namespace]) -> StoreResult<Vec<Option<u64>>> {
        let mut command = redis::cmd("HMGET");
        command.arg(self.kv_root.key("shelves"));
        for namespace in namespaces {
            command.arg(namespace.as_str());
        }
        let found: Vec<Option<u64>> = self.link.command(&command).await?;
        // A namespace without a write yet has none.
        Ok(found.into_iter().map(|version| version.or(Some(0))).collect())
    }
}

impl RedisStore {
    async fn write_kv(&self, writes: &[KvWrite], now: Timestamp) -> StoreResult<Vec<KvWritten>> {
        let mut answers = Vec::with_capacity(writes.len());
        for some in writes.chunks(CALL_WRITES_MAX) {
            let mut call = self.call_on_kv(&self.scripts.kv_write);
            call.arg(now.as_millis());
            for write in some {
                push_write(write, &mut call)?;
            }
            let written: Vec<(bool, u64)> = self.link.run(&call).await?;
            answers.extend(written.into_iter().map(|(is_done, version)| match is_done {
                true => KvWritten::Done { version },
                false => KvWritten::Conflict { version },
            }));
        }
        Ok(answers)
    }

    pub(crate) async fn prune_kv(&self, max: i64, now: Timestamp) -> StoreResult<u64> {
        self.link.run(self.call_on_kv(&self.scripts.kv_prune).arg(now.as_millis()).arg(max)).await
    }

    /// Reads a namespace of the store, which need not be open, and changes nothing. An error where the store could not be
    /// opened with these options.
    pub async fn peek_entries(
        link: &Link,
        options: &RedisOptions,
        namespace: Namespace,
        now: Timestamp,
    ) -> Result<Vec<KvEntry>, OpenError> {
        let root = Root::of(&options.prefix, KV_PART);
        format::peek(link, &root, options.partitions).await?;
        Ok(read_entries(link, &root, namespace, now).await?)
    }
}

fn namespace_key(root: &Root, namespace: Namespace) -> Vec<u8> {
    root.key(&format!("shelf:{}", namespace.as_str()))
}

async fn read_entries(
    link: &Link,
    root: &Root,
    namespace: Namespace,
    now: Timestamp,
) -> StoreResult<Vec<KvEntry>> {
    let mut command = redis::cmd("HGETALL");
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = link.command(command.arg(namespace_key(root, namespace))).await?;
    let mut entries = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        let entry = read_or_report(namespace, &String::from_utf8_lossy(&key), &value);
        entries.extend(entry.filter(|entry| entry.is_there(now)));
    }
    entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Ok(entries)
}

fn push_write(write: &KvWrite, call: &mut ScriptCall<'_>) -> StoreResult<()> {
    let value = write.value.as_ref().map_or("", Payload::as_str);
    call.arg(write.namespace.as_str()).arg(&*write.key).arg(write.value.is_some()).arg(value);
    call.arg(write.expect.map(|version| version.to_string()).unwrap_or_default());
    call.arg(write.expires_at.map(|at| at.as_millis().to_string()).unwrap_or_default());
    call.arg(write.audit.len());
    for event in &write.audit {
        call.arg(json(event)?);
    }
    Ok(())
}

/// Reads an entry. A damaged one is left out, and the log says so.
fn read_or_report(namespace: Namespace, key: &str, bytes: &[u8]) -> Option<KvEntry> {
    let entry = read_entry(key, bytes);
    if entry.is_none() {
        tracing::error!(
            namespace = namespace.as_str(),
            key,
            "A stored key-value entry is damaged; it is left out"
        );
    }
    entry
}

/// Reads an entry as `kv_write.lua` writes it: version, end or zero, value.
fn read_entry(key: &str, bytes: &[u8]) -> Option<KvEntry> {
    let mut value = Reader(bytes);
    let version = value.fixed(7)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let expires_at = value.time()?;
    let text = std::str::from_utf8(value.0).ok()?;
    Some(KvEntry {
        key: key.into(),
        value: Payload::trusted(text),
        version,
        expires_at: (expires_at.as_millis() > 0).then_some(expires_at),
    })
}
