//! Alerts: when they fire, when they end, and how they survive a restart.

use std::time::Duration;

use recado_core::Class;
use recado_observe::{
    AlertChange, AlertConfig, Alerts, AlertsState, AttemptEnded, Change, DeadLetterExit, Fact, Severity,
    Subject,
};

use crate::rules::{Scene, of};
use crate::{at, failed, ledger, seconds_of, sent};

fn mix(good: usize, bad: usize) -> impl Fn(&mut Scene) {
    move |scene| {
        scene.record(good, Fact::AttemptEnded(sent("email")));
        scene.record(bad, Fact::AttemptEnded(failed("email", "421", Class::Transient)));
    }
}

fn kinds(changes: &[AlertChange]) -> Vec<Change> {
    changes.iter().map(|change| change.change).collect()
}

fn firing(scene: &mut Scene) {
    let changes = of("failure_rate", scene.run(seconds_of(900), 15, &mix(8, 2)));
    assert_eq!(kinds(&changes), [Change::Fired]);
}

#[test]
fn e10_one_failure_at_night_raises_no_alert() {
    let mut scene = Scene::new();
    let night = |scene: &mut Scene| {
        if scene.now == 3_600 {
            scene.record(1, Fact::AttemptEnded(failed("email", "421", Class::Transient)));
        }
    };
    assert_eq!(scene.run(seconds_of(8 * 3_600), 15, &night), []);
}

#[test]
fn a_peak_that_is_over_before_the_patience_is_does_not_ring() {
    let mut scene = Scene::new();
    let peak = |scene: &mut Scene| {
        // Of the last ten minutes, the bad ones are gone again after one.
        let bad = if scene.now < 60 { 30 } else { 0 };
        scene.record(400, Fact::AttemptEnded(sent("email")));
        scene.record(bad * 2, Fact::AttemptEnded(failed("email", "421", Class::Transient)));
    };
    assert_eq!(of("failure_rate", scene.run(seconds_of(1_800), 15, &peak)), []);
}

#[test]
fn just_below_the_threshold_it_rings_on_and_well_below_it_ends() {
    let mut scene = Scene::new();
    firing(&mut scene);
    let near = of("failure_rate", scene.run(seconds_of(7_200), 15, &mix(181, 19)));
    assert_eq!(near, [], "9.5 % is below 10 %, and not well below");
    let ended = of("failure_rate", scene.run(seconds_of(3_600), 15, &mix(95, 5)));
    assert_eq!(kinds(&ended), [Change::Resolved]);
}

#[test]
fn a_figure_that_swings_around_its_threshold_does_not_flap() {
    let flapping = |scene: &mut Scene| {
        let bad = if (scene.now / 120).is_multiple_of(2) { 25 } else { 1 };
        mix(100 - bad, bad)(scene);
    };
    let changes_with = |clear| {
        let mut config = AlertConfig::default();
        let rule = config.rule_mut("failure_rate").unwrap();
        (rule.window, rule.pending, rule.clear) = (seconds_of(60), Duration::ZERO, clear);
        let mut scene = Scene::new();
        scene.alerts = Alerts::new(config);
        kinds(&of("failure_rate", scene.run(seconds_of(4 * 3_600), 15, &flapping)))
    };
    assert!(changes_with(Duration::ZERO).len() > 100, "without patience it would");
    assert_eq!(changes_with(seconds_of(300)), [Change::Fired], "every calm is shorter than it takes to end");
}

#[test]
fn silence_ends_it_after_a_whole_window_and_not_before() {
    let mut scene = Scene::new();
    firing(&mut scene);
    // The window still holds the failures for ten minutes; after that there is nothing to measure.
    let still = of("failure_rate", scene.run(seconds_of(1_140), 15, &|_| ()));
    assert_eq!(still, []);
    let ended = of("failure_rate", scene.run(seconds_of(300), 15, &|_| ()));
    assert_eq!(kinds(&ended), [Change::Resolved]);
}

/// Through the form in which it is kept.
fn kept(alerts: &Alerts) -> AlertsState {
    serde_json::from_str(&serde_json::to_string(&alerts.state()).unwrap()).unwrap()
}

#[test]
fn after_a_restart_it_neither_rings_again_nor_forgets_to_end() {
    let mut scene = Scene::new();
    firing(&mut scene);
    let before: Vec<_> = scene.alerts.firing().into_iter().cloned().collect();
    let state = kept(&scene.alerts);
    scene.alerts = Alerts::restore(AlertConfig::default(), state);
    scene.ledger = ledger();
    assert_eq!(scene.alerts.firing().into_iter().cloned().collect::<Vec<_>>(), before);
    let changes = of("failure_rate", scene.run(seconds_of(3_600), 15, &mix(8, 2)));
    assert_eq!(changes, [], "the trouble goes on, and was announced");
    let ended = of("failure_rate", scene.run(seconds_of(3_600), 15, &mix(10, 0)));
    assert_eq!(kinds(&ended), [Change::Resolved]);
    assert_eq!(ended[0].alert.since, before[0].since);
}

#[test]
fn while_it_calms_down_it_says_what_it_rings_for() {
    let mut scene = Scene::new();
    scene.record(3, Fact::DeadLetterLeft { how: DeadLetterExit::Archived, moved_at: at(0) });
    assert_eq!(kinds(&of("dlq_overflow", scene.run(seconds_of(15), 15, &|_| ()))), [Change::Fired]);
    scene.alerts = Alerts::restore(AlertConfig::default(), kept(&scene.alerts));
    // A restart forgets what was counted.
    scene.ledger = ledger();
    assert_eq!(of("dlq_overflow", scene.run(seconds_of(60), 15, &|_| ())), []);
    let rings = scene.alerts.firing()[0];
    assert_eq!(rings.value, 3.0);
    assert!(rings.text.en.contains(": 3;"), "{}", rings.text.en);
    let calm = rings.calm.expect("it is calm");
    let clear = AlertConfig::default().rule("dlq_overflow").unwrap().clear;
    assert_eq!(calm.clears_at, calm.since.plus(clear), "it says when it is over");
}

#[test]
fn patience_goes_on_through_a_restart() {
    let mut scene = Scene::new();
    let over = |scene: &mut Scene| scene.gauges.store.as_mut().unwrap().bytes = 950;
    assert_eq!(scene.run(seconds_of(45), 15, &over), []);
    scene.alerts = Alerts::restore(AlertConfig::default(), kept(&scene.alerts));
    let changes = scene.run(seconds_of(30), 15, &over);
    let since: Vec<_> = changes.iter().map(|change| (&*change.alert.alert, change.alert.since)).collect();
    assert_eq!(since, [("store_80", at(15)), ("store_90", at(15))]);
}

#[test]
fn what_cannot_be_told_changes_nothing() {
    let mut scene = Scene::new();
    let full = |scene: &mut Scene| scene.gauges.dead_letters.as_mut().unwrap().size = 500;
    assert_eq!(scene.run(seconds_of(60), 15, &full).len(), 1);
    let known = scene.gauges.clone();
    scene.gauges = recado_observe::Gauges::default();
    assert_eq!(scene.run(seconds_of(86_400), 60, &|_| ()), [], "the store does not answer");
    assert_eq!(scene.alerts.firing().len(), 1);
    scene.gauges = known;
    let empty = |scene: &mut Scene| scene.gauges.dead_letters.as_mut().unwrap().size = 0;
    assert_eq!(kinds(&scene.run(seconds_of(600), 15, &empty)), [Change::Resolved]);
}

#[test]
fn a_rule_that_is_switched_off_or_unheard_of_ends_at_once() {
    let mut scene = Scene::new();
    firing(&mut scene);
    let mut config = AlertConfig::default();
    config.rule_mut("failure_rate").unwrap().enabled = false;
    scene.alerts = Alerts::restore(config, kept(&scene.alerts));
    let changes = scene.run(seconds_of(3_600), 15, &mix(8, 2));
    assert_eq!(kinds(&of("failure_rate", changes)), [Change::Resolved]);

    let mut scene = Scene::new();
    firing(&mut scene);
    let older =
        serde_json::to_string(&scene.alerts.state()).unwrap().replace("failure_rate", "an_older_name");
    scene.alerts = Alerts::restore(AlertConfig::default(), serde_json::from_str(&older).unwrap());
    let changes = scene.run(seconds_of(15), 15, &|_| ());
    assert_eq!(kinds(&of("an_older_name", changes)), [Change::Resolved]);
}

#[test]
fn a_subject_that_is_excepted_does_not_ring() {
    let mut config = AlertConfig::default();
    config.rule_mut("failure_rate").unwrap().except = vec!["email".into()];
    let mut scene = Scene::new();
    scene.alerts = Alerts::new(config);
    let both = |scene: &mut Scene| {
        for route in ["email", "whatsapp"] {
            let attempt = AttemptEnded { route, ..failed("email", "421", Class::Transient) };
            scene.record(5, Fact::AttemptEnded(attempt));
        }
    };
    let changes = of("failure_rate", scene.run(seconds_of(900), 15, &both));
    let subjects: Vec<_> = changes.into_iter().map(|change| change.alert.subject).collect();
    assert_eq!(subjects, [Subject::Route("whatsapp".into())]);
}

#[test]
fn what_a_user_says_about_a_rule_holds_and_the_rest_stays() {
    let mut config = AlertConfig::default();
    let rule = config.rule_mut("failure_rate").unwrap();
    (rule.threshold, rule.min_volume) = (0.5, 1);
    (rule.severity, rule.pending) = (Severity::Warning, Duration::ZERO);
    assert_eq!(config.faults(), Vec::<String>::new());
    let mut scene = Scene::new();
    scene.alerts = Alerts::new(config);
    assert_eq!(
        of("failure_rate", scene.run(seconds_of(1_200), 15, &mix(5, 5))),
        [],
        "a half is not more than a half"
    );
    let fired = of("failure_rate", scene.run(seconds_of(1_200), 15, &mix(4, 6)));
    assert_eq!(kinds(&fired), [Change::Fired]);
    assert_eq!((fired[0].alert.severity, fired[0].alert.threshold), (Severity::Warning, 0.5));
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_write() {
    let mut config = AlertConfig::default();
    let rule = config.rule_mut("dlq_rate").unwrap();
    (rule.threshold, rule.resolve_share, rule.window) = (f64::NAN, 2.0, Duration::from_secs(1));
    config.rule_mut("dlq_size").unwrap().window = Duration::from_secs(60);
    assert_eq!(
        config.faults(),
        [
            "alert dlq_size: window has no meaning for a current value; leave it out",
            "alert dlq_rate: threshold is NaN; write 0 or more",
            "alert dlq_rate: resolve_share is 2; write 0 to 1",
            "alert dlq_rate: window is 1s; write 20s to 7d",
        ]
    );
}

/// The required alerts, in the requirement's words, and what becomes of each: the rule, its threshold, and that threshold as the
/// runbooks write it.
const REQUIRED: [(&str, &str, &str, f64, &str); 18] = [
    ("000", "Taxa de falha > 10%", "failure_rate", 0.1, "10 %"),
    ("000", "DLQ com mais de 100 jobs", "dlq_size", 100.0, "100"),
    ("000", "Tempo de processamento > 5 minutos", "processing_time", 300.0, "5 min"),
    ("000", "Tempo de processamento > 5 minutos", "queue_age", 300.0, "5 min"),
    ("000", "Alertas para padrões anômalos", "failure_jump", 3.0, "3 "),
    ("000", "Alertas para padrões anômalos", "code_jump", 3.0, "3 "),
    ("001", "jobs_na_dlq > 100", "dlq_size", 100.0, "100"),
    ("001", "taxa_dlq > 2% dos envios", "dlq_rate", 0.02, "2 %"),
    ("001", "jobs_dlq_por_empresa > 50", "dlq_company", 50.0, "50"),
    ("001", "used_memory / maxmemory > 0.8", "store_80", 0.8, "80 %"),
    ("001", "used_memory / maxmemory > 0.9", "store_90", 0.9, "90 %"),
    ("001", "Redis OOM Errors", "rejected_writes", 0.0, "0"),
    ("002", "alerta quando DLQ > 100 itens", "dlq_size", 100.0, "100"),
    ("003", "Taxa de Erro Permanente > 10%", "permanent_rate", 0.1, "10 %"),
    ("003", "Taxa de Backoff Máximo > 5%", "max_backoff_rate", 0.05, "5 %"),
    ("003", "Uniformidade Jitter: Desvio > 30%", "jitter_deviation", 0.3, "30 %"),
    ("003", "Tempo Médio Backoff > 30 min", "mean_backoff", 1_800.0, "30 min"),
    ("004", "CircuitBreakerOpened → alerta", "breaker_open", 0.0, ""),
];

/// Ours: what leaves the queue for want of room must not do so silently, nor may the audit trail stand still so.
const OURS: [&str; 2] = ["dlq_overflow", "audit_late"];

#[test]
fn the_required_thresholds_are_the_defaults() {
    let config = AlertConfig::default();
    assert_eq!(config.faults(), Vec::<String>::new());
    for (document, words, name, threshold, _) in REQUIRED {
        let rule = config.rule(name).map(|rule| (rule.threshold, rule.enabled));
        assert_eq!(rule, Some((threshold, true)), "{name}: document {document} says {words}");
    }
    let asked = |name: &str| OURS.contains(&name) || REQUIRED.iter().any(|(_, _, rule, _, _)| *rule == name);
    assert!(config.rules.iter().all(|rule| asked(rule.name)), "a rule that no requirement asks for");
}

#[test]
fn the_runbooks_tables_state_the_required_thresholds() {
    let pages = [
        include_str!("../../../../docs/operating/alerts.md"),
        include_str!("../../../../docs/operating/alerts.pt-BR.md"),
    ];
    for (page, (_, _, name, _, written)) in pages.iter().flat_map(|page| REQUIRED.map(|row| (page, row))) {
        let row = page.lines().find(|line| line.starts_with("| [") && line.contains(&format!("(#{name})")));
        let cells: Vec<_> = row.unwrap_or_else(|| panic!("no row for {name}")).split(" | ").collect();
        assert!(cells[2].contains(written), "{name}: {} instead of {written}", cells[2]);
    }
}

#[test]
fn every_rule_has_a_section_in_the_runbooks() {
    let pages = [
        include_str!("../../../../docs/operating/alerts.md"),
        include_str!("../../../../docs/operating/alerts.pt-BR.md"),
    ];
    for rule in &AlertConfig::default().rules {
        assert!(pages.iter().all(|page| page.contains(&format!("\n## {}\n", rule.name))), "{}", rule.name);
    }
}

#[test]
fn what_changed_can_be_written_and_read_back() {
    let mut scene = Scene::new();
    let changes = of("failure_rate", scene.run(seconds_of(900), 15, &mix(8, 2)));
    let text = serde_json::to_value(&changes[0]).unwrap();
    assert_eq!(text["change"], "fired");
    assert_eq!(text["alert"]["subject"]["route"], "email");
    assert_eq!(text["alert"]["severity"], "critical");
    assert_eq!(serde_json::from_value::<AlertChange>(text).unwrap(), changes[0]);
}
