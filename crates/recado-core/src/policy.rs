//! Retry policies: the delay before each try.
//!
//! A delay is a pure function of how often the job was tried and of one random draw. All required formulas have
//! one shape: a base curve, a jitter, and the place where the cap applies.

use std::time::Duration;

/// Longest delay a policy can produce; keeps the arithmetic finite.
pub const DELAY_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Most attempts a policy may allow: an endless retry is a queue that never drains.
pub const ATTEMPTS_MAX: u32 = 100;

/// One random number in `[0, 1)`, drawn by the caller.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Draw(f64);

impl Draw {
    pub fn new(unit: f64) -> Self {
        Draw(if unit.is_finite() { unit.clamp(0.0, 1.0) } else { 0.5 })
    }

    /// A number from `low` to `high`.
    pub fn between(self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Backoff {
    /// `base · factorⁿ`, where n counts retries from 0.
    Exponential { base: Duration, factor: f64, cap: Duration },
    /// The wait before each attempt, the first included.
    Schedule(Vec<Duration>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Jitter {
    None,
    /// Between `-share` and `+share` of the delay.
    Symmetric(f64),
    /// Between nothing and `+share` of the delay.
    Positive(f64),
    /// Anywhere between nothing and the delay.
    Full,
    /// Half the delay, and a random share of the other half.
    Equal,
    /// Between the base and three times the previous delay.
    Decorrelated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapApplies {
    /// The curve is capped, then jittered: at the cap, delays still spread to both sides.
    BeforeJitter,
    /// Nothing ever exceeds the cap.
    AfterJitter,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub backoff: Backoff,
    pub jitter: Jitter,
    pub cap_applies: CapApplies,
    /// No delay is shorter, whatever the jitter says.
    pub floor: Option<Duration>,
    /// No delay is longer, whatever the jitter says.
    pub ceiling: Option<Duration>,
    /// Counts the first try.
    pub max_attempts: u32,
}

impl Policy {
    pub fn exponential(base: Duration, cap: Duration, max_attempts: u32) -> Self {
        Policy {
            backoff: Backoff::Exponential { base, factor: 2.0, cap },
            jitter: Jitter::None,
            cap_applies: CapApplies::BeforeJitter,
            floor: None,
            ceiling: None,
            max_attempts,
        }
    }

    pub fn schedule(waits: Vec<Duration>) -> Self {
        Policy {
            max_attempts: u32::try_from(waits.len()).unwrap_or(ATTEMPTS_MAX),
            backoff: Backoff::Schedule(waits),
            ..Policy::exponential(Duration::ZERO, Duration::ZERO, 0)
        }
    }

    /// The wait before the very first attempt.
    pub fn first_delay(&self) -> Duration {
        match &self.backoff {
            Backoff::Exponential { .. } => Duration::ZERO,
            Backoff::Schedule(waits) => waits.first().copied().unwrap_or_default(),
        }
    }

    /// The wait before retry `retry` (0 is the first retry). `previous` is the wait before that one.
    pub fn delay(&self, retry: u32, previous: Option<Duration>, draw: Draw) -> Duration {
        let (low, high) = self.spread_ms(retry, previous);
        self.bound(draw.between(low, high))
    }

    /// The shortest and the longest wait before retry `retry`.
    pub fn range(&self, retry: u32) -> (Duration, Duration) {
        // Waits that build on each other have met their cap long before the last retry a policy allows.
        let previous = retry.min(ATTEMPTS_MAX).checked_sub(1).map(|earlier| self.range(earlier).1);
        let (low, high) = self.spread_ms(retry, previous);
        (self.bound(low), self.bound(high))
    }

    /// The wait before retry `retry` with no jitter at all.
    pub fn nominal(&self, retry: u32) -> Duration {
        self.bound(self.curve_ms(retry).min(self.cap_ms()))
    }

    fn base_ms(&self) -> f64 {
        match &self.backoff {
            Backoff::Exponential { base, .. } => ms(*base),
            Backoff::Schedule(waits) => ms(waits.get(1).or(waits.first()).copied().unwrap_or_default()),
        }
    }

    /// The curve's delay before it is capped.
    fn curve_ms(&self, retry: u32) -> f64 {
        match &self.backoff {
            Backoff::Exponential { base, factor, .. } => {
                (ms(*base) * factor.powi(i32::try_from(retry).unwrap_or(i32::MAX))).min(ms(DELAY_MAX))
            }
            Backoff::Schedule(waits) => {
                let at = (retry as usize).saturating_add(1).min(waits.len().saturating_sub(1));
                ms(waits.get(at).copied().unwrap_or_default())
            }
        }
    }

    fn cap_ms(&self) -> f64 {
        match &self.backoff {
            Backoff::Exponential { cap, .. } => ms(*cap),
            Backoff::Schedule(_) => ms(DELAY_MAX),
        }
    }

    fn spread_ms(&self, retry: u32, previous: Option<Duration>) -> (f64, f64) {
        let (curve, cap) = (self.curve_ms(retry), self.cap_ms());
        let delay = match self.cap_applies {
            CapApplies::BeforeJitter => curve.min(cap),
            CapApplies::AfterJitter => curve,
        };
        let (low, high) = match self.jitter {
            Jitter::None => (delay, delay),
            Jitter::Symmetric(share) => (delay * (1.0 - share), delay * (1.0 + share)),
            Jitter::Positive(share) => (delay, delay * (1.0 + share)),
            Jitter::Full => (0.0, delay),
            Jitter::Equal => (delay / 2.0, delay),
            Jitter::Decorrelated => {
                let base = self.base_ms();
                (base, (previous.map_or(base, ms) * 3.0).clamp(base, cap.max(base)))
            }
        };
        match self.cap_applies {
            CapApplies::BeforeJitter => (low, high),
            CapApplies::AfterJitter => (low.min(cap), high.min(cap)),
        }
    }

    fn bound(&self, delay_ms: f64) -> Duration {
        let delay = Duration::from_millis(delay_ms.clamp(0.0, ms(DELAY_MAX)).round() as u64);
        let delay = self.floor.map_or(delay, |floor| delay.max(floor));
        self.ceiling.map_or(delay, |ceiling| delay.min(ceiling))
    }

    /// Returns every fault, each with what to write instead.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.max_attempts == 0 || self.max_attempts > ATTEMPTS_MAX {
            faults.push(format!(
                "max_attempts is {}; write 1 to {ATTEMPTS_MAX} (it counts the first try)",
                self.max_attempts
            ));
        }
        match &self.backoff {
            Backoff::Exponential { base, factor, cap } => {
                if base.is_zero() && self.max_attempts > 1 {
                    faults.push(
                        "base is zero, so retries would not back off; write at least \"1ms\"".to_owned(),
                    );
                }
                if !(1.0..=100.0).contains(factor) {
                    faults.push(format!("factor is {factor}; write 1 to 100"));
                }
                if cap < base {
                    faults.push("cap is below base; raise cap or lower base".to_owned());
                }
            }
            Backoff::Schedule(waits) => {
                if waits.is_empty() {
                    faults.push(
                        "schedule is empty; write one wait per attempt, such as [\"0s\", \"5s\", \"30s\"]"
                            .to_owned(),
                    );
                }
                if waits.iter().skip(1).any(Duration::is_zero) {
                    faults.push("schedule retries at once; only the first wait may be zero".to_owned());
                }
            }
        }
        if let Jitter::Symmetric(share) | Jitter::Positive(share) = self.jitter
            && !(0.0..=1.0).contains(&share)
        {
            faults.push("jitter is outside 0 to 100 %; write for example \"±25%\"".to_owned());
        }
        if let (Some(floor), Some(ceiling)) = (self.floor, self.ceiling)
            && floor > ceiling
        {
            faults.push("floor is above ceiling; swap them".to_owned());
        }
        faults
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a jitter; write \"±25%\", \"+20%\", \"full\", \"equal\", \"decorrelated\" or \"none\"")]
pub struct NotAJitter(String);

impl std::str::FromStr for Jitter {
    type Err = NotAJitter;

    fn from_str(text: &str) -> Result<Self, NotAJitter> {
        let refused = || NotAJitter(text.to_owned());
        let percent = |number: &str| -> Result<f64, NotAJitter> {
            let share = number.trim().strip_suffix('%').ok_or_else(refused)?;
            let share: f64 = share.trim().parse().map_err(|_| refused())?;
            if (0.0..=100.0).contains(&share) { Ok(share / 100.0) } else { Err(refused()) }
        };
        let text = text.trim();
        match text {
            "none" => Ok(Jitter::None),
            "full" => Ok(Jitter::Full),
            "equal" => Ok(Jitter::Equal),
            "decorrelated" => Ok(Jitter::Decorrelated),
            _ => match text
                .strip_prefix('±')
                .or_else(|| text.strip_prefix("+-"))
                .or_else(|| text.strip_prefix("+/-"))
            {
                Some(rest) => percent(rest).map(Jitter::Symmetric),
                None => percent(text.strip_prefix('+').ok_or_else(refused)?).map(Jitter::Positive),
            },
        }
    }
}

impl std::fmt::Display for Jitter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |share: &f64| (share * 1e8).round() / 1e6; // 0.07 is 7 %, not 7.000000000000001 %
        match self {
            Jitter::None => f.write_str("none"),
            Jitter::Symmetric(share) => write!(f, "±{}%", percent(share)),
            Jitter::Positive(share) => write!(f, "+{}%", percent(share)),
            Jitter::Full => f.write_str("full"),
            Jitter::Equal => f.write_str("equal"),
            Jitter::Decorrelated => f.write_str("decorrelated"),
        }
    }
}
