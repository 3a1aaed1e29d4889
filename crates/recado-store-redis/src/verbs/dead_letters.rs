//! Reads dead letters, with and without their data.

use recado_core::DeadLetter;
use recado_store::{DeadLetterFilter, GroupBy, GroupCounts, StoreResult};

use crate::codec::dead_letter;
use crate::codec::record::{decode_or_mark, no_data};
use crate::link::Data;
use crate::store::RedisStore;
use crate::verbs::partitions::BEYOND_ALL;

/// Dead letters that one call reads.
const CALL_DEAD_LETTERS: usize = 200;

/// A dead letter without its data, absent if its job is not known any more.
pub(crate) struct DeadLetterRow {
    /// Its place in the partition's queue.
    pub order: u64,
    pub seq: u64,
    pub letter: Option<DeadLetter>,
}

impl RedisStore {
    /// Reads the dead letters of these jobs, with their data.
    pub(crate) async fn read_dead_letters(
        &self,
        partition: u16,
        seqs: Vec<u64>,
    ) -> StoreResult<Vec<Option<DeadLetter>>> {
        type Stored = (Vec<u8>, Vec<u8>, Data, Option<Data>);
        let found: Vec<Option<Stored>> =
            self.run(self.call(&self.scripts.dead_letter, partition).arg(&seqs)).await?;
        let read = |(found, seq): (Option<Stored>, u64)| {
            let (letter, head, Data(data), corrected) = found?;
            let record = decode_or_mark(&head, partition, seq)?;
            Some(dead_letter::decode(&letter, record, data, corrected.map(|Data(data)| data)))
        };
        Ok(found.into_iter().zip(seqs).map(read).collect())
    }

    /// Reads dead letters below an order number, newest first, and the number to go on below, if there may be more.
    pub(crate) async fn read_dead_letters_below(
        &self,
        partition: u16,
        before: u64,
    ) -> StoreResult<(Vec<DeadLetterRow>, Option<u64>)> {
        let mut call = self.call(&self.scripts.dead_letters_below, partition);
        let found: Vec<(u64, u64, Vec<u8>, Vec<u8>)> =
            self.run(call.arg(before).arg(CALL_DEAD_LETTERS)).await?;
        let next = found.last().map(|(order, ..)| *order).filter(|_| found.len() == CALL_DEAD_LETTERS);
        let read = |(order, seq, letter, head): (u64, u64, Vec<u8>, Vec<u8>)| {
            let record = decode_or_mark(&head, partition, seq);
            let letter = record.map(|record| dead_letter::decode(&letter, record, no_data(), None));
            DeadLetterRow { order, seq, letter }
        };
        Ok((found.into_iter().map(read).collect(), next))
    }

    /// Counts a partition's dead letters by group: as the scripts have counted them, or those that match.
    pub(crate) async fn count_groups(
        &self,
        partition: u16,
        by: GroupBy,
        filter: &DeadLetterFilter,
        groups: &mut GroupCounts,
    ) -> StoreResult<()> {
        if *filter == DeadLetterFilter::default() {
            let counted: Vec<(String, u64, String)> =
                self.run(self.call(&self.scripts.dead_letter_groups, partition).arg(kind(by))).await?;
            for (key, count, reason) in counted {
                let is_code = by == GroupBy::LastFailureCode;
                let key = if is_code { dead_letter::code_of(&key) } else { Some(&*key) };
                groups.add(key.map(Into::into), count, &reason);
            }
            return Ok(());
        }
        let mut below = Some(BEYOND_ALL);
        while let Some(before) = below {
            let (rows, next) = self.read_dead_letters_below(partition, before).await?;
            below = next;
            let letters = rows.iter().filter_map(|row| row.letter.as_ref());
            for letter in letters.filter(|letter| filter.matches(letter)) {
                groups.add(by.key_of(letter), 1, letter.failure.reason.as_str());
            }
        }
        Ok(())
    }
}

/// The name of the grouping in the scripts.
fn kind(by: GroupBy) -> &'static str {
    match by {
        GroupBy::LastFailureCode => "code",
        GroupBy::Company => "company",
        GroupBy::Route => "route",
        GroupBy::Fingerprint => "fingerprint",
    }
}
