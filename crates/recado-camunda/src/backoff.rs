//! Growing backoff between requests to a server that does not answer.

use std::time::Duration;

use recado_core::Random;

/// Doubling backoff up to a cap, half of each left to chance so that workers do not return in step.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    cap: Duration,
    next: Duration,
}

impl Backoff {
    pub fn new(first: Duration, cap: Duration) -> Self {
        Backoff { first, cap, next: first }
    }

    pub fn next(&mut self, random: &Random) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.cap);
        random.jitter(pause)
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
        let mut backoff = Backoff::new(first, cap);
        let random = Random::from_seed(7);
        let mut due = first;
        for _ in 0..10 {
            let pause = backoff.next(&random);
            assert!((due / 2..=due).contains(&pause), "{pause:?} where {due:?} was due");
            due = (due * 2).min(cap);
        }
        assert_eq!(due, cap);
        assert!(backoff.reset() && !backoff.reset());
        assert!(backoff.next(&random) <= first);
    }
}
