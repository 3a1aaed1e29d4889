//! Shares of attempts and of jobs.

use super::{HASTY, Story, routes};

/// One try, and that is it.
const ONCE: &str = "policy = { schedule = [\"0s\"] }";

/// A load that is exactly at a rule's threshold, and its end.
struct Share {
    rule: &'static str,
    /// The failure of a job.
    script: &'static str,
    /// Just enough to be believed.
    volume: usize,
    /// Of those, the share that is still allowed.
    allowed: usize,
    /// Good ones that bring it well below again.
    relief: usize,
}

#[track_caller]
fn story(share: Share) {
    let Share { rule, script, volume, allowed, relief } = share;
    let story = Story::with(&format!("{rule} = {{ {HASTY} }}"), &routes(&["loud", "quiet", "few"], ONCE));
    let ended = |route: &str, good: usize, bad: usize| {
        let total = |status, count| {
            story
                .counted(&format!("recado_jobs_ended_total{{route=\"{route}\",status=\"{status}\"}}"), count);
        };
        total("sent", good);
        total("failed", bad);
    };
    story.send("few", volume - 1, &[script]);
    story.send("quiet", volume - allowed, &["ok"]);
    story.send("quiet", allowed, &[script]);
    ended("few", 0, volume - 1);
    ended("quiet", volume - allowed, allowed);
    story.send("loud", volume - allowed - 1, &["ok"]);
    story.send("loud", allowed + 1, &[script]);
    let about = Some(("route", "loud"));
    story.fired(rule, about);
    story.send("loud", relief, &["ok"]);
    story.resolved(rule, about);
    story.ends(&[(rule, about)]);
}

#[test]
fn e10_the_failure_rate_of_a_route_rings_everywhere_above_a_tenth() {
    story(Share { rule: "failure_rate", script: "503 busy", volume: 20, allowed: 2, relief: 20 });
}

#[test]
fn t16_permanent_errors_ring_everywhere_above_a_tenth() {
    story(Share { rule: "permanent_rate", script: "550 no such user", volume: 20, allowed: 2, relief: 20 });
}

#[test]
fn g8_the_rate_of_dead_letters_rings_everywhere_above_two_in_a_hundred() {
    story(Share { rule: "dlq_rate", script: "550 no such user", volume: 50, allowed: 1, relief: 80 });
}
