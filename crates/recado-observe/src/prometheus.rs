//! The same rules for a Prometheus of the user's own: one file, generated, so that the two cannot drift apart.
//!
//! Rates add up over all nodes. What all nodes see alike, such as the size of the dead letter queue, is taken
//! once. Prometheus knows no second threshold to come back down from; `keep_firing_for` (version 2.42) keeps
//! its alerts from flapping.

use std::fmt::Write;

use recado_core::time::show_duration;

use crate::alerts::reading::{JUMP_FLOOR, PROCESSING_QUANTILE};
use crate::alerts::{AlertConfig, Measure, Rule, Unit};

/// The rules as a file that Prometheus reads.
pub fn prometheus_rules(config: &AlertConfig) -> String {
    let mut file = String::from("groups:\n  - name: recado\n    rules:\n");
    for rule in config.rules.iter().filter(|rule| rule.enabled) {
        write_rule(&mut file, rule, &config.runbooks).expect("a string takes everything");
    }
    file
}

fn write_rule(file: &mut String, rule: &Rule, runbooks: &str) -> std::fmt::Result {
    let (en, pt) = rule.measure.row().sentence;
    writeln!(file, "      - alert: {}", alert_name(rule.name))?;
    writeln!(file, "        expr: {}", quote_yaml(&expression(rule)))?;
    if !rule.pending.is_zero() {
        writeln!(file, "        for: {}", show_duration(rule.pending))?;
    }
    if !rule.clear.is_zero() {
        writeln!(file, "        keep_firing_for: {}", show_duration(rule.clear))?;
    }
    writeln!(file, "        labels:\n          severity: {}", rule.severity.as_str())?;
    writeln!(file, "        annotations:")?;
    writeln!(file, "          summary: {}", quote_yaml(&annotation(rule, en)))?;
    writeln!(file, "          summary_pt: {}", quote_yaml(&annotation(rule, pt)))?;
    writeln!(file, "          runbook_url: {}", quote_yaml(&rule.runbook(runbooks)))
}

/// `dlq_size` is `RecadoDlqSize` there.
fn alert_name(name: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    };
    name.split('_').map(word).fold("Recado".to_owned(), |name, word| name + &word)
}

fn annotation(rule: &Rule, sentence: &str) -> String {
    let value = match rule.measure.unit() {
        Unit::Share => "{{ $value | humanizePercentage }}",
        Unit::Time => "{{ $value | humanizeDuration }}",
        Unit::Times => "{{ $value | humanize }}×",
        Unit::Count | Unit::Fact => "{{ $value | humanize }}",
    };
    let about = rule
        .measure
        .row()
        .subject_label
        .map(|label| format!("{{{{ $labels.{label} }}}}: "))
        .unwrap_or_default();
    about + &sentence.replace("{value}", value).replace("{window}", &show_duration(rule.window))
}

const ATTEMPTS: &str = "recado_attempts_total";
const FAILED: &str = r#"recado_attempts_total{result!="sent"}"#;

fn expression(rule: &Rule) -> String {
    let (window, threshold) = (show_duration(rule.window), rule.threshold);
    let window = window.as_str();
    // Increase of a counter, added up by labels.
    let sum_by = |labels: &str, metric: &str, over: &str| {
        format!("sum by ({labels}) (increase({}[{over}]))", select_metric(rule, metric))
    };
    let grown = |metric: &str| sum_by("route", metric, window);
    let rate = |part: &str, whole: &str| {
        let all = grown(whole);
        above_threshold(rule, &format!("{} / {all}", grown(part)), &all)
    };
    let highest = |label: &str, metric: &str| {
        format!("max by ({label}) ({}) > {threshold}", select_metric(rule, metric))
    };
    let incidents = |metric: &str| format!("sum(increase({metric}[{window}])) > {threshold}");
    match rule.measure {
        Measure::FailureRate => rate(FAILED, ATTEMPTS),
        Measure::DeadLetterRate => rate(
            r#"recado_jobs_ended_total{status="failed"}"#,
            r#"recado_jobs_ended_total{status=~"sent|failed"}"#,
        ),
        Measure::AtCapRate => rate("recado_retries_at_cap_total", "submission_retry_total"),
        Measure::PermanentRate => {
            let permanent = grown(r#"error_classification_distribution{classification="PERMANENT"}"#);
            let judged = format!("({} + {})", grown(ATTEMPTS), grown("recado_decisions_total"));
            above_threshold(rule, &format!("{permanent} / {judged}"), &judged)
        }
        Measure::MeanBackoff => {
            let waits = grown("submission_retry_backoff_minutes_count");
            let minutes = grown("submission_retry_backoff_minutes_sum");
            above_threshold(rule, &format!("60 * {minutes} / {waits}"), &waits)
        }
        Measure::ProcessingTime => {
            let bins = sum_by("route, le", "recado_processing_seconds_bucket", window);
            let quantile = format!("histogram_quantile({PROCESSING_QUANTILE}, {bins})");
            above_threshold(rule, &quantile, &grown("recado_processing_seconds_count"))
        }
        Measure::JitterDeviation => {
            let tenth = sum_by("route, decile", "recado_retry_jitter_total", window);
            let all = grown("recado_retry_jitter_total");
            let off = format!("sum by (route) (abs({tenth} / on (route) group_left () {all} - 0.1))");
            above_threshold(rule, &off, &all)
        }
        Measure::FailureJump => {
            let share =
                |over| format!("({} / {})", sum_by("route", FAILED, over), sum_by("route", ATTEMPTS, over));
            let (now, day) = (share(window), share("1d"));
            above_threshold(rule, &format!("{now} / {day}"), &grown(ATTEMPTS))
                + &format!(" and {now} >= {JUMP_FLOOR}")
        }
        Measure::CodeJump => {
            let attempts = |over: &str| format!("sum(increase({ATTEMPTS}[{over}]))");
            let share = |over| {
                let errors = sum_by("error_code", r#"recado_errors_total{error_code!="other"}"#, over);
                format!("({errors} / scalar({}))", attempts(over))
            };
            let (now, day) = (share(window), share("1d"));
            let (enough, attempts) = (rule.min_volume.max(1), attempts(window));
            format!(
                "{now} / {day} > {threshold} and {now} >= {JUMP_FLOOR} and on () ({attempts} >= {enough})"
            )
        }
        Measure::RejectedWrites => incidents("recado_store_rejected_writes_total"),
        Measure::ArchivedDeadLetters => incidents(r#"recado_dead_letters_left_total{how="archived"}"#),
        Measure::DeadLetters => format!("max(dlq_size) > {threshold}"),
        Measure::DeadLettersOfCompany => highest("company_id", r#"dlq_by_company{company_id!="other"}"#),
        Measure::QueueAge => highest("route", "recado_queue_oldest_due_age_seconds"),
        Measure::StoreUse => format!("recado_store_size_bytes / recado_store_max_bytes > {threshold}"),
        Measure::TrailLateness => format!("max(recado_audit_late_seconds) > {threshold}"),
        Measure::BreakerOpen => highest("provider", r#"recado_breaker_state{state!="CLOSED"}"#),
    }
}

/// Above the threshold, and measured on enough.
fn above_threshold(rule: &Rule, value: &str, volume: &str) -> String {
    format!("{value} > {} and {volume} >= {}", rule.threshold, rule.min_volume.max(1))
}

/// The metric without those that the rule excepts.
fn select_metric(rule: &Rule, metric: &str) -> String {
    let Some(label) = rule.measure.row().subject_label.filter(|_| !rule.except.is_empty()) else {
        return metric.to_owned();
    };
    let names: Vec<_> = rule.except.iter().map(|name| escape_regex(name)).collect();
    let except = format!("{label}!~\"{}\"", names.join("|"));
    match metric.strip_suffix('}') {
        Some(open) => format!("{open},{except}}}"),
        None => format!("{metric}{{{except}}}"),
    }
}

/// A name as itself in a regular expression, and that in a string.
fn escape_regex(name: &str) -> String {
    let mut literal = String::with_capacity(name.len());
    for letter in name.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            literal.push('\\');
        }
        literal.push(letter);
    }
    literal.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

/// Writes a YAML scalar in which only the quote itself has a meaning.
fn quote_yaml(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
