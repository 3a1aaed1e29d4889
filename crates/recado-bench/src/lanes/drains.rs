//! Measures what turns, a breaker and a rate add to the cost of a job.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recado_core::breaker::BreakerTerms;
use recado_core::limit::Rate;
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::{Carrier, Submission};
use recado_transport::Sandbox;

use crate::report::{Report, grouped};
use crate::scene::{Scene, route, submission_of};
use crate::{BenchOptions, Failed};

const BARE: &str = "a job's way: one company, nothing guarded, time";
const BARE_WORK: &str = "a job's way: one company, nothing guarded, work";

/// Jobs of one company that go out in another order than they lie in the file. Turns do that too, and what it costs
/// is the file's price, not theirs.
const SCATTERED: &str = "a job's way: the same out of the order of the file, time";
const SCATTERED_WORK: &str = "a job's way: the same out of the order of the file, work";

const COMPANIES: [usize; 6] = [1, 10, 100, 1_000, 10_000, 100_000];

/// For the rows that take the cost apart.
const COMPANIES_APART: usize = 10_000;

/// Drains of each kind; the best counts.
const ROUNDS: usize = 3;

const SLOTS: usize = 1_024;

/// All jobs that become due one by one are due after this; longer than it takes to take them in.
const SCATTERED_OVER: Duration = Duration::from_secs(5);

/// Guards that are asked each time and never refuse.
fn guarded() -> ProviderTerms {
    ProviderTerms {
        breaker: Some(BreakerTerms::new(5, Duration::from_secs(60), Duration::from_secs(120))),
        rate: Some(Rate { max: u32::MAX, per: Duration::from_secs(60) }),
        ..ProviderTerms::plain(SLOTS)
    }
}

/// One kind of drain.
struct DrainKind {
    name: String,
    companies: usize,
    terms: ProviderTerms,
    arrival: Arrival,
}

/// The order of arrivals, which is that of the file, in relation to the order of departures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Company by company in turn, so that their turns go through the file from front to back.
    InTurn,
    /// Companies in no order.
    Mixed,
    /// Each job due at a moment of its own, in no order.
    Scattered,
}

impl DrainKind {
    fn of(companies: usize, more: &str) -> DrainKind {
        let name = format!("turns, breaker and rate: {} companies{more}", grouped(companies as f64));
        DrainKind { name, companies, terms: guarded(), arrival: Arrival::Mixed }
    }
}

pub async fn by_companies(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let bare = DrainKind { terms: ProviderTerms::plain(SLOTS), ..DrainKind::of(1, "") };
    let scattered =
        DrainKind { terms: ProviderTerms::plain(SLOTS), arrival: Arrival::Scattered, ..DrainKind::of(1, "") };
    let in_turn = DrainKind {
        arrival: Arrival::InTurn,
        ..DrainKind::of(COMPANIES_APART, " in the order of their turns")
    };
    let mut with_rates = DrainKind::of(COMPANIES_APART, ", each with a rate");
    with_rates.terms.company_rate = with_rates.terms.rate;
    let mut kinds = vec![bare, scattered];
    kinds.extend(COMPANIES.map(|companies| DrainKind::of(companies, "")));
    kinds.extend([in_turn, with_rates]);
    let mut best = vec![Cost::WORST; kinds.len()];
    for _ in 0..ROUNDS {
        for (kind, best) in kinds.iter().zip(&mut best) {
            *best = best.or(drain(options, kind).await?);
        }
    }
    report.add(BARE, best[0].time_us, "µs");
    report.add(BARE_WORK, best[0].work_us, "µs");
    report.add(SCATTERED, best[1].time_us, "µs");
    report.add(SCATTERED_WORK, best[1].work_us, "µs");
    for (DrainKind { name, companies, arrival, .. }, cost) in kinds.iter().zip(&best).skip(2) {
        report.add_beside(format!("{name}, time added"), cost.time_us - best[0].time_us, "µs", BARE);
        report.add_beside(format!("{name}, work added"), cost.work_us - best[0].work_us, "µs", BARE_WORK);
        if *companies == COMPANIES_APART && *arrival == Arrival::Mixed {
            let (time, work) = (cost.time_us - best[1].time_us, cost.work_us - best[1].work_us);
            report.add_beside(format!("{name}, time added but for the file"), time, "µs", SCATTERED);
            report.add_beside(format!("{name}, work added but for the file"), work, "µs", SCATTERED_WORK);
        }
    }
    Ok(())
}

/// Cost of a job of so many companies, whose provider is guarded: the best of several drains.
pub async fn cost_by_companies(
    options: &BenchOptions,
    companies: usize,
    arrival: Arrival,
    rounds: usize,
) -> Result<Cost, Failed> {
    let kind = DrainKind { arrival, ..DrainKind::of(companies, "") };
    let mut best = Cost::WORST;
    for _ in 0..rounds {
        best = best.or(drain(options, &kind).await?);
    }
    Ok(best)
}

/// Cost of a job, in microseconds.
#[derive(Clone, Copy)]
pub struct Cost {
    /// On the clock, all processors and the disk together.
    pub time_us: f64,
    /// On all processors.
    pub work_us: f64,
}

impl Cost {
    const WORST: Cost = Cost { time_us: f64::MAX, work_us: f64::MAX };

    fn or(self, other: Cost) -> Cost {
        Cost { time_us: self.time_us.min(other.time_us), work_us: self.work_us.min(other.work_us) }
    }
}

/// From a full queue to an empty one.
async fn drain(options: &BenchOptions, kind: &DrainKind) -> Result<Cost, Failed> {
    let scene = Scene::new(options, "lanes").await?;
    let jobs = options.count(150_000).max(kind.companies);
    let mut senders: Vec<_> = (0..jobs).map(|nth| format!("company-{}", nth % kind.companies)).collect();
    if kind.arrival == Arrival::Mixed {
        senders.sort_by_cached_key(|_| uuid::Uuid::new_v4());
    }
    let scattered = kind.arrival == Arrival::Scattered;
    let all_due = Instant::now() + SCATTERED_OVER;
    let sandbox = route("sandbox", Carrier::Transport(Arc::new(Sandbox)))?;
    let submission = |nth: usize| {
        let left = all_due.saturating_duration_since(Instant::now());
        let delay = scattered.then(|| left.mul_f64(fastrand::f64()));
        Submission { delay, ..submission_of(&senders[nth], "sandbox") }
    };
    scene.fill(jobs, sandbox.clone(), submission).await?;
    if scattered {
        tokio::time::sleep_until(all_due.into()).await;
    }
    let (started, worked) = (Instant::now(), processor_time()?);
    let engine = scene.guarded_engine([sandbox], BTreeMap::from([("sandbox".into(), kind.terms)]));
    scene.emptied().await?;
    let (time, work) = (started.elapsed(), processor_time()?.saturating_sub(worked));
    engine.stop().await?;
    scene.removed()?;
    let a_job = |total: Duration| total.as_secs_f64() * 1e6 / jobs as f64;
    Ok(Cost { time_us: a_job(time), work_us: a_job(work) })
}

/// Processor time of this process so far, to a hundredth of a second.
fn processor_time() -> Result<Duration, Failed> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The program's name stands in brackets and may hold anything; what follows does not.
    let (_, fields) = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks = ticks.sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_the_processor_time() {
        let (before, started) = (processor_time().unwrap(), Instant::now());
        while processor_time().unwrap() == before && started.elapsed() < Duration::from_secs(30) {
            std::hint::spin_loop();
        }
        assert!(processor_time().unwrap() > before);
    }
}
