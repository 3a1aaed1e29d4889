//! The required metrics, in their order.

use recado_core::Timestamp;

use crate::aggregate::Book;
use crate::counters::{CLASSES, NUMBERS, RouteTally, Sum};
use crate::exposition::{Kind, Page};
use crate::gauges::{Gauges, largest, tenants};
use crate::histogram::Spread;
use crate::history::HOUR;
use crate::ledger::Routes;
use crate::metrics::each_route;

/// The first border of a wait that is a whole number of minutes.
const FIRST_MINUTE: usize = 5;
const MICROS_A_MINUTE: f64 = 60e6;

pub fn render(page: &mut Page, book: &Book, routes: &Routes, gauges: &Gauges, now: Timestamp) {
    retries(page, book, now);
    dead_letters(page, book, gauges);
    fairness(page, book, gauges);
    submissions(page, book, routes);
}

/// Retry metrics.
fn retries(page: &mut Page, book: &Book, now: Timestamp) {
    let ended = &book.numbers.total.ended;
    let mut family =
        page.family("retry_attempts_total", Kind::Counter, "Attempts that ended, by their number.");
    for (at, count) in ended.iter().enumerate() {
        family.sample(&[("attempt", &number(at))], count);
    }

    let mut delays = Spread::default();
    book.routes.iter().for_each(|(history, _)| delays.add(&history.total.delays));
    page.family("retry_backoff_delay_seconds", Kind::Histogram, "Waits before retries.").spread(&[], &delays);

    let hour = book.numbers.over(HOUR, now);
    let mut family = page.family(
        "retry_success_rate",
        Kind::Gauge,
        "Share of attempts of this number that were delivered, over the last hour.",
    );
    for (at, (sent, ended)) in
        hour.sent.iter().zip(hour.ended).enumerate().filter(|(_, (_, ended))| *ended > 0)
    {
        family.sample(&[("attempt", &number(at))], *sent as f64 / ended as f64);
    }
}

fn number(at: usize) -> String {
    let number = at + 1;
    if number < NUMBERS { number.to_string() } else { format!("{number}+") }
}

/// Metrics of the dead letter queue.
fn dead_letters(page: &mut Page, book: &Book, gauges: &Gauges) {
    let made: u64 = book.routes.iter().map(|(history, _)| history.total.buried).sum();
    page.family("dlq_entries_total", Kind::Counter, "Dead letters made.").sample(&[], made);
    page.family("dlq_age_seconds", Kind::Histogram, "How old dead letters were when they left the queue.")
        .spread(&[], &book.store.ages);
    let Some(dead) = &gauges.dead_letters else { return };
    page.family("dlq_size", Kind::Gauge, "Dead letters in the queue.").sample(&[], dead.size);
    let mut family =
        page.family("dlq_by_error_code", Kind::Gauge, "Dead letters in the queue, by their last error code.");
    for (code, count) in largest(dead.by_error_code.iter().map(|(code, count)| (&**code, *count))) {
        family.sample(&[("error_code", code)], count);
    }
    let mut family = page.family("dlq_by_company", Kind::Gauge, "Dead letters in the queue, by company.");
    for (company, count) in largest(dead.by_company.iter().map(|(company, count)| (company.as_str(), *count)))
    {
        family.sample(&[("company_id", company)], count);
    }
}

/// Metrics of fairness.
fn fairness(page: &mut Page, book: &Book, gauges: &Gauges) {
    let mut family =
        page.family("tenant_jobs_processed", Kind::Untyped, "Counter: deliveries tried for a company.");
    for (company, tally) in book.companies.totals() {
        family.sample(&[("company_id", company)], tally.attempts);
    }
    let seated: Vec<&str> = book.companies.named().into_iter().map(|(company, _)| company).collect();
    let tenants = tenants(&gauges.tenants, &seated);
    let mut family =
        page.family("tenant_current_priority", Kind::Gauge, "Priority of a company; 1 is the most urgent.");
    for (company, priority, _, _) in &tenants {
        family.sample(&[("company_id", company)], priority);
    }
    let mut family =
        page.family("tenant_consecutive_batch", Kind::Gauge, "Jobs in a row that a company has just had.");
    for (company, _, batch, _) in &tenants {
        family.sample(&[("company_id", company)], batch);
    }
    let mut family = page.family(
        "tenant_rounds_without_processing",
        Kind::Gauge,
        "Rounds that a company has waited for its turn.",
    );
    for (company, _, _, rounds) in &tenants {
        family.sample(&[("company_id", company)], rounds);
    }
}

/// Metrics of retry decisions on every route: each question to the claims rule and each retried job.
fn submissions(page: &mut Page, book: &Book, routes: &Routes) {
    let mut family = page.family("submission_retry_total", Kind::Counter, "Retries scheduled.");
    for (route, tally, _) in each_route(book, routes) {
        family.sample(&[("route", route)], tally.delays.count());
    }
    let mut family =
        page.family("submission_retry_backoff_minutes", Kind::Histogram, "Waits before retries, in minutes.");
    for (route, tally, _) in each_route(book, routes) {
        family.spread_from(&[("route", route)], &tally.delays, MICROS_A_MINUTE, FIRST_MINUTE);
    }
    let mut family = page.family(
        "submission_retry_max_exceeded",
        Kind::Untyped,
        "Counter: given up after all attempts were spent.",
    );
    for (route, tally, _) in each_route(book, routes) {
        family.sample(&[("route", route)], tally.exhausted);
    }
    let mut family = page.family(
        "error_classification_distribution",
        Kind::Untyped,
        "Counter: failures judged, by classification.",
    );
    for (route, tally, _) in each_route(book, routes) {
        for (class, count) in classes(tally) {
            family.sample(&[("route", route), ("classification", class)], count);
        }
    }
}

fn classes(tally: &RouteTally) -> impl Iterator<Item = (&'static str, u64)> {
    CLASSES.iter().map(|class| class.as_str()).zip(tally.classes)
}
