//! The audit trail: appended by every script that does something, taken away by whoever archives it.

use std::collections::BTreeMap;

use recado_core::{AuditEvent, JobId};
use recado_store::StoreError;

use crate::answer::{Answer, unexpected};
use crate::keys::IdKey;
use crate::link::Arg;
use crate::record::json;
use crate::store::RedisStore;

/// Events at most in one call: nobody else is served while a script runs.
const CALL_EVENTS_MAX: usize = 500;

/// A place in a partition's audit stream, after which to go on. It grows with time, also over a crash that took the
/// server's last second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct AuditCursor {
    /// The server's time when it was written.
    pub at_ms: u64,
    /// Among those of the same millisecond.
    pub nth: u64,
}

impl AuditCursor {
    fn text(self) -> String {
        format!("{}-{}", self.at_ms, self.nth)
    }

    fn read(text: &str) -> Option<Self> {
        let (at_ms, nth) = text.split_once('-')?;
        Some(AuditCursor { at_ms: at_ms.parse().ok()?, nth: nth.parse().ok()? })
    }
}

impl RedisStore {
    /// What is on record after this place, oldest first, for whoever archives it. An absent place is the beginning.
    pub async fn audit_after(
        &self,
        partition: u16,
        after: Option<AuditCursor>,
        limit: usize,
    ) -> Result<Vec<(AuditCursor, AuditEvent)>, StoreError> {
        let from = after.map_or_else(|| "-".to_owned(), |after| format!("({}", after.text()));
        let key = self.audit_key(partition)?;
        let mut command = redis::cmd("XRANGE");
        command.arg(&key).arg(from).arg("+").arg("COUNT").arg(limit);
        let mut events = Vec::new();
        for entry in Answer(self.link.command(&command, &key).await?).list()? {
            let [place, fields] = entry.parts()?;
            let [_, event] = fields.parts()?;
            let place = AuditCursor::read(&place.text()?).ok_or_else(unexpected)?;
            events.push((place, audit_event(&event.bytes()?)?));
        }
        Ok(events)
    }

    /// Takes away what is on record up to and including this place: it was archived. From then on a job's trail here
    /// begins after it.
    pub async fn audit_trim(&self, partition: u16, up_to: AuditCursor) -> Result<u64, StoreError> {
        let key = self.audit_key(partition)?;
        let next = AuditCursor { nth: up_to.nth + 1, ..up_to };
        let mut command = redis::cmd("XTRIM");
        command.arg(&key).arg("MINID").arg(next.text());
        Answer(self.link.command(&command, &key).await?).count()
    }

    fn audit_key(&self, partition: u16) -> Result<Vec<u8>, StoreError> {
        let root = self.root(partition).ok_or_else(|| {
            let last = self.partition_count() - 1;
            StoreError::Unavailable(format!("there is no partition {partition}; ask for 0 to {last}"))
        })?;
        Ok(root.key("audit"))
    }

    pub(crate) async fn put_on_record(&self, events: &[AuditEvent]) -> Result<(), StoreError> {
        let mut by_partition: BTreeMap<u16, Vec<(Option<IdKey>, &AuditEvent)>> = BTreeMap::new();
        for event in events {
            let about = event.job_id.as_deref().and_then(|id| JobId::new(id).ok());
            let partition = match &about {
                Some(id) if !self.has_one_partition() => {
                    self.find(id).await?.map_or(0, |found| found.partition)
                }
                _ => 0,
            };
            by_partition.entry(partition).or_default().push((about.as_ref().map(IdKey::of), event));
        }
        for (partition, events) in by_partition {
            for some in events.chunks(CALL_EVENTS_MAX) {
                let mut args = Vec::with_capacity(some.len() * 3);
                for (about, event) in some {
                    match about {
                        Some(key) => args.extend([Arg::Int(i64::from(key.bucket)), Arg::from(&*key.bytes)]),
                        None => args.extend([Arg::from(""), Arg::from("")]),
                    }
                    args.push(Arg::from(json(event)?));
                }
                self.run(&self.scripts.record, partition, &args).await?;
            }
        }
        Ok(())
    }
}

pub fn audit_event(json: &[u8]) -> Result<AuditEvent, StoreError> {
    serde_json::from_slice(json).map_err(|_| {
        StoreError::Broken("an audit record cannot be read; was it written by something else?".to_owned())
    })
}
