//! Replays without a person, where a route asks for it: after a cooldown, a few times, never into a wall.
//!
//! A replay is a person's act by default. A route whose failures pass by themselves may set a cooldown instead. A dead letter that fails again waits for the whole cooldown once more,
//! because its time there begins anew. While the route's providers are closed off or paused nothing is replayed.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{Cause, DeadLetterState, Job, RouteName};
use recado_store::{DeadLetterFilter, PageRequest, StoreError};

use crate::admission::hold_reason::HoldCause;
use crate::dlq::archive::OURSELVES;
use crate::dlq::operator::Replay;
use crate::engine::{Engine, EngineError};
use crate::route::Route;

/// Terms of automatic replays of a route's dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoReplay {
    /// Time that an entry rests first.
    pub after: Duration,
    /// Replays at most of one job; those by a person count.
    pub max: u32,
    /// Only entries of these causes.
    pub only: Vec<Cause>,
}

/// Causes that time alone may mend.
pub const CAUSES_DEFAULT: [Cause; 1] = [Cause::Exhausted];

pub const REPLAYS_DEFAULT: u32 = 3;

/// Between two walks through the queue.
const WALK_EVERY: Duration = Duration::from_secs(30);

/// Entries looked at in one go.
const PAGE_ENTRIES: usize = 50;

/// Between two replays: a provider that has just come back is not stormed.
const REPLAY_EVERY: Duration = Duration::from_millis(100);

pub(crate) async fn run(engine: Engine) {
    loop {
        tokio::select! {
            () = engine.inner.stopping.cancelled() => return,
            () = tokio::time::sleep(WALK_EVERY) => {}
        }
        for (route, terms) in &engine.inner.dead_letters.auto_replay {
            match walk(&engine, route, terms).await {
                Ok(0) => {}
                Ok(replayed) => {
                    tracing::info!(%route, replayed, "Dead letters were replayed after their cooldown")
                }
                Err(EngineError::Store(StoreError::Broken(error))) => {
                    return engine.inner.store_broke(&error);
                }
                Err(error) => tracing::warn!(%route, %error, "cannot replay dead letters; trying again"),
            }
        }
    }
}

/// Replays what is due of one route; how many.
async fn walk(engine: &Engine, route: &RouteName, terms: &AutoReplay) -> Result<u64, EngineError> {
    let rested = engine.now().as_millis() - i64::try_from(terms.after.as_millis()).unwrap_or(i64::MAX);
    let filter = DeadLetterFilter {
        route: Some(route.clone()),
        until: Some(recado_core::Timestamp::from_millis(rested)),
        ..DeadLetterFilter::default()
    };
    let (mut before, mut replayed) = (None, 0);
    loop {
        let page = PageRequest { before, limit: PAGE_ENTRIES };
        let page = engine.store().dead_letters(filter.clone(), page).await?;
        for entry in page.items {
            if entry.state != DeadLetterState::Dead || !terms.only.contains(&entry.cause) {
                continue;
            }
            let Some(view) = engine.store().job(&entry.job_id, engine.now()).await? else { continue };
            let replays = view.job.progress.replays;
            if replays >= terms.max || is_pinned(engine, &view.job) {
                continue;
            }
            if engine.is_stopping() || is_closed_off(engine, route) {
                return Ok(replayed);
            }
            let note = format!("automatic, {} of {}", replays + 1, terms.max);
            let replay = engine.replay_entry(&entry, None, Some(&note), Some(OURSELVES)).await?;
            replayed += u64::from(replay == Replay::Started);
            tokio::time::sleep(REPLAY_EVERY).await;
        }
        before = page.next;
        if before.is_none() {
            return Ok(replayed);
        }
    }
}

/// Returns true when one of the route's providers may have taken the job: a replay frees it for the others, and that
/// is for a person to decide.
fn is_pinned(engine: &Engine, job: &Job) -> bool {
    let has_others = |route: &Arc<Route>| !route.others.is_empty();
    engine.routes().get(job.route.as_str()).is_some_and(has_others) && job.pin().is_some()
}

fn is_closed_off(engine: &Engine, route: &RouteName) -> bool {
    let hold = engine.routes().get(route.as_str()).and_then(|route| engine.route_hold(route));
    hold.is_some_and(|hold| matches!(hold.by, HoldCause::Breaker | HoldCause::Pause(..)))
}
