//! Drawings with characters: the delays of a policy, and the course of a simulation.

use std::fmt::Write as _;
use std::ops::Range;

use recado_config::units::about_millis;
use recado_terminal::grouped;
use recado_wire::routes::PolicyStep;
use recado_wire::simulations::{PolicySimulation, Simulation, SimulationStep};

/// Columns left of the drawing: the attempt's number and the axis.
const MARGIN: usize = 5;
/// Columns right of it: the delay in words.
const WORDS: usize = 12;

/// The delay before each attempt but the first: a row for each, the jitter's band as a shade, the delay as a mark.
pub fn delays(steps: &[PolicyStep], width: usize) -> String {
    let retries = steps.get(1..).unwrap_or_default();
    let longest_ms = retries.iter().map(|step| step.delay_max_ms).max().unwrap_or(0);
    if longest_ms == 0 {
        return "There are no retries to draw.\n".to_owned();
    }
    let columns = width.saturating_sub(MARGIN + WORDS).max(20);
    let column = |millis: u64| (millis as f64 / longest_ms as f64 * (columns - 1) as f64).round() as usize;
    let mut drawn = String::from("delay before each attempt: █ as computed, ░ where jitter may put it\n");
    for step in retries {
        let (low, mark, high) = (column(step.delay_min_ms), column(step.delay_ms), column(step.delay_max_ms));
        let bar: String = (0..=high)
            .map(|at| match at {
                at if at == mark => '█',
                at if at >= low => '░',
                _ => ' ',
            })
            .collect();
        let words = about_millis(step.delay_ms);
        let _ = writeln!(drawn, "{:>3} │{bar} {words}", step.attempt);
    }
    drawn.push_str(&axis(MARGIN, columns, longest_ms));
    drawn
}

/// Columns left of a simulation's drawing: the name of the figure and the axis.
const SIMULATION_MARGIN: usize = 11;

/// Heights of a figure, none to full.
const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The course of a simulation: a row for each figure, as high as its own maximum, and the outages as a shade.
pub fn simulation(simulation: &Simulation, policy: &PolicySimulation, width: usize) -> String {
    let columns = width.saturating_sub(SIMULATION_MARGIN + WORDS).max(20);
    let at_ms = |column: usize| simulation.for_ms * column as u64 / columns as u64;
    let is_down = |column: usize| {
        simulation.outages.iter().any(|one| one.from_ms < at_ms(column + 1) && at_ms(column) < one.to_ms)
    };
    let per_second = |count: u64| count as f64 * 1_000.0 / policy.step_ms as f64;
    /// A figure of a step.
    type Figure<'a> = &'a dyn Fn(&SimulationStep) -> f64;
    let rows: [(&str, &str, Figure<'_>); 5] = [
        ("accepted", "/s", &|step| per_second(step.accepted)),
        ("sent", "/s", &|step| per_second(step.sent)),
        ("retries", "/s", &|step| per_second(step.retries)),
        ("dead", "/s", &|step| per_second(step.dead)),
        ("waiting", "", &|step| step.waiting as f64),
    ];
    let mut drawn =
        String::from("each row is scaled to its own maximum, shown on the right; ░ = provider down\n");
    for (name, unit, figure) in rows {
        let most = policy.series.iter().map(figure).fold(0.0, f64::max);
        let height = |column: usize| {
            let steps = policy.series.iter();
            let value =
                steps.filter(|step| column_of(step, policy, simulation.for_ms, columns).contains(&column));
            let share = value.map(figure).fold(0.0, f64::max) / most.max(f64::MIN_POSITIVE);
            (share * (HEIGHTS.len() - 1) as f64).ceil() as usize
        };
        let bar: String = (0..columns)
            .map(|column| match height(column) {
                0 if is_down(column) => '░',
                height => HEIGHTS[height],
            })
            .collect();
        let _ = writeln!(drawn, "{name:>9} │{bar} {}{unit}", grouped(most));
    }
    drawn.push_str(&axis(SIMULATION_MARGIN, columns, simulation.for_ms));
    drawn
}

/// Returns the columns that a step of a simulation covers.
fn column_of(step: &SimulationStep, policy: &PolicySimulation, for_ms: u64, columns: usize) -> Range<usize> {
    let column = |at_ms: u64| (at_ms * columns as u64 / for_ms) as usize;
    let first = column(step.at_ms);
    first..column(step.at_ms + policy.step_ms).max(first + 1)
}

/// A line with five ticks, and their times below, after `margin` columns.
fn axis(margin: usize, columns: usize, longest_ms: u64) -> String {
    let ticks = [0, 1, 2, 3, 4].map(|quarter| (quarter * (columns - 1) / 4, longest_ms * quarter as u64 / 4));
    let line: String =
        (0..columns).map(|at| if ticks.iter().any(|(tick, _)| *tick == at) { '┴' } else { '─' }).collect();
    let mut labels = String::new();
    for (at, millis) in ticks {
        let words = about_millis(millis);
        let start = at.max(labels.chars().count() + usize::from(!labels.is_empty()));
        labels.extend(std::iter::repeat_n(' ', start - labels.chars().count()));
        labels.push_str(&words);
    }
    let indent = margin - 1;
    format!("{:indent$}└{line}\n{:margin$}{labels}\n", "", "")
}

#[cfg(test)]
mod tests {
    use recado_config::catalogue::{BuiltIn, Environment};
    use recado_core::RouteName;
    use recado_wire::routes::{RoutePolicy, steps};
    use recado_wire::simulations::Outage;

    use super::*;

    #[test]
    fn the_band_grows_with_the_delay() {
        let policy = BuiltIn::named("email-ses").unwrap().policy(Environment::Production);
        assert_eq!(
            delays(&steps(&policy), 58),
            "\
delay before each attempt: █ as computed, ░ where jitter may put it
  2 │   ░█░ 1s
  3 │      ░░█░░ 2s
  4 │            ░░░░█░░░░ 4s
  5 │                        ░░░░░░░░█░░░░░░░░ 8s
    └┴─────────┴─────────┴─────────┴─────────┴
     0s        2.5s      5s        7.5s      10s
"
        );
    }

    /// A minute in four steps: all but the second send what arrives.
    fn simulated() -> Simulation {
        let step = |(nth, sent): (u64, u64)| SimulationStep {
            at_ms: nth * 15_000,
            accepted: 30,
            sent,
            dead: 0,
            retries: 0,
            waiting: if sent == 0 { 30 } else { 0 },
        };
        let policy = BuiltIn::named("email").unwrap().policy(Environment::Production);
        let policy = PolicySimulation {
            name: "policy".into(),
            policy: RoutePolicy::from(&policy),
            accepted: 120,
            sent: 120,
            dead: 0,
            waiting: 0,
            attempts: 120,
            peak_retries_per_second: 0,
            recovered_at_ms: Some(30_000),
            duplicates_possible: 0,
            step_ms: 15_000,
            series: (0..).zip([30, 0, 60, 30]).map(step).collect(),
        };
        Simulation {
            route: RouteName::trusted("email"),
            rate_per_second: 2.0,
            companies: 1,
            outages: vec![Outage { from_ms: 15_000, to_ms: 30_000 }],
            latency_ms: 200,
            for_ms: 60_000,
            seed: 1,
            policies: vec![policy],
        }
    }

    #[test]
    fn figures_rise_to_their_maximum_and_the_outage_is_a_shade() {
        let simulated = simulated();
        assert_eq!(
            simulation(&simulated, &simulated.policies[0], 43),
            "\
each row is scaled to its own maximum, shown on the right; ░ = provider down
 accepted │████████████████████ 2/s
     sent │▄▄▄▄▄░░░░░█████▄▄▄▄▄ 4/s
  retries │     ░░░░░           0/s
     dead │     ░░░░░           0/s
  waiting │     █████           30
          └┴───┴────┴────┴────┴
           0s  15s  30s  45s  1m
"
        );
    }

    #[test]
    fn every_row_of_the_catalogue_can_be_drawn_in_a_narrow_place() {
        for row in recado_config::catalogue::ROUTES.iter() {
            let drawn = delays(&steps(&row.policy(Environment::Production)), 10);
            assert!(drawn.lines().count() > 3, "{drawn}");
        }
    }
}
