//! `GET /v1/kpis`: retry KPIs.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use recado_core::{RouteName, Timestamp};
use recado_observe::{Figure, Target, Verdict};
use recado_wire::kpis::{
    AttemptRate, CoursePart, DeadLetterFlow, Kpi, KpiQuery, KpiVerdict, Kpis, NamedCount, RouteFlow,
    WINDOW_DEFAULT_MS,
};
use recado_wire::{Code, Problem};

use crate::answer::{self, Refused};
use crate::extract::Asked;
use crate::openapi::ReadProblems;
use crate::providers::millis;
use crate::state::ApiState;

/// Success after retry, mean attempts, lost share, time to success, and the technical figures, each
/// beside its target.
#[utoipa::path(
    get, path = "/v1/kpis", tag = "alerts", operation_id = "getKpis", params(KpiQuery),
    responses(
        (status = 200, body = Kpis),
        (status = 404, description = "There is no such route.", body = Problem, content_type = "application/problem+json"),
        ReadProblems,
    )
)]
pub(crate) async fn show(
    State(api): State<ApiState>,
    Asked(query): Asked<KpiQuery>,
) -> Result<Response, Refused> {
    let engine = api.engine();
    let window_ms = query.window_ms.unwrap_or(WINDOW_DEFAULT_MS);
    let window = Duration::from_millis(window_ms);
    let route = query.route.as_ref().map(RouteName::as_str);
    let Some(kpis) = engine.metrics.kpis(route, window) else {
        let known = engine.routes().names().join(", ");
        let route = route.unwrap_or_default();
        return Err(Refused::new(
            Code::NotFound,
            format!("there is no route `{route}`; known routes: {known}"),
        ));
    };
    let rates = kpis.by_attempt.into_iter();
    let since = engine.metrics.started_at().max(before(engine.now(), window_ms));
    let course_part_ms = millis(kpis.course.part);
    let is_counted = |part: &recado_observe::kpis::CoursePart| part.at.plus(kpis.course.part) > since;
    Ok(answer::ok(&Kpis {
        route: route.map(str::to_owned),
        window_ms,
        since,
        success_after_retry: figure(kpis.success_after_retry),
        mean_attempts: figure(kpis.mean_attempts),
        lost_share: figure(kpis.lost_share),
        time_to_success_seconds: figure(kpis.time_to_success_seconds),
        permanent_share: figure(kpis.permanent_share),
        at_cap_share: figure(kpis.at_cap_share),
        jitter_deviation: figure(kpis.jitter_deviation),
        mean_backoff_seconds: figure(kpis.mean_backoff_seconds),
        by_attempt: rates
            .map(|rate| AttemptRate { attempt: rate.attempt, ended: rate.ended, sent: rate.sent })
            .collect(),
        dead_letters: flow(engine.metrics.dead_letter_flow(window)),
        course_part_ms,
        course: kpis.course.parts.iter().filter(|part| is_counted(part)).map(course_part).collect(),
        by_route: kpis.by_route.into_iter().map(route_flow).collect(),
    }))
}

fn course_part(part: &recado_observe::kpis::CoursePart) -> CoursePart {
    CoursePart { at: part.at, sent: part.sent, retried: part.retried, dead: part.buried }
}

fn route_flow(flow: recado_observe::kpis::RouteFlow) -> RouteFlow {
    RouteFlow {
        route: flow.route.into(),
        attempts: flow.attempts,
        failed: flow.failed,
        sent: flow.sent,
        dead: flow.buried,
    }
}

fn before(now: Timestamp, window_ms: u64) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_sub_unsigned(window_ms))
}

fn figure(figure: Figure) -> Kpi {
    let (at_least, at_most) = match figure.target {
        Target::AtLeast(least) => (Some(least), None),
        Target::AtMost(most) => (None, Some(most)),
    };
    Kpi {
        value: figure.value,
        at_least,
        at_most,
        met: (figure.verdict != Verdict::TooFew).then_some(figure.verdict == Verdict::Met),
        verdict: match figure.verdict {
            Verdict::Met => KpiVerdict::Met,
            Verdict::Missed => KpiVerdict::Missed,
            Verdict::TooFew => KpiVerdict::TooFew,
        },
        volume: figure.volume,
        min_volume: figure.min_volume,
    }
}

fn flow(flow: recado_observe::DeadLetterFlow) -> DeadLetterFlow {
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
