//! The page at `/metrics`: the required metrics under their required names, and the engine's own as `recado_*`.
//!
//! Routes are on it from the start, at zero, for Prometheus sees no increase from nothing. Companies, error
//! codes and patterns of the API are bounded; the rest of each is `other`.
//!
//! | required name | here |
//! |---|---|
//! | counters that do not end in `_total` | untyped: the name stays, and linters have nothing to say |
//! | `dlq_by_error_code`, `dlq_by_company` (counter) | gauges: what is in the queue now, as the runbook asks and the alert on one company needs |
//! | `submission_retry_backoff_minutes` | as it stands; minutes are the one thing that `promtool` does not like |

mod engine;
mod required;

use recado_core::Timestamp;

use crate::aggregate::Book;
use crate::counters::{RouteTally, RouteTotals};
use crate::exposition::Page;
use crate::gauges::Gauges;
use crate::ledger::Routes;

pub(crate) fn render(book: &Book, routes: &Routes, gauges: &Gauges, now: Timestamp) -> String {
    let mut page = Page::default();
    required::render(&mut page, book, routes, gauges, now);
    engine::render(&mut page, book, routes, gauges);
    page.into_text()
}

fn each_route<'a>(
    book: &'a Book,
    routes: &'a Routes,
) -> impl Iterator<Item = (&'a str, &'a RouteTally, &'a RouteTotals)> {
    routes.names().zip(&book.routes).map(|(name, (history, totals))| (name, &history.total, totals))
}
