//! `recado call`.

use std::io;
use std::time::Duration;

use clap::Args;
use recado_config::units::about_millis;
use recado_core::time::millis;
use recado_terminal::{Paint, Screen, clean};
use recado_wire::calls::{CallAnswer, CallRequest};

use crate::{AskArgs, Done, data, duration};

#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  recado call openai --company acme --data @question.json --timeout 20s
  recado call instagram --company acme --data '{\"method\":\"GET\",\"path\":\"/insights\"}' \\
      --cache-key insights

Prints the provider's answer; where it fails, its last good one under the same key, and says so.")]
#[command(mut_arg("json", |arg| arg.help("Print JSON: the answer and everything about it")))]
pub struct CallArgs {
    /// Route to ask by.
    route: String,
    /// Tenant that the call is for.
    #[arg(long, value_name = "ID")]
    company: String,
    /// Data of the request: JSON, @file or - for standard input.
    #[arg(long, value_name = "JSON|@FILE|-")]
    data: String,
    /// Key to cache the answer under; the cached answer is returned if the provider fails.
    #[arg(long, value_name = "KEY")]
    cache_key: Option<String>,
    /// Wait no longer than this [default: the route's own timeout].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    ask: AskArgs,
}

pub async fn run(args: CallArgs, screen: &mut Screen) -> Done {
    let request = CallRequest {
        cache_key: args.cache_key,
        timeout_ms: args.timeout.map(millis),
        ..CallRequest::new(args.route, args.company, data::read(&args.data)?)
    };
    args.ask.show(screen, &args.ask.client()?.call_provider(&request).await?, show)
}

fn show(screen: &mut Screen, answer: &CallAnswer) -> io::Result<()> {
    let json = answer.answer.as_ref().map_or("null", |answer| answer.as_str());
    if let (Some(age_ms), Some(error)) = (answer.age_ms, &answer.error) {
        let code = error.error_code.as_deref().map(|code| format!("{} ", clean(code))).unwrap_or_default();
        let age = about_millis(age_ms);
        screen.line(screen.painted(Paint::Warn, format_args!("last good answer, {age} old")))?;
        screen.line(format_args!("the provider failed: {code}{}", clean(&error.error_reason)))?;
        if let Some(job) = &answer.retry_job_id {
            screen.line(format_args!("job {job} asks again"))?;
        }
        screen.line("")?;
    }
    screen.line(clean(json))
}
