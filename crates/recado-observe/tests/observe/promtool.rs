//! Prometheus's own tool reads what is written for Prometheus.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use recado_observe::prometheus::prometheus_rules;
use recado_observe::{AlertConfig, RuleChange};

use crate::metrics::lived;
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
fn the_page_has_one_word_that_the_linter_dislikes_and_it_is_the_seed_s() {
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
    let except = Some(vec!["sandbox".into(), r#"a.b"c\d"#.into()]);
    config.change("failure_rate", RuleChange { except, ..RuleChange::default() }).unwrap();
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

/// Whether every metric that an expression names has a series on the page; how many there are.
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
    config.change("dlq_size", RuleChange { enabled: Some(false), ..RuleChange::default() }).unwrap();
    let rules = prometheus_rules(&config);
    assert!(!rules.contains("RecadoDlqSize") && rules.contains("RecadoDlqRate"));
}

/// A counter that grows by so much a minute.
fn grows(metric: &str, a_minute: u32) -> String {
    format!("      - series: '{metric}'\n        values: '0+{a_minute}x1500'\n")
}

fn stands(metric: &str, value: u32) -> String {
    format!("      - series: '{metric}'\n        values: '{value}x1500'\n")
}

/// What must ring after some hours of these series, and nothing else.
fn check(series: &[String], expected: &[&str]) {
    check_at("2h30m", series, expected);
}

fn check_at(time: &str, series: &[String], expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("recado.yml"), prometheus_rules(&config())).unwrap();
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

fn attempts(route: &str, good: u32, bad: u32) -> [String; 2] {
    let name = |result| format!("recado_attempts_total{{route=\"{route}\",result=\"{result}\"}}");
    [grows(&name("sent"), good), grows(&name("failed"), bad)]
}

#[test]
fn e10_the_failure_rate_rings_in_prometheus_as_here() {
    check(&attempts("email", 88, 12), &["RecadoFailureRate"]);
    check(&attempts("email", 92, 8), &[]);
    check(&attempts("email", 0, 1), &[]); // ten in ten minutes are too few
    check(&attempts("sandbox", 0, 100), &[]); // excepted
}

#[test]
fn g8_the_dead_letters_ring_in_prometheus_as_here() {
    check(
        &[stands("dlq_size", 101), stands(r#"dlq_by_company{company_id="acme"}"#, 51)],
        &["RecadoDlqCompany", "RecadoDlqSize"],
    );
    check(&[stands("dlq_size", 100), stands(r#"dlq_by_company{company_id="other"}"#, 90)], &[]);
    let ended = |sent, failed| {
        let name = |status| format!("recado_jobs_ended_total{{route=\"email\",status=\"{status}\"}}");
        [grows(&name("sent"), sent), grows(&name("failed"), failed)]
    };
    check(&ended(97, 3), &["RecadoDlqRate"]);
    check(&ended(99, 1), &[]);
}

#[test]
fn e10_slow_processing_rings_in_prometheus_as_here() {
    let processed = |within: u32| {
        let name = |le| format!("recado_processing_seconds_bucket{{route=\"email\",le=\"{le}\"}}");
        [
            grows(&name("300"), within),
            grows(&name("600"), 100),
            grows(&name("+Inf"), 100),
            grows(r#"recado_processing_seconds_count{route="email"}"#, 100),
        ]
    };
    check(&processed(80), &["RecadoProcessingTime"]);
    check(&processed(99), &[]);
    check(&[stands(r#"recado_queue_oldest_due_age_seconds{route="email"}"#, 301)], &["RecadoQueueAge"]);
}

#[test]
fn t16_the_technical_figures_ring_in_prometheus_as_here() {
    let retries = |minutes: u32, at_cap: u32| {
        [
            grows(r#"submission_retry_total{route="tiss-claims"}"#, 100),
            grows(r#"recado_retries_at_cap_total{route="tiss-claims"}"#, at_cap),
            grows(r#"submission_retry_backoff_minutes_count{route="tiss-claims"}"#, 100),
            grows(r#"submission_retry_backoff_minutes_sum{route="tiss-claims"}"#, 100 * minutes),
        ]
    };
    check(&retries(31, 6), &["RecadoMaxBackoffRate", "RecadoMeanBackoff"]);
    check(&retries(29, 4), &[]);

    let permanent = |count| {
        [
            grows(
                r#"error_classification_distribution{route="tiss-claims",classification="PERMANENT"}"#,
                count,
            ),
            grows(r#"recado_attempts_total{route="tiss-claims",result="sent"}"#, 50),
            grows(r#"recado_decisions_total{route="tiss-claims"}"#, 50),
        ]
    };
    check(&permanent(11), &["RecadoPermanentRate"]);
    check(&permanent(9), &[]);

    let jitter = |first: u32, rest: u32| -> Vec<_> {
        let name = |decile| format!("recado_retry_jitter_total{{route=\"tiss-claims\",decile=\"{decile}\"}}");
        (1..=10).map(|decile| grows(&name(decile), if decile == 1 { first } else { rest })).collect()
    };
    check(&jitter(91, 1), &["RecadoJitterDeviation"]);
    check(&jitter(10, 10), &[]);
}

#[test]
fn g14_the_store_rings_in_prometheus_as_here() {
    let used = |percent| [stands("recado_store_size_bytes", percent), stands("recado_store_max_bytes", 100)];
    check(&used(85), &["RecadoStore80"]);
    check(&used(91), &["RecadoStore80", "RecadoStore90"]);
    check(&used(80), &[]);
    check(&[grows("recado_store_rejected_writes_total", 1)], &["RecadoRejectedWrites"]);
    check(&[stands("recado_store_rejected_writes_total", 7)], &[]); // long ago
    check(&[grows(r#"recado_dead_letters_left_total{how="archived"}"#, 1)], &["RecadoDlqOverflow"]);
}

#[test]
fn f5_an_open_breaker_rings_in_prometheus_as_here() {
    let state =
        |state: &str| stands(&format!("recado_breaker_state{{provider=\"instagram\",state=\"{state}\"}}"), 1);
    check(&[state("OPEN")], &["RecadoBreakerOpen"]);
    check(&[state("CLOSED")], &[]);
}

#[test]
fn e10_an_unusual_pattern_rings_in_prometheus_as_here() {
    // Quiet for a day; then eight in a hundred fail in the last half hour.
    let late = |metric: &str, a_minute: u32| {
        format!("      - series: '{metric}'\n        values: '0x1439 0+{a_minute}x60'\n")
    };
    let all = grows(r#"recado_attempts_total{route="email",result="sent"}"#, 92);
    let failed = late(r#"recado_attempts_total{route="email",result="failed"}"#, 8);
    let errors = late(r#"recado_errors_total{error_code="450"}"#, 8);
    check_at("24h30m", &[all.clone(), failed, errors], &["RecadoCodeJump", "RecadoFailureJump"]);
    let steady = grows(r#"recado_attempts_total{route="email",result="failed"}"#, 8);
    check_at("24h30m", &[all, steady, grows(r#"recado_errors_total{error_code="450"}"#, 8)], &[]);
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
