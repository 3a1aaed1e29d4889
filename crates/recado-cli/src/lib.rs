//! The command line: one definition for help, completions and what is done.
//!
//! Most commands ask a running server through `recado-client`. `serve`, `policy`, `simulate`, `config`,
//! `doctor` and `audit verify` read the configuration; `store`, `demo`, `bench` and `completions` need
//! neither. Exit codes: 0 done, 1 failed, 2 usage.

mod admin;
mod confirm;
mod data;
mod delivery;
mod local;
mod monitor;
mod out_file;
mod signals;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use admin::{OfTenantArgs, OrList, accounts, providers, routes, tenants};
use clap::{Args, CommandFactory, Parser, Subcommand};
use recado_client::{Client, ClientError};
use recado_config::catalogue::Environment;
use recado_config::fault::Faults;
use recado_config::variables::Variables;
use recado_config::{Config, Flags, Inputs};
use recado_terminal::{Form, Screen, clean_lines};
use serde::Serialize;
use tokio::runtime::Builder;

/// Takes jobs, delivers each to its provider, retries with backoff, and keeps what fails for a person.
#[derive(Debug, Parser)]
#[command(name = "recado", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
EXAMPLES:
  recado serve                       start on 127.0.0.1:7400, jobs in ./recado-data
  recado demo                        see it at work: providers that fail, traffic, the dashboard
  recado send sandbox --company acme --data '{\"script\":[\"503 busy\",\"ok\"]}' --wait
  recado jobs list --status failed   failed jobs
  recado dlq replay order-1042       give a dead letter another chance
  recado policy show email --plot    its retry schedule
  recado simulate email              what an outage of its provider would do

EXIT CODES: 0 done, 1 failed, 2 usage.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the server.
    Serve(local::serve::ServeArgs),
    /// Run a demonstration: engine, dashboard and traffic in one process, with providers that fail on a timetable.
    Demo(local::demo::DemoArgs),
    /// Enqueue one job.
    Send(delivery::send::SendArgs),
    /// Look at jobs, cancel them.
    #[command(after_help = "EXAMPLES:\n  recado jobs list --status retrying\n  recado jobs show order-1042")]
    #[command(subcommand)]
    Jobs(delivery::jobs::JobsCommand),
    /// The dead letter queue: look, count, replay, discard, export, import.
    #[command(
        after_help = "EXAMPLES:\n  recado dlq stats --by company\n  recado dlq replay order-1042\n  recado dlq replay --code 421 --canary 3"
    )]
    #[command(subcommand)]
    Dlq(delivery::dlq::DlqCommand),
    /// Stream events live.
    Events(monitor::events::EventsArgs),
    /// Webhook endpoints: where companies receive events.
    #[command(
        after_help = "EXAMPLES:\n  recado endpoints list\n  recado endpoints add --company acme --to https://example.com/hooks\n  recado endpoints test ep_0197"
    )]
    #[command(subcommand)]
    Endpoints(admin::endpoints::EndpointsCommand),
    /// Ask a provider and wait for its answer.
    Call(delivery::call::CallArgs),
    /// Accounts whose credential a provider no longer takes.
    #[command(
        after_help = "EXAMPLES:\n  recado accounts --company acme\n  recado accounts clear instagram acme"
    )]
    Accounts(OrList<accounts::AccountsCommand, OfTenantArgs>),
    /// Providers: breakers, limits, what waits for them.
    #[command(
        after_help = "EXAMPLES:\n  recado providers\n  recado providers open instagram --reason 'their maintenance'\n  recado providers pause smtp-main"
    )]
    Providers(OrList<providers::ProvidersCommand, AskArgs>),
    /// Holds that answers from outside imposed: list them, lift one.
    #[command(after_help = "EXAMPLES:\n  recado holds list\n  recado holds lift hold_4f0c…")]
    #[command(subcommand)]
    Holds(admin::holds::HoldsCommand),
    /// Routes: list them, pause or resume one.
    #[command(
        after_help = "EXAMPLES:\n  recado routes\n  recado routes pause email --reason 'wrong template'\n  recado routes resume email"
    )]
    Routes(OrList<routes::RoutesCommand, AskArgs>),
    /// Classification rules that the history suggests.
    #[command(
        after_help = "EXAMPLES:\n  recado rules suggest\n  recado rules suggest --route email --since 30d"
    )]
    #[command(subcommand)]
    Rules(admin::rules::RulesCommand),
    /// Show tenants with their counts and turns; set their weight, limit or pause.
    #[command(
        after_help = "EXAMPLES:\n  recado tenants\n  recado tenants --route email\n  recado tenants set acme --weight 3"
    )]
    Tenants(OrList<tenants::TenantsCommand, tenants::TenantListArgs>),
    /// The nodes that share the store: health, share of the work.
    #[command(after_help = "EXAMPLES:\n  recado nodes\n  recado nodes --json")]
    Nodes(AskArgs),
    /// List alerts.
    Alerts(monitor::alerts::AlertsArgs),
    /// Show retry KPIs beside their targets.
    Kpis(monitor::kpis::KpisArgs),
    /// The audit trail: look, export, verify, remove one person's data.
    #[command(
        after_help = "EXAMPLES:\n  recado audit show --job order-1042\n  recado audit export --subject user=u-81 --out u-81.ndjson\n  recado audit verify"
    )]
    #[command(subcommand)]
    Audit(monitor::audit::AuditCommand),
    /// Show a route's retry schedule.
    #[command(after_help = "EXAMPLES:\n  recado policy show email --plot")]
    #[command(subcommand)]
    Policy(local::policy::PolicyCommand),
    /// Simulate an outage of a route's provider: what is delivered when, and what is not.
    Simulate(local::simulate::SimulateArgs),
    /// Ask whether a failed submission should be retried, and when.
    Decide(delivery::decide::DecideArgs),
    /// Decide on failed submissions for a process engine, Camunda 8 or 7.
    Camunda(delivery::camunda::CamundaArgs),
    /// Write, check and show the configuration.
    #[command(after_help = "EXAMPLES:\n  recado config init\n  recado config check")]
    #[command(subcommand)]
    Config(local::configure::ConfigCommand),
    /// Move everything into another store.
    #[command(
        after_help = "EXAMPLES:\n  recado store migrate --from ./recado-data --to redis://127.0.0.1:6379"
    )]
    #[command(subcommand)]
    Store(local::store::StoreCommand),
    /// Check this installation for problems.
    Doctor(local::doctor::DoctorArgs),
    /// A server that `doctor --chaos` kills.
    #[command(name = local::doctor::chaos::NODE_COMMAND, hide = true)]
    DoctorNode(local::doctor::chaos::NodeArgs),
    /// Watch a server: throughput, queues, breakers, dead letters, tenants.
    Top(monitor::top::TopArgs),
    /// Measure this build on this machine.
    Bench(local::bench::BenchArgs),
    /// A node that `bench redis` measures.
    #[command(name = recado_bench::NODE_COMMAND, hide = true)]
    BenchNode,
    /// Write a completion script for a shell.
    #[command(
        after_help = "EXAMPLES:\n  recado completions bash > /etc/bash_completion.d/recado\n  recado completions zsh > ~/.zfunc/_recado"
    )]
    Completions { shell: clap_complete::Shell },
}

/// The reason why a command ends early.
#[derive(Debug)]
pub enum Stop {
    /// Exit code 1.
    Failed(String),
    /// Exit code 2.
    Usage(String),
    /// The reader of the output has left.
    Unread,
}

impl Stop {
    fn failed(why: impl ToString) -> Self {
        Stop::Failed(why.to_string())
    }

    fn usage(why: impl ToString) -> Self {
        Stop::Usage(why.to_string())
    }

    fn into_words(self) -> String {
        match self {
            Stop::Failed(why) | Stop::Usage(why) => why,
            Stop::Unread => String::new(),
        }
    }
}

pub type Done = Result<(), Stop>;

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Stop::Unread,
            _ => Stop::Failed(format!("cannot write the output: {error}")),
        }
    }
}

impl From<ClientError> for Stop {
    fn from(error: ClientError) -> Self {
        let advice = match error.code() {
            Some(recado_wire::Code::Unauthorized | recado_wire::Code::TooManyWrongTokens) => {
                "\nGive the server's token with --token or RECADO_TOKEN."
            }
            _ => "",
        };
        Stop::Failed(format!("{error}{advice}"))
    }
}

impl From<Faults> for Stop {
    fn from(faults: Faults) -> Self {
        Stop::failed(faults)
    }
}

/// Runs the program and says how it went.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(()) | Err(Stop::Unread) => ExitCode::SUCCESS,
        Err(Stop::Failed(why)) => tell(&why, 1),
        Err(Stop::Usage(why)) => tell(&why, 2),
    }
}

fn tell(why: &str, code: u8) -> ExitCode {
    let words = clean_lines(why);
    let mark = if words.starts_with("error: ") { "" } else { "error: " };
    // Standard error may be closed; the exit code still tells.
    let _ = writeln!(io::stderr(), "{mark}{words}");
    ExitCode::from(code)
}

fn run(command: Command) -> Done {
    let mut screen = Screen::stdout();
    let screen = &mut screen;
    match command {
        Command::Serve(args) => local::serve::run(args),
        Command::Demo(args) => local::demo::run(args, screen),
        Command::Policy(command) => local::policy::run(command, screen),
        Command::Simulate(args) => local::simulate::run(args, screen),
        Command::Config(command) => local::configure::run(command, screen),
        Command::Bench(args) => local::bench::run(args, screen),
        Command::BenchNode => local::bench::run_node(),
        Command::DoctorNode(args) => local::doctor::chaos::run_node(args),
        Command::Completions { shell } => {
            // Into memory first: the generator panics when its output is closed.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut offered(), "recado", &mut script);
            Ok(screen.text(script)?)
        }
        Command::Send(args) => wait_for(delivery::send::run(args, screen)),
        Command::Jobs(command) => wait_for(delivery::jobs::run(command, screen)),
        Command::Dlq(command) => wait_for(delivery::dlq::run(command, screen)),
        Command::Events(args) => wait_for(monitor::events::run(args, screen)),
        Command::Endpoints(command) => wait_for(admin::endpoints::run(command, screen)),
        Command::Call(args) => wait_for(delivery::call::run(args, screen)),
        Command::Accounts(args) => wait_for(accounts::run(args, screen)),
        Command::Providers(args) => wait_for(providers::run(args, screen)),
        Command::Holds(command) => wait_for(admin::holds::run(command, screen)),
        Command::Routes(args) => wait_for(routes::run(args, screen)),
        Command::Rules(command) => wait_for(admin::rules::run(command, screen)),
        Command::Tenants(args) => wait_for(tenants::run(args, screen)),
        Command::Nodes(args) => wait_for(monitor::nodes::run(args, screen)),
        Command::Alerts(args) => wait_for(monitor::alerts::run(args, screen)),
        Command::Kpis(args) => wait_for(monitor::kpis::run(args, screen)),
        Command::Audit(command) => wait_for(monitor::audit::run(command, screen)),
        Command::Top(args) => wait_for(monitor::top::run(args, screen)),
        Command::Decide(args) => wait_for(delivery::decide::run(args, screen)),
        Command::Camunda(args) => wait_for(delivery::camunda::run(args)),
        Command::Store(command) => wait_for(local::store::run(command, screen)),
        Command::Doctor(args) => wait_for(local::doctor::run(args, screen)),
    }
}

/// The commands that a shell completes: the generator offers hidden ones, too.
fn offered() -> clap::Command {
    let cli = Cli::command();
    let offered = cli.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    clap::Command::new("recado").version(env!("CARGO_PKG_VERSION")).subcommands(offered)
}

fn wait_for(work: impl Future<Output = Done>) -> Done {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Stop::Failed(format!("cannot start: {error}")))?.block_on(work)
}

/// Runs on all processors.
fn wait_on_all_processors<T>(work: impl Future<Output = T>) -> Result<T, Stop> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Stop::Failed(format!("cannot start: {error}")))?;
    let ended = runtime.block_on(work);
    // Whatever still runs was told to end and did not; it must not hold up the process.
    runtime.shutdown_background();
    Ok(ended)
}

const URL_DEFAULT: &str = "http://127.0.0.1:7400";

/// Address of the server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
struct ServerArgs {
    /// Address of the server [default: http://127.0.0.1:7400].
    #[arg(long, env = "RECADO_URL", value_name = "URL")]
    url: Option<String>,
    /// The server's token.
    #[arg(long, env = "RECADO_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,
}

impl ServerArgs {
    fn client(&self) -> Result<Client, Stop> {
        let client = Client::new(self.url(), given(self.token.as_deref())).map_err(Stop::usage)?;
        Ok(client.clone().with_actor(&actor()).unwrap_or(client))
    }

    fn url(&self) -> &str {
        given(self.url.as_deref()).unwrap_or(URL_DEFAULT)
    }
}

/// Returns what was given. An empty variable is how many tools unset one.
fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// The form in which a command prints what it found.
#[derive(Clone, Copy, Debug, Args)]
struct FormArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl FormArgs {
    fn get(self) -> Form {
        if self.json { Form::Json } else { Form::Text }
    }
}

/// The server to ask, and the form of its answer.
#[derive(Clone, Debug, Args)]
struct AskArgs {
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    server: ServerArgs,
}

impl AskArgs {
    fn client(&self) -> Result<Client, Stop> {
        self.server.client()
    }

    /// Prints an answer as JSON, or for people as `show` writes it.
    fn show<T: Serialize>(
        &self,
        screen: &mut Screen,
        answer: &T,
        show: impl FnOnce(&mut Screen, &T) -> io::Result<()>,
    ) -> Done {
        Ok(screen.answer(self.form.get(), answer, show)?)
    }
}

/// Says how to get the next page, if there is one.
fn show_cursor(screen: &mut Screen, next_cursor: Option<&String>) -> io::Result<()> {
    match next_cursor {
        Some(cursor) => screen.line(format_args!("\nThere is more: --cursor {cursor}")),
        None => Ok(()),
    }
}

/// The actor that the audit trail names: the user, or where none is set, as in containers and cron, this
/// machine's command line.
fn actor() -> String {
    let told = |name| std::env::var(name).ok().filter(|user| !user.is_empty());
    told("USER")
        .or_else(|| told("LOGNAME"))
        .unwrap_or_else(|| format!("cli@{}", recado_server::serve::host()))
}

/// Place of the configuration.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Configuration")]
struct ConfigArgs {
    /// File to read [env: RECADO_CONFIG=] [default: ./recado.toml, if it exists].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Environment to run in [env: RECADO_ENV=] [default: development].
    #[arg(long, value_parser = environment, value_name = "development|production")]
    env: Option<Environment>,
}

impl ConfigArgs {
    fn inputs(&self, flags: Flags) -> Result<Inputs, Stop> {
        let variables = variables();
        let file = recado_config::find_file(self.config.as_deref(), &variables).map_err(Stop::Failed)?;
        Ok(Inputs { file, variables, flags: Flags { environment: self.env, ..flags } })
    }

    fn load_as_written(&self) -> Result<Config, Stop> {
        Ok(Config::load_as_written(&self.inputs(Flags::default())?)?)
    }
}

fn variables() -> Variables {
    let texts = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    texts.collect()
}

fn environment(text: &str) -> Result<Environment, String> {
    Environment::read(text).map_err(|_| "write development or production".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    recado_core::time::parse_duration(text).map_err(|error| error.to_string())
}
