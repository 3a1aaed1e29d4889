//! A priority queue whose entries may go stale where they lie.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Smallest first. What happened to an entry's subject meanwhile is asked when it surfaces; when stale
/// entries outnumber live ones, they are swept out, so that memory follows what is live.
#[derive(Debug)]
pub struct LazyHeap<T: Ord> {
    entries: BinaryHeap<Reverse<T>>,
}

/// Below this many entries sweeping or sorting is not worth it.
const SWEEP_MIN: usize = 1_024;

/// When 1/64 of the heap was taken in one call, the rest is sorted instead of popped.
const SORTED_PART: usize = 64;

impl<T: Ord> Default for LazyHeap<T> {
    fn default() -> Self {
        LazyHeap { entries: BinaryHeap::new() }
    }
}

impl<T: Ord + Copy> LazyHeap<T> {
    pub fn push(&mut self, entry: T) {
        self.entries.push(Reverse(entry));
    }

    /// The smallest entry that is still `live`; stale ones before it are dropped.
    pub fn peek(&mut self, live: impl Fn(T) -> bool) -> Option<T> {
        while let Some(Reverse(entry)) = self.entries.peek() {
            if live(*entry) {
                return Some(*entry);
            }
            self.entries.pop();
        }
        None
    }

    pub fn pop(&mut self, live: impl Fn(T) -> bool) -> Option<T> {
        let entry = self.peek(live)?;
        self.entries.pop();
        Some(entry)
    }

    /// Takes out the entries that `is_taken` holds for, which are the smallest, in order.
    ///
    /// A long queue that became due while no process ran is sorted instead, which is cheap because it came in almost
    /// in order: each pop of a heap costs a logarithm of its length.
    pub fn take_while(&mut self, is_taken: impl Fn(T) -> bool, mut take: impl FnMut(T)) {
        let sorts_after = (self.entries.len() / SORTED_PART).max(SWEEP_MIN);
        let mut popped = 0;
        while let Some(Reverse(entry)) = self.entries.peek().copied()
            && is_taken(entry)
        {
            if popped == sorts_after {
                let mut entries = std::mem::take(&mut self.entries).into_vec();
                // The smallest last.
                entries.sort_unstable();
                while let Some(Reverse(entry)) = entries.pop_if(|Reverse(entry)| is_taken(*entry)) {
                    take(entry);
                }
                entries.shrink_to_fit();
                self.entries = entries.into();
                return;
            }
            self.entries.pop();
            popped += 1;
            take(entry);
        }
    }

    /// Call after a subject died: sweeps once more than half of the entries can be stale.
    ///
    /// A subject that came and went may have left the same entry several times, all of them live: they are
    /// made one, or they would be swept over and over.
    pub fn sweep(&mut self, live_count: usize, live: impl Fn(T) -> bool) {
        if self.entries.len() > SWEEP_MIN && self.entries.len() > 2 * live_count {
            let mut entries = std::mem::take(&mut self.entries).into_vec();
            entries.retain(|Reverse(entry)| live(*entry));
            entries.sort_unstable();
            entries.dedup();
            entries.shrink_to(live_count + live_count / 2);
            self.entries = entries.into();
        }
    }

    pub fn reserve(&mut self, more: usize) {
        self.entries.reserve_exact(more);
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_entries_never_surface_and_do_not_pile_up() {
        let mut heap = LazyHeap::default();
        for n in 0..10_000 {
            heap.push(n);
        }
        assert_eq!(heap.pop(|n| n % 2 == 1), Some(1));
        assert_eq!(heap.peek(|n| n > 100), Some(101));
        heap.sweep(100, |n| n >= 9_900);
        assert_eq!(heap.len(), 100);
        assert_eq!(heap.pop(|_| true), Some(9_900));
    }

    #[test]
    fn an_entry_that_was_left_many_times_is_swept_into_one() {
        let mut heap = LazyHeap::default();
        for n in 0..2_000 {
            heap.push(n % 10);
        }
        heap.sweep(10, |_| true);
        assert_eq!(heap.len(), 10);
        assert_eq!(heap.pop(|_| true), Some(0));
    }

    #[test]
    fn few_and_many_entries_are_taken_in_order_and_the_rest_stays() {
        for taken_count in [10, 9_000] {
            let mut heap = LazyHeap::default();
            // Almost in order, as jobs come.
            for n in 0..10_000_u32 {
                heap.push(n ^ 1);
            }
            let mut taken = Vec::new();
            heap.take_while(|n| n < taken_count, |n| taken.push(n));
            assert_eq!(taken, (0..taken_count).collect::<Vec<_>>());
            assert_eq!(heap.len() as u32, 10_000 - taken_count);
            assert_eq!(heap.pop(|_| true), Some(taken_count));
        }
    }
}
