//! `recado serve`.

use clap::Args;
use recado_config::{Config, Flags};

use crate::{ConfigArgs, Done, Stop, wait_on_all_processors};

#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  recado serve                                   for a first try: 127.0.0.1:7400, ./recado-data
  recado serve --env production --config /etc/recado/recado.toml
  RECADO_TOKEN=$(openssl rand -hex 24) recado serve --listen 0.0.0.0:7400
  recado serve --store redis://127.0.0.1:6379    one of several nodes on one store

A Redis behind Sentinels is redis+sentinel://, a Redis Cluster redis+cluster://.

SIGTERM or Ctrl-C stops gracefully: running deliveries end first. A second one stops at once. \
The exit code is 1 when deliveries had not ended within engine.stop_grace, or their outcomes could not be saved.

SIGHUP reloads the log level; everything else needs a restart.")]
pub struct ServeArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Redis or Valkey to keep jobs in, shared with other nodes [env: RECADO_STORE_URL=] [default: --data-dir].
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Directory for jobs [env: RECADO_DATA_DIR=] [default: ./recado-data].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Address and port for the API [env: RECADO_LISTEN=] [default: 127.0.0.1:7400].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
}

pub fn run(args: ServeArgs) -> Done {
    let flags = Flags { environment: None, listen: args.listen, store: args.store, data_dir: args.data_dir };
    let config = Config::load(&args.config.inputs(flags.clone())?)?;
    let again = || {
        let inputs = args.config.inputs(flags.clone()).map_err(Stop::into_words)?;
        Config::load(&inputs).map(|config| config.settings.log).map_err(|faults| faults.to_string())
    };
    wait_on_all_processors(recado_server::serve::serve(&config, again))?.map_err(Stop::Failed)
}
