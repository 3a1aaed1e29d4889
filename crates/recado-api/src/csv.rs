//! A row an entry, for spreadsheets: RFC 4180, and no cell that a spreadsheet would take for a formula.

use std::borrow::Cow;
use std::fmt::Write;

use recado_wire::dlq::DeadLetter;

type Column = (&'static str, fn(&DeadLetter) -> Cow<'_, str>);

/// The columns, each with its cell: the required fields of an entry, then the ones Recado adds.
const COLUMNS: [Column; 19] = [
    ("jobId", |entry| entry.job_id.as_str().into()),
    ("outboxId", |entry| entry.outbox_id.as_str().into()),
    ("companyId", |entry| entry.company_id.as_str().into()),
    ("originalData", |entry| entry.original_data.as_str().into()),
    ("failedAttempts", |entry| entry.last_failure.failed_attempts.to_string().into()),
    ("lastFailureReason", |entry| (&*entry.last_failure.last_failure_reason).into()),
    ("lastFailureCode", |entry| entry.last_failure.last_failure_code.as_deref().unwrap_or_default().into()),
    ("lastFailureTimestamp", |entry| entry.last_failure.last_failure_timestamp.to_string().into()),
    ("enqueuedAt", |entry| entry.times.enqueued_at.to_string().into()),
    ("movedToDLQAt", |entry| entry.times.moved_to_dlq_at.to_string().into()),
    ("ttl", |entry| entry.times.ttl.to_string().into()),
    ("route", |entry| entry.route.as_str().into()),
    ("userId", |entry| entry.user_id.as_deref().unwrap_or_default().into()),
    ("correlationId", |entry| entry.correlation_id.as_deref().unwrap_or_default().into()),
    ("errorClassification", |entry| entry.last_failure.error_classification.as_str().into()),
    ("cause", |entry| entry.cause.as_str().into()),
    ("fingerprint", |entry| (&*entry.fingerprint).into()),
    ("correctedData", |entry| entry.corrected_data.as_ref().map_or("", |data| data.as_str()).into()),
    ("damage", |entry| entry.damage.as_deref().unwrap_or_default().into()),
];

pub fn head() -> String {
    COLUMNS.map(|(name, _)| name).join(",") + "\r\n"
}

pub fn row(entry: &DeadLetter, to: &mut String) {
    for (at, (_, text)) in COLUMNS.iter().enumerate() {
        if at > 0 {
            to.push(',');
        }
        cell(&text(entry), to);
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
