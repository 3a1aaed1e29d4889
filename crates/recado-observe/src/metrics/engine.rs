//! Figures of the engine itself.

use std::collections::BTreeMap;
use std::iter::zip;
use std::time::Duration;

use recado_core::breaker::BreakerState;
use recado_core::{AttemptResult, Cause};

use crate::exposition::Page;
use crate::fact::{DeadLetterExit, HoldKind, StoreWork};
use crate::metrics::Figures;

pub fn render(page: &mut Page, figures: Figures<'_>) {
    write_process(page, figures);
    write_jobs(page, figures);
    write_retries(page, figures);
    write_dead_letters(page, figures);
    write_lanes(page, figures);
    write_breakers(page, figures);
    write_store(page, figures);
    write_api(page, figures);
    write_trail_and_traces(page, figures);
}

fn write_process(page: &mut Page, figures: Figures<'_>) {
    let gauges = figures.gauges;
    page.gauge("recado_build_info", "Always 1; the version is in the label.")
        .by("version", [(gauges.version, 1)]);
    if let Some(started_at) = gauges.started_at {
        page.gauge("process_start_time_seconds", "Start time of the process, since the epoch.")
            .value(started_at.as_millis() as f64 / 1e3);
    }
    if let Some(bytes) = gauges.resident_bytes {
        page.gauge("process_resident_memory_bytes", "Memory of the process.").value(bytes);
    }
    let help = "Deliveries postponed because this process lacked descriptors, ports, memory or names.";
    page.counter("recado_local_shortages_total", help).value(gauges.shortages);
}

fn write_jobs(page: &mut Page, figures: Figures<'_>) {
    page.counter("recado_jobs_accepted_total", "Jobs taken in.")
        .by("route", figures.by_route(|route| route.accepted));
    let results = AttemptResult::ALL.map(AttemptResult::as_str);
    page.counter("recado_attempts_total", "Attempts that ended, by result.")
        .by_both(["route", "result"], figures.by_route(|route| zip(results, route.results)));
    page.histogram("recado_attempt_duration_seconds", "Duration of attempts.")
        .histograms_by("route", figures.by_route_total(|route| &route.round_trips));
    let help = "From when an attempt was due to its outcome; planned waits are not in it.";
    page.histogram("recado_processing_seconds", help)
        .histograms_by("route", figures.by_route(|route| &route.processing));
    let ended = figures
        .by_route(|route| [("sent", route.sent), ("failed", route.buried), ("cancelled", route.cancelled)]);
    page.counter("recado_jobs_ended_total", "Jobs that ended, by status.")
        .by_both(["route", "status"], ended);
    let codes = figures.aggregate.codes.totals().into_iter();
    page.counter("recado_errors_total", "Failed attempts, by error code.")
        .by("error_code", codes.map(|(code, counters)| (code, counters.errors)));
    page.counter("recado_decisions_total", "Times that the rule for process engines was asked.")
        .by("route", figures.by_route(|route| route.decisions));
    page.counter("recado_leases_lost_total", "Leases that ran out before the outcome was known.")
        .by("route", figures.by_route(|route| route.lost));
}

fn write_retries(page: &mut Page, figures: Figures<'_>) {
    let ended = figures.by_route(|route| {
        [
            ("sent", route.retried_sent),
            ("failed", route.retried_buried),
            ("exhausted", route.retried_exhausted),
        ]
    });
    let help = "Jobs that ended after more than one attempt; those exhausted are among the failed.";
    page.counter("recado_retried_jobs_ended_total", help).by_both(["route", "end"], ended);
    page.counter("recado_sent_job_attempts_total", "Attempts of the jobs that were sent.")
        .by("route", figures.by_route(|route| route.attempts_of_sent));
    let help = "From the first attempt to success, of jobs that needed more than one.";
    page.histogram("recado_recovery_seconds", help)
        .histograms_by("route", figures.by_route(|route| &route.recoveries));
    page.counter("recado_retries_at_cap_total", "Retries whose wait was at the cap of the policy.")
        .by("route", figures.by_route(|route| route.at_cap));
    let deciles = figures.by_route(|route| zip((1..).map(|decile: u32| decile.to_string()), route.jitter));
    let help = "Waits by the tenth of their range that the jitter put them in; even is right.";
    page.counter("recado_retry_jitter_total", help).by_both(["route", "decile"], deciles);
}

fn write_dead_letters(page: &mut Page, figures: Figures<'_>) {
    let causes = Cause::ALL.map(Cause::as_str);
    page.counter("recado_dead_letters_total", "Dead letters made, by cause.")
        .by_both(["route", "cause"], figures.by_route_total(|route| zip(causes, route.causes)));
    page.counter("recado_dead_letters_left_total", "Dead letters that left the queue.")
        .by("how", zip(DeadLetterExit::ALL.map(DeadLetterExit::as_str), figures.aggregate.store.left));
    if let Some(oldest) = figures.gauges.dead_letters.as_ref().and_then(|dead| dead.oldest) {
        page.gauge("recado_dlq_oldest_age_seconds", "Age of the oldest dead letter.")
            .value(oldest.as_secs_f64());
    }
}

fn write_lanes(page: &mut Page, figures: Figures<'_>) {
    let mut depths: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for depth in &figures.gauges.queue {
        let of_route = depths.entry(figures.routes.label(&depth.route)).or_default();
        *of_route.entry(depth.status.as_str()).or_default() += depth.jobs;
    }
    let help = "Jobs that have not ended, by status; a retry that is not due yet counts as scheduled.";
    page.gauge("recado_queue_jobs", help).by_both(["route", "status"], depths);
    if let Some(oldest) = &figures.gauges.oldest_due {
        let mut longest: BTreeMap<&str, Duration> = BTreeMap::new();
        for (route, age) in oldest {
            let known = longest.entry(figures.routes.label(route)).or_default();
            *known = (*known).max(*age);
        }
        let help = "Time since the oldest unclaimed job fell due. Jobs that a pause or a hold keeps back do not count.";
        page.gauge("recado_queue_oldest_due_age_seconds", help)
            .by("route", longest.into_iter().map(|(route, age)| (route, age.as_secs_f64())));
    }
    let reasons = HoldKind::ALL.map(HoldKind::as_str);
    page.counter("recado_lane_holds_total", "Times that a route was held back.")
        .by_both(["route", "reason"], figures.by_route_total(|route| zip(reasons, route.holds)));
    let seconds =
        figures.by_route_total(|route| zip(reasons, route.held_micros.map(|micros| micros as f64 / 1e6)));
    page.counter("recado_lane_held_seconds_total", "Time that a route was held back.")
        .by_both(["route", "reason"], seconds);
}

fn write_breakers(page: &mut Page, figures: Figures<'_>) {
    let breakers = figures.gauges.breakers.iter().flatten();
    let is_in = |state| BreakerState::ALL.map(|one| (one.as_str(), u8::from(one == state)));
    page.gauge("recado_breaker_state", "1 for the state that a provider's breaker is in.")
        .by_both(["provider", "state"], breakers.map(|(provider, state)| (provider, is_in(*state))));
    let mut providers: Vec<_> = figures.aggregate.breaker_changes.iter().collect();
    providers.sort_unstable();
    // The state after each change, in the order of the changes.
    let reached =
        [BreakerState::Open, BreakerState::HalfOpen, BreakerState::Closed].map(BreakerState::as_str);
    let swings = providers.into_iter().map(|(provider, changes)| (provider, zip(reached, changes)));
    page.counter("recado_breaker_swings_total", "Times that a breaker went to a state.")
        .by_both(["provider", "to"], swings);
}

fn write_store(page: &mut Page, figures: Figures<'_>) {
    let store = &figures.aggregate.store;
    page.histogram("recado_store_operation_seconds", "Duration of store operations.")
        .histograms_by("operation", zip(StoreWork::ALL.map(StoreWork::as_str), &store.times));
    page.histogram("recado_store_commit_requests", "Requests that shared one commit.")
        .one_histogram(&store.commits);
    page.counter("recado_store_rejected_writes_total", "Writes refused by a full store.")
        .value(figures.aggregate.incidents.total.writes_rejected);
    let Some(store) = figures.gauges.store else { return };
    page.gauge("recado_store_size_bytes", "Size of the store.").value(store.bytes);
    if let Some(max) = store.max_bytes {
        page.gauge("recado_store_max_bytes", "Maximum size of the store.").value(max);
    }
}

fn write_api(page: &mut Page, figures: Figures<'_>) {
    let paths: BTreeMap<_, _> = figures.aggregate.paths.iter().collect();
    let mut family = page.counter("recado_http_requests_total", "Requests answered.");
    for (path, counters) in &paths {
        for ((method, status), count) in &counters.answers {
            let status = status.to_string();
            family.sample(&[("method", method), ("path", path), ("status", &status)], count);
        }
    }
    page.histogram("recado_http_request_duration_seconds", "Duration of requests.")
        .histograms_by("path", paths.iter().map(|(path, counters)| (&***path, &counters.round_trips)));
}

fn write_trail_and_traces(page: &mut Page, figures: Figures<'_>) {
    if let Some(late) = figures.gauges.trail_late {
        let help =
            "Time since the audit trail's files were last complete; it grows while they cannot be written.";
        page.gauge("recado_audit_late_seconds", help).value(late.as_secs_f64());
    }
    let Some(spans) = figures.gauges.spans else { return };
    page.counter("recado_trace_spans_exported_total", "Spans that the collector took.").value(spans.exported);
    page.counter("recado_trace_spans_dropped_total", "Spans that were not exported in time.")
        .value(spans.dropped);
}
