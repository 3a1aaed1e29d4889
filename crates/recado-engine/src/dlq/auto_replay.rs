//! Replays dead letters without a person, where a route asks for it: after a cooldown, and a few times at most.
//!
//! A replay is a person's act by default. A route whose failures pass by themselves may set a cooldown instead. A dead
//! letter that fails again waits for the whole cooldown once more, because its time in the queue begins anew. While a
//! breaker or a pause holds the route back nothing is replayed.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{Cause, DeadLetterState, Job, RouteName};
use recado_store::{DeadLetterFilter, PageRequest, StoreError};

use crate::admission::hold_reason::HoldCause;
use crate::dlq::DeadLetters;
use crate::dlq::operator::Replay;
use crate::error::{EngineError, Result};
use crate::notify::notices::OURSELVES;
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

/// Causes that time alone may cure.
pub const CAUSES_DEFAULT: [Cause; 1] = [Cause::Exhausted];

pub const REPLAYS_DEFAULT: u32 = 3;

/// Time between two walks through the queue.
const WALK_EVERY: Duration = Duration::from_secs(30);

/// Entries looked at in one go.
const PAGE_ENTRIES: usize = 50;

/// Time between two replays: a provider that has just come back is not stormed.
const REPLAY_EVERY: Duration = Duration::from_millis(100);

/// Replays entries after their cooldown until the engine stops.
pub(crate) async fn run(dlq: Arc<DeadLetters>) {
    while dlq.env.lifecycle.rest(WALK_EVERY).await {
        for (route, terms) in &dlq.terms.auto_replay {
            match walk(&dlq, route, terms).await {
                Ok(0) => {}
                Ok(replayed) => {
                    tracing::info!(%route, replayed, "Dead letters were replayed after their cooldown")
                }
                Err(EngineError::Store(StoreError::Broken(error))) => {
                    return dlq.env.lifecycle.fail_store(&error);
                }
                Err(error) => tracing::warn!(%route, %error, "Cannot replay dead letters; trying again"),
            }
        }
    }
}

/// Replays the due entries of one route and returns their number.
async fn walk(dlq: &DeadLetters, route: &RouteName, terms: &AutoReplay) -> Result<u64> {
    let rested = dlq.env.now().as_millis() - i64::try_from(terms.after.as_millis()).unwrap_or(i64::MAX);
    let filter = DeadLetterFilter {
        route: Some(route.clone()),
        until: Some(recado_core::Timestamp::from_millis(rested)),
        ..DeadLetterFilter::default()
    };
    let (mut before, mut replayed) = (None, 0);
    loop {
        let page = PageRequest { before, limit: PAGE_ENTRIES };
        let page = dlq.store.dead_letters(filter.clone(), page).await?;
        for entry in page.items {
            if entry.state != DeadLetterState::Dead || !terms.only.contains(&entry.cause) {
                continue;
            }
            let Some(view) = dlq.store.job(&entry.job_id, dlq.env.now()).await? else { continue };
            let replays = view.job.progress.replays;
            if replays >= terms.max || is_pinned(dlq, &view.job) {
                continue;
            }
            if dlq.env.lifecycle.is_stopping() || is_held(dlq, route) {
                return Ok(replayed);
            }
            let note = format!("automatic, {} of {}", replays + 1, terms.max);
            let replay = dlq.replay_entry(&entry, None, Some(&note), Some(OURSELVES), None).await?;
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
fn is_pinned(dlq: &DeadLetters, job: &Job) -> bool {
    let has_others = |route: &Arc<Route>| !route.others.is_empty();
    dlq.env.routes.get(job.route.as_str()).is_some_and(has_others) && job.pin().is_some()
}

fn is_held(dlq: &DeadLetters, route: &RouteName) -> bool {
    let hold = dlq.env.routes.get(route.as_str()).and_then(|route| dlq.gate.route_hold(route));
    hold.is_some_and(|hold| matches!(hold.by, HoldCause::Breaker | HoldCause::Pause(..)))
}
