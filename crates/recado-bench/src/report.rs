//! The figures, as a table for people and as JSON for machines.

use std::borrow::Cow;
use std::time::Duration;

pub use recado_terminal::grouped;
use recado_terminal::{Field, Screen};
use serde::Serialize;

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub figures: Vec<Figure>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figure {
    pub name: Cow<'static, str>,
    pub value: f64,
    pub unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Percentiles>,
}

/// The limit that a figure is measured against, in the same run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Beside {
    pub limit: Cow<'static, str>,
    pub ratio: f64,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Percentiles {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

impl Percentiles {
    /// `None` without samples.
    pub fn of(mut samples: Vec<Duration>) -> Option<Self> {
        samples.sort_unstable();
        let at = |share: f64| {
            let index = ((samples.len() as f64 * share) as usize).min(samples.len().checked_sub(1)?);
            Some(samples.get(index)?.as_secs_f64() * 1e3)
        };
        Some(Percentiles { p50: at(0.50)?, p95: at(0.95)?, p99: at(0.99)?, max: at(1.0)? })
    }
}

impl Report {
    pub fn add(&mut self, name: impl Into<Cow<'static, str>>, value: f64, unit: &'static str) -> &mut Figure {
        self.figures.push(Figure { name: name.into(), value, unit, beside: None, latency_ms: None });
        let last = self.figures.len() - 1;
        &mut self.figures[last]
    }

    pub fn value(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }

    /// Adds a figure and how it compares with an earlier one.
    pub fn add_beside(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: f64,
        unit: &'static str,
        limit: impl Into<Cow<'static, str>>,
    ) -> &mut Figure {
        let limit = limit.into();
        let ratio = self.value(&limit).map(|limit| value / limit);
        let figure = self.add(name, value, unit);
        figure.beside = ratio.map(|ratio| Beside { limit, ratio });
        figure
    }

    pub fn show(&self, screen: &mut Screen) -> std::io::Result<()> {
        let heads = ["measured", "value", "beside", "p50 ms", "p95 ms", "p99 ms", "max ms"];
        screen.rows(&heads, self.figures.iter().map(Figure::row).collect())
    }
}

impl Figure {
    pub fn set_latencies(&mut self, samples: Vec<Duration>) {
        self.latency_ms = Percentiles::of(samples);
    }

    fn row(&self) -> Vec<Field> {
        let beside = self.beside.as_ref().map(|beside| format!("{:.2} × {}", beside.ratio, beside.limit));
        let mut row = vec![
            Field::from(&*self.name),
            Field::from(format!("{} {}", grouped(self.value), self.unit)),
            Field::from(beside.unwrap_or_default()),
        ];
        let latency = self.latency_ms.map(|latency| [latency.p50, latency.p95, latency.p99, latency.max]);
        match latency {
            Some(latency) => row.extend(latency.map(|ms| Field::from(format!("{ms:.2}")))),
            None => row.extend([""; 4].map(Field::from)),
        }
        row
    }
}
