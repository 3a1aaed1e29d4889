//! Measures every query about 10,000 dead letters, in milliseconds:
//!
//! ```text
//! cargo run --release -p recado-store-embedded --example look_at_dead_letters
//! ```

use recado_store::prelude::*;
use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

use recado_core::{
    Blame, BodyHash, Burial, Cause, Class, CompanyId, Failure, JobId, NewJob, Payload, Priority, Reason,
    RouteName, Timestamp, Transition,
};
use recado_store::{Claim, DeadLetterFilter, GroupBy, PageRequest, Pick, Settlement, Turns};
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore};

type Done<T = ()> = Result<T, Box<dyn Error>>;

const ENTRIES: usize = 10_000;
const PAYLOAD_BYTES: usize = 3_000;
const T0: Timestamp = Timestamp::from_millis(1_736_677_800_000);
const DAY: Duration = Duration::from_secs(24 * 3_600);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let dir = tempfile::tempdir()?;
    let options = EmbeddedOptions { reserve_bytes: 0, ..EmbeddedOptions::at(dir.path()) };
    let store = EmbeddedStore::open(&options)?;
    for from in (0..ENTRIES).step_by(500) {
        bury(&store, from..from + 500).await?;
    }
    let mut out = std::io::stdout();
    for by in [GroupBy::LastFailureCode, GroupBy::Company, GroupBy::Route, GroupBy::Fingerprint] {
        let took =
            worst(async || drop(store.dead_letter_groups(by, DeadLetterFilter::default()).await)).await;
        writeln!(out, "groups by {by:?}: {took:.1} ms")?;
    }
    let filters = [
        ("all", DeadLetterFilter::default()),
        ("a company", DeadLetterFilter { company: Some(CompanyId::new("company-7")?), ..Default::default() }),
        ("a code", DeadLetterFilter { last_failure_code: Some("552".into()), ..Default::default() }),
        (
            "a reason that many have",
            DeadLetterFilter { reason: Some("MAILBOX".into()), ..Default::default() },
        ),
        ("a reason that none has", DeadLetterFilter { reason: Some("quota".into()), ..Default::default() }),
    ];
    for (name, filter) in filters {
        let page = PageRequest { before: None, limit: 100 };
        let took = worst(async || drop(store.dead_letters(filter.clone(), page).await)).await;
        writeln!(out, "a page of {name}: {took:.1} ms")?;
    }
    store.close().await?;
    Ok(())
}

/// The longest of five, after one that warms up.
async fn worst(question: impl AsyncFn()) -> f64 {
    question().await;
    let mut longest = Duration::ZERO;
    for _ in 0..5 {
        let started = Instant::now();
        question().await;
        longest = longest.max(started.elapsed());
    }
    longest.as_secs_f64() * 1e3
}

async fn bury(store: &EmbeddedStore, numbers: std::ops::Range<usize>) -> Done {
    let count = numbers.len();
    store.enqueue(numbers.map(job).collect::<Done<Vec<_>>>()?).await?;
    let claim = Claim {
        pick: Pick::Ready(RouteName::new("email")?),
        max: count,
        now: T0,
        lease_until: T0.plus(DAY),
        worker: "example".into(),
        provider: None,
        outlives_process: false,
        turns: Turns::default(),
    };
    let leases = store.claim(claim).await?.leases;
    let settlements = leases.iter().enumerate().map(|(n, lease)| {
        let failure = Failure {
            class: Class::Permanent,
            code: Some(format!("55{}", n % 5).into()),
            reason: Reason::new(&format!("mailbox {n} does not exist"))?,
            rule: "smtp/550".into(),
            blame: Blame::Message,
            retry_after: None,
            asked_wait: None,
            uncertain: false,
            invalid_payload: false,
            stack_trace: None,
        };
        let burial =
            Burial { cause: Cause::Permanent, failure, attempt: None, held_up: false, at: T0, ttl: DAY };
        let transition = Transition::Bury(burial);
        Ok(Settlement { token: lease.token, transition, audit: None, now: T0, follow_ups: Vec::new() })
    });
    store.settle(settlements.collect::<Done<Vec<_>>>()?).await?;
    Ok(())
}

fn job(number: usize) -> Done<NewJob> {
    Ok(NewJob {
        id: JobId::new(format!("job-{number}"))?,
        route: RouteName::new("email")?,
        company: CompanyId::new(format!("company-{}", number % 300))?,
        data: Payload::new(&format!("\"{}\"", "x".repeat(PAYLOAD_BYTES)))?,
        user_id: None,
        correlation_id: None,
        traceparent: None,
        priority: Priority::default(),
        enqueued_at: T0,
        due_at: T0,
        expires_at: T0.plus(DAY),
        body_hash: BodyHash(1),
    })
}
