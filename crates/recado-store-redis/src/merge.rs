//! One list from several partitions, newest first, without gap or repetition.

/// A place in the order of all, and the job's partition and number.
type Row = (u64, u16, u64);

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
    pub fn page(mut self) -> (Vec<(u16, u64)>, Option<u64>) {
        self.rows.retain(|(order, ..)| *order >= self.horizon);
        self.rows.sort_unstable_by_key(|(order, ..)| std::cmp::Reverse(*order));
        let cut = self.rows.len() > self.limit;
        self.rows.truncate(self.limit);
        let next = if cut {
            self.rows.last().map(|(order, ..)| *order)
        } else {
            Some(self.horizon).filter(|horizon| *horizon > 0)
        };
        (self.rows.into_iter().map(|(_, partition, seq)| (partition, seq)).collect(), next)
    }
}

/// Runs of one partition, in order and not too long for one call.
pub fn runs(wanted: Vec<(u16, u64)>) -> Vec<(u16, Vec<u64>)> {
    const RUN_MAX: usize = 256;
    let mut runs: Vec<(u16, Vec<u64>)> = Vec::new();
    for (partition, seq) in wanted {
        match runs.last_mut() {
            Some((of, seqs)) if *of == partition && seqs.len() < RUN_MAX => seqs.push(seq),
            _ => runs.push((partition, vec![seq])),
        }
    }
    runs
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
        assert_eq!((rows, next), (vec![(0, 45), (1, 40), (0, 35)], Some(65)));
    }

    #[test]
    fn a_full_page_goes_on_after_its_last_row() {
        let mut merge = Merge::new(2);
        for order in [3, 9, 6] {
            merge.found(order, 0, order);
        }
        assert_eq!(merge.page(), (vec![(0, 9), (0, 6)], Some(6)));
        assert_eq!(Merge::new(2).page(), (vec![], None));
    }

    #[test]
    fn runs_keep_the_order() {
        assert_eq!(runs(vec![(0, 9), (0, 8), (1, 7), (0, 6)]), [(0, vec![9, 8]), (1, vec![7]), (0, vec![6])]);
        assert_eq!(runs((0..300).map(|seq| (0, seq)).collect()).len(), 2);
    }
}
