//! Ended jobs, in the order in which retention forgets them.

use std::collections::BTreeSet;

/// The end time of a job, and its row.
pub type Ending = (i64, u64);

/// Endings by time. They mostly come in order; after the clock was set back they do not, so each finds its place by
/// search.
#[derive(Debug)]
pub struct Endings<E: Ord = Ending>(BTreeSet<E>);

impl<E: Ord> Default for Endings<E> {
    fn default() -> Self {
        Endings(BTreeSet::new())
    }
}

impl<E: Ord> Endings<E> {
    pub fn insert(&mut self, ending: E) {
        self.0.insert(ending);
    }

    pub fn remove(&mut self, ending: &E) {
        self.0.remove(ending);
    }

    pub fn oldest(&self) -> Option<&E> {
        self.0.first()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<E: Ord> FromIterator<E> for Endings<E> {
    fn from_iter<I: IntoIterator<Item = E>>(endings: I) -> Self {
        Endings(endings.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;
    use std::rc::Rc;

    use super::*;

    /// An ending that counts how often it is compared.
    #[derive(Clone)]
    struct Counted(i64, Rc<Cell<u64>>);

    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> Ordering {
            self.1.set(self.1.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }

    impl Eq for Counted {}

    #[test]
    fn a_clock_that_was_set_back_makes_filing_an_ending_no_more_work() {
        const ENDINGS: i64 = 20_000;
        let comparisons = Rc::new(Cell::new(0));
        let mut endings = Endings::default();
        let mut file = |from: i64| {
            let before = comparisons.get();
            (from..from + ENDINGS).for_each(|at| endings.insert(Counted(at, comparisons.clone())));
            comparisons.get() - before
        };
        let in_order = file(10 * ENDINGS);
        let set_back = file(0);
        assert!(set_back <= 2 * in_order, "{set_back} comparisons after the step, {in_order} before it");
        assert_eq!(endings.oldest().map(|ending| ending.0), Some(0));
    }
}
