//! The default file and the file to start from: every key with its explanation, as its section's table has it.

use crate::catalogue::Environment;
use crate::show::{Style, page};
use crate::{Config, Flags, Inputs};

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
