//! Delays drawn with characters: a row for each retry, the jitter's band as a shade, the delay as a mark.

use std::fmt::Write as _;

use recado_config::units::about_millis;
use recado_wire::routes::PolicyStep;

/// Columns left of the drawing: the attempt's number and the axis.
const MARGIN: usize = 5;
/// Columns right of it: the delay in words.
const WORDS: usize = 12;

/// The delay before each attempt but the first.
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
    drawn.push_str(&axis(columns, longest_ms));
    drawn
}

/// A line with five ticks, and their times below.
fn axis(columns: usize, longest_ms: u64) -> String {
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
    format!("    └{line}\n     {labels}\n")
}

#[cfg(test)]
mod tests {
    use recado_wire::routes::steps;

    use super::*;
    use recado_config::catalogue::{BuiltIn, Environment};

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

    #[test]
    fn every_row_of_the_catalogue_can_be_drawn_in_a_narrow_place() {
        for row in recado_config::catalogue::ROUTES.iter() {
            let drawn = delays(&steps(&row.policy(Environment::Production)), 10);
            assert!(drawn.lines().count() > 3, "{drawn}");
        }
    }
}
