//! Reads files, variables and flags into the settings of the engine.
//!
//! ```text
//! built-in ◀ recado.toml ◀ [environments.<name>] ◀ RECADO_… variables ◀ flags
//!    tree (every value knows where it stands) ─▶ Raw (what it says) ─▶ Config (what it means)
//! ```
//!
//! Reading order: [`tree`], [`reader`], [`raw`], [`resolve`], [`routes`]. [`show`] writes a configuration
//! out again, [`template`] the commented default. Every fault is told at once, each at its line, with what
//! to write instead; [`fault`] draws them. An unknown key is a fault.

mod alerts;
mod anti_patterns;
mod audit;
pub mod catalogue;
pub mod fault;
mod hidden;
mod legs;
mod notices;
mod protection;
mod providers;
mod raw;
mod reader;
mod resolve;
mod routes;
mod rules;
pub mod show;
mod store;
pub mod template;
mod traces;
mod tree;
pub mod units;
pub mod variables;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use recado_engine::admission::provider::ProviderTerms;
use recado_engine::dlq::auto_replay::AutoReplay;
use recado_engine::duties::alerts::AlertTerms;
use recado_engine::notify::endpoints::EndpointRegistry;
use recado_engine::notify::notices::Notices;
use recado_engine::{DeadLetterTerms, Route, Routes, Settings};
use recado_store::Retention;
use recado_store_embedded::EmbeddedOptions;
use recado_store_redis::link::RedisOptions;
use recado_transport::{Transport, Url};
use recado_transport_webhook::{Guard, Webhook};

use catalogue::{BuiltIn, Environment, Kind};
use fault::{Fault, Faults, Place, Source, suggestion};
use reader::FaultList;
use tree::{Node, Table, Text, Value};
use variables::Variables;

pub use audit::Audit;
pub use rules::OwnRule;
pub use store::batch_body_max_bytes;

/// Looked for in the working directory when no file is named.
pub const FILE_NAME: &str = "recado.toml";

/// All that a process was told, resolved.
#[derive(Debug)]
pub struct Config {
    pub environment: Environment,
    /// The environment was not chosen, but is the default.
    pub environment_by_default: bool,
    /// The file that was read, as the user would name it.
    pub file: Option<String>,
    pub server: Server,
    pub store: Store,
    pub engine: EngineTimes,
    pub retention: Retention,
    pub dead_letter_ttl: Duration,
    /// Entries at most before the oldest are archived.
    pub dead_letters_max: u64,
    pub notices: Notices,
    pub alerts: AlertTerms,
    pub audit: Audit,
    pub webhooks: Guard,
    pub log: Log,
    pub traces: Traces,
    pub sandbox_enabled: bool,
    /// Consecutive jobs of one company before the next one's turn.
    pub turn_jobs: u32,
    pub providers: BTreeMap<String, Provider>,
    /// Protection of each provider that is written or that a route uses.
    pub protection: BTreeMap<Box<str>, ProviderTerms>,
    pub routes: Vec<RouteConfig>,
    /// Shared by the engine and the transport that delivers to endpoints.
    pub endpoints: Arc<EndpointRegistry>,
    /// Anti-patterns that no section allows, in the order of the file.
    pub warnings: Faults,
    /// Anti-patterns that a section allows, each with its reason.
    pub allowed: anti_patterns::Allowed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub listen: SocketAddr,
    pub token: Option<Secret>,
    pub max_body_bytes: u64,
    /// Names besides its own address that requests may address it by.
    pub allowed_hosts: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// The Redis that several nodes share; absent when one keeps jobs in `data_dir`.
    pub redis: Option<RedisOptions>,
    /// Certificate authorities to trust for Redis instead of the system's; its content is in `redis`.
    pub ca_file: Option<String>,
    pub data_dir: PathBuf,
    pub reserve_bytes: u64,
    pub max_size_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineTimes {
    pub lease: Duration,
    pub stop_grace: Duration,
    pub job_ttl: Duration,
    /// A job whose holder vanished this many times in a row is poison.
    pub poison_after: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    pub level: Level,
    pub format: LogFormat,
}

/// Settings of trace export.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// URL that spans are posted to; nothing is recorded without it.
    pub endpoint: Option<Url>,
    pub headers: Vec<(String, Secret)>,
    /// The share of traces that are recorded, of those that begin here.
    pub sample: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Level {
    pub const WORDS: [(&'static str, Level); 5] = [
        ("info", Level::Info),
        ("error", Level::Error),
        ("warn", Level::Warn),
        ("debug", Level::Debug),
        ("trace", Level::Trace),
    ];

    pub fn as_str(self) -> &'static str {
        Level::WORDS.iter().find(|(_, level)| *level == self).map_or("", |(word, _)| word)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people on a terminal, for machines elsewhere.
    Auto,
    Json,
    Human,
}

impl LogFormat {
    pub const WORDS: [(&'static str, LogFormat); 3] =
        [("auto", LogFormat::Auto), ("json", LogFormat::Json), ("human", LogFormat::Human)];
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

/// A provider: its protection, and the way to reach it.
#[derive(Debug)]
pub struct Provider {
    pub kind: Kind,
    /// Its keys and values as a page may show them.
    pub shown: Vec<(&'static str, String)>,
    /// Carries the jobs of every route that uses it; absent without an address.
    pub transport: Option<Arc<dyn Transport>>,
    /// The same, when it signs webhooks.
    pub webhook: Option<Arc<Webhook>>,
}

impl Provider {
    /// It names nothing that could be reached.
    pub fn says_nothing(&self) -> bool {
        self.transport.is_none() && !self.shown.iter().any(|(key, _)| matches!(*key, "url" | "region"))
    }
}

/// A route, and what its author said about it.
#[derive(Clone, Debug)]
pub struct RouteConfig {
    pub route: Route,
    pub kind: Kind,
    pub classifier: &'static str,
    pub own_rules: Vec<OwnRule>,
    pub built_in: Option<&'static BuiltIn>,
    /// Terms of replays without a person.
    pub auto_replay: Option<AutoReplay>,
}

impl RouteConfig {
    /// Its provider, and those that take over.
    pub fn provider_names(&self) -> impl Iterator<Item = &str> {
        let Route { provider, others, .. } = &self.route;
        [provider].into_iter().chain(others.iter().map(|(name, _)| name)).map(|name| &**name)
    }
}

/// The sources of settings. The caller has read files, environment and arguments.
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

    pub fn settings(&self, node: impl Into<Box<str>>) -> Settings {
        Settings {
            node: node.into(),
            lease: self.engine.lease,
            stop_grace: self.engine.stop_grace,
            retention: self.retention.clone(),
            job_ttl: self.engine.job_ttl,
            dead_letter_ttl: self.dead_letter_ttl,
            crashes_max: self.engine.poison_after,
            notices: self.notices.clone(),
            turn_jobs: self.turn_jobs,
        }
    }

    /// Terms of the dead letter queue, without its archive.
    pub fn dead_letters(&self) -> DeadLetterTerms {
        let asked = self.routes.iter().filter_map(|config| {
            let terms = config.auto_replay.clone()?;
            Some((config.route.name.clone(), terms))
        });
        DeadLetterTerms { max_size: self.dead_letters_max, archive: None, auto_replay: asked.collect() }
    }

    /// The transport that signs webhooks, of the route that events go out by.
    pub fn webhook(&self) -> Option<Arc<Webhook>> {
        let own = self.providers.get("webhook").and_then(|provider| provider.webhook.clone());
        own.or_else(|| self.providers.values().find_map(|provider| provider.webhook.clone()))
    }

    pub fn routes(&self) -> Routes {
        Routes::new(self.routes.iter().map(|config| config.route.clone()))
    }

    pub fn route(&self, name: &str) -> Option<&RouteConfig> {
        self.routes.iter().find(|config| config.route.name.as_str() == name)
    }

    pub fn embedded(&self) -> EmbeddedOptions {
        EmbeddedOptions {
            dir: self.store.data_dir.clone(),
            reserve_bytes: self.store.reserve_bytes,
            max_bytes: self.store.max_size_bytes,
            now: None,
        }
    }
}

/// Which environment this is, and whether that is only the default.
fn environment(inputs: &Inputs) -> Result<(Environment, bool), Faults> {
    if let Some(environment) = inputs.flags.environment {
        return Ok((environment, false));
    }
    match inputs.variables.get("RECADO_ENV").filter(|said| !said.is_empty()) {
        None => Ok((Environment::Development, true)),
        Some(said) => Environment::parse(said).map(|environment| (environment, false)).ok_or_else(|| {
            let advice = suggestion(said, Environment::ALL.map(Environment::as_str), "ones");
            let message = format!("there is no environment `{said}`; {advice}");
            let fault =
                Fault { place: Place::Variable("RECADO_ENV".to_owned()), path: String::new(), message };
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
    if let Some(overlay) =
        settings.get_table("environments").and_then(|all| all.get_table(environment.as_str()))
    {
        let overlay = overlay.clone();
        settings.overlay(overlay);
    }
    let known = resolve::known_names(&settings);
    settings.overlay(variables::settings(&inputs.variables, &known));
    settings.overlay(flags(&inputs.flags));
    if let Needed::Sections(names) = needed {
        settings.0.retain(|name, _| names.contains(&name.as_str()));
    }

    let unset = settings.expand(&|name| inputs.variables.get(name).cloned());
    let faults = FaultList::default();
    let raw = raw::read(&settings, &faults);
    let mut config = resolve::resolve(raw, environment, &faults);
    config.file = inputs.file.as_ref().map(|file| file.name.clone());
    let mut list = faults.into_inner();
    // A value that is not known yet has no further faults.
    list.retain(|fault| !unset.iter().any(|unset| unset.place == fault.place));
    if needed != Needed::Written {
        list.extend(unset);
    }
    if !list.is_empty() {
        return Err(Faults::new(source, list));
    }
    config.warnings = Faults::new(source, config.warnings.list);
    Ok(config)
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
            let value = Value::Text(Text { text: text.clone(), written: None, loose: true });
            table.put(path, Node { place: Place::Flag(flag), value });
        }
    }
    table
}

/// Finds the file to read: the one that was named, or `recado.toml` here.
pub fn find_file(named: Option<&Path>, variables: &Variables) -> Result<Option<Source>, String> {
    let by_variable = variables.get("RECADO_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
    let (path, must_exist) = match (named, by_variable) {
        (Some(path), _) => (path.to_owned(), true),
        (None, Some(path)) => (path, true),
        (None, None) => (PathBuf::from(FILE_NAME), false),
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(Source { name: path.display().to_string(), text, hidden: Vec::new() })),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(format!(
            "there is no file {}; name another with --config, or write one with `recado config init`",
            path.display()
        )),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests;
