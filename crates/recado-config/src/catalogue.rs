//! The routes that exist without configuration: one row per required system, read from `built-in.toml`.
//!
//! A row says how its route fails and how long it waits. Who carries it is the operator's business: a
//! route whose transport needs an address names the lines to write, and refuses jobs until they stand.

use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use recado_core::breaker::BreakerTerms;
use recado_core::{Jitter, Policy, named_enum};
use recado_engine::Act;

use crate::keys::format::{count, duration, table, tables, text, word};
use crate::keys::provider::{BreakerKeys, RateKeys};
use crate::keys::route::{PolicyKeys, classifier, transport};
use crate::keys::table::section;
use crate::reading::checker::Checker;
use crate::reading::fault::{Fault, Source, suggestion};
use crate::reading::reader::Reader;
use crate::reading::tree;
use crate::units::HOUR;

named_enum! {
    /// The environment of a process; it chooses defaults, nothing else.
    pub enum Environment {
        Development = "development",
        Production = "production",
    }
}

impl Environment {
    /// Reads a name; the error is a sentence with the names that there are.
    pub fn read(name: &str) -> Result<Self, String> {
        Environment::parse(name).ok_or_else(|| {
            let advice = suggestion(name, Environment::ALL.map(Environment::as_str), "ones");
            format!("there is no environment `{name}`; {advice}")
        })
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

named_enum! {
    /// A way to reach out, by the word that the configuration uses.
    pub enum Kind {
        Http = "http",
        Whatsapp = "whatsapp",
        Worker = "worker",
        Sandbox = "sandbox",
        Smtp = "smtp",
        Ses = "ses",
        Webhook = "webhook",
    }
}

impl Kind {
    /// It is compiled into this program.
    pub fn is_built(self) -> bool {
        self != Kind::Ses || cfg!(feature = "ses")
    }

    /// It goes out by a provider that has to be configured.
    pub fn needs_provider(self) -> bool {
        matches!(self, Kind::Http | Kind::Whatsapp | Kind::Smtp | Kind::Ses)
    }

    /// It reaches out to an address that its provider has.
    pub fn needs_address(self) -> bool {
        self.needs_provider() && self != Kind::Ses
    }

    /// The rule set of a route of this kind that names none.
    pub fn classifier(self) -> &'static str {
        match self {
            Kind::Smtp => "smtp",
            Kind::Ses => "ses",
            Kind::Http | Kind::Webhook => "http",
            Kind::Whatsapp => "evolution",
            Kind::Worker | Kind::Sandbox => "general",
        }
    }
}

section! {
    /// A route as it is before it is configured.
    BuiltIn {
        name: String = String::new(), text("email");
        /// Its purpose, in a line.
        purpose: String = String::new(), text("e-mail by SMTP");
        provider: String = String::new(), text("smtp");
        kind as "transport": Kind = Kind::Worker, transport();
        classifier: &'static str = "general", classifier();
        timeout: Duration = TIMEOUT_DEFAULT, duration(Duration::ZERO..=HOUR);
        concurrency: usize = CONCURRENCY_DEFAULT, count(1..=100_000);
        /// The terms of its provider's breaker; without them there is none.
        breaker: BreakerKeys, table();
        /// Deliveries that its provider takes at most.
        rate: RateKeys, table();
        policy: PolicyKeys, table();
        /// The policy in development, where it is another.
        development_policy: PolicyKeys, table();
        /// The fallback of a job that this route cannot deliver.
        fallback: Act = Act::MarkFailed, word("fallback", [Act::Unavailable, Act::DisableEndpoint].map(|act| (act.as_str(), act)));
        /// The lines that make its provider, for transports that need one.
        provider_lines: String = String::new(), text("[providers.smtp]");
    }
}

impl BuiltIn {
    pub fn policy(&self, environment: Environment) -> Policy {
        let of_environment = match environment {
            Environment::Development => self.development_policy.as_ref(),
            Environment::Production => None,
        };
        let keys = of_environment.or(self.policy.as_ref());
        keys.map_or_else(default_policy, |keys| keys.over(default_policy()))
    }

    pub fn named(name: &str) -> Option<&'static BuiltIn> {
        ROUTES.iter().find(|row| row.name == name)
    }
}

/// Defaults of a route that sets none.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
pub const CONCURRENCY_DEFAULT: usize = 64;
pub const BREAKER_DEFAULT: BreakerTerms =
    BreakerTerms::new(5, Duration::from_secs(60), Duration::from_secs(120));

/// The base, the factor and the cap of a route that names none.
pub const CURVE_DEFAULT: (Duration, f64, Duration) = (Duration::from_secs(1), 2.0, Duration::from_secs(60));

/// Returns the policy of a route that sets none.
pub fn default_policy() -> Policy {
    let (base, _, cap) = CURVE_DEFAULT;
    Policy { jitter: Jitter::Symmetric(0.25), ..Policy::exponential(base, cap, 5) }
}

/// Every built-in route, in the order of the file. A test finds its faults.
pub static ROUTES: LazyLock<Vec<BuiltIn>> = LazyLock::new(|| read_built_in().0);

fn read_built_in() -> (Vec<BuiltIn>, Vec<Fault>) {
    let source = Source { text: include_str!("../built-in.toml").to_owned(), ..Source::default() };
    let checker = Checker::new(tree::parse(&source).unwrap_or_default());
    let reader = Reader::root(&checker);
    let routes = reader.get("routes", |setting| tables("").read(setting)).unwrap_or_default();
    reader.close();
    (routes, checker.into_findings().0)
}

/// Says what to do about a route without a carrier: words, an empty line, and the lines to write.
pub fn missing(row: &BuiltIn, route: &str, environment: Environment) -> String {
    match row.kind {
        Kind::Sandbox => format!(
            "the sandbox is off in {environment}; to turn it on, write in recado.toml:\n\n[sandbox]\nenabled = true"
        ),
        kind if kind.is_built() => {
            let lacks = if kind.needs_address() { "has no address" } else { "is not configured" };
            format!("its provider {lacks}; write in recado.toml:\n\n{}", row.provider_lines.trim_end())
        }
        kind => format!(
            "transport \"{}\" is not in this build; the route works with transport \"worker\" (your own code \
             delivers) or \"sandbox\" (nothing is sent). Write in recado.toml:\n\n[routes.{route}]\ntransport = \"worker\"",
            kind.as_str()
        ),
    }
}

#[cfg(test)]
mod tests;
