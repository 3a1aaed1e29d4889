//! Key-value entries: small values with versions, all in one slot. The audit records of their writes are in that slot,
//! too, as the trail's last part: no script could write to another slot in the same step.
//!
//! Their keys are named after notes and shelves, as the first version called entries and namespaces.

use async_trait::async_trait;
use recado_core::{Payload, Timestamp};
use recado_store::{KeyValue, KvEntry, KvWrite, KvWritten, Namespace, StoreError, Waker};

use crate::codec::answer::Answer;
use crate::codec::bytes::Reader;
use crate::codec::record::json;
use crate::link::Arg;
use crate::store::RedisStore;

/// Writes at most in one call: no other client is served while a script runs.
const CALL_WRITES_MAX: usize = 500;

#[async_trait]
impl KeyValue for RedisStore {
    async fn kv_write(&self, writes: Vec<KvWrite>, now: Timestamp) -> Result<Vec<KvWritten>, StoreError> {
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

    async fn kv_get(
        &self,
        namespace: Namespace,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KvEntry>, StoreError> {
        let name = self.namespace_key(namespace);
        let mut command = redis::cmd("HGET");
        command.arg(&name).arg(key);
        let found = Answer(self.link.command(&command, &name).await?).there();
        let entry =
            found.map(Answer::bytes).transpose()?.and_then(|value| read_or_report(namespace, key, &value));
        Ok(entry.filter(|entry| entry.is_there(now)))
    }

    async fn kv_list(&self, namespace: Namespace, now: Timestamp) -> Result<Vec<KvEntry>, StoreError> {
        let name = self.namespace_key(namespace);
        let mut command = redis::cmd("HGETALL");
        command.arg(&name);
        let pairs = match self.link.command(&command, &name).await? {
            redis::Value::Map(pairs) => pairs,
            other => {
                let list = Answer(other).list()?;
                let mut flat = list.into_iter().map(|answer| answer.0);
                std::iter::from_fn(|| flat.next().zip(flat.next())).collect()
            }
        };
        let mut entries = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let (key, value) = (Answer(key).bytes()?, Answer(value).bytes()?);
            let entry = read_or_report(namespace, &String::from_utf8_lossy(&key), &value);
            entries.extend(entry.filter(|entry| entry.is_there(now)));
        }
        entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    async fn kv_versions(&self, namespaces: &[Namespace]) -> Result<Vec<Option<u64>>, StoreError> {
        let key = self.kv_root.key("shelves");
        let mut command = redis::cmd("HMGET");
        command.arg(&key);
        for namespace in namespaces {
            command.arg(namespace.as_str());
        }
        let found = Answer(self.link.command(&command, &key).await?).list()?;
        // A namespace without a write yet has none.
        found.into_iter().map(|version| version.there().map_or(Ok(0), Answer::count).map(Some)).collect()
    }
}

impl RedisStore {
    async fn write_kv(&self, writes: &[KvWrite], now: Timestamp) -> Result<Vec<KvWritten>, StoreError> {
        let mut answers = Vec::with_capacity(writes.len());
        for some in writes.chunks(CALL_WRITES_MAX) {
            let mut args = vec![Arg::Int(now.as_millis())];
            for write in some {
                push_write(write, &mut args)?;
            }
            for answer in self.run_on_kv(&self.scripts.kv_write, &args).await?.list()? {
                let [done, version] = answer.parts()?;
                let (done, version) = (done.yes()?, version.count()?);
                answers.push(if done {
                    KvWritten::Done { version }
                } else {
                    KvWritten::Conflict { version }
                });
            }
        }
        Ok(answers)
    }

    pub(crate) async fn prune_kv(&self, max: i64, now: Timestamp) -> Result<u64, StoreError> {
        let args = [Arg::Int(now.as_millis()), Arg::Int(max)];
        self.run_on_kv(&self.scripts.kv_prune, &args).await?.count()
    }

    fn namespace_key(&self, namespace: Namespace) -> Vec<u8> {
        self.kv_root.key(&format!("shelf:{}", namespace.as_str()))
    }
}

fn push_write<'a>(write: &'a KvWrite, args: &mut Vec<Arg<'a>>) -> Result<(), StoreError> {
    let number = |number: Option<i64>| number.map_or(Arg::from(""), Arg::Int);
    args.push(Arg::from(write.namespace.as_str()));
    args.push(Arg::from(&*write.key));
    args.push(Arg::Int(i64::from(write.value.is_some())));
    args.push(Arg::from(write.value.as_ref().map_or("", Payload::as_str)));
    args.push(number(write.expect.map(|version| i64::try_from(version).unwrap_or(i64::MAX))));
    args.push(number(write.expires_at.map(Timestamp::as_millis)));
    args.push(Arg::Int(write.audit.len() as i64));
    for event in &write.audit {
        args.push(Arg::from(json(event)?));
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
