//! A row an entry, for spreadsheets: RFC 4180, and no cell that a spreadsheet would take for a formula.

use std::borrow::Cow;
use std::fmt::Write;

use recado_wire::dlq::DeadLetter;

/// Column names: the required fields of an entry, then the ones Recado adds.
const COLUMNS: [&str; 19] = [
    "jobId",
    "outboxId",
    "companyId",
    "originalData",
    "failedAttempts",
    "lastFailureReason",
    "lastFailureCode",
    "lastFailureTimestamp",
    "enqueuedAt",
    "movedToDLQAt",
    "ttl",
    "route",
    "userId",
    "correlationId",
    "errorClassification",
    "cause",
    "fingerprint",
    "correctedData",
    "damage",
];

pub fn head() -> String {
    COLUMNS.join(",") + "\r\n"
}

pub fn row(entry: &DeadLetter, to: &mut String) {
    let DeadLetter { last_failure: failure, times, .. } = entry;
    let cause = entry.cause.as_str();
    let class = failure.error_classification.as_str();
    let written = [failure.last_failure_timestamp, times.enqueued_at, times.moved_to_dlq_at];
    let [failed_at, enqueued_at, moved_at] = written.map(|time| time.to_string());
    let (attempts, ttl) = (failure.failed_attempts.to_string(), times.ttl.to_string());
    let cells: [&str; COLUMNS.len()] = [
        entry.job_id.as_str(),
        entry.outbox_id.as_str(),
        entry.company_id.as_str(),
        entry.original_data.as_str(),
        &attempts,
        &failure.last_failure_reason,
        failure.last_failure_code.as_deref().unwrap_or_default(),
        &failed_at,
        &enqueued_at,
        &moved_at,
        &ttl,
        entry.route.as_str(),
        entry.user_id.as_deref().unwrap_or_default(),
        entry.correlation_id.as_deref().unwrap_or_default(),
        class,
        cause,
        &entry.fingerprint,
        entry.corrected_data.as_ref().map_or("", |data| data.as_str()),
        entry.damage.as_deref().unwrap_or_default(),
    ];
    for (at, text) in cells.into_iter().enumerate() {
        if at > 0 {
            to.push(',');
        }
        cell(text, to);
    }
    to.push_str("\r\n");
}

fn cell(text: &str, to: &mut String) {
    let text = escape_formula(text);
    if text.contains(['"', ',', '\n', '\r']) {
        // Writing to a string cannot fail.
        let _ = write!(to, "\"{}\"", text.replace('"', "\"\""));
    } else {
        to.push_str(&text);
    }
}

/// Puts an apostrophe before text that begins like a formula, so that spreadsheets show it as text.
fn escape_formula(text: &str) -> Cow<'_, str> {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn celled(text: &str) -> String {
        let mut to = String::new();
        cell(text, &mut to);
        to
    }

    #[test]
    fn a_cell_is_quoted_where_it_has_to_be() {
        assert_eq!(celled("plain words"), "plain words");
        assert_eq!(celled("a,b"), "\"a,b\"");
        assert_eq!(celled("say \"hi\"\nthere"), "\"say \"\"hi\"\"\nthere\"");
    }

    #[test]
    fn no_cell_is_a_formula() {
        for (text, cell) in [
            ("=1+1", "'=1+1"),
            ("+55 11", "'+55 11"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("=HYPERLINK(\"x\",\"y\")", "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\""),
            ("\n=1", "\"'\n=1\""),
        ] {
            assert_eq!(celled(text), cell, "{text:?}");
        }
    }
}
