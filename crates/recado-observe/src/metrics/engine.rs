//! Figures of the engine itself.

use recado_core::Cause;
use recado_core::breaker::{BreakerState, Swing};

use crate::aggregate::Book;
use crate::counters::{RESULTS, RouteTally};
use crate::exposition::{Kind, Page};
use crate::fact::{Hold, Left, StoreWork};
use crate::gauges::Gauges;
use crate::ledger::Routes;
use crate::metrics::each_route;
use crate::shard_counters::SWINGS;

pub fn render(page: &mut Page, book: &Book, routes: &Routes, gauges: &Gauges) {
    process(page, gauges);
    jobs(page, book, routes);
    retries(page, book, routes);
    dead_letters(page, book, routes, gauges);
    lanes(page, book, routes, gauges);
    breakers(page, book, gauges);
    store(page, book, gauges);
    api(page, book);
    trail(page, gauges);
    traces(page, gauges);
}

fn process(page: &mut Page, gauges: &Gauges) {
    page.family("recado_build_info", Kind::Gauge, "Always 1; the version is in the label.")
        .sample(&[("version", gauges.version)], 1);
    if let Some(started_at) = gauges.started_at {
        page.family("process_start_time_seconds", Kind::Gauge, "When the process started, since the epoch.")
            .sample(&[], started_at.as_millis() as f64 / 1e3);
    }
    if let Some(bytes) = gauges.resident_bytes {
        page.family("process_resident_memory_bytes", Kind::Gauge, "Memory of the process.")
            .sample(&[], bytes);
    }
    let help = "Deliveries put off because this process was short of descriptors, ports, memory or names.";
    page.family("recado_local_shortages_total", Kind::Counter, help).sample(&[], gauges.shortages);
}

fn jobs(page: &mut Page, book: &Book, routes: &Routes) {
    counter(page, book, routes, "recado_jobs_accepted_total", "Jobs taken in.", |tally| tally.accepted);
    let mut family = page.family("recado_attempts_total", Kind::Counter, "Attempts that ended, by result.");
    for (route, tally, _) in each_route(book, routes) {
        for (result, count) in RESULTS.into_iter().zip(tally.results) {
            family.sample(&[("route", route), ("result", result.as_str())], count);
        }
    }
    let mut family =
        page.family("recado_attempt_duration_seconds", Kind::Histogram, "How long an attempt took.");
    for (route, _, totals) in each_route(book, routes) {
        family.spread(&[("route", route)], &totals.talks);
    }
    let mut family = page.family(
        "recado_processing_seconds",
        Kind::Histogram,
        "From when an attempt was due to its outcome; planned waits are not in it.",
    );
    for (route, tally, _) in each_route(book, routes) {
        family.spread(&[("route", route)], &tally.processing);
    }
    let mut family = page.family("recado_jobs_ended_total", Kind::Counter, "Jobs that ended, by status.");
    for (route, tally, _) in each_route(book, routes) {
        for (status, count) in
            [("sent", tally.sent), ("failed", tally.buried), ("cancelled", tally.cancelled)]
        {
            family.sample(&[("route", route), ("status", status)], count);
        }
    }
    let mut family = page.family("recado_errors_total", Kind::Counter, "Failed attempts, by error code.");
    for (code, tally) in book.codes.totals() {
        family.sample(&[("error_code", code)], tally.errors);
    }
    let help = "Times that the rule for process engines was asked.";
    counter(page, book, routes, "recado_decisions_total", help, |tally| tally.decisions);
    let help = "Leases that ran out before the outcome was known.";
    counter(page, book, routes, "recado_leases_lost_total", help, |tally| tally.lost);
}

fn retries(page: &mut Page, book: &Book, routes: &Routes) {
    let mut family = page.family(
        "recado_retried_jobs_ended_total",
        Kind::Counter,
        "Jobs that ended after more than one attempt; those exhausted are among the failed.",
    );
    for (route, tally, _) in each_route(book, routes) {
        let ends = [
            ("sent", tally.retried_sent),
            ("failed", tally.retried_buried),
            ("exhausted", tally.retried_exhausted),
        ];
        for (end, count) in ends {
            family.sample(&[("route", route), ("end", end)], count);
        }
    }
    let help = "Attempts of the jobs that were sent.";
    counter(page, book, routes, "recado_sent_job_attempts_total", help, |tally| tally.attempts_of_sent);
    let mut family = page.family(
        "recado_recovery_seconds",
        Kind::Histogram,
        "From the first attempt to success, of jobs that needed more than one.",
    );
    for (route, tally, _) in each_route(book, routes) {
        family.spread(&[("route", route)], &tally.recoveries);
    }
    let help = "Retries whose wait was at the cap of the policy.";
    counter(page, book, routes, "recado_retries_at_cap_total", help, |tally| tally.at_cap);
    let mut family = page.family(
        "recado_retry_jitter_total",
        Kind::Counter,
        "Waits by the tenth of their range that the jitter put them in; even is right.",
    );
    for (route, tally, _) in each_route(book, routes) {
        for (at, count) in tally.jitter.iter().enumerate() {
            family.sample(&[("route", route), ("decile", &(at + 1).to_string())], count);
        }
    }
}

fn dead_letters(page: &mut Page, book: &Book, routes: &Routes, gauges: &Gauges) {
    let mut family = page.family("recado_dead_letters_total", Kind::Counter, "Dead letters made, by cause.");
    for (route, _, totals) in each_route(book, routes) {
        for (cause, count) in Cause::ALL.into_iter().zip(totals.causes) {
            family.sample(&[("route", route), ("cause", cause.as_str())], count);
        }
    }
    let mut family =
        page.family("recado_dead_letters_left_total", Kind::Counter, "Dead letters that left the queue.");
    for (how, count) in Left::ALL.into_iter().zip(book.store.left) {
        family.sample(&[("how", how.as_str())], count);
    }
    if let Some(oldest) = gauges.dead_letters.as_ref().and_then(|dead| dead.oldest) {
        page.family("recado_dlq_oldest_age_seconds", Kind::Gauge, "Age of the oldest dead letter.")
            .sample(&[], oldest.as_secs_f64());
    }
}

fn lanes(page: &mut Page, book: &Book, routes: &Routes, gauges: &Gauges) {
    let mut depths = std::collections::BTreeMap::<_, u64>::new();
    for depth in &gauges.queue {
        *depths.entry((routes.label(&depth.route), depth.status.as_str())).or_default() += depth.jobs;
    }
    let mut family = page.family(
        "recado_queue_jobs",
        Kind::Gauge,
        "Jobs that have not ended, by status; a retry that is not due yet counts as scheduled.",
    );
    for ((route, status), jobs) in depths {
        family.sample(&[("route", route), ("status", status)], jobs);
    }
    if let Some(oldest) = &gauges.oldest_due {
        let mut longest = std::collections::BTreeMap::new();
        for (route, age) in oldest {
            let known = longest.entry(routes.label(route)).or_insert(*age);
            *known = (*known).max(*age);
        }
        let mut family = page.family(
            "recado_queue_oldest_due_age_seconds",
            Kind::Gauge,
            "Time since the oldest unclaimed job fell due. Jobs that a pause or a hold keeps back do not count.",
        );
        for (route, age) in longest {
            family.sample(&[("route", route)], age.as_secs_f64());
        }
    }
    let mut family =
        page.family("recado_lane_holds_total", Kind::Counter, "Times that a route was held back.");
    for (route, _, totals) in each_route(book, routes) {
        for (why, count) in Hold::ALL.into_iter().zip(totals.holds) {
            family.sample(&[("route", route), ("reason", why.as_str())], count);
        }
    }
    let mut family =
        page.family("recado_lane_held_seconds_total", Kind::Counter, "How long a route was held back.");
    for (route, _, totals) in each_route(book, routes) {
        for (why, micros) in Hold::ALL.into_iter().zip(totals.held_micros) {
            family.sample(&[("route", route), ("reason", why.as_str())], micros as f64 / 1e6);
        }
    }
}

fn breakers(page: &mut Page, book: &Book, gauges: &Gauges) {
    let mut family =
        page.family("recado_breaker_state", Kind::Gauge, "1 for the state that a provider's breaker is in.");
    for (provider, state) in gauges.breakers.iter().flatten() {
        for one in [BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen] {
            let labels = [("provider", &**provider), ("state", one.as_str())];
            family.sample(&labels, u8::from(one == *state));
        }
    }
    let mut family =
        page.family("recado_breaker_swings_total", Kind::Counter, "Times that a breaker went to a state.");
    let mut providers: Vec<_> = book.swings.iter().collect();
    providers.sort_unstable();
    for (provider, swings) in providers {
        for (swing, count) in SWINGS.into_iter().zip(swings) {
            let to = match swing {
                Swing::Opened => BreakerState::Open,
                Swing::HalfOpened => BreakerState::HalfOpen,
                Swing::Closed => BreakerState::Closed,
            };
            family.sample(&[("provider", provider), ("to", to.as_str())], count);
        }
    }
}

fn store(page: &mut Page, book: &Book, gauges: &Gauges) {
    let mut family =
        page.family("recado_store_operation_seconds", Kind::Histogram, "How long the store took.");
    for (work, spread) in StoreWork::ALL.into_iter().zip(&book.store.works) {
        family.spread(&[("operation", work.as_str())], spread);
    }
    page.family("recado_store_commit_requests", Kind::Histogram, "Requests that shared one commit.")
        .spread(&[], &book.store.commits);
    page.family("recado_store_rejected_writes_total", Kind::Counter, "Writes refused by a full store.")
        .sample(&[], book.incidents.total.writes_rejected);
    let Some(store) = gauges.store else { return };
    page.family("recado_store_size_bytes", Kind::Gauge, "Size of the store.").sample(&[], store.bytes);
    if let Some(max) = store.max_bytes {
        page.family("recado_store_max_bytes", Kind::Gauge, "What the store may grow to.").sample(&[], max);
    }
}

fn api(page: &mut Page, book: &Book) {
    let mut paths: Vec<_> = book.paths.iter().collect();
    paths.sort_unstable_by_key(|(path, _)| *path);
    let mut family = page.family("recado_http_requests_total", Kind::Counter, "Requests answered.");
    for (path, tally) in &paths {
        for ((method, status), count) in &tally.answers {
            let status = status.to_string();
            family.sample(&[("method", method), ("path", path), ("status", &status)], count);
        }
    }
    let mut family =
        page.family("recado_http_request_duration_seconds", Kind::Histogram, "How long an answer took.");
    for (path, tally) in &paths {
        family.spread(&[("path", path)], &tally.talks);
    }
}

fn trail(page: &mut Page, gauges: &Gauges) {
    let Some(late) = gauges.trail_late else { return };
    page.family(
        "recado_audit_late_seconds",
        Kind::Gauge,
        "How long ago the audit trail's files had everything; it grows while they cannot be written.",
    )
    .sample(&[], late.as_secs_f64());
}

fn traces(page: &mut Page, gauges: &Gauges) {
    let Some(spans) = gauges.spans else { return };
    page.family("recado_trace_spans_exported_total", Kind::Counter, "Spans that the collector took.")
        .sample(&[], spans.exported);
    page.family("recado_trace_spans_dropped_total", Kind::Counter, "Spans that were not exported in time.")
        .sample(&[], spans.dropped);
}

fn counter(
    page: &mut Page,
    book: &Book,
    routes: &Routes,
    name: &'static str,
    help: &str,
    count: impl Fn(&RouteTally) -> u64,
) {
    let mut family = page.family(name, Kind::Counter, help);
    for (route, tally, _) in each_route(book, routes) {
        family.sample(&[("route", route)], count(tally));
    }
}
