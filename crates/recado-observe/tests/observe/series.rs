//! Series that Prometheus has scraped when a rule fires, and those where the same rule must not: just below
//! the threshold, and just below the volume. One row for each rule.

/// Series are in promtool's notation, a sample a minute.
pub struct Row {
    pub rule: &'static str,
    /// Rules that fire above this threshold: the rule itself, and those that measure the same.
    pub ring: &'static [&'static str],
    /// The time of evaluation.
    pub at: &'static str,
    pub above: Vec<String>,
    /// Each of these is quiet.
    pub quiet: Vec<Vec<String>>,
}

/// After some hours.
const SOON: &str = "2h30m";
/// After a day, and half an hour of what is unlike it.
const A_DAY_LATER: &str = "24h30m";

fn series(metric: &str, values: &str) -> String {
    format!("      - series: '{metric}'\n        values: '{values}'\n")
}

/// A counter that grows by so much a minute.
fn grows(metric: &str, a_minute: f64) -> String {
    series(metric, &format!("0+{a_minute}x1500"))
}

fn stands(metric: &str, value: u32) -> String {
    series(metric, &format!("{value}x1500"))
}

/// A counter that grows by so much a minute for a day, and by another so much from then on.
fn jumps(metric: &str, before: f64, after: f64) -> String {
    series(metric, &format!("0+{before}x1439 {}+{after}x60", before * 1_440.0))
}

fn attempts(sent: f64, failed: f64) -> Vec<String> {
    let name = |result| format!("recado_attempts_total{{route=\"email\",result=\"{result}\"}}");
    vec![grows(&name("sent"), sent), grows(&name("failed"), failed)]
}

fn ended(sent: f64, failed: f64) -> Vec<String> {
    let name = |status| format!("recado_jobs_ended_total{{route=\"email\",status=\"{status}\"}}");
    vec![grows(&name("sent"), sent), grows(&name("failed"), failed)]
}

/// Of so many a minute, how many were done within five minutes.
fn processed(all: f64, within: f64) -> Vec<String> {
    let name = |le| format!("recado_processing_seconds_bucket{{route=\"email\",le=\"{le}\"}}");
    vec![
        grows(&name("300"), within),
        grows(&name("600"), all),
        grows(&name("+Inf"), all),
        grows("recado_processing_seconds_count{route=\"email\"}", all),
    ]
}

fn permanent(judged: f64, permanent: f64) -> Vec<String> {
    let class = r#"error_classification_distribution{route="tiss-claims",classification="PERMANENT"}"#;
    vec![
        grows(class, permanent),
        grows(r#"recado_attempts_total{route="tiss-claims",result="sent"}"#, judged / 2.0),
        grows(r#"recado_decisions_total{route="tiss-claims"}"#, judged / 2.0),
    ]
}

fn at_cap(retries: f64, at_cap: f64) -> Vec<String> {
    vec![
        grows(r#"submission_retry_total{route="tiss-claims"}"#, retries),
        grows(r#"recado_retries_at_cap_total{route="tiss-claims"}"#, at_cap),
    ]
}

fn waits(retries: f64, minutes: f64) -> Vec<String> {
    let name = |what| format!("submission_retry_backoff_minutes_{what}{{route=\"tiss-claims\"}}");
    vec![grows(&name("count"), retries), grows(&name("sum"), retries * minutes)]
}

/// Waits a minute in the lower tenths of their range and in the upper ones.
fn jitter(lower: f64, upper: f64) -> Vec<String> {
    let name = |decile| format!("recado_retry_jitter_total{{route=\"tiss-claims\",decile=\"{decile}\"}}");
    (1..=10).map(|decile| grows(&name(decile), if decile <= 5 { lower } else { upper })).collect()
}

fn store(thousandths: u32) -> Vec<String> {
    vec![stands("recado_store_size_bytes", thousandths), stands("recado_store_max_bytes", 1_000)]
}

fn breaker(state: &str) -> Vec<String> {
    vec![stands(&format!("recado_breaker_state{{provider=\"instagram\",state=\"{state}\"}}"), 1)]
}

/// A route that fails twice in a hundred attempts, and then more often.
fn failing(sent: f64, before: f64, after: f64) -> Vec<String> {
    vec![
        grows(r#"recado_attempts_total{route="email",result="sent"}"#, sent),
        jumps(r#"recado_attempts_total{route="email",result="failed"}"#, before, after),
    ]
}

/// The same of a code, while as many attempts fail as ever.
fn erring(sent: f64, failed: f64, before: f64, after: f64) -> Vec<String> {
    let errors = jumps(r#"recado_errors_total{error_code="450"}"#, before, after);
    [attempts(sent, failed), vec![errors]].concat()
}

pub fn rows() -> Vec<Row> {
    let row = |rule, ring, above, quiet| Row { rule, ring, at: SOON, above, quiet };
    let late = |rule, ring, above, quiet| Row { rule, ring, at: A_DAY_LATER, above, quiet };
    // Just below the volume: 19 in ten or fifteen minutes, or in an hour.
    let (few_in_10, few_in_15, few_in_60) = (1.9, 1.26, 0.31);
    vec![
        row(
            "failure_rate",
            &["RecadoFailureRate"],
            attempts(899.0, 101.0),
            vec![attempts(901.0, 99.0), attempts(0.0, few_in_10)],
        ),
        row(
            "dlq_size",
            &["RecadoDlqSize"],
            vec![stands("dlq_size", 101)],
            vec![vec![stands("dlq_size", 100)]],
        ),
        row("dlq_rate", &["RecadoDlqRate"], ended(979.0, 21.0), vec![ended(981.0, 19.0), ended(0.0, 0.81)]),
        row(
            "dlq_company",
            &["RecadoDlqCompany"],
            vec![stands(r#"dlq_by_company{company_id="acme"}"#, 51)],
            vec![
                vec![stands(r#"dlq_by_company{company_id="acme"}"#, 50)],
                vec![stands(r#"dlq_by_company{company_id="other"}"#, 90)],
            ],
        ),
        row(
            "processing_time",
            &["RecadoProcessingTime"],
            processed(100.0, 94.0),
            vec![processed(100.0, 96.0), processed(few_in_15, 0.0)],
        ),
        row(
            "queue_age",
            &["RecadoQueueAge"],
            vec![stands(r#"recado_queue_oldest_due_age_seconds{route="email"}"#, 301)],
            vec![vec![stands(r#"recado_queue_oldest_due_age_seconds{route="email"}"#, 300)]],
        ),
        row(
            "permanent_rate",
            &["RecadoPermanentRate"],
            permanent(1_000.0, 101.0),
            vec![permanent(1_000.0, 99.0), permanent(few_in_60, few_in_60)],
        ),
        row(
            "max_backoff_rate",
            &["RecadoMaxBackoffRate"],
            at_cap(1_000.0, 51.0),
            vec![at_cap(1_000.0, 49.0), at_cap(few_in_60, few_in_60)],
        ),
        row(
            "jitter_deviation",
            &["RecadoJitterDeviation"],
            jitter(131.0, 69.0),
            vec![jitter(129.0, 71.0), jitter(0.64, 0.0)],
        ),
        row(
            "mean_backoff",
            &["RecadoMeanBackoff"],
            waits(100.0, 30.1),
            vec![waits(100.0, 29.9), waits(few_in_60, 240.0)],
        ),
        row("store_80", &["RecadoStore80"], store(801), vec![store(800)]),
        row("store_90", &["RecadoStore80", "RecadoStore90"], store(901), vec![store(799)]),
        row(
            "rejected_writes",
            &["RecadoRejectedWrites"],
            vec![grows("recado_store_rejected_writes_total", 1.0)],
            vec![vec![stands("recado_store_rejected_writes_total", 7)]], // long ago
        ),
        row(
            "dlq_overflow",
            &["RecadoDlqOverflow"],
            vec![grows(r#"recado_dead_letters_left_total{how="archived"}"#, 1.0)],
            vec![vec![grows(r#"recado_dead_letters_left_total{how="expired"}"#, 1.0)]],
        ),
        row(
            "audit_late",
            &["RecadoAuditLate"],
            vec![stands("recado_audit_late_seconds", 301)],
            vec![vec![stands("recado_audit_late_seconds", 300)]],
        ),
        row("breaker_open", &["RecadoBreakerOpen"], breaker("OPEN"), vec![breaker("CLOSED")]),
        late(
            "failure_jump",
            &["RecadoFailureJump"],
            failing(980.0, 20.0, 70.0),
            vec![failing(980.0, 20.0, 60.0), failing(4.6, 0.0, 0.3)],
        ),
        late(
            "code_jump",
            &["RecadoCodeJump"],
            erring(930.0, 70.0, 20.0, 70.0),
            vec![erring(930.0, 70.0, 20.0, 60.0), erring(4.6, 0.3, 0.0, 0.3)],
        ),
    ]
}
