//! `recado simulate`: reads the configuration, asks no server.

use std::io::{self, IsTerminal};
use std::ops::{ControlFlow, RangeInclusive};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use recado_config::fault::suggestion;
use recado_config::show;
use recado_config::units::about_millis;
use recado_core::Policy;
use recado_core::time::millis;
use recado_server::wiring;
use recado_simulate::{Load, Stopped};
use recado_terminal::{Field, Form, Paint, Screen, grouped};
use recado_wire::read::{Body, Faults};
use recado_wire::simulations::{
    FOR_MS_MAX, FOR_MS_MIN, LATENCY_MS_MAX, Outage, PolicySimulation, SEED_DEFAULT, SEED_MAX, Simulation,
    SimulationRequest,
};

use crate::local::plot;
use crate::{ConfigArgs, Done, FormArgs, Stop, duration};

#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  recado simulate email                              half an hour of outage
  recado simulate email --rate 50/s --companies 200 --outage 10m..40m --for 2h
  recado simulate whatsapp --against '{ schedule = [\"0s\", \"1m\", \"10m\", \"1h\"] }'
  recado simulate email --outage 5m..10m --outage 30m..1h --seed 7 --json

The engine is the one that delivers, with the route as it is configured: policy, rules, breaker, rate, \
concurrency, timeout, turns of companies and the providers that take over. \
The provider, the store and the clock are stand-ins: nothing is sent. \
The same seed gives the same result. \
Every job that waits is kept in memory, about 1.7 KB each: a million at once take 1.7 GB.")]
pub struct SimulateArgs {
    /// The route.
    route: String,
    /// Jobs that arrive, such as 50/s, 30/min or 1000/h: 0.001/s to 10000/s, and a million in all.
    #[arg(long, default_value = "50/s", value_name = "RATE", value_parser = rate, allow_hyphen_values = true)]
    rate: f64,
    /// Number of companies, 1 to 10000.
    #[arg(long, default_value_t = recado_wire::simulations::COMPANIES_DEFAULT, value_name = "NUMBER")]
    companies: u32,
    /// Time at which the route's first provider is down, or none. May be given several times [default: 10m..40m, or
    /// the same part of another time].
    #[arg(long = "outage", value_name = "FROM..TO", value_parser = outage, allow_hyphen_values = true)]
    outages: Vec<OutageArg>,
    /// Time that the provider takes for an answer, on average, 1ms to 1h.
    #[arg(long, default_value = "200ms", value_name = "TIME", value_parser = latency, allow_hyphen_values = true)]
    latency: Duration,
    /// Policy to simulate instead of the route's own; keys that it leaves out stay.
    #[arg(long, value_name = "TOML")]
    policy: Option<String>,
    /// Second policy to compare it with.
    #[arg(long, value_name = "TOML")]
    against: Option<String>,
    /// Simulated time, 1s to 7d.
    #[arg(long = "for", default_value = "2h", value_name = "TIME", value_parser = simulated_time, allow_hyphen_values = true)]
    duration: Duration,
    /// Seed of all random numbers, 0 to 9007199254740991 (2^53 - 1).
    #[arg(long, default_value_t = SEED_DEFAULT, value_name = "NUMBER", value_parser = seed, allow_hyphen_values = true)]
    seed: u64,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    config: ConfigArgs,
}

/// An outage; `None` says that there is none.
type OutageArg = Option<Outage>;

/// Fields of a request, and the flags that they come from.
const FLAGS: [(&str, &str); 6] = [
    ("/ratePerSecond", "--rate"),
    ("/companies", "--companies"),
    ("/outages", "--outage"),
    ("/latencyMs", "--latency"),
    ("/forMs", "--for"),
    ("/seed", "--seed"),
];

fn rate(text: &str) -> Result<f64, String> {
    let (count, unit) = text.split_once('/').unwrap_or((text, "s"));
    let seconds = match unit {
        "s" => Some(1.0),
        "m" | "min" => Some(60.0),
        "h" => Some(3_600.0),
        _ => None,
    };
    let count = count.parse().ok().filter(|count: &f64| count.is_finite());
    let rate = count.zip(seconds).map(|(count, seconds)| count / seconds);
    rate.ok_or_else(|| "write a number of jobs and a time, such as 50/s, 30/min or 1000/h".to_owned())
}

fn seed(text: &str) -> Result<u64, String> {
    let seed = text.parse().ok().filter(|seed| *seed <= SEED_MAX);
    seed.ok_or_else(|| format!("give a whole number, 0 to {SEED_MAX}"))
}

fn latency(text: &str) -> Result<Duration, String> {
    duration_within(text, 1..=LATENCY_MS_MAX)
}

fn simulated_time(text: &str) -> Result<Duration, String> {
    duration_within(text, FOR_MS_MIN..=FOR_MS_MAX)
}

fn duration_within(text: &str, range_ms: RangeInclusive<u64>) -> Result<Duration, String> {
    let given = duration(text)?;
    let (least, most) = (about_millis(*range_ms.start()), about_millis(*range_ms.end()));
    let is_within = range_ms.contains(&millis(given));
    is_within.then_some(given).ok_or_else(|| format!("give {least} to {most}"))
}

fn outage(text: &str) -> Result<OutageArg, String> {
    if text == "none" {
        return Ok(None);
    }
    let (from, to) = text.split_once("..").ok_or("write two times, such as 10m..40m, or none")?;
    Ok(Some(Outage { from_ms: millis(duration(from)?), to_ms: millis(duration(to)?) }))
}

impl SimulateArgs {
    fn request(&self) -> Result<SimulationRequest, Stop> {
        if self.outages.len() > 1 && self.outages.contains(&None) {
            return Err(Stop::usage(
                "--outage none stands alone; leave it out, or leave the other outages out",
            ));
        }
        let outages = self.outages.iter().flatten().copied().collect();
        let request = SimulationRequest {
            route: self.route.clone(),
            rate_per_second: Some(self.rate),
            companies: Some(self.companies),
            outages: (!self.outages.is_empty()).then_some(outages),
            latency_ms: Some(millis(self.latency)),
            for_ms: Some(millis(self.duration)),
            seed: Some(self.seed),
            policy: self.policy.clone(),
            against: self.against.clone(),
        };
        let mut faults = Faults::default();
        request.check(&mut faults);
        if faults.is_empty() {
            return Ok(request);
        }
        let told = faults.into_vec().into_iter().map(|fault| {
            let flag = FLAGS.iter().find(|(field, _)| fault.pointer.starts_with(field));
            format!("{} {}", flag.map_or(fault.pointer.as_str(), |(_, flag)| flag), fault.message)
        });
        Err(Stop::Usage(told.collect::<Vec<_>>().join("\n")))
    }
}

pub fn run(args: SimulateArgs, screen: &mut Screen) -> Done {
    let request = args.request()?;
    let config = args.config.load_as_written()?;
    let Some(route) = config.route(&args.route) else {
        let advice = suggestion(&args.route, config.route_names(), "routes");
        return Err(Stop::Usage(format!("there is no route `{}`; {advice}", args.route)));
    };
    let own = &route.terms.policy;
    let read = |flag: &str, text: &Option<String>| {
        let read = text.as_ref().map(|text| recado_config::read_policy(flag, text, own));
        read.transpose().map_err(Stop::usage)
    };
    let first = read("--policy", &args.policy)?.unwrap_or_else(|| own.clone());
    let policies: Vec<Policy> = [first].into_iter().chain(read("--against", &args.against)?).collect();

    let scenario = wiring::scenario(&config, route, Load::from(&request));
    let bar = bar(args.form.get(), screen.width());
    let simulated = recado_simulate::simulate(&scenario, &request, &policies, &mut |progress| {
        bar.set_position((progress.done * PROGRESS_STEPS as f64) as u64);
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    let simulation = simulated.map_err(|stopped| match stopped {
        Stopped::ByCaller | Stopped::TooManyWait => Stop::failed("the simulation was stopped"),
        Stopped::Failed(why) => Stop::Failed(format!("the simulation failed: {why}")),
    })?;
    Ok(screen
        .answer(args.form.get(), &simulation, |screen, simulation| show(screen, simulation, &policies))?)
}

const PROGRESS_STEPS: u64 = 1_000;

/// Columns of a terminal at least that has room for words beside the bar.
const BAR_WORDS_WIDTH: u16 = 60;

fn bar(form: Form, width: u16) -> ProgressBar {
    if form == Form::Json || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = match width {
        0..BAR_WORDS_WIDTH => "{wide_bar} {percent} %",
        _ => "simulating {wide_bar} {percent} %, {eta} to go",
    };
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(PROGRESS_STEPS).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn show(screen: &mut Screen, simulation: &Simulation, policies: &[Policy]) -> io::Result<()> {
    let Simulation { rate_per_second, companies, for_ms, latency_ms, seed, .. } = simulation;
    let outages = simulation
        .outages
        .iter()
        .map(|Outage { from_ms, to_ms }| format!("{} to {}", about_millis(*from_ms), about_millis(*to_ms)));
    let outages = Some(outages.collect::<Vec<_>>().join(", ")).filter(|outages| !outages.is_empty());
    let written = |at: usize| policies.get(at).map(show::policy);
    screen.pairs([
        ("route", Field::painted(&simulation.route, Paint::Strong)),
        (
            "jobs",
            Field::from(format_args!(
                "{} of {companies} companies for {}",
                show_rate(*rate_per_second),
                about_millis(*for_ms)
            )),
        ),
        ("provider down", Field::or_dash(outages)),
        ("provider latency", Field::from(format_args!("about {}", about_millis(*latency_ms)))),
        ("seed", Field::from(seed)),
        ("policy", Field::if_any(written(0))),
        ("against", Field::if_any(written(1))),
    ])?;
    screen.line("")?;
    let heads: Vec<_> = [""].into_iter().chain(simulation.policies.iter().map(|one| &*one.name)).collect();
    screen.rows(&heads, figures(simulation))?;
    let width = usize::from(screen.width().min(120));
    for one in &simulation.policies {
        screen.line("")?;
        if simulation.policies.len() > 1 {
            screen.line(screen.painted(Paint::Strong, &one.name))?;
        }
        screen.text(plot::simulation(simulation, one, width))?;
    }
    screen.line(format_args!("\n{}", conclude(simulation)))
}

/// Writes a rate by the first unit that makes it a whole number, as `--rate` reads it.
fn show_rate(per_second: f64) -> String {
    let whole = |(unit, seconds): (&str, f64)| {
        let count = per_second * seconds;
        let near = count.round();
        (near >= 1.0 && (count - near).abs() < 1e-6).then(|| format!("{near}/{unit}"))
    };
    let thousandths = (per_second * 1_000.0).round() / 1_000.0;
    [("s", 1.0), ("min", 60.0), ("h", 3_600.0)]
        .into_iter()
        .find_map(whole)
        .unwrap_or_else(|| format!("{thousandths}/s"))
}

/// Returns a row for each figure, with a column for each policy.
fn figures(simulation: &Simulation) -> Vec<Vec<Field>> {
    let row = |name: &str, figure: &dyn Fn(&PolicySimulation) -> String| {
        let figures = simulation.policies.iter().map(|one| Field::from(figure(one)));
        [Field::from(name)].into_iter().chain(figures).collect()
    };
    let number = |count: u64| grouped(count as f64);
    vec![
        row("accepted", &|one| number(one.accepted)),
        row("sent", &|one| number(one.sent)),
        row("dead", &|one| number(one.dead)),
        row("waiting at the end", &|one| number(one.waiting)),
        row("attempts", &|one| number(one.attempts)),
        row("most retries in a second", &|one| number(one.peak_retries_per_second.into())),
        row("duplicates possible", &|one| number(one.duplicates_possible)),
        row("recovered", &|one| match one.recovered_at_ms {
            Some(at_ms) => format!("at {}", about_millis(at_ms)),
            None => "-".to_owned(),
        }),
    ]
}

/// Says in a sentence or two what the figures mean.
fn conclude(simulation: &Simulation) -> String {
    let back_at_ms = simulation.outages.iter().map(|outage| outage.to_ms).max();
    let ends = |one: &PolicySimulation| {
        let dead = match one.dead {
            0 => "no job dies".to_owned(),
            1 => "1 job dies".to_owned(),
            dead => format!("{} jobs die", grouped(dead as f64)),
        };
        let recovery = match (back_at_ms, one.recovered_at_ms) {
            (None, _) => return dead,
            (Some(back_at_ms), Some(at_ms)) => {
                format!(
                    "the backlog is cleared {} after the provider comes back",
                    about_millis(at_ms - back_at_ms)
                )
            }
            (Some(_), None) => {
                format!("{} jobs still wait at the end", grouped(one.waiting as f64))
            }
        };
        format!("{dead}, and {recovery}")
    };
    let sentences = simulation.policies.iter().map(|one| match simulation.policies.len() {
        1 => format!("With this policy {}.", ends(one)),
        _ => format!("With `{}` {}.", one.name, ends(one)),
    });
    sentences.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_as_people_write_them() {
        for (text, per_second) in
            [("50/s", 50.0), ("50", 50.0), ("30/min", 0.5), ("30/m", 0.5), ("3600/h", 1.0)]
        {
            assert_eq!(rate(text), Ok(per_second), "{text}");
        }
        for wrong in ["", "fast", "50/d", "/s", "inf/s", "NaN"] {
            assert!(rate(wrong).is_err(), "{wrong:?} was read");
        }
    }

    #[test]
    fn rates_are_shown_as_people_write_them() {
        for text in ["50/s", "1/min", "7/min", "1000/h", "0.5/s"] {
            let shown = show_rate(rate(text).unwrap());
            assert_eq!(rate(&shown), rate(text), "{text} is shown as {shown}");
        }
        let shown = [1.0 / 60.0, 5.0, 2.5, 0.123_456_7].map(show_rate);
        assert_eq!(shown, ["1/min", "5/s", "150/min", "0.123/s"]);
    }

    #[test]
    fn times_out_of_range_are_refused_with_units() {
        assert_eq!(latency("0s"), Err("give 1ms to 1h".to_owned()));
        assert_eq!(latency("1h"), Ok(Duration::from_secs(3_600)));
        assert_eq!(simulated_time("8d"), Err("give 1s to 7d".to_owned()));
    }

    #[test]
    fn outages_have_two_ends() {
        assert_eq!(outage("10m..40m"), Ok(Some(Outage { from_ms: 600_000, to_ms: 2_400_000 })));
        assert_eq!(outage("none"), Ok(None));
        for wrong in ["", "10m", "10m..", "..40m", "10..40"] {
            assert!(outage(wrong).is_err(), "{wrong:?} was read");
        }
    }
}
