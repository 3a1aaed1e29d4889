//! The audit trail: every script that changes something appends to it, and the archiver trims it.
//!
//! Each partition has a stream of it, and the key-value entries have one, which is the trail's last part. All records of
//! one script are one entry, so a record's number is the entry's place and the record's place in the entry. An entry is
//! never changed: when some of its records are erased, the rest becomes a split entry in a hash, under the same numbers.

use std::collections::BTreeMap;

use async_trait::async_trait;
use recado_core::{AuditEvent, JobId};
use recado_store::{AuditLog, AuditRecord, AuditSpan, AuditTrim, StoreError, StoreResult};
use redis::Value;

use crate::codec::keys::IdKey;
use crate::codec::record::json;
use crate::link::unexpected;
use crate::store::RedisStore;

/// Events at most in one call: no other client is served while a script runs.
const CALL_EVENTS_MAX: usize = 500;

/// Records that one trim examines, unless one read of the stream finds more.
const TRIM_RECORDS_MAX: usize = 500;

/// Entries that one read of the stream asks for: few at first, more where each has few records.
const READ_ENTRIES: usize = 16;
const READ_ENTRIES_MAX: usize = 500;

/// Bits of a record's number for its place in an entry, and for the entry's place in its millisecond. The scripts
/// (`jobs.lua`) put no more into either.
const INDEX_BITS: u32 = 8;
const NTH_BITS: u32 = 13;

const INDEX_MAX: u64 = (1 << INDEX_BITS) - 1;
const NTH_MAX: u64 = (1 << NTH_BITS) - 1;

/// Begins a record that came along with its job and is archived elsewhere. It is there for the job's own trail
/// alone, and a reader that does not know this reads the event all the same.
const ARCHIVED: &[u8] = br#"{"archived":true,"#;

/// The number of the first record of the entry in that place: the server's time when it was written, and which of
/// that millisecond's it is. It grows with time, also over a crash that took the server's last second.
fn first_of(place: &str) -> Option<u64> {
    let (at_ms, nth) = place.split_once('-')?;
    Some((at_ms.parse::<u64>().ok()? << NTH_BITS | nth.parse::<u64>().ok()?) << INDEX_BITS)
}

/// Numbers of format 1 end here: they were the milliseconds and sixteen bits for the record in its millisecond. Numbers
/// of this format begin above it with the year 1987.
const FORMAT_1_NUMBERS_END: u64 = 1 << 60;

/// The number in this format of a record whose number a reader may have kept since format 1, such as the archiver.
fn current_number(number: u64) -> u64 {
    if number >= FORMAT_1_NUMBERS_END {
        return number;
    }
    (number >> 16 << NTH_BITS | (number & 0xffff).min(NTH_MAX)) << INDEX_BITS
}

/// The place of the entry that has the record with this number.
fn place_of(number: u64) -> String {
    let entry = number >> INDEX_BITS;
    format!("{}-{}", entry >> NTH_BITS, entry & NTH_MAX)
}

/// The place of an entry, and every record after the number of its job.
type StreamEntry = (String, Vec<(Value, Vec<u8>)>);

/// Records that one script wrote together.
#[derive(Debug)]
struct TrailEntry {
    /// The number of the first.
    first: u64,
    /// Empty where one was erased.
    events: Vec<Vec<u8>>,
}

impl TrailEntry {
    fn read((place, records): StreamEntry) -> StoreResult<Self> {
        let first = first_of(&place).ok_or_else(unexpected)?;
        Ok(TrailEntry { first, events: records.into_iter().map(|(_, event)| event).collect() })
    }

    /// Every record that was not erased, with its number.
    fn records(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let numbered = self.events.iter().enumerate().filter(|(_, event)| !event.is_empty());
        numbered.map(|(index, event)| (self.first + index as u64, &**event))
    }
}

/// A range of the trail between two numbers, and the end to begin at.
#[derive(Clone, Copy)]
struct Reach {
    after: u64,
    before: u64,
    newest_first: bool,
}

impl Reach {
    fn has(&self, number: u64) -> bool {
        self.after < number && number < self.before
    }

    fn go_on_beyond(&mut self, entry: &TrailEntry) {
        if self.newest_first {
            self.before = entry.first;
        } else {
            self.after = entry.first | INDEX_MAX;
        }
    }

    /// The first and the last entry that may have a record in it, as a stream reads them.
    fn bounds(&self) -> (String, String) {
        let unless = |is_beyond| if is_beyond { "(" } else { "" };
        let low = unless(self.after & INDEX_MAX == INDEX_MAX);
        let high = unless(self.before & INDEX_MAX == 0);
        (format!("{low}{}", place_of(self.after)), format!("{high}{}", place_of(self.before)))
    }
}

pub fn mark_archived(event: &[u8]) -> Vec<u8> {
    [ARCHIVED, event.strip_prefix(b"{").unwrap_or(event)].concat()
}

#[async_trait]
impl AuditLog for RedisStore {
    async fn record(&self, events: Vec<AuditEvent>) -> StoreResult<()> {
        let mut by_partition: BTreeMap<u16, Vec<(Option<IdKey>, &AuditEvent)>> = BTreeMap::new();
        for event in &events {
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
                let mut call = self.call(&self.scripts.record, partition);
                for (about, event) in some {
                    match about {
                        Some(key) => call.arg(key),
                        None => call.arg("").arg(""),
                    };
                    call.arg(json(event)?);
                }
                self.run::<()>(&call).await?;
            }
        }
        Ok(())
    }

    /// Removes entries that were archived and are not needed any more. From then on a job's trail here begins after
    /// them.
    async fn trim_audit(&self, trim: AuditTrim) -> StoreResult<u64> {
        let mut reach =
            Reach { after: 0, before: current_number(trim.up_to).saturating_add(1), newest_first: false };
        let (mut looked, mut gone, mut places) = (0, 0, Vec::new());
        while looked < TRIM_RECORDS_MAX {
            let (entries, more) = self.entries(trim.part, reach, READ_ENTRIES).await?;
            for entry in &entries {
                looked += entry.events.len();
                if self.may_be_trimmed(entry, reach, &trim).await? {
                    gone += entry.records().count() as u64;
                    places.push(place_of(entry.first));
                }
            }
            match entries.last() {
                Some(last) if more => reach.go_on_beyond(last),
                _ => break,
            }
        }
        if !places.is_empty() {
            for (verb, name) in [("XDEL", "audit"), ("HDEL", "apart")] {
                let key = self.trail_key(trim.part, name)?;
                self.link.command::<u64>(redis::cmd(verb).arg(key).arg(&places)).await?;
            }
        }
        Ok(gone)
    }

    fn audit_parts(&self) -> u16 {
        self.partition_count() as u16 + 1
    }

    async fn audit_records(&self, span: AuditSpan, limit: usize) -> StoreResult<Vec<AuditRecord>> {
        let mut reach =
            Reach { after: current_number(span.after), before: u64::MAX, newest_first: span.newest_first };
        let (mut found, mut count) = (Vec::new(), READ_ENTRIES);
        // Records that came along with adopted jobs are passed over, so one read may find fewer than there are.
        while found.len() < limit {
            let (entries, more) = self.entries(span.part, reach, count).await?;
            for entry in &entries {
                take_records(entry, reach, limit, &mut found);
            }
            match entries.last() {
                Some(last) if more => reach.go_on_beyond(last),
                _ => break,
            }
            let looked = entries.iter().map(|entry| entry.events.len()).sum::<usize>();
            let wanted = (limit - found.len()) * entries.len() / looked.max(1);
            count = wanted.clamp(READ_ENTRIES, READ_ENTRIES_MAX);
        }
        Ok(found)
    }
}

impl RedisStore {
    /// Entries of the trail, from either end, `count` of them or a few more, and whether there are others.
    async fn entries(
        &self,
        partition: u16,
        reach: Reach,
        count: usize,
    ) -> StoreResult<(Vec<TrailEntry>, bool)> {
        let key = self.trail_key(partition, "audit")?;
        let (low, high) = reach.bounds();
        let (verb, from, to) =
            if reach.newest_first { ("XREVRANGE", &high, &low) } else { ("XRANGE", &low, &high) };
        let mut command = redis::cmd(verb);
        command.arg(key).arg(from).arg(to).arg("COUNT").arg(count);
        let found: Vec<StreamEntry> = self.link.command(&command).await?;
        let mut found = found.into_iter().map(TrailEntry::read).collect::<StoreResult<Vec<_>>>()?;
        let last = found.last().map(|entry| entry.first).filter(|_| found.len() == count);
        for entry in self.split_entries(partition, reach).await? {
            let is_beyond = |last| if reach.newest_first { entry.first < last } else { entry.first > last };
            if !last.is_some_and(is_beyond) {
                found.push(entry);
            }
        }
        found.sort_by_key(|entry| entry.first);
        if reach.newest_first {
            found.reverse();
        }
        Ok((found, last.is_some()))
    }

    /// Reads the entries that were split, in no order.
    async fn split_entries(&self, partition: u16, reach: Reach) -> StoreResult<Vec<TrailEntry>> {
        let key = self.trail_key(partition, "apart")?;
        let mut places: Vec<String> = self.link.command(redis::cmd("HKEYS").arg(key)).await?;
        places.retain(|place| {
            first_of(place).is_none_or(|first| first | INDEX_MAX > reach.after && first < reach.before)
        });
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = self.call(&self.scripts.split_entries, partition);
        let entries: Vec<StreamEntry> = self.run(call.arg(places)).await?;
        entries.into_iter().map(TrailEntry::read).collect()
    }

    /// Returns true if every record of an entry is archived and not needed any more.
    async fn may_be_trimmed(&self, entry: &TrailEntry, reach: Reach, trim: &AuditTrim) -> StoreResult<bool> {
        let mut of_jobs = Vec::new();
        for (number, event) in entry.records() {
            let Some(event) = audit_event(event) else { continue };
            let is_old = event.timestamp < trim.forgotten_before;
            match event.job_id.as_deref().and_then(|id| JobId::new(id).ok()) {
                _ if number >= reach.before => return Ok(false),
                _ if event.timestamp < trim.before => {}
                Some(id) if is_old => of_jobs.push(id),
                None if is_old => {}
                _ => return Ok(false),
            }
        }
        for id in of_jobs {
            if self.find(&id).await?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn trail_key(&self, partition: u16, name: &str) -> StoreResult<Vec<u8>> {
        let kv_root = Some(&self.kv_root).filter(|_| u64::from(partition) == self.partition_count());
        let root = self.roots.get(usize::from(partition)).or(kv_root).ok_or_else(|| {
            let last = self.partition_count();
            StoreError::Unavailable(format!("the trail has no part {partition}; ask for 0 to {last}"))
        })?;
        Ok(root.key(name))
    }
}

fn take_records(entry: &TrailEntry, reach: Reach, limit: usize, found: &mut Vec<AuditRecord>) {
    let is_wanted = |(number, event): &(u64, &[u8])| reach.has(*number) && !event.starts_with(ARCHIVED);
    let mut records: Vec<_> = entry.records().filter(is_wanted).collect();
    if reach.newest_first {
        records.reverse();
    }
    let read = |(number, event)| Some(AuditRecord { number, event: audit_event(event)? });
    found.extend(records.into_iter().filter_map(read).take(limit - found.len()));
}

/// Reads a record. A damaged one is logged and left out, so that all others are read.
pub fn audit_event(json: &[u8]) -> Option<AuditEvent> {
    serde_json::from_slice(json)
        .inspect_err(|error| tracing::error!(%error, "A stored audit record is damaged; it is left out"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_format_1_names_the_same_record() {
        let (at_ms, nth) = (1_736_677_800_000_u64, 7);
        assert_eq!(Some(current_number(at_ms << 16 | nth)), first_of(&format!("{at_ms}-{nth}")));
        assert_eq!(current_number(0), 0);
        let number = first_of("1736677800000-7").unwrap() + 3;
        assert_eq!(current_number(number), number, "and one of this format is itself");
    }
}
