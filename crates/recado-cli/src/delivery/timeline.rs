//! A job's life, drawn from top to bottom.

use std::io::{self, Write};
use std::time::Duration;

use recado_config::units::about_duration;
use recado_core::{AttemptResult, Status, Timestamp};
use recado_terminal::{Field, Paint, Screen, clean};
use recado_wire::jobs::{Attempt, JobView, Recipient, WaitingFor};

pub fn status_paint(status: Status) -> Paint {
    match status {
        Status::Sent => Paint::Good,
        Status::Failed => Paint::Bad,
        Status::Retrying | Status::Parked => Paint::Warn,
        Status::Cancelled | Status::Discarded => Paint::Faint,
        Status::Scheduled | Status::Queued | Status::Delivering => Paint::Plain,
    }
}

/// A job: what it is, then every attempt, then what comes next.
pub fn show<W: Write>(screen: &mut Screen<W>, job: &JobView) -> io::Result<()> {
    let if_not_zero = |count: u32| Field::if_any((count > 0).then_some(count));
    screen.pairs([
        ("job", Field::painted(&job.job_id, Paint::Strong)),
        ("status", Field::painted(job.status, status_paint(job.status))),
        ("route", Field::from(&job.route)),
        ("company", Field::from(&job.company_id)),
        ("priority", Field::from(job.priority)),
        ("user", Field::if_any(job.user_id.as_ref())),
        ("correlation", Field::if_any(job.correlation_id.as_ref())),
        ("enqueued", Field::from(job.times.enqueued_at)),
        ("expires", Field::from(job.times.expires_at)),
        ("replays", if_not_zero(job.replays)),
        ("deferrals", if_not_zero(job.wait.deferrals)),
        ("answer", Field::if_any(job.answer.as_ref().map(|answer| answer.as_str()))),
        ("data", Field::if_any(job.data.as_ref().map(|data| data.as_str()))),
    ])?;
    screen.line("")?;
    attempts(screen, &job.attempts)?;
    screen.line(format_args!("╰─ {}", what_next(job)))
}

fn what_next(job: &JobView) -> String {
    let held =
        job.held_by.as_ref().map(|held| format!("leased by {} until {}", clean(&held.worker_id), held.until));
    let waits = job.wait.waiting_for.as_ref().map(waits_for);
    let archived = job.archived.as_ref().map(|archived| {
        let (at, place, bring_back) = (archived.at, clean(&archived.place), clean(&archived.bring_back));
        format!(
            "the queue was full: archived at {at} in {place} on the server; `{bring_back}` brings it back"
        )
    });
    let ended = job.times.ended_at.map(|at| format!("{} at {at}", job.status));
    let status = || match job.status {
        Status::Failed => format!("failed; `recado dlq show {}` says why", job.job_id),
        status => status.to_string(),
    };
    held.or(archived).or(ended).or(waits).unwrap_or_else(status)
}

/// The reason of a wait, in words that fit after its name.
pub fn waits_for(waiting: &WaitingFor) -> String {
    let known = |until: &Option<Timestamp>| until.map(|at| format!("; until {at}")).unwrap_or_default();
    match waiting {
        WaitingFor::Delay { until } => format!("waits for its time, {until}"),
        WaitingFor::Retry { until } => format!("next attempt at {until}"),
        WaitingFor::Route { why } => format!("cannot be delivered: {}", clean(without_lines(why))),
        WaitingFor::Breaker { why, until, .. } | WaitingFor::Limit { why, until, .. } => {
            format!("waits: {}{}", clean(why), known(until))
        }
        WaitingFor::Pause { why, actor, .. } => {
            let by = actor.as_ref().map(|actor| format!(" (by {})", clean(actor))).unwrap_or_default();
            format!("waits for a person: {}{by}", clean(why))
        }
        WaitingFor::Turn => "waits for its turn".to_owned(),
    }
}

/// The words alone, where lines to write into a file follow them.
fn without_lines(why: &str) -> &str {
    match why.split_once("\n\n") {
        Some((words, _)) => words.rsplit_once("; ").map_or(words, |(words, _)| words),
        None => why,
    }
}

fn result(result: AttemptResult) -> (&'static str, Paint) {
    match result {
        AttemptResult::Sent => ("sent", Paint::Good),
        AttemptResult::Partial => ("partial", Paint::Warn),
        AttemptResult::Failed => ("failed", Paint::Bad),
        AttemptResult::Uncertain => ("uncertain", Paint::Warn),
        AttemptResult::Lost => ("lost", Paint::Warn),
    }
}

fn one_recipient<W: Write>(screen: &mut Screen<W>, recipient: &Recipient) -> io::Result<()> {
    let (word, paint) = result(recipient.result);
    let said = [recipient.error_code.as_deref(), recipient.error_reason.as_deref()];
    let said: String = said.into_iter().flatten().map(|words| format!("  {}", clean(words))).collect();
    screen.line(format_args!("│      {}  {}{said}", clean(&recipient.recipient), screen.painted(paint, word)))
}

/// Each attempt with its time, result, code, reason, rule and the wait after it.
pub fn attempts<W: Write>(screen: &mut Screen<W>, attempts: &[Attempt]) -> io::Result<()> {
    for attempt in attempts {
        let (word, paint) = result(attempt.result);
        let took = match attempt.ended_at.since(attempt.started_at) {
            Duration::ZERO => "under 1ms".to_owned(),
            took => about_duration(took),
        };
        let head = format!("├─ {}  attempt {}", attempt.started_at, attempt.attempt);
        screen.line(format_args!("{head}  {}  took {took}", screen.painted(paint, word)))?;
        if let Some(reason) = &attempt.error_reason {
            let code = attempt.error_code.as_deref().map(|code| format!("{} ", clean(code)));
            screen.line(format_args!("│    {}{}", code.unwrap_or_default(), clean(reason)))?;
        }
        if let Some(class) = attempt.error_classification {
            let rule =
                attempt.rule.as_deref().map(|rule| format!("  rule {}", clean(rule))).unwrap_or_default();
            let blame = attempt.blame.map(|blame| format!("  blames the {}", blame.as_str()));
            screen.line(format_args!("│    {}{rule}{}", class.as_str(), blame.unwrap_or_default()))?;
        }
        for recipient in &attempt.recipients {
            one_recipient(screen, recipient)?;
        }
        if let Some(delay) = attempt.next_retry_delay_ms.map(Duration::from_millis) {
            let at: Timestamp = attempt.ended_at.plus(delay);
            screen.line(format_args!("│    next attempt after {}, at {at}", about_duration(delay)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use recado_core::limit::{LimitKind, PauseScope};

    use super::*;

    #[test]
    fn what_is_held_back_says_by_what_and_until_when_if_that_is_known() {
        let at = Timestamp::from_millis(0);
        let breaker =
            WaitingFor::Breaker { why: "circuit breaker OPEN: down".to_owned(), said: None, until: Some(at) };
        assert_eq!(waits_for(&breaker), format!("waits: circuit breaker OPEN: down; until {at}"));
        let limit =
            WaitingFor::Limit { code: LimitKind::Rate, why: "rate\x1b".to_owned(), said: None, until: None };
        assert_eq!(waits_for(&limit), "waits: rate\\u{1b}");
        let code = PauseScope::Route;
        let (why, said) = ("paused: audit".to_owned(), None);
        let pause = WaitingFor::Pause { code, why, said, since: None, actor: None };
        assert_eq!(waits_for(&pause), "waits for a person: paused: audit");
        let (why, said) = ("tenant paused".to_owned(), None);
        let known = WaitingFor::Pause { code, why, said, since: Some(at), actor: Some("ana".into()) };
        assert_eq!(waits_for(&known), "waits for a person: tenant paused (by ana)");
    }

    #[test]
    fn recipients_that_fared_differently_stand_one_a_line_below_their_attempt() {
        let recipient = |name: &str, result, code: Option<&str>, reason: Option<&str>| Recipient {
            recipient: name.into(),
            result,
            error_code: code.map(Into::into),
            error_reason: reason.map(Into::into),
            error_classification: None,
            rule: None,
        };
        let at = Timestamp::from_millis(0);
        let attempt = Attempt {
            attempt: 1,
            started_at: at,
            ended_at: at,
            result: AttemptResult::Partial,
            error_code: None,
            error_reason: None,
            error_classification: None,
            rule: None,
            blame: None,
            next_retry_delay_ms: None,
            provider: None,
            recipients: vec![
                recipient("ana@example.com", AttemptResult::Sent, None, None),
                recipient("bob@example.com", AttemptResult::Failed, Some("550"), Some("no such\x1b user")),
            ],
            earlier_recipients: Vec::new(),
        };
        let mut out = Vec::new();
        attempts(&mut Screen::new(&mut out, None), &[attempt]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            ["│      ana@example.com  sent", "│      bob@example.com  failed  550  no such\\u{1b} user"],
            "{text}"
        );
    }
}
