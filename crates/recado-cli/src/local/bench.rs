//! `recado bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use recado_bench::{BenchOptions, Part, Receivers};
use recado_terminal::Screen;

use crate::{Done, FormArgs, Stop, duration, wait_on_all_processors};

#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  recado bench                     how fast jobs come in and go out, about two minutes
  recado bench lanes               what turns, breakers and limits cost, about four minutes
  recado bench lanes --outage 10m  with a provider that is down for ten minutes
  recado bench redis               jobs over a Redis that nodes share, about two minutes
  recado bench audit               what the audit trail costs, about three minutes
  recado bench deliveries --http http://127.0.0.1:8080 --smtp smtp://127.0.0.1:2525
                                   deliveries to real receivers, about three minutes
  recado bench pages               the dashboard's pages over a million jobs, about two minutes
  recado bench curves              cost of a job as one thing grows, in SVG, about ten minutes
  recado bench --quick             a tenth of it, to see that it runs
  recado bench --json > run.json   for machines

Every figure stands beside a limit measured in the same run: keep the ratio, not the number.")]
pub struct BenchArgs {
    /// Part to measure.
    #[arg(default_value = "flow", value_name = "PART")]
    part: Part,
    /// A tenth of the work.
    #[arg(long)]
    quick: bool,
    /// Jobs that wait when the restart is measured [default: 1000000, with --quick 100000].
    #[arg(long, value_name = "JOBS")]
    pending: Option<usize>,
    /// Length of a provider's outage when lanes are measured [default: 20s, with --quick 5s].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    outage: Option<Duration>,
    /// The Redis to measure, a single server [default: one is started for it]. Its other keys are left alone.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Deliveries: where HTTP goes, an nginx that answers everything; `bench/run --real` starts one.
    #[arg(long, value_name = "URL", requires = "smtp")]
    http: Option<String>,
    /// Deliveries: where e-mail goes, Postfix's smtp-sink.
    #[arg(long, value_name = "URL", requires = "http")]
    smtp: Option<String>,
    /// Curves: directory of the drawings and of their numbers, curves.json.
    #[arg(long, default_value = "./recado-plots", value_name = "DIR")]
    plots: PathBuf,
    /// Directory of the files while it runs; on the disk that you want measured.
    #[arg(long, default_value = "./recado-bench", value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    form: FormArgs,
}

pub fn run(args: BenchArgs, screen: &mut Screen) -> Done {
    if args.dir.exists() {
        let dir = args.dir.display();
        return Err(Stop::Usage(format!("{dir} exists; name a directory that does not, with --dir")));
    }
    let (scale, pending, outage_s) = if args.quick { (0.1, 100_000, 5) } else { (1.0, 1_000_000, 20) };
    let options = BenchOptions {
        part: args.part,
        dir: args.dir,
        scale,
        pending: args.pending.unwrap_or(pending).max(1_000),
        outage: args.outage.unwrap_or(Duration::from_secs(outage_s)),
        redis_url: args.url,
        receivers: args.http.zip(args.smtp).map(|(http, smtp)| Receivers { http, smtp }),
        plots: args.plots,
    };
    let progress = |what: &str| eprintln!("measuring {what} …");
    let measured = wait_on_all_processors(recado_bench::run(&options, progress))?;
    let report = measured.map_err(Stop::failed)?;
    Ok(screen.answer(args.form.get(), &report, |screen, report| report.show(screen))?)
}

pub fn run_node() -> Done {
    wait_on_all_processors(recado_bench::run_node())?.map_err(Stop::failed)
}
