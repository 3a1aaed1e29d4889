//! Classification rules that the history suggests.

use std::time::Duration;

use recado_core::Timestamp;
use recado_engine::audit::Suggestion;
use recado_observe::rule_suggestions::route_tables;
use recado_wire::rules::{RuleSuggestion, SuggestionList, SuggestionQuery};

use crate::handlers::prelude::*;
use recado_core::time::millis;

/// Stretch of the trail to learn from when the caller names none.
const SINCE_DEFAULT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Errors that deserve a classification rule: unknown ones, and those whose jobs end otherwise than their class says.
/// Learned from the audit trail of all companies; nothing changes by itself.
#[utoipa::path(
    get, path = "/v1/rules/suggestions", tag = "routes", operation_id = "suggestRules", params(SuggestionQuery),
    responses((status = 200, body = SuggestionList), NoSuchRoute, ReadProblems)
)]
pub async fn suggest(
    api: ApiState,
    CheckedQuery(query): CheckedQuery<SuggestionQuery>,
    permit: AnswerPermit,
) -> ApiResult {
    let engine = &api.engine;
    if let Some(route) = query.route.as_ref().filter(|route| engine.routes().get(route.as_str()).is_none()) {
        return Err(ApiError::no_such_route(engine.routes(), route.as_str()));
    }
    let week_ago = || engine.now().as_millis().saturating_sub_unsigned(millis(SINCE_DEFAULT));
    let since = query.since.unwrap_or_else(|| Timestamp::from_millis(week_ago()));
    let learned = engine.audit.suggest_rules(query.route.as_ref(), since).await?;
    let rules: Vec<_> = learned.found.iter().map(|suggestion| &suggestion.rule).collect();
    permit.ok(&SuggestionList {
        toml: route_tables(&rules),
        items: learned.found.into_iter().map(show).collect(),
        since,
        records_read: learned.records,
        read_until: learned.read_until,
    })
}

fn show(suggestion: Suggestion) -> RuleSuggestion {
    let Suggestion { candidate, rule, effect, example } = suggestion;
    RuleSuggestion {
        toml: rule.toml(),
        fingerprint: candidate.error.fingerprint,
        error_code: rule.code,
        example,
        count: candidate.error.count,
        retried_to_success: candidate.error.retried_to_success,
        retried_in_vain: candidate.error.retried_in_vain,
        today: candidate.today,
        suggested: candidate.suggested,
        confidence: (candidate.confidence * 1_000.0).round() / 1_000.0,
        would_have_changed: effect.changed,
        would_have_lost: effect.lost,
        route: rule.route,
    }
}
