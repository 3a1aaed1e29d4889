//! Randomness as an argument: one seeded generator that engine and stores share.
//!
//! `main` makes one from entropy and hands it to every part that needs ids, fences or jitter. A test makes one from
//! a number, and the same calls in the same order give the same values again.
//!
//! The generator numbers its draws and hashes each number with a secret key. So drawing needs no lock, and a
//! value that left the process tells nothing about the next one. It is not meant for keys and passwords.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use siphasher::sip::SipHasher13;

use crate::policy::Draw;
use crate::values::time::Timestamp;

/// A source of random numbers and ids. Share it as `Arc<Random>`.
pub struct Random {
    keyed: SipHasher13,
    draws: AtomicU64,
    /// Time and counter of the last id, as [`Random::uuid_v7`] packs them.
    last_id: AtomicU64,
}

impl Random {
    /// Makes a generator from the operating system's entropy: each one gives values of its own.
    pub fn from_entropy() -> Self {
        let entropy = || RandomState::new().build_hasher().finish();
        Random::from_key(entropy(), entropy())
    }

    /// Makes a generator that repeats its values whenever it is made from the same seed.
    pub fn from_seed(seed: u64) -> Self {
        Random::from_key(seed, 0)
    }

    fn from_key(high: u64, low: u64) -> Self {
        Random {
            keyed: SipHasher13::new_with_keys(high, low),
            draws: AtomicU64::new(0),
            last_id: AtomicU64::new(0),
        }
    }

    /// Returns any number, each as likely as the others.
    pub fn next_u64(&self) -> u64 {
        let mut hasher = self.keyed;
        hasher.write(&self.draws.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        hasher.finish()
    }

    /// Returns a number in `[0, 1)` for a retry policy.
    pub fn next_draw(&self) -> Draw {
        // The 53 bits that a float holds exactly.
        Draw::new((self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64)
    }

    /// Returns an index of a list with `len` items, and 0 for an empty one.
    pub fn next_index(&self, len: usize) -> usize {
        ((u128::from(self.next_u64()) * len as u128) >> 64) as usize
    }

    /// Returns between half of `wait` and all of it, so that callers that failed together do not return together.
    pub fn jitter(&self, wait: Duration) -> Duration {
        wait.mul_f64(self.next_draw().between(0.5, 1.0))
    }

    /// Makes an id that contains `now` and sorts after all ids that this generator made before, also within a
    /// millisecond and after the clock was set back.
    pub fn uuid_v7(&self, now: Timestamp) -> UuidV7 {
        // 48 bits of milliseconds, then the 12 bits that RFC 9562 leaves to a counter. More ids than these can
        // count take the next millisecond's.
        let first = (now.as_millis().max(0).cast_unsigned() & 0xffff_ffff_ffff) << 12;
        let follow = |last: u64| first.max(last + 1);
        let last = self.last_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(follow(last)));
        let stamp = u128::from(follow(last.unwrap_or_else(|last| last)));
        let random = u128::from(self.next_u64() >> 2);
        UuidV7((stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xfff) << 64 | 0b10 << 62 | random)
    }
}

/// Shows neither the key nor the draws, which together would tell all values to come.
impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Random").finish_non_exhaustive()
    }
}

/// A UUID of version 7 (RFC 9562), written with hyphens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UuidV7(u128);

impl UuidV7 {
    /// Writes it as 32 hexadecimal digits without hyphens.
    pub fn to_simple(self) -> String {
        format!("{:032x}", self.0)
    }
}

impl fmt::Display for UuidV7 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let simple = self.to_simple();
        let (time, rest) = simple.split_at(8);
        write!(f, "{time}-{}-{}-{}-{}", &rest[..4], &rest[4..8], &rest[8..12], &rest[12..])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(0x0194_5a3b_4c2d);

    fn values(random: &Random) -> (u64, Draw, usize, Duration, UuidV7) {
        let wait = Duration::from_secs(8);
        (
            random.next_u64(),
            random.next_draw(),
            random.next_index(1_000),
            random.jitter(wait),
            random.uuid_v7(NOW),
        )
    }

    #[test]
    fn a_seed_repeats_its_values_and_another_gives_others() {
        let runs = [7, 7, 8].map(|seed| {
            let random = Random::from_seed(seed);
            (0..100).map(|_| values(&random)).collect::<Vec<_>>()
        });
        assert_eq!(runs[0], runs[1]);
        assert!(runs[0].iter().zip(&runs[2]).all(|(one, other)| one.0 != other.0));
    }

    #[test]
    fn the_values_of_a_seed_are_the_same_in_every_version() {
        let random = Random::from_seed(7);
        assert_eq!(
            [random.next_u64(), random.next_u64()],
            [8_017_937_396_763_321_615, 2_645_036_109_605_468_605]
        );
        assert_eq!(random.uuid_v7(NOW).to_string(), "01945a3b-4c2d-7000-a32a-fb366c518842");
    }

    #[test]
    fn generators_from_entropy_differ() {
        let values: BTreeSet<u64> = (0..1_000).map(|_| Random::from_entropy().next_u64()).collect();
        assert_eq!(values.len(), 1_000);
    }

    #[test]
    fn values_stay_within_their_bounds_and_fill_them() {
        let random = Random::from_seed(7);
        let wait = Duration::from_secs(10);
        let (mut indexes, mut waits) = (BTreeSet::new(), Vec::new());
        for _ in 0..1_000 {
            indexes.insert(random.next_index(3));
            waits.push(random.jitter(wait));
            let unit = random.next_draw().between(0.0, 1.0);
            assert!((0.0..1.0).contains(&unit), "{unit}");
        }
        assert_eq!(indexes, BTreeSet::from([0, 1, 2]));
        assert_eq!(random.next_index(0), 0);
        assert!(waits.iter().all(|after| (wait / 2..=wait).contains(after)));
        let mean = waits.iter().sum::<Duration>() / 1_000;
        assert!(mean.abs_diff(wait * 3 / 4) < wait / 50, "{mean:?}");
    }

    #[test]
    fn an_id_contains_its_time_and_says_which_version_it_is() {
        let id = Random::from_seed(7).uuid_v7(NOW);
        let text = id.to_string();
        assert_eq!(&text[..15], "01945a3b-4c2d-7");
        assert!(matches!(text.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{text}");
        assert_eq!((text.len(), text.replace('-', "")), (36, id.to_simple()));
    }

    #[test]
    fn ids_rise_within_a_millisecond_and_after_the_clock_was_set_back() {
        let random = Random::from_seed(7);
        let times = [NOW, NOW, Timestamp::from_millis(5), NOW, NOW.plus(Duration::from_millis(1))];
        // More ids in one millisecond than the counter has numbers.
        let ids: Vec<UuidV7> =
            times.into_iter().chain([NOW; 10_000]).map(|now| random.uuid_v7(now)).collect();
        assert!(ids.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn threads_that_share_a_generator_get_different_values() {
        let random = Random::from_seed(7);
        let draw = || (0..1_000).map(|_| (random.next_u64(), random.uuid_v7(NOW))).collect::<Vec<_>>();
        let drawn = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let numbers: BTreeSet<u64> = drawn.iter().map(|(number, _)| *number).collect();
        let ids: BTreeSet<UuidV7> = drawn.iter().map(|(_, id)| *id).collect();
        assert_eq!((numbers.len(), ids.len()), (4_000, 4_000));
    }
}
