//! `recado demo`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use recado_demo::{DemoError, DemoOptions};
use recado_terminal::Screen;

use crate::{Done, Stop, duration, wait_on_all_processors};

#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  recado demo                         at 127.0.0.1:7400, or the next free port; Ctrl-C ends it
  recado demo --for 3m                stops by itself after a whole cycle
  recado demo --speed 5 --seed 42     five times as fast, with other random failures

Nothing has to be installed or configured, nothing leaves this machine, nothing is left behind.")]
pub struct DemoArgs {
    /// Address of this machine, and port, for API and dashboard [default: 127.0.0.1:7400, or the next port that is free].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Stop after this long.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    stop_after: Option<Duration>,
    /// Speed factor.
    #[arg(long, default_value_t = 1, value_name = "1-20", value_parser = clap::value_parser!(u32).range(1..=20))]
    speed: u32,
    /// Seed of the traffic and of random failures: the same one sends the same jobs.
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
}

pub fn run(args: DemoArgs, screen: &mut Screen) -> Done {
    let DemoArgs { listen, stop_after, speed, seed } = args;
    if stop_after.is_some_and(|time| time.is_zero()) {
        let words =
            "--for 0 leaves nothing to see; give a time such as 3m, or leave it out to end it with Ctrl-C";
        return Err(Stop::usage(words));
    }
    let options = DemoOptions { listen, stop_after, speed, seed };
    let ended = wait_on_all_processors(recado_demo::run(&options, &std::env::temp_dir(), screen))?;
    ended.map_err(|error| match error {
        DemoError::NotLoopback(_) => Stop::usage(error),
        DemoError::Failed(why) => Stop::Failed(why),
        DemoError::Output(error) => Stop::from(error),
    })
}
