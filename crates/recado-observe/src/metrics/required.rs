//! The required metrics, in their order.

use std::iter::zip;

use recado_core::Class;

use crate::counters::{AddCounts, NUMBERS};
use crate::exposition::Page;
use crate::gauges::{select_tenants, take_largest};
use crate::histogram::Histogram;
use crate::history::HOUR;
use crate::metrics::Figures;

/// The first border of a wait that is a whole number of minutes.
const FIRST_MINUTE: usize = 5;
const MICROS_A_MINUTE: f64 = 60e6;

pub fn render(page: &mut Page, figures: Figures<'_>) {
    write_retries(page, figures);
    write_dead_letters(page, figures);
    write_fairness(page, figures);
    write_submission_retries(page, figures);
}

/// Retry metrics.
fn write_retries(page: &mut Page, figures: Figures<'_>) {
    let numbers = &figures.aggregate.numbers;
    let labels = || (1..=NUMBERS).map(|n| if n < NUMBERS { n.to_string() } else { format!("{n}+") });
    page.counter("retry_attempts_total", "Attempts that ended, by their number.")
        .by("attempt", zip(labels(), numbers.total.ended));

    let mut delays = Histogram::default();
    figures.by_route(|route| &route.delays).for_each(|(_, more)| delays.add(more));
    page.histogram("retry_backoff_delay_seconds", "Waits before retries.").one_histogram(&delays);

    let hour = numbers.sum_over(HOUR, figures.now);
    let measured = zip(labels(), zip(hour.sent, hour.ended)).filter(|(_, (_, ended))| *ended > 0);
    let help = "Share of attempts of this number that were delivered, over the last hour.";
    page.gauge("retry_success_rate", help)
        .by("attempt", measured.map(|(number, (sent, ended))| (number, sent as f64 / ended as f64)));
}

/// Metrics of the dead letter queue.
fn write_dead_letters(page: &mut Page, figures: Figures<'_>) {
    let made: u64 = figures.by_route(|route| route.buried).map(|(_, buried)| buried).sum();
    page.counter("dlq_entries_total", "Dead letters made.").value(made);
    page.histogram("dlq_age_seconds", "Age of dead letters when they left the queue.")
        .one_histogram(&figures.aggregate.store.ages);
    let Some(dead) = &figures.gauges.dead_letters else { return };
    page.gauge("dlq_size", "Dead letters in the queue.").value(dead.size);
    let codes = dead.by_error_code.iter().map(|(code, count)| (&**code, *count));
    page.gauge("dlq_by_error_code", "Dead letters in the queue, by their last error code.")
        .by("error_code", take_largest(codes));
    let companies = dead.by_company.iter().map(|(company, count)| (company.as_str(), *count));
    page.gauge("dlq_by_company", "Dead letters in the queue, by company.")
        .by("company_id", take_largest(companies));
}

/// Metrics of fairness.
fn write_fairness(page: &mut Page, figures: Figures<'_>) {
    let companies = &figures.aggregate.companies;
    let processed = companies.totals().into_iter().map(|(company, counters)| (company, counters.attempts));
    page.untyped("tenant_jobs_processed", "Counter: deliveries tried for a company.")
        .by("company_id", processed);
    let named: Vec<&str> = companies.named().into_iter().map(|(company, _)| company).collect();
    let tenants = select_tenants(&figures.gauges.tenants, &named);
    page.gauge("tenant_current_priority", "Priority of a company; 1 is the most urgent.")
        .by("company_id", tenants.iter().map(|(company, (priority, _, _))| (company, priority)));
    page.gauge("tenant_consecutive_batch", "Jobs in a row that a company has just had.")
        .by("company_id", tenants.iter().map(|(company, (_, batch, _))| (company, batch)));
    page.gauge("tenant_rounds_without_processing", "Rounds that a company has waited for its turn.")
        .by("company_id", tenants.iter().map(|(company, (_, _, rounds))| (company, rounds)));
}

/// Metrics of retry decisions on every route: each question to the claims rule and each retried job.
fn write_submission_retries(page: &mut Page, figures: Figures<'_>) {
    page.counter("submission_retry_total", "Retries scheduled.")
        .by("route", figures.by_route(|route| route.delays.count()));
    let mut minutes = page.histogram("submission_retry_backoff_minutes", "Waits before retries, in minutes.");
    for (route, delays) in figures.by_route(|route| &route.delays) {
        minutes.bins(&[("route", route)], delays, MICROS_A_MINUTE, FIRST_MINUTE);
    }
    page.untyped("submission_retry_max_exceeded", "Counter: given up after all attempts were spent.")
        .by("route", figures.by_route(|route| route.exhausted));
    let classes = Class::ALL.map(Class::as_str);
    page.untyped("error_classification_distribution", "Counter: failures judged, by classification.")
        .by_both(["route", "classification"], figures.by_route(|route| zip(classes, route.classes)));
}
