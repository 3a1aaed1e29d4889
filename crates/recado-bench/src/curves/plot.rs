//! Draws curves as SVG: panels side by side, logarithmic scales, a line per series.

use std::fmt::{self, Write as _};

use serde::Serialize;

use crate::report::grouped;

/// One figure: panels over the same x axis.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plot {
    /// Name of its file, without the extension.
    pub file: &'static str,
    pub title: &'static str,
    pub x: &'static str,
    pub panels: Vec<Panel>,
}

/// One quantity.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Panel {
    pub name: &'static str,
    pub unit: &'static str,
    pub series: Vec<Series>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Series {
    /// Empty where the panel has one series only.
    pub name: String,
    /// Pairs of x and y, by x.
    pub points: Vec<(f64, f64)>,
}

impl Panel {
    /// A panel with one line.
    pub fn line(name: &'static str, unit: &'static str, points: Vec<(f64, f64)>) -> Self {
        Panel { name, unit, series: vec![Series { name: String::new(), points }] }
    }
}

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 180.0;
/// Space around a panel's lines.
const LEFT: f64 = 52.0;
const RIGHT: f64 = 26.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 56.0;
const LEGEND_LINE: f64 = 16.0;

/// One look for light and one for dark; the lines' colours show on both.
const STYLE: &str = "\
text{font:12px sans-serif;fill:#333}.title{font-size:14px;font-weight:bold}.back{fill:#fff}.grid{stroke:#ddd}\
@media(prefers-color-scheme:dark){text{fill:#ccc}.back{fill:#161b22}.grid{stroke:#3a414a}}\
polyline{fill:none;stroke-width:2}";
const COLOURS: [&str; 6] = ["#3b82f6", "#f97316", "#10b981", "#a855f7", "#ef4444", "#94a3b8"];

/// A logarithmic scale over whole decades. Zero has a place of its own, a decade below the least.
struct Scale {
    from: f64,
    to: f64,
    has_zero: bool,
    /// Positions of `from` and `to` on the screen.
    screen: (f64, f64),
}

impl Scale {
    fn over(values: impl Iterator<Item = f64> + Clone, screen: (f64, f64)) -> Self {
        let has_zero = values.clone().any(|value| value <= 0.0);
        let logs = values.filter(|value| *value > 0.0).map(f64::log10);
        // A power of ten is its own decade, also where its logarithm is not exact.
        let from = logs.clone().fold(f64::MAX, f64::min).min(9.0) + 1e-9;
        let to = logs.fold(f64::MIN, f64::max).max(from) - 1e-9;
        let from = from.floor() - f64::from(u8::from(has_zero));
        Scale { from, to: to.ceil().max(from + 1.0), has_zero, screen }
    }

    fn place(&self, value: f64) -> f64 {
        let log = if value > 0.0 { value.log10() } else { self.from };
        self.screen.0 + (log - self.from) / (self.to - self.from) * (self.screen.1 - self.screen.0)
    }

    /// Places and labels of the decades.
    fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let decades = (self.to - self.from) as i32;
        (0..=decades).map(move |nth| {
            let value = 10_f64.powf(self.from + f64::from(nth));
            let label = if nth == 0 && self.has_zero { "0".to_owned() } else { short(value) };
            (self.place(value), label)
        })
    }
}

/// A number in few letters: `20k`, `1.4`, `0.01`.
fn short(value: f64) -> String {
    let digits = |value: f64| {
        let places = usize::from(value < 9.95 && (value - value.round()).abs() > 0.04);
        format!("{value:.places$}")
    };
    match value {
        1e6.. => format!("{}M", digits(value / 1e6)),
        1e3.. => format!("{}k", digits(value / 1e3)),
        0.95.. => digits(value),
        0.095.. => format!("{}", (value * 1e2).round() / 1e2),
        _ => format!("{}", (value * 1e3).round() / 1e3),
    }
}

impl Plot {
    pub fn svg(&self) -> Result<String, fmt::Error> {
        let legend = self.panels.iter().map(Panel::legend_lines).max().unwrap_or(0) as f64 * LEGEND_LINE;
        let (width, height) = (WIDTH * self.panels.len() as f64, TOP + HEIGHT + BOTTOM + legend);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
             <style>{STYLE}</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\" rx=\"6\"/>\n\
             <text class=\"title\" x=\"12\" y=\"24\">{}</text>\n",
            self.title
        );
        for (nth, panel) in self.panels.iter().enumerate() {
            writeln!(svg, "<g transform=\"translate({} 0)\">", WIDTH * nth as f64)?;
            panel.draw(self.x, &mut svg)?;
            svg.push_str("</g>\n");
        }
        svg.push_str("</svg>\n");
        Ok(svg)
    }
}

impl Panel {
    fn legend_lines(&self) -> usize {
        self.series.iter().filter(|series| !series.name.is_empty()).count()
    }

    fn draw(&self, x_label: &str, svg: &mut String) -> fmt::Result {
        let points = self.series.iter().flat_map(|series| &series.points);
        let (right, bottom) = (WIDTH - RIGHT, TOP + HEIGHT);
        let x = Scale::over(points.clone().map(|(x, _)| *x), (LEFT, right));
        let y = Scale::over(points.map(|(_, y)| *y), (bottom, TOP));
        writeln!(svg, "<text x=\"12\" y=\"46\">{}, {}</text>", self.name, self.unit)?;
        for (at, label) in y.ticks() {
            writeln!(svg, "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>")?;
            let at = at + 4.0;
            writeln!(svg, "<text x=\"{}\" y=\"{at:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 6.0)?;
        }
        for (at, label) in x.ticks() {
            writeln!(svg, "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/>")?;
            let under = bottom + 16.0;
            writeln!(svg, "<text x=\"{at:.1}\" y=\"{under}\" text-anchor=\"middle\">{label}</text>")?;
        }
        let (middle, under) = (f64::midpoint(LEFT, right), bottom + 34.0);
        writeln!(svg, "<text x=\"{middle}\" y=\"{under}\" text-anchor=\"middle\">{x_label}</text>")?;
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            series.draw(&x, &y, colour, svg)?;
        }
        for (nth, (series, colour)) in self.series.iter().zip(COLOURS.iter().cycle()).enumerate() {
            if !series.name.is_empty() {
                let at = bottom + BOTTOM + LEGEND_LINE * nth as f64;
                writeln!(svg, "<circle cx=\"{LEFT}\" cy=\"{}\" r=\"4\" fill=\"{colour}\"/>", at - 4.0)?;
                writeln!(svg, "<text x=\"{}\" y=\"{at}\">{}</text>", LEFT + 10.0, series.name)?;
            }
        }
        Ok(())
    }
}

impl Series {
    fn draw(&self, x: &Scale, y: &Scale, colour: &str, svg: &mut String) -> fmt::Result {
        let places = || self.points.iter().map(|point| (x.place(point.0), y.place(point.1), point.1));
        let line: String = places().map(|(x, y, _)| format!("{x:.1},{y:.1} ")).collect();
        writeln!(svg, "<polyline stroke=\"{colour}\" points=\"{}\"/>", line.trim_end())?;
        for (nth, (x, y, value)) in places().enumerate() {
            let exact = grouped(value);
            writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"><title>{exact}</title></circle>"
            )?;
            // Beside other lines there is no room for numbers.
            if self.name.is_empty() {
                let (at, label) = (y - 8.0, short(value));
                // The first one keeps clear of the axis.
                let anchor = if nth == 0 { "start" } else { "middle" };
                writeln!(svg, "<text x=\"{x:.1}\" y=\"{at:.1}\" text-anchor=\"{anchor}\">{label}</text>")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_cover_whole_decades_and_have_a_place_for_zero() {
        let labels = |values: &[f64]| {
            let scale = Scale::over(values.iter().copied(), (0.0, 100.0));
            scale.ticks().map(|(at, label)| format!("{label}@{at:.0}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(labels(&[1.0, 1_000.0]), "1@0 10@33 100@67 1k@100");
        assert_eq!(labels(&[0.0, 1.0, 10.0]), "0@0 1@50 10@100");
        assert_eq!(labels(&[20.0, 90.0]), "10@0 100@100", "one decade at least");
        assert_eq!(labels(&[100.0]), "100@0 1k@100");
        assert_eq!(labels(&[0.1, 2_000_000.0]).split(' ').next_back(), Some("10M@100"));
    }

    #[test]
    fn a_plot_has_a_line_for_each_series_and_a_legend_where_there_are_several() {
        let points = vec![(1.0, 20.0), (10.0, 30.0)];
        let named = |name: &str| Series { name: name.to_owned(), points: points.clone() };
        let several = Panel { name: "rate", unit: "jobs/s", series: vec![named("first"), named("second")] };
        let panels = vec![Panel::line("time", "µs", points.clone()), several];
        let svg = Plot { file: "test", title: "A test", x: "companies", panels }.svg().unwrap();
        assert_eq!((svg.matches("<polyline").count(), svg.matches(">second</text>").count()), (3, 1));
        assert_eq!(svg.matches('<').count(), svg.matches('>').count());
    }
}
