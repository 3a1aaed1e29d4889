//! A provider is down with a long queue behind it: do others notice, is it left alone, and does its queue come
//! back at the rate that it bears?
//!
//! The undisturbed run is half before and half after, in the same process, so that a machine whose speed
//! drifts does not speak for or against us.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_core::breaker::{BreakerState, BreakerTerms};
use recado_core::limit::Rate;
use recado_core::{Fault, Outcome, Payload};
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::{Carrier, Engine};
use recado_transport::{DataFault, Delivery, Transport, TransportKind};

use crate::deliveries::Arrivals;
use crate::report::{Percentiles, Report};
use crate::scene::{Scene, route, submission_of, take_in};
use crate::{BenchOptions, Failed};

const DOWN: &str = "down";
const OTHERS: [&str; 3] = ["first", "second", "third"];

const UNDISTURBED: &str = "pickup p99, all providers up";

/// Rate of the provider that is down.
const RATE: Rate = Rate { max: 5_000, per: Duration::from_secs(1) };
const COMPANIES: usize = 100;
const SLOTS: usize = 64;

/// Ten minutes have five reset times of two; a shorter outage has as many.
const RESETS: u32 = 5;

const OUTAGE_MIN: Duration = Duration::from_secs(1);

/// Gives up on a breaker that does not open or a queue that does not come back.
const PATIENCE: Duration = Duration::from_secs(300);

/// A far end that is down or up, and notes what reached it.
#[derive(Debug, Default)]
struct FarEnd(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    up: bool,
    refused: Vec<Instant>,
    taken: Vec<Instant>,
    /// Attempts that the jobs taken had spent before.
    spent: usize,
}

#[async_trait]
impl Transport for FarEnd {
    fn kind(&self) -> TransportKind {
        TransportKind::Custom("far end")
    }

    fn check(&self, _data: &Payload) -> Result<(), Vec<DataFault>> {
        Ok(())
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        let mut seen = self.0.lock();
        if !seen.up {
            seen.refused.push(Instant::now());
            return Outcome::Failed(Fault { status: Some(503), ..Fault::answer("503", "out of order") });
        }
        seen.taken.push(Instant::now());
        seen.spent += delivery.attempt as usize - 1;
        Outcome::Accepted { answer: None }
    }
}

pub async fn others_meanwhile(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let scene = Scene::new(options, "lanes").await?;
    let (far_end, others) = (Arc::new(FarEnd::default()), Arc::new(Arrivals::default()));
    let outage = options.outage.max(OUTAGE_MIN);
    let reset = outage / RESETS;
    let terms = ProviderTerms {
        breaker: Some(BreakerTerms::new(5, Duration::from_secs(60), reset)),
        rate: Some(RATE),
        ..ProviderTerms::plain(SLOTS)
    };
    let mut routes = vec![route(DOWN, Carrier::Transport(far_end.clone()))?];
    for name in OTHERS {
        routes.push(route(name, Carrier::Transport(others.clone()))?);
    }
    let engine = scene.guarded_engine(routes, BTreeMap::from([(DOWN.into(), terms)]));

    let mut undisturbed = others.pickups(&engine, &OTHERS, outage / 2).await?;

    let jobs = options.count(50_000);
    let down_at = Instant::now();
    take_in(&engine, jobs, |nth| submission_of(&format!("company-{}", nth % COMPANIES), DOWN)).await?;
    until("the breaker opens", || is_open(&engine)).await?;
    let opening = far_end.0.lock().refused.len();
    let disturbed = others.pickups(&engine, &OTHERS, outage).await?;

    let down_for = down_at.elapsed();
    far_end.0.lock().up = true;
    until("the queue comes back", || far_end.0.lock().taken.len() >= jobs).await?;
    undisturbed.extend(others.pickups(&engine, &OTHERS, outage / 2).await?);
    engine.stop().await?;

    report_pickups(report, undisturbed, disturbed);
    let seen = far_end.0.lock();
    let probes = (seen.refused.len() - opening) as f64;
    let resets = (down_for.as_secs_f64() / reset.as_secs_f64()).floor();
    report.add("reset times that passed while it was down", resets, "times");
    report.add("probes that reached it", probes, "requests");
    let lost = seen.spent as f64 - seen.refused.len() as f64;
    report.add("attempts that its jobs lost to waiting", lost, "attempts");
    let peak = most_within(&seen.taken, RATE.per) as f64;
    report.add("its rate", f64::from(RATE.max), "/s");
    report.add_beside("most in any second after it came back", peak, "/s", "its rate");
    drop(seen);
    scene.removed()
}

fn is_open(engine: &Engine) -> bool {
    engine.gate.provider_view(DOWN).is_some_and(|provider| provider.breaker.state == BreakerState::Open)
}

async fn until(what: &str, holds: impl Fn() -> bool) -> Result<(), Failed> {
    let started = Instant::now();
    while !holds() {
        if started.elapsed() > PATIENCE {
            return Err(format!("waited in vain until {what}").into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

fn report_pickups(report: &mut Report, undisturbed: Vec<Duration>, disturbed: Vec<Duration>) {
    let (undisturbed, disturbed) = (Percentiles::of(undisturbed), Percentiles::of(disturbed));
    let p99 = |latency: Option<Percentiles>| latency.map_or(0.0, |latency| latency.p99);
    report.add(UNDISTURBED, p99(undisturbed), "ms").latency_ms = undisturbed;
    let name = "pickup p99, one provider down";
    report.add_beside(name, p99(disturbed), "ms", UNDISTURBED).latency_ms = disturbed;
}

/// The most in any window that is this long, wherever it begins. Times come in order.
fn most_within(times: &[Instant], window: Duration) -> usize {
    let mut first = 0;
    let mut most = 0;
    for (at, time) in times.iter().enumerate() {
        while time.duration_since(times[first]) >= window {
            first += 1;
        }
        most = most.max(at + 1 - first);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_window_counts_wherever_it_begins() {
        let start = Instant::now();
        let times: Vec<_> = [0, 900, 950, 999, 1_000, 1_899, 1_900]
            .map(|ms| start + Duration::from_millis(ms))
            .into_iter()
            .collect();
        assert_eq!(most_within(&times, Duration::from_secs(1)), 5, "from 900 up to and without 1,900");
        assert_eq!(most_within(&times, Duration::from_millis(1)), 1);
        assert_eq!(most_within(&[], Duration::from_secs(1)), 0);
    }
}
