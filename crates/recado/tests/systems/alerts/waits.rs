//! Alerts on the length of retry waits, and on their evenness.

use super::{HASTY, Story, routes};

fn waits(story: &Story, route: &str, count: usize) {
    story.counted(&format!("submission_retry_total{{route=\"{route}\"}}"), count);
}

#[test]
fn t16_waits_at_the_cap_ring_everywhere_above_one_in_twenty() {
    // The first wait is below the cap, the second at it.
    let policy =
        "policy = { base = \"10ms\", factor = 2, cap = \"20ms\", jitter = \"none\", max_attempts = 3 }";
    let (once, twice) = (&["503 busy", "ok"][..], &["503 busy", "503 busy", "ok"][..]);
    let story =
        Story::with(&format!("max_backoff_rate = {{ {HASTY} }}"), &routes(&["loud", "quiet", "few"], policy));
    story.send("few", 9, twice);
    story.send("few", 1, once);
    story.send("quiet", 18, once);
    story.send("quiet", 1, twice);
    waits(&story, "few", 19);
    waits(&story, "quiet", 20);
    story.send("loud", 16, once);
    story.send("loud", 2, twice);
    let about = Some(("route", "loud"));
    story.fired("max_backoff_rate", about);
    story.send("loud", 40, once);
    story.resolved("max_backoff_rate", about);
    story.ends(&[("max_backoff_rate", about)]);
}

#[test]
fn t16_a_mean_wait_above_half_an_hour_rings_everywhere() {
    let wait =
        |minutes: u32| format!("policy = {{ schedule = [\"0s\", \"{minutes}m\"], jitter = \"none\" }}");
    let lanes = routes(&["loud"], &wait(31)) + &routes(&["quiet"], &wait(30)) + &routes(&["few"], &wait(60));
    let story = Story::with(&format!("mean_backoff = {{ {HASTY} }}"), &lanes);
    story.send("few", 19, &["503 busy"]);
    story.send("quiet", 20, &["503 busy"]);
    waits(&story, "few", 19);
    waits(&story, "quiet", 20);
    story.send("loud", 20, &["503 busy"]);
    let about = Some(("route", "loud"));
    story.fired("mean_backoff", about);
    // The provider's own word counts as well: with these the mean is 25 minutes.
    story.send("loud", 5, &["429 retry-after=1", "ok"]);
    story.resolved("mean_backoff", about);
    story.ends(&[("mean_backoff", about)]);
}

const JITTERED: &str = "policy = { base = \"1h\", cap = \"1h\", jitter = \"±25%\", max_attempts = 2 }";

#[test]
fn t16_an_uneven_jitter_rings_everywhere_above_30_percent() {
    // Of five waits at most five tenths of the range can be used: they are uneven whatever the generator does. And
    // the more there are, the more even they get.
    let rule = format!("jitter_deviation = {{ min_volume = 5, resolve_share = 0.4, {HASTY} }}");
    let story = Story::with(&rule, &routes(&["loud", "few"], JITTERED));
    story.send("few", 4, &["503 busy"]);
    waits(&story, "few", 4);
    story.send("loud", 5, &["503 busy"]);
    let about = Some(("route", "loud"));
    story.fired("jitter_deviation", about);
    story.send("loud", 1_500, &["503 busy"]);
    story.resolved("jitter_deviation", about);
    story.ends(&[("jitter_deviation", about)]);
}

#[test]
fn t16_the_jitter_that_recado_comes_with_is_even_enough_to_be_quiet() {
    let rules = format!("jitter_deviation = {{ {HASTY} }}\ndlq_size = {{ threshold = 0, {HASTY} }}");
    let lanes = routes(&["even"], JITTERED) + &routes(&["bell"], "policy = { schedule = [\"0s\"] }");
    let story = Story::with(&rules, &lanes);
    story.send("even", 600, &["503 busy"]);
    waits(&story, "even", 600);
    // Whatever was measured when this rings, the waits were measured, too.
    story.send("bell", 1, &["550 no such user"]);
    story.fired("dlq_size", None);
    assert_eq!(story.rings("jitter_deviation", Some("even")), None);
}
