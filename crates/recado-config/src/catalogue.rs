//! The routes that exist without configuration: one row per required system, as data.
//!
//! A row says how its route fails and how long it waits. Who carries it is the operator's business: a
//! route whose transport needs an address names the lines to write, and refuses jobs until they stand.

use std::fmt;
use std::time::Duration;

use recado_core::breaker::BreakerTerms;
use recado_core::limit::Rate;
use recado_core::{CapApplies, Jitter, Policy};
use recado_engine::Act;

/// The environment of a process; it chooses defaults, nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Environment {
    Development,
    Production,
}

impl Environment {
    pub const ALL: [Environment; 2] = [Environment::Development, Environment::Production];

    pub fn as_str(self) -> &'static str {
        match self {
            Environment::Development => "development",
            Environment::Production => "production",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Environment::ALL.into_iter().find(|environment| environment.as_str() == text)
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A way to reach out, by the word that the configuration uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Smtp,
    Ses,
    Http,
    Whatsapp,
    Webhook,
    Worker,
    Sandbox,
}

impl Kind {
    pub const ALL: [Kind; 7] =
        [Kind::Http, Kind::Whatsapp, Kind::Worker, Kind::Sandbox, Kind::Smtp, Kind::Ses, Kind::Webhook];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Smtp => "smtp",
            Kind::Ses => "ses",
            Kind::Http => "http",
            Kind::Whatsapp => "whatsapp",
            Kind::Webhook => "webhook",
            Kind::Worker => "worker",
            Kind::Sandbox => "sandbox",
        }
    }

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

/// A route as it is before anybody configures it.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    pub name: &'static str,
    /// Its purpose, in a line.
    pub purpose: &'static str,
    pub provider: &'static str,
    pub kind: Kind,
    pub classifier: &'static str,
    pub timeout: Duration,
    pub concurrency: usize,
    /// The terms of its provider's breaker; without them there is none.
    pub breaker: Option<BreakerTerms>,
    /// Deliveries that its provider takes at most.
    pub rate: Option<Rate>,
    /// The lines that make its provider, for transports that need one.
    pub provider_lines: &'static str,
    /// The fallback of a job that this route cannot deliver.
    pub fallback: Act,
    policy: fn(Environment) -> Policy,
}

impl BuiltIn {
    pub fn policy(&self, environment: Environment) -> Policy {
        (self.policy)(environment)
    }

    pub fn named(name: &str) -> Option<&'static BuiltIn> {
        ROUTES.iter().find(|row| row.name == name)
    }
}

/// Of a route that names none.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
pub const CONCURRENCY_DEFAULT: usize = 64;

const SANDBOX_CONCURRENCY: usize = 1024;
const SES_CONCURRENCY: usize = 5;

/// E-mail by SES: a hundred a minute.
const SES_RATE: Rate = Rate { max: 100, per: minutes(1) };

/// Breakers by provider; the first row is also the default breaker.
pub const BREAKER_DEFAULT: BreakerTerms = BreakerTerms::new(5, seconds(60), seconds(120));
const OPENAI_BREAKER: BreakerTerms = BreakerTerms::new(3, seconds(60), seconds(180));

/// The row of a route without a word of its own.
const PLAIN: BuiltIn = BuiltIn {
    name: "",
    purpose: "",
    provider: "",
    kind: Kind::Worker,
    classifier: "general",
    timeout: TIMEOUT_DEFAULT,
    concurrency: CONCURRENCY_DEFAULT,
    breaker: None,
    rate: None,
    provider_lines: "",
    fallback: Act::MarkFailed,
    policy: five_in_a_minute,
};

pub const ROUTES: [BuiltIn; 10] = [
    BuiltIn {
        name: "email",
        purpose: "e-mail by SMTP",
        provider: "smtp",
        kind: Kind::Smtp,
        classifier: "smtp",
        provider_lines: "[providers.smtp]\nurl = \"smtp://user:${SMTP_PASSWORD}@mail.example.com:587\"\n",
        policy: email,
        ..PLAIN
    },
    BuiltIn {
        name: "email-ses",
        purpose: "e-mail by AWS SES",
        provider: "ses",
        kind: Kind::Ses,
        classifier: "ses",
        concurrency: SES_CONCURRENCY,
        rate: Some(SES_RATE),
        provider_lines: "[providers.ses]\nregion = \"sa-east-1\"\n",
        ..PLAIN
    },
    BuiltIn {
        name: "whatsapp",
        purpose: "WhatsApp by Evolution API",
        provider: "evolution",
        kind: Kind::Whatsapp,
        classifier: "evolution",
        provider_lines: "[providers.evolution]\nurl = \"https://evolution.example.com\"\napi_key = \"${EVOLUTION_API_KEY}\"\n",
        policy: whatsapp,
        ..PLAIN
    },
    BuiltIn {
        name: "tiss-claims",
        purpose: "health insurance claims, delivered by a worker of yours",
        provider: "tiss",
        kind: Kind::Worker,
        classifier: "tiss",
        policy: tiss_claims,
        ..PLAIN
    },
    BuiltIn {
        purpose: "Instagram's API",
        provider_lines: "[providers.instagram]\nurl = \"https://graph.instagram.com\"\nheaders = { Authorization = \"Bearer ${INSTAGRAM_TOKEN}\" }\n",
        ..social("instagram", 30)
    },
    BuiltIn {
        purpose: "TikTok's API",
        provider_lines: "[providers.tiktok]\nurl = \"https://open.tiktokapis.com\"\nheaders = { Authorization = \"Bearer ${TIKTOK_TOKEN}\" }\n",
        ..social("tiktok", 30)
    },
    BuiltIn {
        purpose: "YouTube's API",
        provider_lines: "[providers.youtube]\nurl = \"https://www.googleapis.com\"\nheaders = { Authorization = \"Bearer ${YOUTUBE_TOKEN}\" }\n",
        ..social("youtube", 60)
    },
    BuiltIn {
        purpose: "OpenAI's API",
        classifier: "openai",
        breaker: Some(OPENAI_BREAKER),
        fallback: Act::Unavailable,
        provider_lines: "[providers.openai]\nurl = \"https://api.openai.com\"\nheaders = { Authorization = \"Bearer ${OPENAI_API_KEY}\" }\n",
        ..social("openai", 30)
    },
    BuiltIn {
        purpose: "signed webhooks to your customers' endpoints",
        kind: Kind::Webhook,
        classifier: "http",
        // Each endpoint has a count of its own: one customer's must not close the others off.
        breaker: None,
        provider_lines: "[providers.webhook]\nsecret = \"${WEBHOOK_SECRET}\"\n",
        fallback: Act::DisableEndpoint,
        ..social("webhook", 10)
    },
    BuiltIn {
        name: "sandbox",
        purpose: "opens no connection: does what each job's data.script says",
        provider: "sandbox",
        kind: Kind::Sandbox,
        concurrency: SANDBOX_CONCURRENCY,
        ..PLAIN
    },
];

/// The policy that social media and OpenAI share.
const fn social(provider: &'static str, timeout_seconds: u64) -> BuiltIn {
    BuiltIn {
        name: provider,
        provider,
        kind: Kind::Http,
        classifier: "social",
        timeout: Duration::from_secs(timeout_seconds),
        breaker: Some(BREAKER_DEFAULT),
        policy: social_media,
        ..PLAIN
    }
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// Of a route that names none.
pub fn default_policy() -> Policy {
    five_in_a_minute(Environment::Production)
}

/// E-mail by SES.
fn five_in_a_minute(_: Environment) -> Policy {
    Policy { jitter: Jitter::Symmetric(0.25), ..Policy::exponential(seconds(1), seconds(60), 5) }
}

/// E-mail by SMTP.
fn email(environment: Environment) -> Policy {
    let curve = match environment {
        Environment::Production => Policy::exponential(seconds(1), seconds(300), 5),
        Environment::Development => Policy::exponential(Duration::from_millis(500), seconds(30), 3),
    };
    Policy { jitter: Jitter::Symmetric(0.25), cap_applies: CapApplies::AfterJitter, ..curve }
}

/// WhatsApp.
fn whatsapp(_: Environment) -> Policy {
    Policy::schedule(vec![Duration::ZERO, seconds(5), seconds(30), minutes(5)])
}

/// Insurance claims: the first try and five retries.
fn tiss_claims(_: Environment) -> Policy {
    Policy {
        jitter: Jitter::Symmetric(0.20),
        floor: Some(minutes(5)),
        ceiling: Some(minutes(240)),
        ..Policy::exponential(minutes(5), minutes(240), 6)
    }
}

/// Webhooks and social media.
fn social_media(_: Environment) -> Policy {
    Policy {
        jitter: Jitter::Positive(0.20),
        ..Policy::schedule(vec![Duration::ZERO, seconds(60), seconds(300)])
    }
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
