//! `recado camunda`.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use recado_camunda::{
    Auth, Camunda7, Camunda8, EngineError, Limits, Mode, OAuth, OnRefusal, Rest, Rules, Secret, Subscription,
    TYPE_DEFAULT, Worker,
};
use recado_config::{Level, Log, LogFormat};
use recado_core::Random;
use recado_engine::SystemClock;
use recado_server::{logging, serve};
use tokio_util::sync::CancellationToken;

use crate::{Done, ServerArgs, Stop, URL_DEFAULT, duration};

/// Time that Recado may take to decide: far less than a job's lock.
const DECISION_TIMEOUT: Duration = Duration::from_secs(10);

/// Jobs at hand when a stop begins get this long.
const STOP_GRACE: Duration = Duration::from_secs(20);

/// Jobs at the same time at most, so that each has its share of the lock.
const JOBS_MAX: u16 = 1_000;

#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  recado camunda --url http://localhost:8080
  recado camunda --engine 7 --url http://localhost:8080/engine-rest
  CAMUNDA_CLIENT_SECRET=… recado camunda --url https://cluster.example.com \\
    --oauth-url https://login.example.com/oauth/token --client-id recado --audience zeebe-api
  recado camunda --url http://localhost:8080 --mode backoff --on-permanent incident

Secrets are safer in variables than in arguments, which other users of the machine can see.

SIGTERM or Ctrl-C stops gracefully: jobs at hand end first. A second one stops at once.")]
pub struct CamundaArgs {
    /// Camunda version.
    #[arg(long, value_enum, default_value_t = Engine::Eight)]
    engine: Engine,
    /// Address of its REST API.
    #[arg(long, env = "CAMUNDA_URL", value_name = "URL")]
    url: String,
    /// Job type of Camunda 8, topic of Camunda 7.
    #[arg(long = "type", visible_alias = "topic", default_value = TYPE_DEFAULT, value_name = "NAME")]
    kind: String,
    /// Name of this worker, its own in Camunda 7 [default: recado, host and process].
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// Jobs at the same time.
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(JOBS_MAX)))]
    max_jobs: u16,
    /// Time that a job is locked for this worker.
    #[arg(long, default_value = "1m", value_name = "DURATION", value_parser = lock)]
    lock: Duration,
    /// Time that the engine may hold a request back until there is a job.
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = poll)]
    poll: Duration,
    /// error, warn, info, debug or trace.
    #[arg(long, env = "RECADO_LOG_LEVEL", default_value = "info", value_name = "LEVEL", value_parser = level)]
    log_level: Level,
    #[command(flatten)]
    rules: RulesArgs,
    #[command(flatten)]
    credentials: CredentialArgs,
    #[command(flatten)]
    recado: RecadoArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Decisions")]
struct RulesArgs {
    /// The side that waits until the next submission: a timer of the process, or the job itself.
    #[arg(long, value_enum, default_value_t = ModeArg::Complete)]
    mode: ModeArg,
    /// Retries that the route's policy allows, for --mode backoff.
    #[arg(long, default_value_t = recado_camunda::rules::MAX_RETRIES_DEFAULT, value_name = "N")]
    max_retries: u32,
    /// Report for a claim after its last retry.
    #[arg(long, value_enum, default_value_t = Refusal::BpmnError)]
    on_exhausted: Refusal,
    /// Report for a claim with a permanent error.
    #[arg(long, value_enum, default_value_t = Refusal::BpmnError)]
    on_permanent: Refusal,
    /// Route whose rules and policy decide.
    #[arg(long, default_value = recado_wire::decisions::ROUTE_DEFAULT)]
    route: String,
}

/// Credentials for the engine: none, a token, a user, or an OAuth client.
#[derive(Debug, Args)]
#[command(next_help_heading = "The engine's credentials")]
struct CredentialArgs {
    /// Bearer token.
    #[arg(long, env = "CAMUNDA_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,
    /// User, for basic authentication.
    #[arg(long, env = "CAMUNDA_USER", value_name = "NAME")]
    user: Option<String>,
    /// Its password.
    #[arg(long, env = "CAMUNDA_PASSWORD", hide_env_values = true, value_name = "PASSWORD")]
    password: Option<String>,
    /// Address of the OAuth token service.
    #[arg(long, env = "CAMUNDA_OAUTH_URL", value_name = "URL")]
    oauth_url: Option<String>,
    #[arg(long, env = "CAMUNDA_CLIENT_ID", value_name = "ID", help = "OAuth client")]
    client_id: Option<String>,
    /// Its secret.
    #[arg(long, env = "CAMUNDA_CLIENT_SECRET", hide_env_values = true, value_name = "SECRET")]
    client_secret: Option<String>,
    /// Audience of the OAuth tokens.
    #[arg(long, env = "CAMUNDA_TOKEN_AUDIENCE", value_name = "NAME")]
    audience: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "The Recado server that decides")]
struct RecadoArgs {
    /// Its address.
    #[arg(long, env = "RECADO_URL", default_value = URL_DEFAULT, value_name = "URL")]
    server: String,
    /// Its token.
    #[arg(long, env = "RECADO_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    server_token: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Engine {
    /// Camunda 8, Orchestration Cluster REST API.
    #[value(name = "8")]
    Eight,
    /// Camunda 7, external tasks.
    #[value(name = "7")]
    Seven,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeArg {
    /// Complete the job; a timer event waits until nextRetryTime.
    Complete,
    /// Fail the job with the backoff, and complete it when the engine offers it again.
    Backoff,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Refusal {
    /// A boundary event catches it.
    BpmnError,
    /// A person sees it in the engine's own tools.
    Incident,
}

impl From<Refusal> for OnRefusal {
    fn from(choice: Refusal) -> Self {
        match choice {
            Refusal::BpmnError => OnRefusal::BpmnError,
            Refusal::Incident => OnRefusal::Incident,
        }
    }
}

impl From<EngineError> for Stop {
    fn from(error: EngineError) -> Self {
        Stop::usage(error)
    }
}

pub async fn run(args: CamundaArgs) -> Done {
    let rest = Rest::new(&args.url, args.credentials.auth()?)?;
    let server = ServerArgs { url: Some(args.recado.server), token: args.recado.server_token };
    let decisions = server.client()?.with_timeout(DECISION_TIMEOUT);
    let subscription = Subscription {
        kind: args.kind,
        worker: args.worker.unwrap_or_else(|| format!("recado/{}", serve::node())),
        lock: args.lock,
        poll: args.poll,
    };
    let rules = Rules {
        route: Some(args.rules.route),
        mode: match args.rules.mode {
            ModeArg::Complete => Mode::Complete,
            ModeArg::Backoff => Mode::Backoff,
        },
        max_retries: args.rules.max_retries,
        on_exhausted: args.rules.on_exhausted.into(),
        on_permanent: args.rules.on_permanent.into(),
    };
    let limits = Limits { tasks_max: args.max_jobs.into(), lock: args.lock, stop_grace: STOP_GRACE };

    let log = Log { level: args.log_level, format: LogFormat::Auto };
    let _logging = logging::start(log, Arc::new(SystemClock));
    let mut signals =
        serve::Signals::new().map_err(|error| Stop::Failed(format!("cannot listen for signals: {error}")))?;
    tracing::info!(
        engine = match args.engine {
            Engine::Eight => "Camunda 8",
            Engine::Seven => "Camunda 7",
        },
        r#type = subscription.kind,
        worker = subscription.worker,
        maxJobs = args.max_jobs,
        "Working for the process engine"
    );
    let chance = Random::from_entropy();
    let worker = match args.engine {
        Engine::Eight => Worker::new(Camunda8::new(rest, subscription), decisions, rules, limits, chance),
        Engine::Seven => Worker::new(Camunda7::new(rest, subscription), decisions, rules, limits, chance),
    };

    let stop = CancellationToken::new();
    let mut working = std::pin::pin!(worker.run(stop.clone()));
    loop {
        tokio::select! {
            left = &mut working => return ended(left),
            _ = signals.next() => {}
        }
        if stop.is_cancelled() {
            return Err(Stop::failed("stopped at once; jobs at hand are offered again"));
        }
        tracing::info!("Stopping: jobs at hand end first; a second signal stops at once");
        stop.cancel();
    }
}

fn ended(left: usize) -> Done {
    if left > 0 {
        tracing::warn!(jobs = left, "Released jobs; the engine offers them again when their locks run out");
    }
    tracing::info!("Stopped");
    Ok(())
}

impl CredentialArgs {
    fn auth(self) -> Result<Auth, Stop> {
        // An empty variable is how many tools unset one.
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (token, user, oauth_url) = (given(self.token), given(self.user), given(self.oauth_url));
        match (token, user, oauth_url) {
            (None, None, None) => Ok(Auth::None),
            (Some(token), None, None) => Ok(Auth::Bearer(Secret::new(token.trim()))),
            (None, Some(user), None) => {
                let password = given(self.password)
                    .ok_or_else(|| Stop::usage("--user needs a password: set CAMUNDA_PASSWORD"))?;
                Ok(Auth::Basic { user, password: Secret::new(password) })
            }
            (None, None, Some(url)) => {
                let (id, secret) = (given(self.client_id), given(self.client_secret));
                let id = id.ok_or_else(|| Stop::usage("--oauth-url needs a client: give --client-id"))?;
                let secret = secret
                    .ok_or_else(|| Stop::usage("--client-id needs a secret: set CAMUNDA_CLIENT_SECRET"))?;
                Ok(Auth::OAuth(OAuth::new(&url, id, Secret::new(secret), given(self.audience))?))
            }
            _ => {
                Err(Stop::usage("there are several credentials; give one of --token, --user and --oauth-url"))
            }
        }
    }
}

fn lock(text: &str) -> Result<Duration, String> {
    let lock = duration(text)?;
    let least = DECISION_TIMEOUT * 2;
    if lock >= least {
        return Ok(lock);
    }
    Err(format!("give at least {}s, the time that a decision and its report may take", least.as_secs()))
}

/// Camunda 7 allows no more than half an hour.
fn poll(text: &str) -> Result<Duration, String> {
    let poll = duration(text)?;
    let allowed = Duration::from_millis(1)..=Duration::from_secs(30 * 60);
    if allowed.contains(&poll) { Ok(poll) } else { Err("give 1ms to 30m".to_owned()) }
}

fn level(text: &str) -> Result<Level, String> {
    Level::parse(text).ok_or_else(|| "write error, warn, info, debug or trace".to_owned())
}
