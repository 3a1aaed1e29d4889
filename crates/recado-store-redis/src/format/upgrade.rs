//! Upgrades a store of an older format when it is opened: one step for each format, as in the embedded store.
//!
//! A step upgrades a partition at a time, in calls that do a bounded amount each. Every call can be repeated, and the
//! new format is written by the last one: a node that dies in the middle leaves a partition that the next node
//! upgrades, and nodes that start at once do the same work together. Nodes of the older version do not know of it, so
//! all of them are stopped before the first node of this version starts. One that was forgotten stops by itself when it
//! finds the newer format; the node that upgraded waits that long before it writes.
//!
//! Format 1 differs in three things. It kept every lease by its job's number, every audit record as an entry of its
//! own without the job's number, and no count of ended jobs.
//!
//! Format 2 had longer heads, and head and data of a new job as two values. Those jobs are read as they are and written
//! anew when they change, so that a large store opens at once. Its claims never left a job for their caller to read. It
//! kept the earliest end of life for 64 jobs each, and now for 256.

use std::collections::HashMap;

use recado_store::StoreResult;
use redis::ToRedisArgs;

use crate::codec::keys::Root;
use crate::format::{self, FoundVersion};
use crate::link::{OpenError, Script};
use crate::store::Shared;

/// Leases, or audit records, at most in one call: no other client is served while a script runs.
const CALL_MAX: usize = 500;

/// Times that the audit trail is copied on because records came meanwhile, before older nodes are said to be running.
const COPIES_MAX: usize = 10;

/// Checks the format of every partition, and upgrades older ones.
pub(crate) async fn check_or_upgrade(store: &Shared) -> Result<(), OpenError> {
    let mut was_older = false;
    for root in store.roots.iter().chain([&store.kv_root]) {
        was_older |= upgrade(store, root).await?;
    }
    if was_older {
        // A node of the older version looks at the format this often, and each look ends within the timeout.
        tokio::time::sleep(format::CHECK_EVERY + store.link.timeout()).await;
    }
    Ok(())
}

/// Upgrades a partition step by step. Returns false if it had the current format.
async fn upgrade(store: &Shared, root: &Root) -> Result<bool, OpenError> {
    let partitions = store.roots.len() as u16;
    let mut was_older = false;
    while let FoundVersion::Older(version) = format::check(&store.link, root, partitions).await? {
        tracing::warn!(format = version, "The store has an older format; it is upgraded");
        was_older = true;
        let step = Step { store, root, before: format::text(version, partitions) };
        let after = format::text(version + 1, partitions);
        match version {
            1 => step.upgrade_from_1(&after).await?,
            _ => while step.run(&store.scripts.upgrade_2, &after).await? == GO_ON {},
        }
    }
    Ok(was_older)
}

/// One step of one partition.
struct Step<'a> {
    store: &'a Shared,
    root: &'a Root,
    /// The format as it was found: the scripts do nothing once it is another one.
    before: String,
}

/// The answer of `upgrade_1_finish.lua` when records came to the audit trail since it was copied, and of `upgrade_2.lua`
/// when it did only a part.
const GO_ON: i64 = 2;

impl Step<'_> {
    async fn upgrade_from_1(&self, after: &str) -> Result<(), OpenError> {
        self.upgrade_leases().await?;
        for _ in 0..COPIES_MAX {
            self.copy_audit().await?;
            if self.run(&self.store.scripts.upgrade_1_finish, after).await? != GO_ON {
                return Ok(());
            }
        }
        Err(OpenError::Unavailable(
            "the store has an older format, and a node of an older version still writes to it; stop all of them, and \
             start this one again"
                .to_owned(),
        ))
    }

    async fn upgrade_leases(&self) -> StoreResult<()> {
        let held = self.root.key("held");
        let seqs: Vec<Vec<u8>> = self.store.link.command(redis::cmd("HKEYS").arg(held)).await?;
        for some in seqs.chunks(CALL_MAX) {
            self.run(&self.store.scripts.upgrade_1_leases, some).await?;
        }
        Ok(())
    }

    /// Copies the audit trail's entries, each with the number of its job.
    async fn copy_audit(&self) -> StoreResult<()> {
        let jobs = self.jobs_of_records().await?;
        let key = self.root.key("audit");
        let mut from = "-".to_owned();
        loop {
            let mut command = redis::cmd("XRANGE");
            command.arg(&key).arg(&from).arg("+").arg("COUNT").arg(CALL_MAX);
            let entries: Vec<(String, (String, Vec<u8>))> = self.store.link.command(&command).await?;
            let Some((last, _)) = entries.last() else { return Ok(()) };
            from = format!("({last}");
            let seq_of = |place: &str| jobs.get(place).map_or(&[][..], Vec::as_slice);
            let args: Vec<_> =
                entries.iter().map(|(place, (_, record))| (place, seq_of(place), record)).collect();
            self.run(&self.store.scripts.upgrade_1_audit, &args).await?;
            if entries.len() < CALL_MAX {
                return Ok(());
            }
        }
    }

    /// The number of the job that each record is about, by the record's place, as the jobs' trails have it.
    async fn jobs_of_records(&self) -> StoreResult<HashMap<String, Vec<u8>>> {
        let mut jobs = HashMap::new();
        let blocks = self.root.key("blocks");
        let blocks: Vec<String> =
            self.store.link.command(redis::cmd("ZRANGE").arg(blocks).arg(0).arg(-1)).await?;
        for block in blocks {
            let trail = self.root.key(&format!("trail:{block}"));
            let trails: Vec<(Vec<u8>, Vec<u8>)> =
                self.store.link.command(redis::cmd("HGETALL").arg(trail)).await?;
            for (seq, places) in trails {
                for place in places.as_chunks::<8>().0 {
                    let number = u64::from_be_bytes(*place);
                    jobs.insert(format!("{}-{}", number >> 16, number & 0xffff), seq.clone());
                }
            }
        }
        Ok(jobs)
    }

    async fn run(&self, script: &Script, args: impl ToRedisArgs) -> StoreResult<i64> {
        self.store.link.run(self.root.call(script, None).arg(&self.before).arg(args)).await
    }
}
