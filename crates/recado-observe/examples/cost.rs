//! Measures the cost of counting: `cargo run --release -p recado-observe --example cost`.
//!
//! Threads note attempts as a busy engine would (16 routes, 1,000 companies, one failure in ten) in the time
//! of a clock that goes on, while another one scrapes and steps the alerts. Linux: the cost is time on the
//! processor, so that a busy machine does not falsify it.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use recado_core::{AttemptResult, Class, Timestamp};
use recado_observe::{AlertConfig, Alerts, AttemptEnded, Backoff, Ending, Fact, Gauges, Judged, Ledger};

const FACTS_A_THREAD: usize = 2_000_000;

fn main() -> std::io::Result<()> {
    let routes: Vec<String> = (0..16).map(|route| format!("route-{route}")).collect();
    let companies: Vec<String> =
        (0..1_000).map(|company| format!("789e4567-e89b-12d3-a456-{company:012}")).collect();
    for threads in [1, 2, 8] {
        let ledger = Ledger::new(routes.iter().map(String::as_str));
        let over = AtomicBool::new(false);
        let (cost, reads) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| read_until(&ledger, &over));
            let writers: Vec<_> = (0..threads)
                .map(|thread| {
                    let (ledger, routes, companies) = (&ledger, &routes, &companies);
                    scope.spawn(move || write(ledger, routes, companies, thread))
                })
                .collect();
            let cost: Duration = writers.into_iter().filter_map(|writer| writer.join().ok()).sum();
            over.store(true, Ordering::Relaxed);
            (
                cost / u32::try_from(threads * FACTS_A_THREAD).unwrap_or(u32::MAX),
                reader.join().unwrap_or_default(),
            )
        });
        let (reading, bytes) = reads;
        writeln!(
            std::io::stdout(),
            "{threads} threads: {cost:?} a fact; {reading:?} a scrape of {bytes} bytes with a step of the alerts"
        )?;
    }
    Ok(())
}

/// Processor time of this thread so far.
fn on_processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

fn write(ledger: &Ledger, routes: &[String], companies: &[String], thread: usize) -> Duration {
    let begin = on_processor();
    for fact in 0..FACTS_A_THREAD {
        let (route, company) =
            (&*routes[fact % routes.len()], &*companies[(fact * 7 + thread) % companies.len()]);
        let now = Timestamp::from_millis(i64::try_from(fact / 20).unwrap_or_default());
        let fact = match fact % 20 {
            0 | 1 => Fact::AttemptEnded(AttemptEnded {
                result: AttemptResult::Failed,
                failure: Some(Judged { code: Some("421"), class: Class::Transient }),
                retry: Some(Backoff { delay: Duration::from_secs(4), at_cap: false, position: Some(0.3) }),
                ..sent(route, company)
            }),
            even if even % 2 == 0 => Fact::AttemptEnded(sent(route, company)),
            _ => Fact::JobEnded {
                route,
                company,
                ending: Ending::Sent,
                attempts: 1,
                retried: false,
                since_first_try: None,
            },
        };
        ledger.record(&fact, now);
    }
    on_processor() - begin
}

fn sent<'a>(route: &'a str, company: &'a str) -> AttemptEnded<'a> {
    AttemptEnded {
        route,
        company,
        number: 1,
        result: AttemptResult::Sent,
        failure: None,
        retry: None,
        lag: Duration::from_millis(2),
        took: Duration::from_millis(40),
    }
}

/// Returns the cost of one scrape with one step of the alerts, and the length of the page.
fn read_until(ledger: &Ledger, over: &AtomicBool) -> (Duration, usize) {
    let mut alerts = Alerts::new(AlertConfig::default());
    let (mut readings, mut bytes) = (0, 0);
    let mut now = Timestamp::default();
    let begin = on_processor();
    while !over.load(Ordering::Relaxed) || readings == 0 {
        now = now.plus(Duration::from_secs(15));
        bytes = ledger.metrics(&Gauges::default(), now).len();
        alerts.evaluate(ledger, &Gauges::default(), now);
        readings += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    ((on_processor() - begin) / readings, bytes)
}
