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

use crate::aggregate::Aggregate;
use crate::counters::{RouteCounters, RouteTotals};
use crate::exposition::Page;
use crate::gauges::Gauges;
use crate::ledger::Routes;

/// Everything that the page is written from.
#[derive(Clone, Copy)]
struct Figures<'a> {
    aggregate: &'a Aggregate,
    routes: &'a Routes,
    gauges: &'a Gauges,
    now: Timestamp,
}

pub(crate) fn render(aggregate: &Aggregate, routes: &Routes, gauges: &Gauges, now: Timestamp) -> String {
    let figures = Figures { aggregate, routes, gauges, now };
    let mut page = Page::default();
    required::render(&mut page, figures);
    engine::render(&mut page, figures);
    page.into_text()
}

impl<'a> Figures<'a> {
    /// A figure of each route.
    fn by_route<V>(self, figure: impl Fn(&'a RouteCounters) -> V) -> impl Iterator<Item = (&'a str, V)> {
        let each = self.routes.names().zip(&self.aggregate.routes);
        each.map(move |(name, (history, _))| (name, figure(&history.total)))
    }

    /// A figure of each route that is kept only as a total.
    fn by_route_total<V>(self, figure: impl Fn(&'a RouteTotals) -> V) -> impl Iterator<Item = (&'a str, V)> {
        self.routes.names().zip(&self.aggregate.routes).map(move |(name, (_, totals))| (name, figure(totals)))
    }
}
