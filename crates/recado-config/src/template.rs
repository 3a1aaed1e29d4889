//! The words beside each setting in the default file. The values come from the program itself.

use super::show::{Style, page};
use super::{Config, Flags, Inputs};
use crate::catalogue::{BuiltIn, Environment};

pub const DEFAULT_PREFACE: &str = "\
# Recado's configuration with every default, written by `recado config show --default`.
#
# A file needs to say only what differs: start one with `recado config init`. Later layers win:
#   built-in defaults, this file, [environments.<name>], RECADO_… variables, flags.
# ${NAME} in a string is replaced by the environment variable NAME; $${ stands for ${ itself.
# A variable sets a key when its name is RECADO_ and the key's path with two underscores between the
# parts: RECADO_SERVER__LISTEN, RECADO_ROUTES__EMAIL_SES__TIMEOUT. Short names: RECADO_LISTEN,
# RECADO_TOKEN, RECADO_DATA_DIR, RECADO_STORE_URL, RECADO_LOG_LEVEL, RECADO_LOG_FORMAT; RECADO_ENV is --env.
";

pub const STARTER_PREFACE: &str = "\
# Recado's configuration. Every line that is commented out shows the default: take the `#` away from a
# section's name and from the keys that you change. `recado config check` tells what is wrong, and where.
#
# ${NAME} in a string is replaced by the environment variable NAME. Keys for one environment alone go
# under [environments.development] or [environments.production]: [environments.production.server].
";

/// The defaults, explained.
pub fn default_file() -> String {
    written(Style::Default)
}

/// A file to start from.
pub fn starter_file() -> String {
    written(Style::Starter)
}

fn written(style: Style) -> String {
    let flags = Flags { environment: Some(Environment::Development), ..Flags::default() };
    match Config::load(&Inputs { flags, ..Inputs::default() }) {
        Ok(config) => page(&config, style) + EXAMPLE,
        Err(faults) => format!("# The built-in configuration is faulty; this is a bug.\n{faults}"),
    }
}

/// A route of one's own, for copying.
const EXAMPLE: &str = "
# A route of your own. Any HTTP server can be a provider:
# [providers.billing]
# url = \"https://billing.example.com/api\"
# headers = { Authorization = \"Bearer ${BILLING_TOKEN}\" }
# connect_timeout = \"10s\"
# concurrency = 64
# breaker = { failures = 5, within = \"60s\", reset = \"120s\" }
#
# [routes.invoices]
# provider = \"billing\"             # or providers = [\"billing\", \"billing-2\"]: the next one takes over
# timeout = \"30s\"
# policy = { base = \"1s\", factor = 2, cap = \"1m\", jitter = \"±25%\", max_attempts = 5 }
# classify = [
#   { status = 409, text = \"locked\", as = \"transient\" },   # looked at before the built-in rules
#   { code = \"QUOTA\", as = \"rate_limit\", blame = \"credential\", wait = \"1h\" },
# ]
";

/// The comment for a key or a section.
pub fn comment(path: &str) -> &'static str {
    if let Some(name) = path.strip_prefix("routes.").filter(|name| BuiltIn::named(name).is_some()) {
        return BuiltIn::named(name).map_or("", |row| row.purpose);
    }
    COMMENTS.iter().find(|(of, _)| *of == path).map_or("", |(_, words)| words)
}

const COMMENTS: [(&str, &str); 64] = [
    ("server", "The HTTP API."),
    ("server.listen", "Any address but a loopback one needs a token."),
    ("server.token", "Clients send it as `Authorization: Bearer …`."),
    ("server.max_body", "Larger requests are refused."),
    ("server.allowed_hosts", "Names that requests may use for this server besides its own address."),
    (
        "store",
        "Where jobs are kept: in a directory of this machine, or in Redis or Valkey, which several nodes may share.",
    ),
    (
        "store.url",
        "redis://host:6379/0, redis+sentinel://host:26379,host:26379/service or redis+cluster://host:6379,host:6379;\n\
         rediss:// speaks TLS, and a login goes before the host: redis://user:${REDIS_PASSWORD}@host.",
    ),
    (
        "store.partitions",
        "Parts that the jobs are divided into by company, for a Cluster with several shards. Chosen once.",
    ),
    (
        "store.prefix",
        "What every key begins with. Stores with different prefixes know nothing of each other.",
    ),
    ("store.timeout", "A request to Redis ends within this, well or not."),
    ("store.ca_file", "PEM certificates to trust instead of the system's, for rediss://."),
    ("store.data_dir", "Without a url jobs are kept here, by one process at a time."),
    (
        "store.reserve",
        "New jobs are refused when the disk has less free than this; those already in can still end. At least 64MiB, and twice server.max_body.",
    ),
    ("store.max_size", "New jobs are refused when the store is larger than this."),
    ("engine", "How jobs are looked after."),
    ("engine.lease", "A delivery whose process is silent for this long is taken over."),
    ("engine.stop_grace", "A graceful stop waits this long for running deliveries."),
    ("engine.job_ttl", "A job that names no ttlMs expires after this."),
    (
        "engine.poison_after",
        "A job whose process died this many times in a row goes to the dead letter queue.",
    ),
    ("retention", "How long ended jobs are remembered; until then the same jobId is a duplicate."),
    ("dlq", "Dead letters."),
    ("dlq.ttl", "How long an entry waits for a person."),
    (
        "dlq.max_size",
        "Past this many entries the oldest are moved to dlq-archive/ in the data directory, with an alert; `recado dlq import`\n\
         brings them back.",
    ),
    (
        "dlq.notify",
        "Who hears of dead letters and of endpoints that were switched off: a channel, such as\n\
         [notify.ops] webhook = \"https://…\", or [notify.ops] from = \"…\" and to = [\"…\"] for e-mail.",
    ),
    ("dlq.allow", "Silences the warning of an anti-pattern, with the reason."),
    ("audit", "The audit trail: chained and signed files, a month each."),
    ("audit.dir", "Where they are. Nodes that share a store should share this directory, too."),
    (
        "audit.keep",
        "Months that are older go, and a signed summary of each stays. Less than five years is for development alone.",
    ),
    (
        "audit.key_file",
        "The key that signs, made at first use; in the same directory by default. Keep it where programs\n\
         that write to the trail cannot read it: then it proves more.",
    ),
    ("alerts", "Alerts. Each one may be switched off, such as breaker_open = false, or changed key by key."),
    ("alerts.every", "Between two measurements."),
    (
        "alerts.notify",
        "The channels that get alerts instead of the one in [dlq]; one may stand without the brackets.",
    ),
    (
        "alerts.webhook",
        "Or, and also, an address of its own: the event is posted, or with format = \"slack\" a text as Slack takes it; secret signs.",
    ),
    (
        "alerts.failure_rate",
        "It fires above `threshold` (a share, a count or seconds), measured over `window` on at least `min_volume`, after\n\
         `pending`; it is over after `clear` at or below `resolve_share` of the threshold. `except` lists names to leave out.",
    ),
    ("alerts.allow", "Silences the warning of an anti-pattern, with the reason."),
    ("webhooks", "Addresses that users supply."),
    ("webhooks.allow", "Ranges that may be reached although they are not public, such as \"10.0.0.0/8\"."),
    ("webhooks.allow_http", "Public addresses need https:// unless this is true."),
    ("log", "One line for each event, on standard output."),
    ("log.level", "error, warn, info, debug or trace."),
    ("log.format", "auto (human on a terminal, json elsewhere), json or human."),
    ("traces", "A span for each job that comes in and for each attempt, sent to an OpenTelemetry collector."),
    (
        "traces.endpoint",
        "OTLP over HTTP in JSON; /v1/traces is added. Without it nothing is recorded, and a caller's traceparent is still\n\
         passed on to providers.",
    ),
    ("traces.headers", "Sent with every request, for collectors that ask who it is."),
    (
        "traces.sample",
        "The share of traces recorded, from 0 to 1, of those that begin here; a caller's own choice is kept.",
    ),
    ("sandbox", "The transport that opens no connection."),
    ("sandbox.enabled", "On in development and off in production unless this says otherwise."),
    ("fairness", "How companies take turns."),
    ("fairness.batch", "Consecutive jobs of one company, times its weight, before the next one's turn."),
    ("providers.concurrency", "Deliveries at the same time, over all routes that use it."),
    (
        "providers.breaker",
        "So many failures of the provider within a time close it off; after `reset` one probe goes out, and when that\n\
         succeeds, work is let back in over `ramp`. slow = \"10s\" counts slow answers as failures. false: no breaker.",
    ),
    (
        "providers.rate",
        "So many deliveries at most in such a time; what is over waits and spends no attempt.",
    ),
    ("providers.tenant_rate", "The same for each company on its own."),
    (
        "providers.tenant_concurrency",
        "Of the deliveries at the same time, so many at most for one company. Left out, a company may have them all;\n\
         at a provider of webhooks as many as are still free, which is half of them while it is alone.",
    ),
    (
        "providers.endpoint_concurrency",
        "Webhooks: so many at most for one endpoint, or for one host of a company. Left out, a quarter.",
    ),
    ("providers.adaptive", "Concurrency rises while the provider answers well and falls when it throttles."),
    ("providers.allow", "Silences the warning of an anti-pattern, with the reason."),
    (
        "routes.allow",
        "Silences the warning of an anti-pattern, with the reason: endless_retry, no_backoff, permanent_retried,\n\
         hiding_fallback, unattended_dlq or retry_after_ignored.",
    ),
    (
        "routes.classifier",
        "The built-in rules that judge a failure; `classify` puts rules of your own before them.",
    ),
    ("routes.timeout", "How long one attempt may take."),
    (
        "routes.hold_max",
        "The longest wait that an answer from outside (a Retry-After, a limit that is reached) can impose.",
    ),
    (
        "routes.fallback",
        "What happens when a job fails for good (\"dead\") and, where that stands here too, to jobs that are due while every\n\
         provider is closed off (\"open\"; otherwise they wait): do = \"mark_failed\", \"reschedule\" (with after),\n\
         \"mark_account\", \"disable_endpoint\"; for calls \"cached\" or \"unavailable\". notify names a channel.",
    ),
    (
        "routes.auto_replay",
        "Dead letters of these causes are replayed without a person after they rested for so long, at most so often, and not\n\
         while the provider is closed off. Without it a replay is a person's act.",
    ),
    (
        "routes.policy",
        "When to try again. Keys that are not named stay as they are. A curve: base, factor, cap, jitter (\"±25%\",\n\
         \"+20%\", \"full\", \"equal\", \"decorrelated\", \"none\"), cap_applies (\"before_jitter\" or \"after_jitter\"), floor,\n\
         ceiling, max_attempts (it counts the first try). Or a schedule: the wait before each attempt.",
    ),
];
