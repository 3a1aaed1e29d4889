//! The transport that opens no connection: each attempt does what the job's own script says.
//!
//! It serves users who try a route before it meets a provider, and our own checks and benchmarks, so it is
//! fast: one pass over `data`, and no timer unless a latency is asked for. Fields other than `script` and
//! `latencyMs` are ignored, because any route may be given this transport and keeps the data that it had.
//! Absent on purpose: randomness (a script says what happens, each time the same) and waiting for the route's
//! timeout (`"timeout"` reports one at once).

use std::time::Duration;

use async_trait::async_trait;
use recado_core::outcome::enhanced_code;
use recado_core::{Fault, NetworkKind, Outcome, Payload, Timestamp, retry_after};
use serde::Deserialize;

use crate::data::{self, Object, Text};
use crate::{DataFault, Delivery, Transport, TransportKind};

/// Milliseconds at most that one attempt is held up.
pub const LATENCY_MAX_MS: u64 = 10 * 60 * 1_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Sandbox;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    #[serde(borrow)]
    script: Option<Vec<Text<'a>>>,
    latency_ms: Option<u64>,
}

impl Data<'_> {
    /// The script's entry for this attempt; its last entry goes for all that follow.
    fn entry(&self, attempt: u32) -> &str {
        let script = self.script.as_deref().unwrap_or_default();
        let index = attempt.saturating_sub(1) as usize;
        script.get(index).or(script.last()).map_or("ok", |Text(entry)| entry.trim())
    }
}

#[async_trait]
impl Transport for Sandbox {
    fn kind(&self) -> TransportKind {
        TransportKind::Sandbox
    }

    fn check(&self, data: &Payload) -> Result<(), Vec<DataFault>> {
        data::read(data, |object| {
            check_script(object);
            check_latency(object);
            Some(())
        })
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        let Ok(data) = delivery.job.data.parse::<Data<'_>>() else {
            let faults = self.check(&delivery.job.data).err().unwrap_or_default();
            return Outcome::Failed(data::unusable(&faults));
        };
        if let Some(latency_ms @ 1..) = data.latency_ms {
            tokio::time::sleep(Duration::from_millis(latency_ms.min(LATENCY_MAX_MS))).await;
        }
        run_entry(data.entry(delivery.attempt), delivery.now)
    }
}

fn run_entry(entry: &str, now: Timestamp) -> Outcome {
    let word = ["ok", "timeout", "drop", "panic"].into_iter().find(|word| entry.eq_ignore_ascii_case(word));
    Outcome::Failed(match word.unwrap_or(entry) {
        "ok" => return Outcome::Accepted { answer: None },
        "timeout" => Fault::network(NetworkKind::Timeout, "the sandbox script says timeout"),
        "drop" => Fault::network(NetworkKind::Dropped, "the sandbox script says drop"),
        "panic" => panic!("the sandbox script says panic"),
        refusal => parse_refusal(refusal, now),
    })
}

/// `"<code> <text>"`, with ` retry-after=<seconds>` anywhere after the code.
fn parse_refusal(entry: &str, now: Timestamp) -> Fault {
    let (code, rest) = entry.split_once(char::is_whitespace).unwrap_or((entry, ""));
    let wish = rest.split_whitespace().find(|word| word.starts_with("retry-after="));
    let retry_after = wish.and_then(|wish| retry_after::parse(wish.trim_start_matches("retry-after="), now));
    let mut fault = match (wish, retry_after) {
        (Some(wish), Some(_)) => Fault::answer(code, &without(rest, wish)),
        _ => Fault::answer(code, rest.trim()),
    };
    fault.retry_after = retry_after;
    fault.status = (code.len() == 3).then(|| code.parse().ok()).flatten();
    fault.enhanced = enhanced_code(&fault.text).map(Into::into);
    fault
}

fn without(text: &str, unwanted: &str) -> String {
    let words: Vec<_> = text.split_whitespace().filter(|word| *word != unwanted).collect();
    words.join(" ")
}

fn check_script(data: &Object<'_, '_>) {
    for (index, entry) in data.list("script", r#"["503 busy", "ok"]"#).into_iter().flatten().enumerate() {
        let name = format!("script/{index}");
        match serde_json::from_str::<Text<'_>>(entry.get()) {
            Ok(Text(text)) if !text.trim().is_empty() => {}
            Ok(_) => data
                .fault_at(&name, r#"is empty; write "ok", "timeout", "drop", "panic" or a code and a text"#),
            Err(_) => data.fault_at(
                &name,
                format!(r#"{}, such as "503 busy""#, data::describe_instead(entry.get(), "a string")),
            ),
        }
    }
}

fn check_latency(data: &Object<'_, '_>) {
    let Some(raw) = data.get("latencyMs") else { return };
    if !raw.get().parse::<u64>().is_ok_and(|latency_ms| latency_ms <= LATENCY_MAX_MS) {
        data.fault(
            "latencyMs",
            format!("is out of bounds; write whole milliseconds from 0 to {LATENCY_MAX_MS}"),
        );
    }
}
