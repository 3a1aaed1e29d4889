//! Measures the cost of a claim while held jobs pile up beside it, or companies that have nothing to send.

use std::sync::Arc;
use std::time::{Duration, Instant};

use recado_core::RouteName;
use recado_engine::{Carrier, Engine, ProviderAct};
use recado_store::prelude::*;
use recado_transport::Sandbox;

use crate::report::{Report, grouped};
use crate::scene::{CLAIM_JOBS, Scene, claim, route, submission_of, take_in};
use crate::{BenchOptions, Failed};

const LANE: &str = "lane";
const PARKED: &str = "parked";

const BESIDE: [usize; 3] = [0, 10_000, 100_000];

/// Runs of each kind; the best counts.
const ROUNDS: usize = 3;

/// Companies that the claimed jobs belong to.
const ACTIVE: usize = 100;

pub async fn beside_parked(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    measure(options, report, "parked jobs", park).await
}

/// Microseconds of a claim of 256 jobs beside so many parked ones, the median of many.
pub async fn parked_claim_us(options: &BenchOptions, parked: usize) -> Result<f64, Failed> {
    let scene = Scene::new(options, "lanes").await?;
    let engine = park(&scene, parked).await?;
    claim_us(options, scene, &engine).await
}

async fn park(scene: &Scene, parked: usize) -> Result<Engine, Failed> {
    // Only workers carry either, and none asks: one lane stands for what may not go out.
    let engine = scene.engine([route(LANE, Carrier::Workers)?, route(PARKED, Carrier::Workers)?]);
    take_in(&engine, parked, |nth| submission_of(&company(nth), PARKED)).await?;
    Ok(engine)
}

pub async fn beside_idle(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    measure(options, report, "idle companies", async |scene, idle| {
        let engine = scene.engine([route(LANE, Carrier::Transport(Arc::new(Sandbox)))?]);
        take_in(&engine, idle, |nth| submission_of(&format!("idle-{nth}"), LANE)).await?;
        scene.emptied().await?;
        // From here on the lane is ours.
        engine.gate.act_on_provider(LANE, ProviderAct::Pause, None, None).await?;
        Ok(engine)
    })
    .await
}

/// Reports claims beside so many of `what`, which `prepare` puts into an empty store.
async fn measure(
    options: &BenchOptions,
    report: &mut Report,
    what: &str,
    prepare: impl AsyncFn(&Scene, usize) -> Result<Engine, Failed>,
) -> Result<(), Failed> {
    let mut best = [f64::MAX; BESIDE.len()];
    for _ in 0..ROUNDS {
        for (beside, best) in BESIDE.into_iter().zip(&mut best) {
            let scene = Scene::new(options, "lanes").await?;
            let engine = prepare(&scene, beside).await?;
            *best = best.min(claim_us(options, scene, &engine).await?);
        }
    }
    let name = |beside: usize| format!("a claim of 256 jobs beside {} {what}", grouped(beside as f64));
    for (beside, took_us) in BESIDE.into_iter().zip(best) {
        match beside {
            0 => report.add(name(0), took_us, "µs"),
            _ => report.add_beside(name(beside), took_us, "µs", name(0)),
        };
    }
    Ok(())
}

fn company(nth: usize) -> String {
    format!("company-{}", nth % ACTIVE)
}

/// Microseconds of a claim, the median of many.
async fn claim_us(options: &BenchOptions, scene: Scene, engine: &Engine) -> Result<f64, Failed> {
    let jobs = options.count(50_000);
    take_in(engine, jobs, |nth| submission_of(&company(nth), LANE)).await?;
    let (lane, mut took) = (RouteName::new(LANE)?, Vec::new());
    for _ in 0..jobs / CLAIM_JOBS {
        let claim = claim(&lane, Duration::from_secs(600));
        let started = Instant::now();
        let claimed = scene.store.claim(claim).await?;
        took.push(started.elapsed());
        if claimed.leases.len() != CLAIM_JOBS {
            return Err(format!("a claim of {CLAIM_JOBS} jobs got {}", claimed.leases.len()).into());
        }
    }
    engine.stop().await?;
    scene.removed()?;
    took.sort_unstable();
    Ok(took.get(took.len() / 2).map_or(0.0, |median| median.as_secs_f64() * 1e6))
}
