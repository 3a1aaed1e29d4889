//! Read queries over dead letters: pages, groups, the oldest.

use std::collections::BTreeMap;

use recado_core::{DeadLetter, JobId};
use recado_store::{
    DataBytes, DeadLetterFilter, DeadLetterGroup, GroupBy, PAGE_MAX_BYTES, Page, PageRequest, StoreError,
};

use crate::codec::answer::Answer;
use crate::codec::dead_letter;
use crate::codec::record::{decode_or_mark, no_data};
use crate::link::Arg;
use crate::store::RedisStore;
use crate::verbs::merge::{Merge, runs, seqs};
use crate::verbs::partitions::BEYOND_ALL;

/// Dead letters that one call reads.
const CALL_DEAD_LETTERS: i64 = 200;

/// Most dead letters that one page of a filtered list scans before it returns what it has.
const SCAN_MAX: usize = 20_000;

impl RedisStore {
    pub(crate) async fn find_dead_letter(&self, id: &JobId) -> Result<Option<DeadLetter>, StoreError> {
        let Some(found) = self.find(id).await? else { return Ok(None) };
        Ok(self.read_dead_letters(found.partition, &[found.seq]).await?.pop().flatten())
    }

    /// Reads the dead letters of these jobs, with their data.
    async fn read_dead_letters(
        &self,
        partition: u16,
        seqs: &[u64],
    ) -> Result<Vec<Option<DeadLetter>>, StoreError> {
        let args: Vec<_> = seqs.iter().map(|seq| Arg::Int(seq.cast_signed())).collect();
        let answers = self.run(&self.scripts.dead_letter, partition, &args).await?.list()?;
        let read = |(answer, &seq): (Answer, &u64)| -> Result<Option<DeadLetter>, StoreError> {
            let Some(answer) = answer.there() else { return Ok(None) };
            let [letter, head, data, corrected] = answer.parts()?;
            let corrected = corrected.there().map(Answer::payload).transpose()?;
            let Some(record) = decode_or_mark(&head.bytes()?, partition, seq) else { return Ok(None) };
            Ok(Some(dead_letter::decode(&letter.bytes()?, record, data.payload()?, corrected)))
        };
        answers.into_iter().zip(seqs).map(read).collect()
    }

    /// Reads dead letters below an order number without their data, newest first, each with its order and job's number.
    /// One whose job is not known any more is absent.
    async fn read_dead_letters_below(
        &self,
        partition: u16,
        before: u64,
    ) -> Result<Vec<(u64, u64, Option<DeadLetter>)>, StoreError> {
        let args = [Arg::Int(before.cast_signed()), Arg::Int(CALL_DEAD_LETTERS)];
        let answers = self.run(&self.scripts.dead_letters_below, partition, &args).await?.list()?;
        let read = |answer: Answer| {
            let [order, seq, letter, head] = answer.parts()?;
            let (order, seq, letter) = (order.count()?, seq.count()?, letter.bytes()?);
            let record = decode_or_mark(&head.bytes()?, partition, seq);
            Ok((order, seq, record.map(|record| dead_letter::decode(&letter, record, no_data(), None))))
        };
        answers.into_iter().map(read).collect()
    }

    pub(crate) async fn list_oldest_dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        let args = [Arg::Int(i64::try_from(limit).unwrap_or(i64::MAX))];
        let mut oldest = Vec::new();
        for partition in self.partitions() {
            for found in self.run(&self.scripts.oldest_dead_letters, partition, &args).await?.list()? {
                let [order, seq] = found.parts()?;
                oldest.push((self.order_of(partition, order.count()?), partition, seq.count()?));
            }
        }
        oldest.sort_unstable();
        oldest.truncate(limit);
        let mut letters = Vec::with_capacity(oldest.len());
        for (partition, run) in runs(&oldest) {
            letters.extend(self.read_dead_letters(partition, &seqs(run)).await?.into_iter().flatten());
        }
        Ok(letters)
    }

    pub(crate) async fn list_dead_letters(
        &self,
        filter: &DeadLetterFilter,
        page: PageRequest,
    ) -> Result<Page<DeadLetter>, StoreError> {
        let mut merge = Merge::new(page.limit);
        for partition in self.partitions() {
            self.scan_dead_letters(partition, filter, page, &mut merge).await?;
        }
        let (wanted, next) = merge.page();
        let (mut items, mut bytes) = (Vec::with_capacity(wanted.len()), 0);
        for (partition, run) in runs(&wanted) {
            for ((order, ..), letter) in run.iter().zip(self.read_dead_letters(partition, &seqs(run)).await?)
            {
                let Some(letter) = letter else { continue };
                bytes += letter.data_bytes();
                items.push(letter);
                if bytes >= PAGE_MAX_BYTES {
                    return Ok(Page { items, next: Some(*order) });
                }
            }
        }
        Ok(Page { items, next })
    }

    /// Scans a partition's dead letters, newest first, until the page is full or the scan reaches its bound.
    async fn scan_dead_letters(
        &self,
        partition: u16,
        filter: &DeadLetterFilter,
        page: PageRequest,
        merge: &mut Merge,
    ) -> Result<(), StoreError> {
        let before = page.before.unwrap_or(BEYOND_ALL).min(BEYOND_ALL);
        let mut below = Some(self.number_at(partition, before));
        let (mut wanted, mut scanned) = (0, 0);
        while let Some(number) = below.filter(|_| wanted <= page.limit && scanned < SCAN_MAX) {
            let letters = self.read_dead_letters_below(partition, number).await?;
            scanned += letters.len();
            below = letters
                .last()
                .map(|(order, ..)| *order)
                .filter(|_| letters.len() as i64 == CALL_DEAD_LETTERS);
            for (order, seq, letter) in letters {
                if letter.is_some_and(|letter| filter.matches(&letter)) {
                    merge.found(self.order_of(partition, order), partition, seq);
                    wanted += 1;
                }
            }
        }
        if let Some(number) = below {
            merge.stopped_at(self.order_of(partition, number));
        }
        Ok(())
    }

    pub(crate) async fn groups(
        &self,
        by: GroupBy,
        filter: &DeadLetterFilter,
    ) -> Result<Vec<DeadLetterGroup>, StoreError> {
        let mut groups: BTreeMap<Option<Box<str>>, (u64, Box<str>)> = BTreeMap::new();
        let mut count = |key: Option<Box<str>>, more: u64, reason: &str| {
            groups.entry(key).or_insert_with(|| (0, reason.into())).0 += more;
        };
        for partition in self.partitions() {
            if is_everything(filter) {
                let counted = self
                    .run(&self.scripts.dead_letter_groups, partition, &[Arg::from(kind(by))])
                    .await?
                    .list()?;
                let mut parts = counted.into_iter();
                while let (Some(key), Some(many), Some(reason)) = (parts.next(), parts.next(), parts.next()) {
                    let key = key.text()?;
                    let key =
                        if by == GroupBy::LastFailureCode { dead_letter::code_of(&key) } else { Some(&*key) };
                    count(key.map(Into::into), many.count()?, &reason.text()?);
                }
                continue;
            }
            let mut below = Some(BEYOND_ALL);
            while let Some(before) = below {
                let letters = self.read_dead_letters_below(partition, before).await?;
                below = letters
                    .last()
                    .map(|(order, ..)| *order)
                    .filter(|_| letters.len() as i64 == CALL_DEAD_LETTERS);
                let letters = letters.iter().filter_map(|(.., letter)| letter.as_ref());
                for letter in letters.filter(|letter| filter.matches(letter)) {
                    count(group_of(by, letter), 1, letter.failure.reason.as_str());
                }
            }
        }
        let group = |(key, (count, example_reason))| DeadLetterGroup { key, count, example_reason };
        let mut groups: Vec<_> = groups.into_iter().map(group).collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
        Ok(groups)
    }
}

fn is_everything(filter: &DeadLetterFilter) -> bool {
    let DeadLetterFilter { company, route, last_failure_code, reason, fingerprint, since, until } = filter;
    company.is_none()
        && route.is_none()
        && last_failure_code.is_none()
        && reason.is_none()
        && fingerprint.is_none()
        && since.is_none()
        && until.is_none()
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

fn group_of(by: GroupBy, letter: &DeadLetter) -> Option<Box<str>> {
    match by {
        GroupBy::LastFailureCode => letter.failure.code.clone(),
        GroupBy::Company => Some(letter.company.as_str().into()),
        GroupBy::Route => Some(letter.route.as_str().into()),
        GroupBy::Fingerprint => Some(letter.failure.fingerprint.clone()),
    }
}
