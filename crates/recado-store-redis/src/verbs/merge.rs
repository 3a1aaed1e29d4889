//! Merges the lists of several partitions into one, newest first, without gap or repetition.

use recado_store::{DataBytes, PAGE_MAX_BYTES, Page, PageRequest, StoreResult};

use crate::store::RedisStore;
use crate::verbs::partitions::BEYOND_ALL;

/// Most rows of a partition that one page of a filtered list scans before it returns what it has.
const SCAN_MAX: usize = 20_000;

/// A place in the order of all, and the job's partition and number.
pub type Row = (u64, u16, u64);

#[derive(Debug)]
pub struct Merge {
    rows: Vec<Row>,
    limit: usize,
    /// Below this place some partition was not looked at.
    horizon: u64,
}

impl Merge {
    pub fn new(limit: usize) -> Self {
        Merge { rows: Vec::new(), limit, horizon: 0 }
    }

    pub fn found(&mut self, order: u64, partition: u16, seq: u64) {
        self.rows.push((order, partition, seq));
    }

    /// A partition has more from here on down.
    pub fn stopped_at(&mut self, order: u64) {
        self.horizon = self.horizon.max(order);
    }

    /// The page's jobs, and where the next one begins, if there may be one.
    pub fn page(mut self) -> (Vec<Row>, Option<u64>) {
        self.rows.retain(|(order, ..)| *order >= self.horizon);
        self.rows.sort_unstable_by_key(|(order, ..)| std::cmp::Reverse(*order));
        let cut = self.rows.len() > self.limit;
        self.rows.truncate(self.limit);
        let next = if cut {
            self.rows.last().map(|(order, ..)| *order)
        } else {
            Some(self.horizon).filter(|horizon| *horizon > 0)
        };
        (self.rows, next)
    }
}

/// A part of a partition's list, newest first: the number and the job of each row, without those that are not wanted,
/// and the number to go on below, if there is more.
pub type ScannedRows = (Vec<Option<(u64, u64)>>, Option<u64>);

impl RedisStore {
    /// Lists a page of all partitions: scans the rows of each below a number, until the page is full or the scan
    /// reaches its bound, and then reads the items of those that are on the page.
    pub(crate) async fn list_page<T, Scan, Read>(
        &self,
        page: PageRequest,
        scan_below: impl Fn(u16, u64) -> Scan + Send + Sync,
        read: impl Fn(u16, Vec<u64>) -> Read + Send + Sync,
    ) -> StoreResult<Page<T>>
    where
        T: DataBytes + Send,
        Scan: Future<Output = StoreResult<ScannedRows>> + Send,
        Read: Future<Output = StoreResult<Vec<Option<T>>>> + Send,
    {
        let before = page.before.unwrap_or(BEYOND_ALL).min(BEYOND_ALL);
        let mut merge = Merge::new(page.limit);
        for partition in self.partitions() {
            let mut below = Some(self.number_at(partition, before));
            let (mut wanted, mut scanned) = (0, 0);
            while let Some(number) = below.filter(|_| wanted <= page.limit && scanned < SCAN_MAX) {
                let (rows, next) = scan_below(partition, number).await?;
                (scanned, below) = (scanned + rows.len(), next);
                for (number, seq) in rows.into_iter().flatten() {
                    merge.found(self.order_of(partition, number), partition, seq);
                    wanted += 1;
                }
            }
            if let Some(number) = below {
                merge.stopped_at(self.order_of(partition, number));
            }
        }
        let (wanted, next) = merge.page();
        let (mut items, mut bytes) = (Vec::with_capacity(wanted.len()), 0);
        for (partition, run) in runs(&wanted) {
            for ((order, ..), item) in run.iter().zip(read(partition, seqs(run)).await?) {
                let Some(item) = item else { continue };
                bytes += item.data_bytes();
                items.push(item);
                if bytes >= PAGE_MAX_BYTES {
                    return Ok(Page { items, next: Some(*order) });
                }
            }
        }
        Ok(Page { items, next })
    }
}

/// Runs of one partition, in order and not too long for one call.
///
/// A row comes with its payload of up to 1 MiB, so a call has few of them.
pub fn runs(wanted: &[Row]) -> impl Iterator<Item = (u16, &[Row])> {
    const RUN_MAX: usize = 16;
    let runs = wanted.chunk_by(|(_, one, _), (_, next, _)| one == next);
    runs.flat_map(|run| run.chunks(RUN_MAX)).filter_map(|run| run.first().map(|(_, of, _)| (*of, run)))
}

/// The numbers of a run's jobs.
pub fn seqs(run: &[Row]) -> Vec<u64> {
    run.iter().map(|(.., seq)| *seq).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_where_a_partition_was_not_looked_at() {
        let mut merge = Merge::new(10);
        for (order, partition, seq) in [(90, 0, 45), (70, 0, 35), (81, 1, 40), (61, 1, 30)] {
            merge.found(order, partition, seq);
        }
        merge.stopped_at(65);
        let (rows, next) = merge.page();
        assert_eq!((rows, next), (vec![(90, 0, 45), (81, 1, 40), (70, 0, 35)], Some(65)));
    }

    #[test]
    fn a_full_page_goes_on_after_its_last_row() {
        let mut merge = Merge::new(2);
        for order in [3, 9, 6] {
            merge.found(order, 0, order);
        }
        assert_eq!(merge.page(), (vec![(9, 0, 9), (6, 0, 6)], Some(6)));
        assert_eq!(Merge::new(2).page(), (vec![], None));
    }

    #[test]
    fn runs_keep_the_order() {
        let rows = [(4, 0, 9), (3, 0, 8), (2, 1, 7), (1, 0, 6)];
        let found: Vec<_> = runs(&rows).map(|(partition, run)| (partition, seqs(run))).collect();
        assert_eq!(found, [(0, vec![9, 8]), (1, vec![7]), (0, vec![6])]);
        let many: Vec<_> = (0..40).map(|seq| (seq, 0, seq)).collect();
        assert_eq!(runs(&many).map(|(_, run)| run.len()).collect::<Vec<_>>(), [16, 16, 8]);
    }
}
