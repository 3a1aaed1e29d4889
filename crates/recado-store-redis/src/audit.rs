//! The audit trail: appended by every script that does something, taken away by whoever archives it.

use std::collections::BTreeMap;

use recado_core::{AuditEvent, JobId};
use recado_store::{AuditRecord, AuditSpan, AuditTrim, StoreError};

use crate::answer::{Answer, unexpected};
use crate::keys::IdKey;
use crate::link::Arg;
use crate::record::json;
use crate::store::RedisStore;

/// Events at most in one call: nobody else is served while a script runs.
const CALL_EVENTS_MAX: usize = 500;

/// Records that one trim looks at.
const TRIM_RECORDS_MAX: usize = 500;

/// Bits of a record's number that tell those of one millisecond apart; a job's trail keeps as many.
const NTH_BITS: u32 = 16;

/// How a record begins that came along with its job and is archived elsewhere. It is there for the job's own trail
/// alone, and a reader that does not know this reads the event all the same.
const ARCHIVED: &[u8] = br#"{"archived":true,"#;

/// A record's number is its place in the stream: the server's time when it was written, and which of that
/// millisecond's it is. It grows with time, also over a crash that took the server's last second.
fn number_of(place: &str) -> Option<u64> {
    let (at_ms, nth) = place.split_once('-')?;
    Some(at_ms.parse::<u64>().ok()? << NTH_BITS | nth.parse::<u64>().ok()?)
}

fn place_of(number: u64) -> String {
    format!("{}-{}", number >> NTH_BITS, number & ((1 << NTH_BITS) - 1))
}

/// A stretch of a stream, between two numbers, and from which end.
#[derive(Clone, Copy)]
struct Reach {
    after: u64,
    before: u64,
    newest_first: bool,
}

impl Reach {
    fn go_on_beyond(&mut self, number: u64) {
        *(if self.newest_first { &mut self.before } else { &mut self.after }) = number;
    }
}

pub fn mark_archived(event: &[u8]) -> Vec<u8> {
    [ARCHIVED, event.strip_prefix(b"{").unwrap_or(event)].concat()
}

impl RedisStore {
    pub(crate) async fn records_in(
        &self,
        span: AuditSpan,
        limit: usize,
    ) -> Result<Vec<AuditRecord>, StoreError> {
        let mut reach = Reach { after: span.after, before: u64::MAX, newest_first: span.newest_first };
        let mut found = Vec::new();
        // What came along with adopted jobs is passed over, so one look may find fewer than there are.
        while found.len() < limit {
            let wanted = limit - found.len();
            let entries = self.entries(span.part, reach, wanted).await?;
            let looked = entries.len();
            for (number, event) in entries {
                reach.go_on_beyond(number);
                if !event.starts_with(ARCHIVED) {
                    found.push(AuditRecord { number, event: audit_event(&event)? });
                }
            }
            if looked < wanted {
                break;
            }
        }
        Ok(found)
    }

    /// Entries of a stream, from either end.
    async fn entries(
        &self,
        partition: u16,
        reach: Reach,
        limit: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let key = self.audit_key(partition)?;
        let (low, high) = (format!("({}", place_of(reach.after)), format!("({}", place_of(reach.before)));
        let (verb, from, to) =
            if reach.newest_first { ("XREVRANGE", high, low) } else { ("XRANGE", low, high) };
        let mut command = redis::cmd(verb);
        command.arg(&key).arg(from).arg(to).arg("COUNT").arg(limit);
        let mut entries = Vec::new();
        for entry in Answer(self.link.command(&command, &key).await?).list()? {
            let [place, fields] = entry.parts()?;
            let [_, event] = fields.parts()?;
            entries.push((number_of(&place.text()?).ok_or_else(unexpected)?, event.bytes()?));
        }
        Ok(entries)
    }

    /// Takes away what was archived and is not needed any more. From then on a job's trail here begins after it.
    pub(crate) async fn trim_records(&self, trim: AuditTrim) -> Result<u64, StoreError> {
        let reach = Reach { after: 0, before: trim.up_to.saturating_add(1), newest_first: false };
        let mut over = Vec::new();
        for (number, event) in self.entries(trim.part, reach, TRIM_RECORDS_MAX).await? {
            let event = audit_event(&event)?;
            let known = async || match event.job_id.as_deref().and_then(|id| JobId::new(id).ok()) {
                Some(id) => self.find(&id).await.map(|found| found.is_some()),
                None => Ok(false),
            };
            let at = event.timestamp;
            if at < trim.before || (at < trim.forgotten_before && !known().await?) {
                over.push(place_of(number));
            }
        }
        if over.is_empty() {
            return Ok(0);
        }
        let key = self.audit_key(trim.part)?;
        let mut command = redis::cmd("XDEL");
        command.arg(&key).arg(over);
        Answer(self.link.command(&command, &key).await?).count()
    }

    pub(crate) async fn forget_jobs(&self, ids: &[JobId]) -> Result<u64, StoreError> {
        let mut gone = 0;
        for id in ids {
            let Some(found) = self.find(id).await? else { continue };
            let key = IdKey::of(id);
            let args = [Arg::Int(i64::from(key.bucket)), Arg::from(&*key.bytes)];
            for answer in self.run(&self.scripts.forget, found.partition, &args).await?.list()? {
                if answer.yes()? {
                    self.release(found.partition, vec![id.clone()]).await?;
                    gone += 1;
                }
            }
        }
        Ok(gone)
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
