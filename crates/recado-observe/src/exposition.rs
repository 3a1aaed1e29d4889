//! Prometheus's text format, version 0.0.4.
//!
//! Written here because the usual crate writes OpenMetrics, which appends `_total` to every counter and so
//! cannot say the names that are required.

use std::fmt::{Display, Write};

use crate::histogram::{Histogram, Scale};

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub type Labels<'a> = &'a [(&'static str, &'a str)];

#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

impl Page {
    pub fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "counter", help)
    }

    /// A counter whose name does not end in `_total`: typed as one, every linter would complain.
    pub fn untyped(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "untyped", help)
    }

    pub fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    pub fn histogram(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "histogram", help)
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
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
    /// The one sample of a family without labels.
    pub fn value(&mut self, value: impl Display) {
        self.sample(&[], value);
    }

    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.line("", labels, None, value);
    }

    /// A sample for each value of a label.
    pub fn by<W: AsRef<str>, V: Display>(
        &mut self,
        label: &'static str,
        samples: impl IntoIterator<Item = (W, V)>,
    ) {
        for (word, value) in samples {
            self.sample(&[(label, word.as_ref())], value);
        }
    }

    /// A sample for each pair of values of two labels.
    pub fn by_both<O: AsRef<str>, I: AsRef<str>, V: Display>(
        &mut self,
        [outer, inner]: [&'static str; 2],
        samples: impl IntoIterator<Item = (O, impl IntoIterator<Item = (I, V)>)>,
    ) {
        for (first, samples) in samples {
            for (second, value) in samples {
                self.sample(&[(outer, first.as_ref()), (inner, second.as_ref())], value);
            }
        }
    }

    /// The one histogram of a family without labels.
    pub fn one_histogram<S: Scale>(&mut self, histogram: &Histogram<S>) {
        self.bins(&[], histogram, S::UNIT, 0);
    }

    /// A histogram for each value of a label.
    pub fn histograms_by<'h, S: Scale + 'h>(
        &mut self,
        label: &'static str,
        histograms: impl IntoIterator<Item = (&'h str, &'h Histogram<S>)>,
    ) {
        for (word, histogram) in histograms {
            self.bins(&[(label, word)], histogram, S::UNIT, 0);
        }
    }

    /// The bins of a histogram in a unit, with only the borders from `first` on: bins add up, so any may be left out.
    pub fn bins<S: Scale>(&mut self, labels: Labels<'_>, histogram: &Histogram<S>, unit: f64, first: usize) {
        let mut below = 0;
        for (at, (bin, border)) in histogram.bins.iter().zip(S::BORDERS).enumerate() {
            below += bin;
            if at >= first {
                let border = (border as f64 / unit).to_string();
                self.line("_bucket", labels, Some(("le", &border)), below);
            }
        }
        let count = histogram.count();
        self.line("_bucket", labels, Some(("le", "+Inf")), count);
        self.line("_sum", labels, None, histogram.sum as f64 / unit);
        self.line("_count", labels, None, count);
    }

    fn line(&mut self, ending: &str, labels: Labels<'_>, more: Option<(&str, &str)>, value: impl Display) {
        self.page.put(format_args!("{}{ending}", self.name));
        self.page.labels(labels, more);
        self.page.put(format_args!(" {value}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_break_out_of_its_quotes() {
        let mut page = Page::default();
        page.gauge("name", "Help.").sample(&[("a", "x\"} 1\n\\"), ("b", "y")], 0.5);
        assert_eq!(
            page.into_text(),
            "# HELP name Help.\n# TYPE name gauge\nname{a=\"x\\\"} 1\\n\\\\\",b=\"y\"} 0.5\n"
        );
    }
}
