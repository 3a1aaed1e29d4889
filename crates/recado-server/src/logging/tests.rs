//! The log lines, under their required names.

use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use recado_core::Timestamp;
use serde_json::{Value, json};

use super::*;

#[derive(Debug)]
struct FixedClock(i64);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0)
    }
}

#[derive(Clone, Default)]
struct KeptBytes(Arc<Mutex<Vec<u8>>>);

impl Write for KeptBytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The lines written while `work` runs.
fn logged(format: Format, level: Level, work: impl FnOnce()) -> String {
    let kept = KeptBytes::default();
    let clock = Arc::new(FixedClock(1_760_869_800_000));
    let outlet = Outlet::new(kept.clone(), format, clock.clone(), WAITING_MAX_BYTES);
    let (subscriber, _) = subscriber(level, LineLayer { format, clock, outlet: outlet.clone() });
    tracing::subscriber::with_default(subscriber, work);
    outlet.close();
    let bytes = kept.0.lock().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_line_of_json_has_the_required_shape() {
    let line = logged(Format::Json, Level::Info, || {
        let (code, nothing): (Option<&str>, Option<&str>) = (Some("421"), None);
        tracing::warn!(
            target: "recado_engine::attempt::log",
            jobId = "123e4567",
            attempt = 3,
            errorCode = code,
            rule = nothing,
            share = 0.5,
            isRetryable = true,
            at = %Timestamp::from_millis(0),
            "Job failed, scheduling retry"
        );
    });
    assert_eq!(
        line,
        "{\"level\":\"warn\",\"message\":\"Job failed, scheduling retry\",\"jobId\":\"123e4567\",\"attempt\":3,\
         \"errorCode\":\"421\",\"share\":0.5,\"isRetryable\":true,\"at\":\"1970-01-01T00:00:00.000Z\",\
         \"timestamp\":\"2025-10-19T10:30:00.000Z\"}\n"
    );
}

#[test]
fn odd_text_stays_one_line_of_json() {
    let odd = "a\"b\\c\nd\te\u{1b}[1m\u{7f}\u{0}é";
    let line =
        logged(Format::Json, Level::Info, || tracing::info!(target: "recado", odd, debug = ?odd, "x\ny"));
    assert_eq!(line.lines().count(), 1);
    let parsed: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(parsed["odd"], json!(odd));
    assert_eq!(parsed["message"], json!("x\ny"));
    assert!(!line.contains('\u{1b}'));
}

#[test]
fn people_get_words_that_cannot_steer_their_terminal() {
    let line = logged(Format::Plain, Level::Info, || {
        tracing::info!(target: "recado", jobId = "a\x1b[2J", attempt = 1, "Job sent");
    });
    assert_eq!(line, "2025-10-19T10:30:00.000Z INFO  Job sent jobId=a\\u{1b}[2J attempt=1\n");
    let coloured = logged(Format::Coloured, Level::Info, || tracing::error!(target: "recado", "Oh"));
    assert!(coloured.contains("\x1b[31mERROR\x1b[0m Oh"), "{coloured:?}");
}

#[test]
fn the_level_is_ours_and_libraries_only_warn() {
    let speak = || {
        tracing::debug!(target: "recado_engine", "ours, debug");
        tracing::info!(target: "recado::serve", "ours, info");
        tracing::info!(target: "hyper", "theirs, info");
        tracing::warn!(target: "hyper", "theirs, warn");
    };
    let lines = logged(Format::Json, Level::Info, speak);
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(lines.contains("ours, info") && lines.contains("\"target\":\"hyper\""), "{lines}");
    assert_eq!(logged(Format::Json, Level::Debug, speak).lines().count(), 3);
    assert_eq!(logged(Format::Json, Level::Error, speak), "");
}

#[test]
fn tens_of_thousands_of_lines_in_a_row_all_come_through() {
    let lines = logged(Format::Json, Level::Info, || {
        for attempt in 0..20_000 {
            tracing::warn!(
                target: "recado_engine::attempt::log",
                jobId = "123e4567-e89b-12d3-a456-426614174000",
                companyId = "789e4567-e89b-12d3-a456-426614174999",
                attempt,
                errorReason = "Service temporarily unavailable",
                "Job failed, scheduling retry"
            );
        }
    });
    assert_eq!(lines.lines().count(), 20_000, "no line was lost");
}

#[test]
fn a_panic_is_told_without_what_it_quotes() {
    let data = "é and the rest of somebody's letter".to_owned();
    let cut = std::panic::catch_unwind(|| data[1..].len()).expect_err("cut within a letter");
    let words = cut.downcast_ref::<String>().expect("words");
    assert!(words.contains("somebody"), "the library quotes no more: {words}");
    let told = without_quotations(words);
    assert!(!told.contains("somebody") && told.contains("is not a char boundary"), "{told}");
    assert_eq!(without_quotations("index out of bounds: the len is 3"), "index out of bounds: the len is 3");
    assert_eq!(without_quotations(r#"called on Err("half a"#), "called on Err(`***`");
}
