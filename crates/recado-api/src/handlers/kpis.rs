//! `GET /v1/kpis`: retry KPIs.

use std::time::Duration;

use recado_core::{RouteName, Timestamp};
use recado_observe::kpis::{self, Figure, Target, Verdict};
use recado_wire::kpis::{
    AttemptRate, CoursePart, DeadLetterFlow, Kpi, KpiQuery, KpiVerdict, Kpis, NamedCount, RouteFlow,
    WINDOW_DEFAULT_MS,
};

use crate::handlers::prelude::*;
use recado_core::time::millis;

/// Success after retry, mean attempts, lost share, time to success, and the technical figures, each
/// beside its target.
#[utoipa::path(
    get, path = "/v1/kpis", tag = "alerts", operation_id = "getKpis", params(KpiQuery),
    responses((status = 200, body = Kpis), NoSuchRoute, ReadProblems)
)]
pub async fn show(api: ApiState, CheckedQuery(query): CheckedQuery<KpiQuery>) -> ApiResult {
    let engine = &api.engine;
    let window_ms = query.window_ms.unwrap_or(WINDOW_DEFAULT_MS);
    let window = Duration::from_millis(window_ms);
    let route = query.route.as_ref().map(RouteName::as_str);
    let Some(found) = engine.metrics.kpis(route, window) else {
        return Err(ApiError::no_such_route(engine.routes(), route.unwrap_or_default()));
    };
    let begin = Timestamp::from_millis(engine.now().as_millis().saturating_sub_unsigned(window_ms));
    let since = engine.metrics.started_at().max(begin);
    let course_part_ms = millis(found.series.step);
    let is_counted = |part: &&kpis::TimeSeriesPoint| part.at.plus(found.series.step) > since;
    let show_rate =
        |kpis::AttemptRate { attempt, ended, sent }: kpis::AttemptRate| AttemptRate { attempt, ended, sent };
    answer::ok(&Kpis {
        route: route.map(str::to_owned),
        window_ms,
        since,
        success_after_retry: show_figure(found.success_after_retry),
        mean_attempts: show_figure(found.mean_attempts),
        lost_share: show_figure(found.lost_share),
        time_to_success_seconds: show_figure(found.time_to_success_seconds),
        permanent_share: show_figure(found.permanent_share),
        at_cap_share: show_figure(found.at_cap_share),
        jitter_deviation: show_figure(found.jitter_deviation),
        mean_backoff_seconds: show_figure(found.mean_backoff_seconds),
        by_attempt: found.by_attempt.into_iter().map(show_rate).collect(),
        dead_letters: show_dead_letter_flow(engine.metrics.dead_letter_flow(window)),
        course_part_ms,
        course: found.series.points.iter().filter(is_counted).map(show_course_part).collect(),
        by_route: found.by_route.into_iter().map(show_route_flow).collect(),
    })
}

fn show_course_part(part: &kpis::TimeSeriesPoint) -> CoursePart {
    CoursePart { at: part.at, sent: part.sent, retried: part.retried, dead: part.buried }
}

fn show_route_flow(flow: kpis::RouteFlow) -> RouteFlow {
    let kpis::RouteFlow { route, attempts, failed, sent, buried } = flow;
    RouteFlow { route: route.into(), attempts, failed, sent, dead: buried }
}

fn show_figure(figure: Figure) -> Kpi {
    let Figure { value, target, verdict, volume, min_volume } = figure;
    let (at_least, at_most) = match target {
        Target::AtLeast(least) => (Some(least), None),
        Target::AtMost(most) => (None, Some(most)),
    };
    let (verdict, met) = match verdict {
        Verdict::Met => (KpiVerdict::Met, Some(true)),
        Verdict::Missed => (KpiVerdict::Missed, Some(false)),
        Verdict::TooFew => (KpiVerdict::TooFew, None),
    };
    Kpi { value, at_least, at_most, met, verdict, volume, min_volume }
}

fn show_dead_letter_flow(flow: kpis::DeadLetterFlow) -> DeadLetterFlow {
    let named = |counts: Vec<(Box<str>, u64)>| {
        counts.into_iter().map(|(name, count)| NamedCount { name: name.into(), count }).collect()
    };
    DeadLetterFlow {
        entries: flow.entries,
        per_hour: flow.per_hour,
        share_of_sends: flow.share_of_sends,
        by_company: named(flow.by_company),
        by_error_code: named(flow.by_error_code),
    }
}
