//! Breakers as plain keys: `circuit:<provider>:state`, `:failures` and `:last_failure`, plain texts that
//! people and their scripts can `GET`.
//!
//! A copy for reading. The breaker itself is a key-value entry, changed at the version that its writer knows; here it is
//! written again whenever the entry was. A copy that cannot be written is not worth a refusal.

use std::time::Duration;

use recado_core::Timestamp;
use recado_core::breaker::Breaker;
use recado_store::{KeyValue, KvWrite, KvWritten, StoreResult};
use redis::{Cmd, Value};
use serde::Deserialize;

use crate::store::RedisStore;

/// The namespace of what nodes agree on about providers.
const PROVIDERS: &str = "providers";

/// Failures count for a minute.
const FAILURES_LAST: Duration = Duration::from_secs(60);

/// Most copies after one write. A writer that stops here was overtaken every time, by others that copy, too.
const COPIES_MAX: usize = 16;

/// A provider without further writes is forgotten after this.
const STATE_LASTS: Duration = Duration::from_secs(30 * 24 * 3_600);

#[derive(Deserialize)]
struct ProviderEntry {
    breaker: Breaker,
}

impl RedisStore {
    /// Copies what was written about breakers.
    pub(crate) async fn copy_circuits(&self, writes: &[KvWrite], written: &[KvWritten], now: Timestamp) {
        for (write, written) in writes.iter().zip(written) {
            if write.namespace.as_str() != PROVIDERS || !matches!(written, KvWritten::Done { .. }) {
                continue;
            }
            if let Err(error) = self.copy_circuit(write, now).await {
                tracing::warn!(%error, provider = %write.key, "Cannot copy a breaker's state to its circuit keys");
                return;
            }
        }
    }

    /// Copies until the copy matches the entry. Another node may write in between, and a copy that comes late would
    /// leave the state of before; the last writer of a copy also reads the entry last.
    async fn copy_circuit(&self, write: &KvWrite, now: Timestamp) -> StoreResult<()> {
        let mut value = write.value.clone();
        for _ in 0..COPIES_MAX {
            let kept = value.as_ref().and_then(|value| value.parse::<ProviderEntry>().ok());
            for command in copies(&write.key, kept.map(|kept| kept.breaker)) {
                self.link.command::<Value>(&command).await?;
            }
            let latest = self.kv_get(write.namespace, &write.key, now).await?.map(|entry| entry.value);
            if latest == value {
                break;
            }
            value = latest;
        }
        Ok(())
    }
}

/// The commands that write each key; without a breaker they delete it.
fn copies(provider: &str, breaker: Option<Breaker>) -> [Cmd; 3] {
    let state = breaker.as_ref().map(|breaker| breaker.state.as_str().to_owned());
    let failures = breaker.as_ref().map(|breaker| breaker.failures.len().to_string());
    let last_failure = breaker.and_then(|breaker| breaker.failures.back().map(ToString::to_string));
    let copy = |name: &str, value: Option<String>, lasts: Duration| {
        let mut command = redis::cmd(if value.is_some() { "SET" } else { "DEL" });
        command.arg(format!("circuit:{provider}:{name}"));
        if let Some(value) = value {
            command.arg(value).arg("PX").arg(lasts.as_millis() as u64);
        }
        command
    };
    [
        copy("state", state, STATE_LASTS),
        copy("failures", failures, FAILURES_LAST),
        copy("last_failure", last_failure, STATE_LASTS),
    ]
}
