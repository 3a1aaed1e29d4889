//! Patterns unlike the last day. A day is all that the server has seen, and what is new about it is what is left of
//! it in the shortest window.

use serde_json::{Value, json};

use super::{SHORT, Story, after_long, routes};

/// A failed job is tried again long after the test, so that nothing is buried.
const PATIENT: &str = "policy = { schedule = [\"0s\", \"1h\"] }";

/// Long enough for what was before to have left the window.
const LATER_MS: u64 = 21_000;

impl Story {
    fn send_later(&self, route: &str, count: usize, script: &str) {
        let job = json!({ "route": route, "companyId": "acme", "delayMs": LATER_MS, "data": { "script": [script] } });
        let (status, answer) = self.scene.ask("POST", "/v1/jobs/batch", &Value::Array(vec![job; count]));
        assert_eq!((status, &answer["accepted"]), (200, &json!(count)), "{answer}");
    }

    fn attempts(&self, route: &str, result: &str, count: usize) {
        self.counted(&format!("recado_attempts_total{{route=\"{route}\",result=\"{result}\"}}"), count);
    }
}

#[test]
fn e10_a_route_that_fails_unlike_its_last_day_rings_everywhere() {
    let story =
        Story::with(&format!("failure_jump = {{ {SHORT} }}"), &routes(&["loud", "quiet", "few"], PATIENT));
    // When 50 have failed on top: loud fails 4 times as often as over its day, quiet 3 times.
    for (route, before) in [("loud", 150), ("quiet", 100), ("few", 500)] {
        story.send(route, before, &["ok"]);
        story.attempts(route, "sent", before);
    }
    story.send_later("few", 49, "503 busy");
    story.send_later("quiet", 50, "503 busy");
    story.send_later("loud", 50, "503 busy");
    let about = Some(("route", "loud"));
    after_long(|| story.rings("failure_jump", Some("loud")).is_some());
    story.fired("failure_jump", about);
    story.attempts("few", "failed", 49);
    story.attempts("quiet", "failed", 50);
    story.resolved("failure_jump", about);
    story.ends(&[("failure_jump", about)]);
}

#[test]
fn e10_an_error_code_unlike_its_last_day_rings_everywhere() {
    // Believed when all sixty have come: half of them would say something else.
    let rule = format!("code_jump = {{ min_volume = 60, {SHORT} }}");
    let story = Story::with(&rule, &routes(&["lane"], PATIENT));
    // When each has come 30 times on top: 503 comes 6 times as often as over its day, 502 less than 3 times.
    story.send("lane", 269, &["ok"]);
    story.send("lane", 31, &["502 bad gateway"]);
    story.attempts("lane", "sent", 269);
    story.attempts("lane", "failed", 31);
    story.send_later("lane", 30, "502 bad gateway");
    story.send_later("lane", 30, "503 busy");
    let about = Some(("error code", "503"));
    after_long(|| story.rings("code_jump", Some("503")).is_some());
    story.fired("code_jump", about);
    story.resolved("code_jump", about);
    story.ends(&[("code_jump", about)]);
}
