//! Growing pauses between requests to a server that does not answer.

use std::time::Duration;

use fastrand::Rng;

/// Doubling pauses up to a cap, half of each left to chance so that workers do not return in step.
#[derive(Debug)]
pub(crate) struct Pauses {
    first: Duration,
    cap: Duration,
    next: Duration,
}

impl Pauses {
    pub fn new(first: Duration, cap: Duration) -> Self {
        Pauses { first, cap, next: first }
    }

    pub fn next(&mut self, chance: &mut Rng) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.cap);
        pause.mul_f64(0.5 + chance.f64() / 2.0)
    }

    /// Forgets the pause; returns true if there was one.
    pub fn reset(&mut self) -> bool {
        let paused = self.next != self.first;
        self.next = self.first;
        paused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_cap_and_start_over_after_a_success() {
        let (first, cap) = (Duration::from_millis(500), Duration::from_secs(30));
        let mut pauses = Pauses::new(first, cap);
        let mut chance = Rng::with_seed(7);
        let mut due = first;
        for _ in 0..10 {
            let pause = pauses.next(&mut chance);
            assert!((due / 2..=due).contains(&pause), "{pause:?} where {due:?} was due");
            due = (due * 2).min(cap);
        }
        assert_eq!(due, cap);
        assert!(pauses.reset() && !pauses.reset());
        assert!(pauses.next(&mut chance) <= first);
    }
}
