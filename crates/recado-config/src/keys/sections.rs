//! The sections that stand alone, each as a table. [`table`](crate::keys::table) says how to add a key.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use recado_core::dead_letter::DEAD_LETTER_TTL_DEFAULT;
use recado_core::fairness::TURN_JOBS;
use recado_core::job::JOB_TTL_DEFAULT;
use recado_core::named_enum;
use recado_engine::dlq::archive::SIZE_MAX_DEFAULT;
use recado_store_redis::link::Target;
use recado_transport::Url;
use recado_transport_webhook::IpNet;

use crate::Secret;
use crate::keys::alerts::Alerts;
use crate::keys::channel::ChannelKeys;
use crate::keys::format::{
    Named, any_table, count, custom, duration, list, named, named_tables, number, path, secret, size, switch,
    table, text, word,
};
use crate::keys::provider::ProviderKeys;
use crate::keys::route::RouteKeys;
use crate::keys::table::{defaults, section};
use crate::reading::tree::Text;
use crate::units::{DAY, GIB, HOUR, KIB, MIB, MINUTE, SECOND, TIB, YEAR};

pub const DATA_DIR_DEFAULT: &str = "./recado-data";

/// Five years, with as many leap days as they can have: the required retention.
pub const AUDIT_KEEP_DEFAULT: Duration = Duration::from_secs(1_827 * 24 * 60 * 60);

/// Bytes at most in a prefix: every key in Redis begins with it.
const PREFIX_LEN_MAX: usize = 64;

/// More parts than that have nothing left to divide.
const PARTITIONS_MAX: u64 = 256;

section! {
    Settings {
        server: Server = defaults(), table();
        store: Store = defaults(), table();
        engine: Engine = defaults(), table();
        retention: Retention = defaults(), table();
        dlq: DeadLetters = defaults(), table();
        audit: Audit = defaults(), table();
        alerts: Alerts = defaults(), table();
        fairness: Fairness = defaults(), table();
        webhooks: Webhooks = defaults(), table();
        notify: Named<ChannelKeys> = Named::new(), named_tables();
        log: Log = defaults(), table();
        traces: Traces = defaults(), table();
        sandbox: Sandbox = defaults(), table();
        providers: Named<ProviderKeys> = Named::new(), named_tables();
        routes: Named<RouteKeys> = Named::new(), named_tables();
        /// The same sections for one environment alone, `development` or `production`.
        environments: Named<()> = Named::new(), named(any_table());
    }
}

section! {
    /// The HTTP API.
    Server {
        /// Any address but a loopback one needs a token.
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7400)),
            custom("127.0.0.1:7400", listen_address, SocketAddr::to_string);
        /// Clients send it as `Authorization: Bearer …`.
        token: Secret, secret("${RECADO_TOKEN}");
        /// Larger requests are refused.
        max_body_bytes as "max_body": u64 = MIB, size(KIB..=GIB);
        /// Names that requests may use for this server besides its own address.
        allowed_hosts: Vec<String> = Vec::new(),
            list(custom("recado.example.com", host_name, Clone::clone), "[\"recado.example.com\"]");
    }
}

section! {
    /// The place of the jobs: a directory of this machine, or Redis or Valkey, which several nodes may share.
    Store {
        /// redis://host:6379/0, redis+sentinel://host:26379,host:26379/service or redis+cluster://host:6379,host:6379;
        /// rediss:// speaks TLS, and a login goes before the host: redis://user:${REDIS_PASSWORD}@host.
        url: Secret, custom("redis://127.0.0.1:6379", |written| Ok(Secret::new(&written.text)), without_password);
        /// Parts that the jobs are divided into by company, for a Cluster with several shards. Chosen once.
        partitions: u16, count(1..=PARTITIONS_MAX).such_as("1");
        /// Every key begins with this. Stores with different prefixes share nothing.
        prefix: String, custom("recado", prefix, Clone::clone);
        /// A request to Redis ends within this, well or not.
        timeout: Duration, duration(Duration::from_millis(100)..=MINUTE).such_as("\"2s\"");
        /// PEM certificates to trust instead of the system's, for rediss://.
        ca_file: String, text("/etc/ssl/private-ca.pem");
        /// Without a url jobs are kept here, by one process at a time.
        data_dir: PathBuf = DATA_DIR_DEFAULT.into(), path(DATA_DIR_DEFAULT);
        /// New jobs are refused when the disk has less free than this; those already in can still end. At least 64MiB, and twice server.max_body.
        reserve_bytes as "reserve": u64, size(0..=TIB);
        /// New jobs are refused when the store is larger than this.
        max_size_bytes as "max_size": u64, size(MIB..=8_000 * TIB).such_as("\"20GiB\"");
    }
}

section! {
    /// Times and limits of deliveries.
    Engine {
        /// A delivery whose process is silent for this long is taken over.
        lease: Duration = Duration::from_secs(15), duration(SECOND..=HOUR);
        /// A graceful stop waits this long for running deliveries.
        stop_grace: Duration = Duration::from_secs(30), duration(Duration::ZERO..=HOUR);
        /// A job that names no ttlMs expires after this.
        job_ttl: Duration = JOB_TTL_DEFAULT, duration(SECOND..=YEAR);
        /// A job whose process died this many times in a row goes to the dead letter queue.
        poison_after: u32 = 5, count(1..=100);
    }
}

section! {
    /// Ended jobs are remembered for a while; until they are forgotten the same jobId is a duplicate.
    Retention {
        /// An ended job is forgotten after this.
        ended_max_age: Duration = 7 * DAY, duration(Duration::ZERO..=3650 * DAY);
        /// Past this many the oldest are forgotten.
        ended_max_count: u64 = 1_000_000, count(0..=1_000_000_000);
    }
}

section! {
    /// Dead letters.
    DeadLetters {
        /// An entry waits this long for a person.
        ttl: Duration = DEAD_LETTER_TTL_DEFAULT, duration(MINUTE..=10 * YEAR);
        /// Past this many entries the oldest are moved to dlq-archive/ in the data directory, with an alert; `recado dlq import`
        /// brings them back.
        max_size: u64 = SIZE_MAX_DEFAULT, count(1..=100_000_000);
        /// The channel that hears of dead letters and of endpoints that were switched off, such as
        /// [notify.ops] webhook = "https://…", or [notify.ops] from = "…" and to = ["…"] for e-mail.
        notify: String, text("ops");
        /// Silences the warning of an anti-pattern, with the reason.
        allow: Named<String>, named(text("the reason")).such_as("{ unattended_dlq = \"why it is meant\" }");
    }
}

section! {
    /// The audit trail: chained and signed files, a month each.
    Audit {
        /// Their directory. Nodes that share a store should share it, too.
        dir: PathBuf, path("./recado-data/audit");
        /// Months that are older go, and a signed summary of each stays. Less than five years is for development alone.
        keep: Duration = AUDIT_KEEP_DEFAULT, duration(DAY..=36_525 * DAY);
        /// The key that signs, made at first use; in the same directory by default. Keep it where programs
        /// that write to the trail cannot read it: then it proves more.
        key_file: PathBuf, path("/etc/recado/signing.pem");
    }
}

section! {
    /// Turns of companies.
    Fairness {
        /// Consecutive jobs of one company, times its weight, before the next one's turn.
        batch: u32 = TURN_JOBS, count(1..=1_000);
    }
}

section! {
    /// Addresses that users supply.
    Webhooks {
        /// Ranges that may be reached although they are not public, such as "10.0.0.0/8".
        allow: Vec<IpNet> = Vec::new(), list(custom("10.0.0.0/8", network, IpNet::to_string), "[\"10.0.0.0/8\"]");
        /// Public addresses need https:// unless this is true.
        allow_http: bool = false, switch();
    }
}

section! {
    /// One line for each event, on standard output.
    Log {
        /// error, warn, info, debug or trace.
        level: Level = Level::Info, word("level", Level::ALL.map(|level| (level.as_str(), level)));
        /// auto (human on a terminal, json elsewhere), json or human.
        format: LogFormat = LogFormat::Auto, word("format", LogFormat::ALL.map(|format| (format.as_str(), format)));
    }
}

section! {
    /// A span for each job that comes in and for each attempt, sent to an OpenTelemetry collector.
    Traces {
        /// OTLP over HTTP in JSON; /v1/traces is added. Without it nothing is recorded, and a caller's traceparent is still
        /// passed on to providers.
        endpoint: Url, custom("http://127.0.0.1:4318", collector, Url::to_string);
        /// Sent with every request, for collectors that ask who it is.
        headers: Named<Secret>,
            named(secret("Bearer ${OTLP_TOKEN}")).such_as("{ Authorization = \"Bearer ${OTLP_TOKEN}\" }");
        /// The share of traces recorded, from 0 to 1, of those that begin here; a caller's own choice is kept.
        sample: f64 = 1.0, number("0.1");
    }
}

section! {
    /// The transport that opens no connection.
    Sandbox {
        /// On in development and off in production unless this says otherwise.
        enabled: bool, switch().such_as("true");
    }
}

/// A Redis URL as it may be shown.
fn without_password(url: &Secret) -> String {
    Target::read(url.reveal()).map_or_else(|_| "***".to_owned(), |target| target.to_string())
}

fn listen_address(written: &Text) -> Result<SocketAddr, String> {
    let text = &written.text;
    // People write localhost, and mean the loopback address.
    text.replace("localhost", "127.0.0.1").parse().map_err(|_| {
        format!("`{text}` is not an address to listen on; write an IP address and a port, such as \"127.0.0.1:7400\"")
    })
}

fn host_name(written: &Text) -> Result<String, String> {
    let host = &written.text;
    let v6 = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || host.contains(['/', '@', ' ']) || (host.contains(':') && !v6) {
        return Err("write a host's name without a port, such as \"recado.example.com\"".to_owned());
    }
    Ok(host.clone())
}

/// Braces would decide which shard a key is on, and that is not theirs to decide.
fn prefix(written: &Text) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:_".contains(&byte);
    if !(1..=PREFIX_LEN_MAX).contains(&written.text.len()) || !written.text.bytes().all(plain) {
        return Err(
            "write 1 to 64 letters, digits, hyphens, dots, colons or underscores, such as \"recado\""
                .to_owned(),
        );
    }
    Ok(written.text.clone())
}

fn network(written: &Text) -> Result<IpNet, String> {
    // One address is a range of its own.
    let network = written.text.parse().or_else(|_| written.text.parse::<IpAddr>().map(IpNet::from));
    network.map_err(|_| {
        "is not a range of addresses; write one such as \"10.0.0.0/8\" or \"127.0.0.1\"".to_owned()
    })
}

/// URL that spans are posted to. A URL without a path gets the collector's usual path.
fn collector(written: &Text) -> Result<Url, String> {
    let mut url: Url = written
        .text
        .parse()
        .map_err(|_| "is not a web address; write one such as \"http://127.0.0.1:4318\"")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("is neither http:// nor https://; OTLP is spoken over HTTP here".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "holds a user or a password; write credentials as headers = { Authorization = \"Bearer ${OTLP_TOKEN}\" }"
                .into(),
        );
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("has a query or a fragment; write it without, and credentials as headers".into());
    }
    if !url.path().ends_with("/v1/traces") {
        let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    Ok(url)
}

named_enum! {
    /// The default comes first: messages give it as their example.
    pub enum Level {
        Info = "info",
        Error = "error",
        Warn = "warn",
        Debug = "debug",
        Trace = "trace",
    }
}

named_enum! {
    pub enum LogFormat {
        /// For people on a terminal, for machines elsewhere.
        Auto = "auto",
        Json = "json",
        Human = "human",
    }
}
