//! Histograms with fixed borders, small enough to keep one in every slot of a history.

use std::marker::PhantomData;
use std::time::Duration;

/// Borders of every scale; one more bin takes what lies beyond the last.
pub const BORDERS: usize = 15;

/// The borders of the bins. Borders and values are whole numbers in a unit of the scale.
pub trait Scale {
    /// Rising; a value on a border belongs below it.
    const BORDERS: [u64; BORDERS];
    /// Units in one of the unit that people read: a second, a job.
    const UNIT: f64;
}

const MS: u64 = 1_000;
const S: u64 = 1_000 * MS;
const MIN: u64 = 60 * S;
const H: u64 = 60 * MIN;

macro_rules! scales {
    ($($(#[$doc:meta])* $name:ident, $unit:expr, $borders:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
            pub struct $name;

            impl Scale for $name {
                const BORDERS: [u64; BORDERS] = $borders;
                const UNIT: f64 = $unit;
            }
        )*
    };
}

scales! {
    /// Waits between tries. Whole minutes from one minute on, for the histogram in minutes.
    Delays, 1e6, [S, 2 * S, 5 * S, 10 * S, 30 * S, MIN, 2 * MIN, 5 * MIN, 10 * MIN, 20 * MIN, 30 * MIN, H, 2 * H, 4 * H, 8 * H];
    /// From the first try to success: finest around the target of one hour.
    Recoveries, 1e6, [S, 10 * S, MIN, 5 * MIN, 10 * MIN, 15 * MIN, 20 * MIN, 30 * MIN, 45 * MIN, H, 90 * MIN, 2 * H, 4 * H, 12 * H, 24 * H];
    /// From due to done: the targets of 50 and 250 ms, the alert at five minutes.
    Processing, 1e6, [10 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS, S, 2_500 * MS, 5 * S, 15 * S, MIN, 2 * MIN, 5 * MIN, 10 * MIN, 30 * MIN, H];
    /// One conversation with a provider.
    Talks, 1e6, [MS, 5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS, S, 2_500 * MS, 5 * S, 10 * S, 30 * S, MIN, 5 * MIN];
    /// Work of the store.
    Works, 1e6, [50, 100, 250, 500, MS, 2_500, 5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS, S, 2_500 * MS];
    /// Age of dead letters: up to the week that they are kept.
    Ages, 1e6, [MIN, 5 * MIN, 15 * MIN, 30 * MIN, H, 2 * H, 6 * H, 12 * H, 24 * H, 48 * H, 72 * H, 96 * H, 120 * H, 144 * H, 168 * H];
    /// Jobs in a batch.
    Batches, 1.0, [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000];
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spread<S> {
    pub bins: [u64; BORDERS + 1],
    pub sum: u64,
    scale: PhantomData<S>,
}

impl<S> Default for Spread<S> {
    fn default() -> Self {
        Spread { bins: [0; BORDERS + 1], sum: 0, scale: PhantomData }
    }
}

impl<S: Scale> Spread<S> {
    pub fn note(&mut self, value: u64) {
        let bin = S::BORDERS.partition_point(|border| *border < value);
        self.bins[bin] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// On a scale of time, whose unit is the microsecond.
    pub fn note_time(&mut self, time: Duration) {
        self.note(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    pub fn count(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// The sum, as people read it.
    pub fn total(&self) -> f64 {
        self.sum as f64 / S::UNIT
    }

    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.total() / count as f64)
    }

    /// The value below which this share of all lies, by the same straight lines between borders that
    /// Prometheus draws. Beyond the last border there is no telling, and the border it is.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = share * count as f64;
        let mut below = 0.0;
        let mut start = 0.0;
        for (bin, border) in self.bins.iter().zip(S::BORDERS) {
            let (bin, end) = (*bin as f64, border as f64 / S::UNIT);
            if bin > 0.0 && below + bin >= rank {
                return Some(start + (end - start) * (rank - below) / bin);
            }
            below += bin;
            start = end;
        }
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_a_border_belongs_below_it() {
        let mut spread = Spread::<Batches>::default();
        [0, 1, 2, 3, 50_000, 50_001].into_iter().for_each(|value| spread.note(value));
        assert_eq!(spread.bins[..3], [2, 1, 1]);
        assert_eq!(spread.bins[14..], [1, 1]);
        assert_eq!((spread.count(), spread.sum), (6, 100_007));
    }

    #[test]
    fn a_quantile_lies_on_the_line_between_two_borders() {
        let mut spread = Spread::<Batches>::default();
        assert_eq!(spread.quantile(0.5), None);
        for value in [15, 15, 15, 15] {
            spread.note(value);
        }
        assert_eq!(spread.quantile(0.5), Some(15.0));
        assert_eq!(spread.quantile(1.0), Some(20.0));
        spread = Spread::default();
        spread.note(u64::MAX);
        assert_eq!(spread.quantile(0.5), Some(50_000.0));
    }
}
