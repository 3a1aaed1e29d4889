//! The audit trail: appended by every script that does something, taken away by whoever archives it.
//!
//! A stream of each partition has it, and one beside the notes, which is the trail's last part. What one script puts on
//! record is one entry, so a record's number is the entry's place and the record's in there. An entry is never changed:
//! when records are erased, what else was in theirs lies apart, under the same numbers.

use std::collections::BTreeMap;

use recado_core::{AuditEvent, JobId};
use recado_store::{AuditRecord, AuditSpan, AuditTrim, StoreError};

use crate::answer::{Answer, unexpected};
use crate::keys::IdKey;
use crate::link::Arg;
use crate::record::json;
use crate::store::RedisStore;

/// Events at most in one call: no other client is served while a script runs.
const CALL_EVENTS_MAX: usize = 500;

/// Records that one trim looks at, unless one look at the stream finds more.
const TRIM_RECORDS_MAX: usize = 500;

/// Entries that one look at the stream asks for: few at first, more where each has little in it.
const LOOK_ENTRIES: usize = 16;
const LOOK_ENTRIES_MAX: usize = 500;

/// Bits of a record's number for its place in an entry, and for the entry's place in its millisecond. The scripts
/// (`jobs.lua`) put no more into either.
const INDEX_BITS: u32 = 8;
const NTH_BITS: u32 = 13;

const INDEX_MAX: u64 = (1 << INDEX_BITS) - 1;
const NTH_MAX: u64 = (1 << NTH_BITS) - 1;

/// How a record begins that came along with its job and is archived elsewhere. It is there for the job's own trail
/// alone, and a reader that does not know this reads the event all the same.
const ARCHIVED: &[u8] = br#"{"archived":true,"#;

/// The number of the first record of the entry in that place: the server's time when it was written, and which of
/// that millisecond's it is. It grows with time, also over a crash that took the server's last second.
fn first_of(place: &str) -> Option<u64> {
    let (at_ms, nth) = place.split_once('-')?;
    Some((at_ms.parse::<u64>().ok()? << NTH_BITS | nth.parse::<u64>().ok()?) << INDEX_BITS)
}

/// Where the entry is that has the record with this number.
fn place_of(number: u64) -> String {
    let entry = number >> INDEX_BITS;
    format!("{}-{}", entry >> NTH_BITS, entry & NTH_MAX)
}

/// Records that one script wrote together.
#[derive(Debug)]
struct Entry {
    /// The number of the first.
    first: u64,
    /// Empty where one was erased.
    events: Vec<Vec<u8>>,
}

impl Entry {
    /// As the stream has it: its place, and every record after the number of its job.
    fn read(entry: Answer) -> Result<Self, StoreError> {
        let [place, records] = entry.parts()?;
        let first = first_of(&place.text()?).ok_or_else(unexpected)?;
        let events = records.list()?.into_iter().skip(1).step_by(2).map(Answer::bytes);
        Ok(Entry { first, events: events.collect::<Result<_, _>>()? })
    }

    /// Every record that was not erased, with its number.
    fn records(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let numbered = self.events.iter().enumerate().filter(|(_, event)| !event.is_empty());
        numbered.map(|(index, event)| (self.first + index as u64, &**event))
    }
}

/// A stretch of the trail, between two numbers, and from which end.
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

    fn go_on_beyond(&mut self, entry: &Entry) {
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

impl RedisStore {
    pub(crate) async fn records_in(
        &self,
        span: AuditSpan,
        limit: usize,
    ) -> Result<Vec<AuditRecord>, StoreError> {
        let mut reach = Reach { after: span.after, before: u64::MAX, newest_first: span.newest_first };
        let (mut found, mut count) = (Vec::new(), LOOK_ENTRIES);
        // What came along with adopted jobs is passed over, so one look may find fewer than there are.
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
            count = wanted.clamp(LOOK_ENTRIES, LOOK_ENTRIES_MAX);
        }
        Ok(found)
    }

    /// Entries of the trail, from either end, `count` of them or a few more, and whether there are others.
    async fn entries(
        &self,
        partition: u16,
        reach: Reach,
        count: usize,
    ) -> Result<(Vec<Entry>, bool), StoreError> {
        let key = self.trail_key(partition, "audit")?;
        let (low, high) = reach.bounds();
        let (verb, from, to) =
            if reach.newest_first { ("XREVRANGE", &high, &low) } else { ("XRANGE", &low, &high) };
        let mut command = redis::cmd(verb);
        command.arg(&key).arg(from).arg(to).arg("COUNT").arg(count);
        let answer = Answer(self.link.command(&command, &key).await?);
        let mut found = answer.list()?.into_iter().map(Entry::read).collect::<Result<Vec<_>, _>>()?;
        let last = found.last().map(|entry| entry.first).filter(|_| found.len() == count);
        for entry in self.entries_apart(partition, reach).await? {
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

    /// Entries with records that were erased, in no order.
    async fn entries_apart(&self, partition: u16, reach: Reach) -> Result<Vec<Entry>, StoreError> {
        let key = self.trail_key(partition, "apart")?;
        let mut command = redis::cmd("HKEYS");
        command.arg(&key);
        let mut places = Vec::new();
        for place in Answer(self.link.command(&command, &key).await?).list()? {
            let place = place.text()?;
            let first = first_of(&place).ok_or_else(unexpected)?;
            if first | INDEX_MAX > reach.after && first < reach.before {
                places.push(Arg::from(place.into_bytes()));
            }
        }
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let entries = self.run(&self.scripts.split_entries, partition, &places).await?.list()?;
        entries.into_iter().map(Entry::read).collect()
    }

    /// Takes away what was archived and is not needed any more, entry by entry. From then on a job's trail here begins
    /// after it.
    pub(crate) async fn trim_records(&self, trim: AuditTrim) -> Result<u64, StoreError> {
        let mut reach = Reach { after: 0, before: trim.up_to.saturating_add(1), newest_first: false };
        let (mut looked, mut gone, mut places) = (0, 0, Vec::new());
        while looked < TRIM_RECORDS_MAX {
            let (entries, more) = self.entries(trim.part, reach, LOOK_ENTRIES).await?;
            for entry in &entries {
                looked += entry.events.len();
                if self.is_over(entry, reach, &trim).await? {
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
            let (audit, apart) = (self.trail_key(trim.part, "audit")?, self.trail_key(trim.part, "apart")?);
            let mut both = redis::pipe();
            both.cmd("XDEL").arg(&audit).arg(&places).cmd("HDEL").arg(apart).arg(places);
            self.link.pipeline(&both, &audit).await?;
        }
        Ok(gone)
    }

    /// Whether every record of an entry is archived and not needed any more.
    async fn is_over(&self, entry: &Entry, reach: Reach, trim: &AuditTrim) -> Result<bool, StoreError> {
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

    fn trail_key(&self, partition: u16, name: &str) -> Result<Vec<u8>, StoreError> {
        let notes = Some(&self.notes_root).filter(|_| u64::from(partition) == self.partition_count());
        let root = self.root(partition).or(notes).ok_or_else(|| {
            let last = self.partition_count();
            StoreError::Unavailable(format!("the trail has no part {partition}; ask for 0 to {last}"))
        })?;
        Ok(root.key(name))
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

fn take_records(entry: &Entry, reach: Reach, limit: usize, found: &mut Vec<AuditRecord>) {
    let is_wanted = |(number, event): &(u64, &[u8])| reach.has(*number) && !event.starts_with(ARCHIVED);
    let mut records: Vec<_> = entry.records().filter(is_wanted).collect();
    if reach.newest_first {
        records.reverse();
    }
    let read = |(number, event)| Some(AuditRecord { number, event: audit_event(event)? });
    found.extend(records.into_iter().filter_map(read).take(limit - found.len()));
}

/// Reads a record. One that is damaged is told of in the log and left out, so that all others are read.
pub fn audit_event(json: &[u8]) -> Option<AuditEvent> {
    serde_json::from_slice(json)
        .inspect_err(|error| tracing::error!(%error, "A stored audit record is damaged; it is left out"))
        .ok()
}
