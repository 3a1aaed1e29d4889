//! `recado bench`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use recado_bench::{BenchOptions, Part, Receivers, Report};
use recado_terminal::Screen;

use crate::signals::Signals;
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
    /// Curves: directory of the drawings and of their numbers, curves.json [default: ./recado-plots].
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Directory of the files while it runs; on the disk that you want measured.
    #[arg(long, default_value = "./recado-bench", value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    form: FormArgs,
}

impl BenchArgs {
    /// Refuses a flag that the part does not read.
    fn check(&self) -> Result<(), Stop> {
        let flags = [
            ("--pending", Part::Flow, self.pending.is_some()),
            ("--outage", Part::Lanes, self.outage.is_some()),
            ("--url", Part::Redis, self.url.is_some()),
            ("--http and --smtp", Part::Deliveries, self.http.is_some()),
            ("--plots", Part::Curves, self.plots.is_some()),
        ];
        let name = |part: Part| {
            part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
        };
        match flags.into_iter().find(|(_, part, is_given)| *is_given && *part != self.part) {
            None => Ok(()),
            Some((flag, part, _)) => Err(Stop::Usage(format!(
                "`bench {}` does not read {flag}; leave it out, or measure with `recado bench {}`",
                name(self.part),
                name(part)
            ))),
        }
    }
}

pub fn run(args: BenchArgs, screen: &mut Screen) -> Done {
    args.check()?;
    if args.dir.exists() {
        let dir = args.dir.display();
        return Err(Stop::Usage(format!(
            "{dir} exists; remove it if a killed run left it, or name a directory that does not exist with --dir"
        )));
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
        plots: args.plots.unwrap_or_else(|| "./recado-plots".into()),
    };
    let report = wait_on_all_processors(measure(&options))??;
    Ok(screen.answer(args.form.get(), &report, |screen, report| report.show(screen))?)
}

/// Measures, and leaves no files behind when a signal ends it.
async fn measure(options: &BenchOptions) -> Result<Report, Stop> {
    let mut signals = Signals::listen().map_err(Stop::failed)?;
    let progress = |what: &str| {
        // Standard error may be closed; the report still comes.
        let _ = writeln!(std::io::stderr(), "measuring {what} …");
    };
    tokio::select! {
        report = recado_bench::run(options, progress) => report.map_err(Stop::failed),
        () = signals.recv() => Err(Stop::failed("interrupted; the files of the measurement are removed")),
    }
}

pub fn run_node() -> Done {
    wait_on_all_processors(recado_bench::run_node())?.map_err(Stop::failed)
}
