//! Hours of bounded traffic: memory and descriptors of the server stay where they were after the warm-up.
//!
//! `cargo xtask soak --hours 2` runs it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::far_end::REFUSED;
use super::given::Server;
use super::ledger::{Account, Ledger};
use super::scene::Scene;

/// Between two samples; there are at least this many.
const SAMPLE_EVERY: Duration = Duration::from_secs(60);
const SAMPLES_MIN: u32 = 40;

/// Between two jobs: about a hundred a second.
const REST: Duration = Duration::from_millis(10);

/// Ended jobs and dead letters are kept in bounds that the warm-up reaches, and nothing else may grow.
const BOUNDS: &str = "[retention]\nended_max_count = 5000\n[dlq]\nmax_size = 500\n";

/// The first part of the samples, while caches and bounds fill up.
const WARM_UP_SHARE: usize = 4;

/// Growth over the whole run that is still flat: a share of the mean, or this many if that is more.
const FLAT_SHARE: f64 = 0.05;
const FLAT_KIB: f64 = 8.0 * 1_024.0;
const FLAT_DESCRIPTORS: f64 = 8.0;

#[test]
#[ignore = "hours; `cargo xtask soak` runs it"]
fn memory_and_descriptors_stay_flat_over_hours_of_traffic() {
    let hours: f64 = std::env::var("RECADO_SOAK_HOURS")
        .map_or(2.0, |hours| hours.parse().expect("RECADO_SOAK_HOURS is a number"));
    let length = Duration::from_secs_f64(hours * 3_600.0);
    let every = SAMPLE_EVERY.min(length / SAMPLES_MIN);
    let mut scene = Scene::new(Ledger::default());
    scene.configure(BOUNDS);
    let server = scene.serve();
    scene.is_at(&server);
    let (began, mut samples, mut nth) = (Instant::now(), Vec::new(), 0_u64);
    while began.elapsed() < length {
        if began.elapsed() >= every * samples.len() as u32 {
            samples.push([resident_kib(&server), descriptors(&server)]);
        }
        nth += 1;
        let path = if nth.is_multiple_of(50) { REFUSED } else { "deliver" };
        scene.enqueue(&format!("soak-{nth}"), path, &Value::Null);
        std::thread::sleep(REST);
    }
    let mut ledger = scene.ledger.lock().clone();
    assert_eq!(ledger.unanswered, 0, "a job was not answered");
    // The store has forgotten all but the last few. Those that came are not lost.
    let came = scene.far_end.arrivals().into_iter().map(|arrival| arrival.key);
    ledger.removed.extend(came);
    let account = Account::of(&ledger, &scene.far_end, &server);
    account.holds("soak");
    let steady = &samples[samples.len() / WARM_UP_SHARE..];
    let [memory, descriptors] = [0, 1].map(|at| Trend::of(steady.iter().map(|sample| sample[at])));
    let result = json!({
        "hours": hours, "samples": samples.len(), "acknowledged": account.acknowledged, "lost": account.lost.len(),
        "resident memory, mean KiB": memory.mean.round(), "resident memory, growth KiB": memory.growth.round(),
        "descriptors, mean": descriptors.mean.round(), "descriptors, growth": descriptors.growth.round(),
        "judged by": format!("the slope after the first quarter; flat is at most {}% of the mean, {} MiB or {} descriptors",
            FLAT_SHARE * 100.0, FLAT_KIB / 1_024.0, FLAT_DESCRIPTORS),
    });
    println!("{result:#}");
    if let Ok(path) = std::env::var("RECADO_RESULTS") {
        std::fs::write(path, result.to_string()).expect("a file for results");
    }
    assert!(memory.is_flat(FLAT_KIB), "memory grows: {samples:?}");
    assert!(descriptors.is_flat(FLAT_DESCRIPTORS), "descriptors grow: {samples:?}");
}

/// The mean of samples, and the growth from the first to the last by the line that fits them best.
struct Trend {
    mean: f64,
    growth: f64,
}

impl Trend {
    fn of(samples: impl Iterator<Item = f64>) -> Self {
        let samples: Vec<_> = samples.collect();
        let count = samples.len() as f64;
        let (mean, middle) = (samples.iter().sum::<f64>() / count, (count - 1.0) / 2.0);
        let from_middle = |at: usize| at as f64 - middle;
        let together: f64 =
            samples.iter().enumerate().map(|(at, sample)| from_middle(at) * (sample - mean)).sum();
        let spread: f64 = (0..samples.len()).map(|at| from_middle(at).powi(2)).sum();
        Trend { mean, growth: together / spread * (count - 1.0) }
    }

    fn is_flat(&self, least: f64) -> bool {
        self.growth <= least.max(self.mean * FLAT_SHARE)
    }
}

pub fn resident_kib(server: &Server) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("a process");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    resident.and_then(|kib| kib.parse().ok()).expect("its memory")
}

fn descriptors(server: &Server) -> f64 {
    std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("a process").count() as f64
}

#[test]
fn a_trend_is_the_growth_of_the_line_that_fits_best() {
    let trend = Trend::of([10.0, 12.0, 14.0, 16.0].into_iter());
    assert_eq!((trend.mean, trend.growth), (13.0, 6.0));
    assert!(!trend.is_flat(5.0) && trend.is_flat(6.0));
    assert!(Trend::of([9.0, 7.0, 8.0, 7.0].into_iter()).is_flat(0.0), "less is flat, too");
}
