//! `GET /v1/alerts`.

use recado_observe::alerts::Subject;
use recado_observe::{Firing, Rule};
use recado_wire::alerts::{Alert, AlertAbout, AlertList, AlertRule};

use crate::handlers::prelude::*;
use recado_core::time::millis;

/// Firing alerts, and every rule. Where several nodes share the store, as the node that runs the alerts last
/// said.
#[utoipa::path(
    get, path = "/v1/alerts", tag = "alerts", operation_id = "listAlerts",
    responses((status = 200, body = AlertList), ReadProblems)
)]
pub async fn list(api: ApiState, _: NoQuery) -> ApiResult {
    let alerts = &api.engine.alerts;
    let items = alerts.firing().into_iter().map(show_alert).collect();
    answer::ok(&AlertList { items, rules: alerts.rules().iter().map(show_rule).collect() })
}

fn show_alert(firing: Firing) -> Alert {
    let about = match firing.subject {
        Subject::All => AlertAbout::All,
        Subject::Route(_) => AlertAbout::Route,
        Subject::Company(_) => AlertAbout::Company,
        Subject::ErrorCode(_) => AlertAbout::ErrorCode,
        Subject::Provider(_) => AlertAbout::Provider,
    };
    Alert {
        name: firing.alert.into(),
        about,
        subject: firing.subject.name().map(str::to_owned),
        severity: firing.severity,
        value: firing.value,
        threshold: firing.threshold,
        since: firing.since,
        message: firing.text.en.into(),
        message_pt: firing.text.pt.into(),
        runbook: firing.runbook.into(),
        calm_since: firing.calm.map(|calm| calm.since),
        clears_at: firing.calm.map(|calm| calm.clears_at),
    }
}

fn show_rule(rule: &Rule) -> AlertRule {
    AlertRule {
        name: rule.name.to_owned(),
        enabled: rule.enabled,
        severity: rule.severity,
        unit: rule.measure.unit(),
        threshold: rule.threshold,
        window_ms: millis(rule.window),
        min_volume: rule.min_volume,
        pending_ms: millis(rule.pending),
        resolve_share: rule.resolve_share,
        clear_ms: millis(rule.clear),
        except: rule.except.iter().map(|name| name.to_string()).collect(),
    }
}
