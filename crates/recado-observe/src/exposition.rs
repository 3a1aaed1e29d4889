//! Prometheus's text format, version 0.0.4.
//!
//! Written here because the usual crate writes OpenMetrics, which appends `_total` to every counter and so
//! cannot say the names that are required.

use std::fmt::{Display, Write};

use crate::histogram::{Scale, Spread};

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
    /// A counter whose name does not end in `_total`: typed as one, every linter would complain.
    Untyped,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Untyped => "untyped",
        }
    }
}

pub type Labels<'a> = &'a [(&'static str, &'a str)];

#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

impl Page {
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        let kind = kind.as_str();
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Family { page: self, name }
    }

    pub fn into_text(self) -> String {
        self.text
    }

    fn put(&mut self, words: std::fmt::Arguments<'_>) {
        self.text.write_fmt(words).expect("a string takes everything");
    }

    fn labels(&mut self, labels: Labels<'_>, more: Option<(&str, &str)>) {
        let mut before = '{';
        for (name, value) in labels.iter().copied().chain(more) {
            self.put(format_args!("{before}{name}=\""));
            for letter in value.chars() {
                match letter {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
    }
}

pub struct Family<'p> {
    page: &'p mut Page,
    name: &'static str,
}

impl Family<'_> {
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) -> &mut Self {
        self.line("", labels, None, value)
    }

    pub fn spread<S: Scale>(&mut self, labels: Labels<'_>, spread: &Spread<S>) -> &mut Self {
        self.spread_from(labels, spread, S::UNIT, 0)
    }

    /// A spread in another unit, with only the borders from `first` on: bins add up, so any may be left out.
    pub fn spread_from<S: Scale>(
        &mut self,
        labels: Labels<'_>,
        spread: &Spread<S>,
        unit: f64,
        first: usize,
    ) -> &mut Self {
        let mut below = 0;
        for (at, (bin, border)) in spread.bins.iter().zip(S::BORDERS).enumerate() {
            below += bin;
            if at >= first {
                let border = (border as f64 / unit).to_string();
                self.line("_bucket", labels, Some(("le", &border)), below);
            }
        }
        let count = spread.count();
        self.line("_bucket", labels, Some(("le", "+Inf")), count);
        self.line("_sum", labels, None, spread.sum as f64 / unit);
        self.line("_count", labels, None, count)
    }

    fn line(
        &mut self,
        ending: &str,
        labels: Labels<'_>,
        more: Option<(&str, &str)>,
        value: impl Display,
    ) -> &mut Self {
        self.page.put(format_args!("{}{ending}", self.name));
        self.page.labels(labels, more);
        self.page.put(format_args!(" {value}\n"));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_break_out_of_its_quotes() {
        let mut page = Page::default();
        page.family("name", Kind::Gauge, "Help.").sample(&[("a", "x\"} 1\n\\"), ("b", "y")], 0.5);
        assert_eq!(
            page.into_text(),
            "# HELP name Help.\n# TYPE name gauge\nname{a=\"x\\\"} 1\\n\\\\\",b=\"y\"} 0.5\n"
        );
    }
}
