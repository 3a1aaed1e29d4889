//! Prometheus's own tool reads what is written for Prometheus.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use recado_observe::AlertConfig;
use recado_observe::prometheus::prometheus_rules;

use crate::metrics::lived;
use crate::series::rows;
use crate::{at, gauges};

fn promtool(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is missing; install the Debian package prometheus");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_page_has_one_word_that_the_linter_dislikes_and_it_is_a_required_name() {
    let output = promtool(&["check", "metrics"], &lived().metrics(&gauges(), at(60)));
    let complaints = said(&output);
    let complaints: Vec<_> = complaints.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(
        complaints,
        [r#"submission_retry_backoff_minutes use base unit "seconds" instead of "minutes""#]
    );
}

fn config() -> AlertConfig {
    let mut config = AlertConfig::default();
    config.rule_mut("failure_rate").unwrap().except = vec!["sandbox".into(), r#"a.b"c\d"#.into()];
    config
}

#[test]
fn the_rules_are_a_file_that_prometheus_reads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recado.yml");
    std::fs::write(&file, prometheus_rules(&config())).unwrap();
    let output = promtool(&["check", "rules", file.to_str().unwrap()], "");
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("{} rules found", config().rules.len())), "{said}");
}

/// Asserts that every metric that an expression names has a series on the page; returns how many there are.
fn metrics_of(expression: &str, page: &str) -> usize {
    let starts = ["recado_", "dlq_", "submission_", "error_", "retry_", "tenant_", "process_"];
    let labels = ["error_code"];
    let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let metrics =
        words.filter(|word| starts.iter().any(|start| word.starts_with(start)) && !labels.contains(word));
    let on_page = |metric: &str| {
        let series = |line: &str| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with(['{', ' ']));
        assert!(page.lines().any(series), "{metric} is not on the page");
    };
    metrics.map(on_page).count()
}

#[test]
fn every_metric_in_a_rule_is_on_the_page() {
    let page = lived().metrics(&gauges(), at(60));
    let rules = prometheus_rules(&AlertConfig::default());
    let expressions = rules.lines().filter(|line| line.trim_start().starts_with("expr:"));
    assert!(expressions.map(|line| metrics_of(line, &page)).sum::<usize>() > 30);
}

#[test]
fn a_rule_that_is_switched_off_is_not_in_the_file() {
    let mut config = AlertConfig::default();
    config.rule_mut("dlq_size").unwrap().enabled = false;
    let rules = prometheus_rules(&config);
    assert!(!rules.contains("RecadoDlqSize") && rules.contains("RecadoDlqRate"));
}

/// Asserts that these alerts, and no others, fire at this time for these series.
fn check(config: &AlertConfig, time: &str, series: &[String], expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("recado.yml"), prometheus_rules(config)).unwrap();
    let mut samples = String::new();
    for alert in expected {
        samples += &format!("          - labels: '{{alertname=\"{alert}\"}}'\n            value: 1\n");
    }
    let samples = if samples.is_empty() { " []\n".to_owned() } else { format!("\n{samples}") };
    let test = format!(
        "rule_files: [recado.yml]\nevaluation_interval: 5m\ntests:\n  - interval: 1m\n    input_series:\n{}    promql_expr_test:\n      - expr: count by (alertname) (ALERTS{{alertstate=\"firing\"}})\n        eval_time: {time}\n        exp_samples:{samples}",
        series.concat()
    );
    let file = folder.path().join("test.yml");
    std::fs::write(&file, &test).unwrap();
    let output = promtool(&["test", "rules", file.to_str().unwrap()], "");
    assert!(output.status.success(), "{}\n{test}", said(&output));
}

/// Each of these rules rings above its threshold, and neither just below it nor on just too little.
fn agree(rules: &[&str]) {
    let rows = rows();
    for rule in rules {
        let row = rows.iter().find(|row| row.rule == *rule).unwrap();
        check(&AlertConfig::default(), row.at, &row.above, row.ring);
        row.quiet.iter().for_each(|series| check(&AlertConfig::default(), row.at, series, &[]));
    }
}

#[test]
fn every_rule_has_a_row_and_no_row_is_without_a_rule() {
    let config = AlertConfig::default();
    let rules: Vec<_> = config.rules.iter().map(|rule| rule.name).collect();
    assert_eq!(rows().iter().map(|row| row.rule).collect::<Vec<_>>(), rules);
    // Without a volume there is nothing to have too little of; the others are tried on just too little.
    let with_volume = rules.iter().zip(&config.rules).filter(|(_, rule)| rule.min_volume > 0);
    for (name, _) in with_volume {
        assert!(rows().iter().any(|row| row.rule == *name && row.quiet.len() == 2), "{name}");
    }
}

#[test]
fn e10_the_failure_rate_rings_in_prometheus_as_here() {
    agree(&["failure_rate"]);
    let excepted =
        rows().remove(0).above.iter().map(|series| series.replace("email", "sandbox")).collect::<Vec<_>>();
    check(&config(), "2h30m", &excepted, &[]);
    check(&AlertConfig::default(), "2h30m", &excepted, &["RecadoFailureRate"]);
}

#[test]
fn g8_the_dead_letters_ring_in_prometheus_as_here() {
    agree(&["dlq_size", "dlq_rate", "dlq_company", "dlq_overflow"]);
}

#[test]
fn e10_slow_processing_rings_in_prometheus_as_here() {
    agree(&["processing_time", "queue_age"]);
}

#[test]
fn t16_the_technical_figures_ring_in_prometheus_as_here() {
    agree(&["permanent_rate", "max_backoff_rate", "jitter_deviation", "mean_backoff"]);
}

#[test]
fn g14_the_store_rings_in_prometheus_as_here() {
    agree(&["store_80", "store_90", "rejected_writes"]);
}

#[test]
fn audit_files_that_fall_behind_ring_in_prometheus_as_here() {
    agree(&["audit_late"]);
}

#[test]
fn f5_an_open_breaker_rings_in_prometheus_as_here() {
    agree(&["breaker_open"]);
}

#[test]
fn e10_an_unusual_pattern_rings_in_prometheus_as_here() {
    agree(&["failure_jump", "code_jump"]);
}

#[test]
fn the_rules_that_are_shipped_are_those_of_the_program() {
    let shipped = include_str!("../../../../docs/operating/prometheus-rules.yml");
    let how = "cargo run -p recado-observe --example rules > docs/operating/prometheus-rules.yml";
    assert!(shipped == prometheus_rules(&AlertConfig::default()), "it is out of date; run: {how}");
}

#[test]
fn the_scrape_example_is_a_configuration_that_prometheus_reads() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/prometheus.yml");
    let output = promtool(&["check", "config", file], "");
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn every_panel_of_the_dashboard_reads_metrics_that_are_on_the_page() {
    let page = lived().metrics(&gauges(), at(60));
    let board: serde_json::Value =
        serde_json::from_str(include_str!("../../../../docs/operating/grafana.json")).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let expressions: Vec<_> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    assert!(expressions.len() > 20, "{}", expressions.len());
    let mut rules = "groups:\n  - name: board\n    rules:\n".to_owned();
    for (number, expression) in expressions.iter().enumerate() {
        assert!(metrics_of(expression, &page) > 0, "{expression}");
        let filled = expression.replace("$__rate_interval", "5m").replace("$route", ".*");
        rules += &format!("      - record: panel{number}\n        expr: {filled:?}\n");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("board.yml");
    std::fs::write(&file, rules).unwrap();
    let output = promtool(&["check", "rules", file.to_str().unwrap()], "");
    assert!(output.status.success(), "{}", said(&output));
}
