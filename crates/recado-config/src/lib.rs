//! Reads files, variables and flags into the settings of the engine.
//!
//! ```text
//! built-in ◀ recado.toml ◀ [environments.<name>] ◀ RECADO_… variables ◀ flags
//!    tree (every value knows its line) ─▶ Settings (one table a section) ─▶ Config (checked, routes resolved)
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | `reading` | values with their lines, read; faults found by the path of a key and drawn without secrets; variables |
//! | `keys` | every key as a row of a table, with its format, default and documentation; says how to add one |
//! | `resolve` | keys checked against each other; routes, providers, channels; warnings of anti-patterns |
//! | [`show`] | the settings in effect, the default file, the reference page |
//! | [`catalogue`] | the routes that exist without configuration |
//!
//! Every fault is reported at once, each at its line, with what to write instead. An unknown key is a fault. A [`Config`]
//! is plain data; `recado_server::wiring` opens what it describes.

pub mod catalogue;
mod keys;
mod reading;
mod resolve;
pub mod show;
pub mod units;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recado_core::decide::Terms;
use recado_core::{Classifier, Policy, RouteName};
use recado_engine::Fallback;
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::dlq::auto_replay::AutoReplay;
use recado_engine::notify::notices::Notices;
use recado_store_redis::link::RedisOptions;
use recado_transport::{EvolutionConfig, HttpConfig};
use recado_transport_smtp::SmtpConfig;
use recado_transport_webhook::WebhookConfig;

use catalogue::{BuiltIn, Environment, Kind};
use keys::route::SinglePolicy;
use keys::table::Section;
use reading::checker::Checker;
use reading::fault::{Fault, Faults, Place, Source};
use reading::hidden;
use reading::reader::Reader;
use reading::tree::{self, Node, Table, Text, Value};
use reading::variables::Variables;

pub use keys::route::RuleKeys;
pub use keys::sections::{Level, Log, LogFormat, Settings, Traces};
pub use reading::{fault, variables};
pub use resolve::batch_body_max_bytes;
pub use resolve::notices::NoticeEndpoint;
pub use show::{reference, template};

/// Looked for in the working directory when no file is named.
pub const FILE_NAME: &str = "recado.toml";

/// All settings of a process, checked and resolved. Plain data: nothing is open, nothing is connected.
#[derive(Debug)]
pub struct Config {
    pub environment: Environment,
    /// The environment was not chosen, but is the default.
    pub environment_by_default: bool,
    /// The file that was read, as the user would name it.
    pub file: Option<String>,
    /// Every section with its defaults filled in.
    pub settings: Settings,
    /// The Redis that several nodes share; absent when one process keeps its jobs in the data directory.
    pub redis: Option<RedisOptions>,
    pub notices: Notices,
    /// The endpoints of channels that are webhooks.
    pub notice_endpoints: Vec<NoticeEndpoint>,
    pub providers: BTreeMap<String, Provider>,
    /// Protection of each provider that is written or that a route uses.
    pub protection: BTreeMap<Box<str>, ProviderTerms>,
    pub routes: Vec<RouteConfig>,
    /// Anti-patterns that no section allows, in the order of the file.
    pub warnings: Faults,
}

/// Text that is used and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A provider and the way to reach it.
#[derive(Clone, Debug)]
pub struct Provider {
    pub kind: Kind,
    /// Carries the jobs of every route that uses it; absent without an address.
    pub transport: Option<TransportConfig>,
    /// An address is written, rightly or not.
    is_addressed: bool,
}

impl Provider {
    /// It names nothing that could be reached.
    pub fn says_nothing(&self) -> bool {
        self.transport.is_none() && !self.is_addressed
    }
}

/// A transport that is still to be built.
#[derive(Clone, Debug)]
pub enum TransportConfig {
    Http(HttpConfig),
    Whatsapp(EvolutionConfig),
    Smtp(SmtpConfig),
    #[cfg(feature = "ses")]
    Ses(recado_transport_ses::SesConfig),
    Webhook(WebhookConfig),
}

/// A route with all its terms.
#[derive(Clone, Debug)]
pub struct RouteConfig {
    pub name: RouteName,
    pub kind: Kind,
    pub delivery: Delivery,
    pub provider: Box<str>,
    /// Providers that take over, in order, while the ones before them cannot take a job.
    pub others: Vec<Box<str>>,
    /// The name of the built-in rules.
    pub classifier_name: &'static str,
    pub classifier: Classifier,
    pub own_rules: Vec<RuleKeys>,
    pub terms: Terms,
    /// Time that one attempt may take.
    pub timeout: Duration,
    /// Deliveries at the same time.
    pub concurrency: usize,
    pub fallback: Fallback,
    /// Terms of replays without a person.
    pub auto_replay: Option<AutoReplay>,
    pub built_in: Option<&'static BuiltIn>,
}

/// The code that delivers a route's jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The sandbox for a route of that kind, else the transports of its providers.
    Transport,
    Workers,
    /// Not configured; holds the configuration lines to write. The route refuses jobs.
    Missing(String),
}

impl RouteConfig {
    /// Its provider, and those that take over.
    pub fn provider_names(&self) -> impl Iterator<Item = &str> {
        [&self.provider].into_iter().chain(&self.others).map(|name| &**name)
    }

    pub fn uses(&self, provider: &str) -> bool {
        self.provider_names().any(|name| name == provider)
    }
}

/// The sources of settings. The caller has read the file, the environment and the arguments.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    pub file: Option<Source>,
    pub variables: Variables,
    pub flags: Flags,
}

/// Settings of the command line, each under the name of its flag.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub environment: Option<Environment>,
    pub listen: Option<String>,
    pub store: Option<String>,
    pub data_dir: Option<String>,
}

impl Config {
    /// Resolves everything, or tells all that is wrong.
    pub fn load(inputs: &Inputs) -> Result<Config, Faults> {
        let (environment, by_default) = environment(inputs)?;
        let mut config = resolve_for(inputs, environment, Needed::All)?;
        config.environment_by_default = by_default;
        Ok(config)
    }

    /// Resolves what is written, for commands that show it: variables that are not set are no fault.
    pub fn load_as_written(inputs: &Inputs) -> Result<Config, Faults> {
        resolve_for(inputs, environment(inputs)?.0, Needed::Written)
    }

    /// Resolves the audit trail and the store and reads nothing else, for commands that deliver nothing: an auditor's
    /// machine has no provider's secret.
    pub fn load_stores(inputs: &Inputs) -> Result<Config, Faults> {
        resolve_for(inputs, environment(inputs)?.0, Needed::Sections(&["audit", "store"]))
    }

    /// Checks the other environment of a file too, as far as that is possible from here: variables that
    /// are set only there are taken as given. Returns the warnings there.
    pub fn check_elsewhere(inputs: &Inputs, environment: Environment) -> Result<Faults, Faults> {
        resolve_for(inputs, environment, Needed::Written).map(|config| config.warnings)
    }

    pub fn route(&self, name: &str) -> Option<&RouteConfig> {
        self.routes.iter().find(|route| route.name.as_str() == name)
    }

    /// The names of all routes, in order.
    pub fn route_names(&self) -> Vec<&str> {
        let names: BTreeSet<_> = self.routes.iter().map(|route| route.name.as_str()).collect();
        names.into_iter().collect()
    }

    /// The names of routes that take jobs, in order.
    pub fn usable_route_names(&self) -> Vec<&str> {
        let takes_jobs = |name: &&str| {
            self.route(name).is_some_and(|route| !matches!(route.delivery, Delivery::Missing(_)))
        };
        self.route_names().into_iter().filter(takes_jobs).collect()
    }

    /// Directory of the audit trail.
    pub fn audit_dir(&self) -> PathBuf {
        self.settings.audit.dir.clone().unwrap_or_default()
    }

    /// Bytes that are kept free on the disk.
    pub fn reserve_bytes(&self) -> u64 {
        self.settings.store.reserve_bytes.unwrap_or_default()
    }
}

/// Reads a policy that stands alone, written as a route's `policy = {…}` or as its value `{…}`. Keys that are not named
/// stay as they are in `usual`. Faults point into the text under this name.
pub fn read_policy(name: &str, text: &str, usual: &Policy) -> Result<Policy, Faults> {
    let is_value = text.trim_start().starts_with('{');
    let text = if is_value { format!("policy = {}", text.trim_start()) } else { text.to_owned() };
    let source = Source { name: name.to_owned(), text, hidden: Vec::new() };
    let table = tree::parse(&source).map_err(|list| Faults::new(source.clone(), list))?;
    let checker = Checker::new(table);
    if !checker.has("policy") {
        let message = "this is not a policy; write it in braces, such as { base = \"5s\", max_attempts = 8 }"
            .to_owned();
        let place = Place::file(0..source.text.len());
        return Err(Faults::new(source, vec![Fault { place, path: String::new(), message }]));
    }
    let reader = Reader::root(&checker);
    let keys = SinglePolicy::read(&reader).policy;
    reader.close();
    let policy = keys.map(|keys| keys.checked_over(usual.clone(), &checker.scope("policy")));
    match (policy, checker.into_findings().0) {
        (Some(policy), faults) if faults.is_empty() => Ok(policy),
        (_, faults) => Err(Faults::new(source, faults)),
    }
}

/// Returns the environment, and true if it is the default.
fn environment(inputs: &Inputs) -> Result<(Environment, bool), Faults> {
    if let Some(environment) = inputs.flags.environment {
        return Ok((environment, false));
    }
    match inputs.variables.get("RECADO_ENV").filter(|said| !said.is_empty()) {
        None => Ok((Environment::Development, true)),
        Some(said) => Environment::read(said).map(|environment| (environment, false)).map_err(|message| {
            let place = Place::Variable("RECADO_ENV".to_owned());
            let fault = Fault { place, path: String::new(), message };
            Faults::new(inputs.file.clone().unwrap_or_default(), vec![fault])
        }),
    }
}

/// The part of a configuration that has to be there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needed {
    All,
    /// All but the values of variables.
    Written,
    /// These sections with their variables; the others are not read.
    Sections(&'static [&'static str]),
}

fn resolve_for(inputs: &Inputs, environment: Environment, needed: Needed) -> Result<Config, Faults> {
    let mut source = inputs.file.clone().unwrap_or_default();
    let mut settings = match inputs.file.as_ref().map(tree::parse) {
        None => Table::default(),
        Some(Ok(table)) => table,
        Some(Err(list)) => {
            source.hidden = hidden::in_broken(&source.text);
            return Err(Faults::new(source, list));
        }
    };
    source.hidden = settings.secrets(&source);
    source.hidden.extend(hidden::comments(&source.text));
    let mut misplaced = Vec::new();
    let environments = settings.get_table("environments");
    if let Some(mut overlay) = environments.and_then(|all| all.get_table(environment.as_str())).cloned() {
        let message = format!(
            "an environment has no environments of its own; write its sections as [environments.{environment}.…]"
        );
        let path = format!("environments.{environment}.environments");
        misplaced.extend(take_environments(&mut overlay, path, message));
        settings.overlay(overlay);
    }
    let known = known_names(&settings);
    let mut by_variables = variables::settings(&inputs.variables, &known);
    let message = "a variable holds in the environment that runs; take ENVIRONMENTS__ and the environment out of its name";
    misplaced.extend(take_environments(&mut by_variables, "environments".to_owned(), message.to_owned()));
    settings.overlay(by_variables);
    settings.overlay(flags(&inputs.flags));
    if let Needed::Sections(names) = needed {
        settings.0.retain(|name, _| names.contains(&name.as_str()));
    }
    let unset = settings.expand(&|name| inputs.variables.get(name).cloned());
    let checker = Checker::new(settings);
    let reader = Reader::root(&checker);
    let settings = Settings::read(&reader);
    reader.close();
    let mut config = resolve::resolve(settings, environment, &checker);
    config.file = inputs.file.as_ref().map(|file| file.name.clone());
    let (mut faults, warnings) = checker.into_findings();
    faults.extend(misplaced);
    // A value that is not known yet has no further faults.
    faults.retain(|fault| !unset.iter().any(|unset| unset.place == fault.place));
    if needed != Needed::Written {
        faults.extend(unset);
    }
    if !faults.is_empty() {
        return Err(Faults::new(source, faults));
    }
    config.warnings = Faults::new(source, warnings);
    Ok(config)
}

/// Takes the environments out of settings that can have none, and returns the fault.
fn take_environments(settings: &mut Table, path: String, message: String) -> Option<Fault> {
    let entry = settings.0.remove("environments")?;
    Some(Fault { place: entry.key, path, message })
}

/// The names that a variable may mean.
fn known_names(settings: &Table) -> Vec<String> {
    let written = ["routes", "providers"].into_iter().filter_map(|key| settings.get_table(key));
    let mut names: Vec<_> = written.flat_map(|table| table.0.keys().cloned()).collect();
    names.extend(catalogue::ROUTES.iter().flat_map(|row| [row.name.clone(), row.provider.clone()]));
    names
}

fn flags(flags: &Flags) -> Table {
    let mut table = Table::default();
    let said: [(&'static str, &[&str], _); 3] = [
        ("--listen", &["server", "listen"], &flags.listen),
        ("--store", &["store", "url"], &flags.store),
        ("--data-dir", &["store", "data_dir"], &flags.data_dir),
    ];
    for (flag, path, text) in said {
        if let Some(text) = text {
            let value = Value::Text(Text::loose(text));
            table.put(path, Node { place: Place::Flag(flag), value });
        }
    }
    table
}

/// Finds the file to read: the one that was named, or `recado.toml` here.
pub fn find_file(named: Option<&Path>, variables: &Variables) -> Result<Option<Source>, String> {
    let by_variable = variables.get("RECADO_CONFIG").filter(|path| !path.is_empty()).map(Path::new);
    let named = named.or(by_variable);
    let path = named.unwrap_or(Path::new(FILE_NAME));
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(Source { name: path.display().to_string(), text, hidden: Vec::new() })),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(format!(
            "there is no file {}; name another with --config, or write one with `recado config init`",
            path.display()
        )),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests;
