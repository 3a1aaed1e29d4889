//! A look at the store that several nodes share.

use std::sync::Arc;
use std::time::Duration;

use recado_core::Random;
use recado_engine::{Clock, SystemClock};
use recado_server::migrate::{MOVES, in_move_by};
use recado_store_redis::RedisStore;
use recado_store_redis::check::{Checkup, Finding, bad, good, note};
use recado_store_redis::link::{Link, OpenError, RedisOptions, Target};

use super::checks;

/// Answers that are timed.
const ANSWERS_TIMED: u32 = 20;

/// A server that takes longer than this over nothing at all makes slow nodes.
const ANSWER_SLOW: Duration = Duration::from_millis(10);

/// Nodes go by the time of Redis, people by their own: further apart, and reports confuse them.
const SKEW_MAX: Duration = Duration::from_secs(5);

pub async fn look_at(options: &RedisOptions) -> Vec<Finding> {
    let place = Target::read(&options.url).map(|target| target.to_string()).unwrap_or_default();
    let random = Arc::new(Random::from_entropy());
    let checkup = match Checkup::of(options, random.clone()).await {
        Ok(checkup) => checkup,
        Err(error) => return vec![bad("store", format!("{place}: {error}"), fix(&error))],
    };
    let mut findings = vec![good("store", format!("{place} answers"))];
    findings.extend(checkup.findings());
    // What is unfit is told above; there is nothing more to learn from it.
    if let Ok(link) = Link::open(options, random).await {
        let marks = RedisStore::peek_entries(&link, options, MOVES, SystemClock.now()).await;
        let in_move = match marks {
            Ok(marks) => in_move_by(&marks).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        findings.extend(checks::store(&options.name(), in_move));
        findings.push(speed(&link).await);
        findings.extend(skew(&link));
    }
    findings
}

fn fix(error: &OpenError) -> &'static str {
    match error {
        OpenError::Url(_) | OpenError::TrustedRoots => "correct [store] in the configuration, or --store",
        OpenError::Unavailable(_) | OpenError::Unfit(_) => {
            "start Redis, see that this machine may reach it, and compare the URL with its address and login"
        }
    }
}

async fn speed(link: &Link) -> Finding {
    let mut whole = Duration::ZERO;
    for _ in 0..ANSWERS_TIMED {
        match link.ping().await {
            Ok(took) => whole += took,
            Err(error) => return bad("store speed", error, "see its log and the network"),
        }
    }
    let each = whole / ANSWERS_TIMED;
    let found = format!("{:.1} ms for an answer", each.as_secs_f64() * 1_000.0);
    if each <= ANSWER_SLOW {
        return good("store speed", found);
    }
    note("store speed", found, "put the nodes near Redis: every job asks it a few times")
}

fn skew(link: &Link) -> Option<Finding> {
    let (theirs, ours) = (link.clock().now(), SystemClock.now());
    let apart = theirs.since(ours).max(ours.since(theirs));
    (apart > SKEW_MAX).then(|| {
        let found = format!("the clock of Redis is {} s away from this machine's", apart.as_secs());
        note("store clock", found, "synchronise both, for example with `timedatectl set-ntp true`")
    })
}
