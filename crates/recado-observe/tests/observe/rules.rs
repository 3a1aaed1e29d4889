//! Each rule rings above its threshold, once, and not below it, not on too little, and ends.

use std::time::Duration;

use recado_core::breaker::BreakerState;
use recado_core::{AttemptResult, Cause, Class};
use recado_observe::{
    AlertChange, AlertConfig, Alerts, AttemptEnded, Backoff, Change, DeadLetterExit, Fact, Gauges, Ledger,
    Subject,
};

use crate::{at, company, failed, gauges, job_buried, job_sent, ledger, seconds_of, sent, waits};

/// A story: traffic goes on, alerts are stepped, changes are written down.
pub struct Scene {
    pub ledger: Ledger,
    pub gauges: Gauges,
    pub alerts: Alerts,
    pub now: u64,
}

impl Scene {
    pub fn new() -> Self {
        Scene { ledger: ledger(), gauges: gauges(), alerts: Alerts::new(AlertConfig::default()), now: 0 }
    }

    pub fn record(&self, count: usize, fact: Fact<'_>) {
        (0..count).for_each(|_| self.ledger.record(&fact, at(self.now)));
    }

    /// Lets `traffic` happen at every step of so many seconds, for so long.
    pub fn run(&mut self, lasts: Duration, step: u64, traffic: &dyn Fn(&mut Scene)) -> Vec<AlertChange> {
        let end = self.now + lasts.as_secs();
        let mut changes = Vec::new();
        while self.now < end {
            traffic(self);
            self.now += step;
            changes.extend(self.alerts.evaluate(&self.ledger, &self.gauges, at(self.now)));
        }
        changes
    }
}

/// Keeps the changes of one rule.
pub fn of(rule: &str, changes: Vec<AlertChange>) -> Vec<AlertChange> {
    changes.into_iter().filter(|change| &*change.alert.alert == rule).collect()
}

type Traffic<'a> = &'a dyn Fn(&mut Scene);

/// Tells the whole story of a rule: quiet below, one ring above, quiet while it lasts, one end.
fn story(name: &str, subject: Subject, above: Traffic<'_>, below: Traffic<'_>) -> AlertChange {
    let rule = AlertConfig::default().rule(name).unwrap().clone();
    let step = (rule.window.as_secs() / 60).max(15);
    let long = rule.window + rule.pending + rule.clear + seconds_of(4 * step);
    let mut scene = Scene::new();
    assert_eq!(of(name, scene.run(long, step, below)), [], "{name} is quiet below its threshold");
    let mut fired = of(name, scene.run(long, step, above));
    assert_eq!(fired.len(), 1, "{name} rings once: {fired:?}");
    let fired = fired.remove(0);
    assert_eq!((fired.change, &fired.alert.subject), (Change::Fired, &subject), "{name}");
    assert!(fired.alert.value > rule.threshold && fired.alert.threshold == rule.threshold, "{name}");
    assert!(fired.at.since(fired.alert.since) >= rule.pending, "{name} was patient");
    assert_eq!(of(name, scene.run(long, step, above)), [], "{name} does not repeat itself");
    assert!(scene.alerts.firing().iter().any(|alert| &*alert.alert == name), "{name} rings on");
    let mut ended = of(name, scene.run(long * 2, step, below));
    assert_eq!(ended.len(), 1, "{name} ends once: {ended:?}");
    let ended = ended.remove(0);
    assert_eq!((ended.change, ended.alert.since), (Change::Resolved, fired.alert.since), "{name}");
    assert!(ended.alert.text.en.starts_with("Resolved: "), "{}", ended.alert.text.en);
    assert!(!scene.alerts.firing().iter().any(|alert| &*alert.alert == name), "{name} is over");
    fired
}

/// The same share of much less says nothing, and would if little were enough.
fn quiet_on_little(name: &str, above: Traffic<'_>) {
    let changes_with = |min_volume| {
        let mut config = AlertConfig::default();
        let rule = config.rule_mut(name).unwrap();
        rule.min_volume = min_volume;
        let rule = rule.clone();
        let mut scene = Scene::new();
        scene.alerts = Alerts::new(config);
        above(&mut scene);
        let step = (rule.window.as_secs() / 60).max(15);
        of(name, scene.run(rule.window, step, &|_| ())).len()
    };
    let usual = AlertConfig::default().rule(name).unwrap().min_volume;
    assert_eq!(changes_with(usual), 0, "{name} needs its volume");
    assert_eq!(changes_with(1), 1, "{name} has nothing but its volume against it");
}

fn email() -> Subject {
    Subject::Route("email".into())
}

fn claims() -> Subject {
    Subject::Route("tiss-claims".into())
}

#[test]
fn e10_more_than_a_tenth_of_the_attempts_failing_rings() {
    let mix = |good, bad| {
        move |scene: &mut Scene| {
            scene.record(good, Fact::AttemptEnded(sent("email")));
            scene.record(bad, Fact::AttemptEnded(failed("email", "421", Class::Transient)));
            scene.record(100, Fact::AttemptEnded(sent("whatsapp")));
        }
    };
    let fired = story("failure_rate", email(), &mix(17, 3), &mix(19, 1));
    assert_eq!(
        &*fired.alert.text.en,
        "Route email: 12.2 % of the attempts failed within 10 min; the limit is 10 %"
    );
    assert_eq!(
        &*fired.alert.text.pt,
        "Rota email: 12,2 % das tentativas falharam em 10 min; o limite é 10 %"
    );
    assert_eq!(&*fired.alert.runbook, "docs/operating/alerts.md#failure_rate");
    quiet_on_little("failure_rate", &mix(0, 1));
}

fn dead(size: u64) -> impl Fn(&mut Scene) {
    move |scene| scene.gauges.dead_letters.as_mut().unwrap().size = size
}

#[test]
fn e10_g8_w5_more_than_100_dead_letters_ring() {
    let fired = story("dlq_size", Subject::All, &dead(101), &dead(90));
    assert_eq!(&*fired.alert.text.en, "101 jobs are in the dead letter queue; the limit is 100");
    let mut scene = Scene::new();
    assert_eq!(of("dlq_size", scene.run(seconds_of(600), 15, &dead(100))), [], "100 are not more than 100");
}

#[test]
fn g8_more_than_two_in_a_hundred_jobs_dying_rings() {
    let mix = |good, bad| {
        move |scene: &mut Scene| {
            scene.record(good, job_sent("email", 1, None));
            scene.record(bad, job_buried("email", 1, Cause::Permanent));
        }
    };
    story("dlq_rate", email(), &mix(97, 3), &mix(99, 1));
    quiet_on_little("dlq_rate", &mix(40, 5));
}

#[test]
fn g8_more_than_50_dead_letters_of_one_company_ring_for_that_company() {
    let by = |blue| {
        move |scene: &mut Scene| {
            let dead = scene.gauges.dead_letters.as_mut().unwrap();
            dead.by_company = vec![(company("acme"), 50), (company("blue"), blue)];
        }
    };
    let fired = story("dlq_company", Subject::Company(company("blue")), &by(51), &by(40));
    assert_eq!(
        &*fired.alert.text.pt,
        "Empresa blue: 51 de suas tarefas estão na fila de mensagens mortas; o limite é 50"
    );
    let gone = |scene: &mut Scene| scene.gauges.dead_letters.as_mut().unwrap().by_company.clear();
    story("dlq_company", Subject::Company(company("blue")), &by(51), &gone);
}

#[test]
fn e10_jobs_that_take_more_than_five_minutes_ring() {
    let lag = |slow: usize| {
        move |scene: &mut Scene| {
            scene.record(100 - slow, Fact::AttemptEnded(sent("email")));
            scene.record(slow, Fact::AttemptEnded(AttemptEnded { lag: seconds_of(400), ..sent("email") }));
        }
    };
    let fired = story("processing_time", email(), &lag(20), &lag(1));
    assert!(fired.alert.text.en.contains("took") && fired.alert.text.en.ends_with("the limit is 5 min"));
    quiet_on_little("processing_time", &|scene| {
        scene.record(5, Fact::AttemptEnded(AttemptEnded { lag: seconds_of(900), ..sent("email") }));
    });
}

#[test]
fn e10_a_queue_that_is_not_claimed_from_rings_although_nothing_ends() {
    let age = |seconds| {
        move |scene: &mut Scene| scene.gauges.oldest_due = Some(vec![("email".into(), seconds_of(seconds))])
    };
    story("queue_age", email(), &age(301), &age(20));
}

#[test]
fn t16_more_than_a_tenth_of_permanent_errors_rings() {
    let mix = |permanent| {
        move |scene: &mut Scene| {
            scene.record(20 - permanent, Fact::AttemptEnded(sent("tiss-claims")));
            scene.record(
                permanent,
                Fact::AttemptEnded(failed("tiss-claims", "DUPLICATE_CLAIM", Class::Permanent)),
            );
        }
    };
    story("permanent_rate", claims(), &mix(3), &mix(1));
    quiet_on_little("permanent_rate", &|scene| {
        scene.record(19, Fact::AttemptEnded(failed("tiss-claims", "DUPLICATE_CLAIM", Class::Permanent)));
    });
}

fn retry(backoff: Backoff) -> Fact<'static> {
    Fact::AttemptEnded(AttemptEnded {
        retry: Some(backoff),
        ..failed("tiss-claims", "503", Class::Transient)
    })
}

#[test]
fn t16_more_than_one_in_twenty_at_the_longest_wait_rings() {
    let mix = |capped| {
        move |scene: &mut Scene| {
            scene.record(50 - capped, retry(waits(300)));
            scene.record(capped, retry(Backoff { at_cap: true, ..waits(300) }));
        }
    };
    story("max_backoff_rate", claims(), &mix(4), &mix(1));
    quiet_on_little("max_backoff_rate", &|scene| {
        scene.record(19, retry(Backoff { at_cap: true, ..waits(300) }))
    });
}

#[test]
fn t16_an_uneven_jitter_rings() {
    let histogram = |tenths: u8| {
        move |scene: &mut Scene| {
            for tenth in 0..tenths {
                let position = Some((f64::from(tenth) + 0.5) / 10.0);
                scene.record(3, retry(Backoff { position, ..waits(300) }));
            }
        }
    };
    story("jitter_deviation", claims(), &histogram(6), &histogram(10));
    quiet_on_little("jitter_deviation", &|scene| {
        scene.record(499, retry(Backoff { position: Some(0.5), ..waits(300) }));
    });
}

#[test]
fn t16_a_mean_wait_of_more_than_half_an_hour_rings() {
    let wait = |minutes: u64| move |scene: &mut Scene| scene.record(5, retry(waits(minutes * 60)));
    let fired = story("mean_backoff", claims(), &wait(40), &wait(20));
    assert!(fired.alert.text.en.ends_with("on average; the limit is 30 min"), "{}", fired.alert.text.en);
    quiet_on_little("mean_backoff", &|scene| scene.record(19, retry(waits(4 * 3_600))));
}

#[test]
fn g14_a_store_that_fills_up_rings_at_80_and_at_90_percent() {
    let used = |bytes| move |scene: &mut Scene| scene.gauges.store.as_mut().unwrap().bytes = bytes;
    story("store_80", Subject::All, &used(801), &used(700));
    story("store_90", Subject::All, &used(901), &used(800));
    let mut scene = Scene::new();
    let changes = scene.run(seconds_of(600), 15, &used(850));
    assert_eq!(changes.iter().map(|change| &*change.alert.alert).collect::<Vec<_>>(), ["store_80"]);
}

#[test]
fn g14_a_single_refused_write_rings() {
    let refused = |scene: &mut Scene| scene.record(1, Fact::WritesRejected { writes: 1 });
    story("rejected_writes", Subject::All, &refused, &|_| ());
}

#[test]
fn dead_letters_that_are_archived_for_want_of_room_ring() {
    let left = |how| move |scene: &mut Scene| scene.record(1, Fact::DeadLetterLeft { how, moved_at: at(0) });
    story("dlq_overflow", Subject::All, &left(DeadLetterExit::Archived), &left(DeadLetterExit::Expired));
}

#[test]
fn audit_files_more_than_five_minutes_behind_ring() {
    let late = |seconds| move |scene: &mut Scene| scene.gauges.trail_late = Some(seconds_of(seconds));
    let fired = story("audit_late", Subject::All, &late(420), &late(60));
    assert_eq!(&*fired.alert.text.en, "the audit trail's files are 7 min behind; the limit is 5 min");
    assert_eq!(
        &*fired.alert.text.pt,
        "os arquivos da trilha de auditoria estão atrasados em 7 min; o limite é 5 min"
    );
    let mut scene = Scene::new();
    assert_eq!(scene.run(seconds_of(900), 15, &late(300)), [], "300 s are not more than 300 s");
}

#[test]
fn f5_an_open_breaker_rings_until_it_closes() {
    let state = |state| {
        move |scene: &mut Scene| {
            scene.gauges.breakers =
                Some(vec![("instagram".into(), state), ("tiktok".into(), BreakerState::Closed)])
        }
    };
    let subject = || Subject::Provider("instagram".into());
    let fired = story("breaker_open", subject(), &state(BreakerState::Open), &state(BreakerState::Closed));
    assert_eq!(&*fired.alert.text.en, "Provider instagram: its circuit breaker is open");
    story("breaker_open", subject(), &state(BreakerState::HalfOpen), &state(BreakerState::Closed));
}

/// A day in which two in a hundred attempts fail, half of them with 421 and half with 450.
fn usual_day(scene: &mut Scene) {
    let usual = |scene: &mut Scene| {
        scene.record(98, Fact::AttemptEnded(sent("email")));
        scene.record(1, Fact::AttemptEnded(failed("email", "421", Class::Transient)));
        scene.record(1, Fact::AttemptEnded(failed("email", "450", Class::Transient)));
    };
    assert_eq!(scene.run(seconds_of(24 * 3_600), 300, &usual), [], "a usual day is quiet");
}

#[test]
fn e10_a_pattern_unlike_the_last_day_rings_for_its_route_and_its_code() {
    let mut scene = Scene::new();
    usual_day(&mut scene);
    let odd = |scene: &mut Scene| {
        scene.record(91, Fact::AttemptEnded(sent("email")));
        scene.record(1, Fact::AttemptEnded(failed("email", "421", Class::Transient)));
        scene.record(8, Fact::AttemptEnded(failed("email", "450", Class::Transient)));
    };
    let changes = scene.run(seconds_of(1_800), 30, &odd);
    let rang: Vec<_> =
        changes.iter().map(|change| (&*change.alert.alert, change.alert.subject.clone())).collect();
    let code = Subject::ErrorCode("450".into());
    assert_eq!(rang, [("failure_jump", email()), ("code_jump", code)], "below a tenth, yet unlike itself");
    let usual = |scene: &mut Scene| {
        scene.record(99, Fact::AttemptEnded(sent("email")));
        scene.record(1, Fact::AttemptEnded(failed("email", "421", Class::Transient)));
    };
    let ended = scene.run(seconds_of(3_600), 30, &usual);
    assert_eq!(ended.iter().filter(|change| change.change == Change::Resolved).count(), 2);
}

#[test]
fn a_first_day_has_no_pattern_to_be_unlike_and_a_few_failures_are_none() {
    let mut scene = Scene::new();
    let bad =
        |scene: &mut Scene| scene.record(20, Fact::AttemptEnded(failed("email", "421", Class::Transient)));
    let changes = scene.run(seconds_of(1_800), 30, &bad);
    assert_eq!(of("failure_jump", changes.clone()), []);
    assert_eq!(of("code_jump", changes), []);

    let mut scene = Scene::new();
    usual_day(&mut scene);
    scene.now += 1_200;
    scene.record(49, Fact::AttemptEnded(failed("email", "421", Class::Transient)));
    let changes = scene.run(seconds_of(900), 30, &|_| ());
    assert_eq!(of("failure_jump", changes), [], "49 attempts are too few");
}

#[test]
fn a_partly_delivered_or_uncertain_attempt_counts_as_failed() {
    for result in [AttemptResult::Partial, AttemptResult::Uncertain] {
        let mut scene = Scene::new();
        let odd = |scene: &mut Scene| {
            scene.record(
                5,
                Fact::AttemptEnded(AttemptEnded { result, ..failed("email", "x", Class::Unknown) }),
            );
        };
        assert_eq!(of("failure_rate", scene.run(seconds_of(600), 15, &odd)).len(), 1, "{result:?}");
    }
}
