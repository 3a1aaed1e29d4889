//! `recado decide`.

use clap::Args;
use recado_core::Timestamp;
use recado_terminal::{Field, Paint, Screen};
use recado_wire::decisions::{Decision, DecisionRequest};

use crate::{AskArgs, Done, Stop};

#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  recado decide --claim-id CLM-001 --error SERVICE_UNAVAILABLE
  recado decide --claim-id CLM-001 --error 'TIMEOUT at gateway' --retry-count 2 --json")]
pub struct DecideArgs {
    /// Id of the claim.
    #[arg(long, value_name = "ID")]
    claim_id: String,
    /// Message of the submission that failed.
    #[arg(long, value_name = "TEXT")]
    error: String,
    /// Retries already made.
    #[arg(long, default_value_t = 0, value_name = "N", allow_negative_numbers = true)]
    retry_count: i64,
    /// Time of the last submission.
    #[arg(long, value_name = "TIME")]
    last_submission_time: Option<Timestamp>,
    /// Route whose rules and policy decide.
    #[arg(long, default_value = recado_wire::decisions::ROUTE_DEFAULT)]
    route: String,
    #[command(flatten)]
    ask: AskArgs,
}

pub async fn run(args: DecideArgs, screen: &mut Screen) -> Done {
    let retry_count = u32::try_from(args.retry_count)
        .map_err(|_| Stop::Usage(format!("--retry-count is {}; give 0 or more", args.retry_count)))?;
    let request = DecisionRequest {
        route: Some(args.route),
        retry_count: Some(retry_count),
        last_submission_time: args.last_submission_time,
        ..DecisionRequest::new(args.claim_id, args.error)
    };
    args.ask.show(screen, &args.ask.client()?.decide(&request).await?, show)
}

fn show(screen: &mut Screen, decision: &Decision) -> std::io::Result<()> {
    let verdict = match decision.should_retry {
        true => Field::painted("retry", Paint::Good),
        false => Field::painted("do not retry", Paint::Bad),
    };
    let code = decision.error_code.and_then(|code| serde_json::to_value(code).ok());
    screen.pairs([
        ("decision", verdict),
        ("why", Field::from(&decision.retry_reason)),
        ("class", Field::from(decision.error_classification.as_str())),
        ("code", Field::or_dash(code.as_ref().and_then(|code| code.as_str()))),
        ("next retry", Field::or_dash(decision.next_retry_time)),
        ("backoff", Field::or_dash(decision.backoff_minutes.map(|minutes| format!("{minutes} min")))),
        ("retry count", Field::from(decision.retry_count)),
    ])
}
