//! Simulations: what becomes of a route's jobs while its provider is down.

use std::time::Duration;

use recado_core::RouteName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::format::components;
use crate::format::read::{Body, Faults};
use crate::routes::RoutePolicy;

pub const RATE_DEFAULT: f64 = 50.0;
pub const RATE_MAX: f64 = 10_000.0;
pub const RATE_MIN: f64 = 0.001;

pub const COMPANIES_DEFAULT: u32 = 200;
pub const COMPANIES_MAX: u32 = 10_000;

pub const LATENCY_MS_DEFAULT: u64 = 200;
pub const LATENCY_MS_MAX: u64 = 60 * 60 * 1_000;

pub const FOR_MS_DEFAULT: u64 = 2 * 60 * 60 * 1_000;
pub const FOR_MS_MIN: u64 = 1_000;
pub const FOR_MS_MAX: u64 = 7 * 24 * 60 * 60 * 1_000;

pub const OUTAGES_MAX: usize = 20;

pub const SEED_DEFAULT: u64 = 1;
/// Any program can read it back: beyond this, JSON numbers lose digits in some.
pub const SEED_MAX: u64 = (1 << 53) - 1;

/// Jobs at most that arrive in one simulation.
pub const JOBS_MAX: u64 = 1_000_000;

/// Time at most that a server works on one simulation.
pub const WORK_MAX: Duration = Duration::from_secs(60);

/// Jobs at most that wait at once in a simulation of a server: they share its memory, about 1.7 KB each.
pub const WAITING_MAX: u64 = 150_000;

/// Characters at most of a policy.
pub const POLICY_LEN_MAX: usize = 2_000;

/// Body of `POST /v1/simulations`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SimulationRequest {
    #[schema(value_type = components::Name, example = "email")]
    pub route: String,
    /// Jobs that arrive each second; 50 when absent. With `forMs` it makes at most 1000000 jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.001, maximum = 10000)]
    pub rate_per_second: Option<f64>,
    /// Companies that the jobs are of; 200 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10000)]
    pub companies: Option<u32>,
    /// Times at which the route's first provider is down; when absent, one from a twelfth to a third of the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 20)]
    pub outages: Option<Vec<Outage>>,
    /// Time that the provider takes for an answer, on average; 200 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3600000)]
    pub latency_ms: Option<u64>,
    /// Time that is simulated, up to 7 days; 2 hours when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1000, maximum = 604800000)]
    pub for_ms: Option<u64>,
    /// The same seed gives the same result; 1 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 9007199254740991_u64)]
    pub seed: Option<u64>,
    /// The policy to simulate, as the configuration writes it; keys that it leaves out stay as the route has them. The
    /// route's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2000, example = "{ base = \"5s\", max_attempts = 8 }")]
    pub policy: Option<String>,
    /// A second policy to compare it with, written in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2000)]
    pub against: Option<String>,
}

/// A time at which the provider is down, counted from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Outage {
    pub from_ms: u64,
    /// After `fromMs`, and not after the end of the simulation.
    pub to_ms: u64,
}

impl SimulationRequest {
    pub fn rate_per_second(&self) -> f64 {
        self.rate_per_second.unwrap_or(RATE_DEFAULT)
    }

    pub fn companies(&self) -> u32 {
        self.companies.unwrap_or(COMPANIES_DEFAULT)
    }

    pub fn outages(&self) -> Vec<Outage> {
        let for_ms = self.for_ms();
        self.outages.clone().unwrap_or_else(|| vec![Outage { from_ms: for_ms / 12, to_ms: for_ms / 3 }])
    }

    pub fn latency_ms(&self) -> u64 {
        self.latency_ms.unwrap_or(LATENCY_MS_DEFAULT)
    }

    pub fn for_ms(&self) -> u64 {
        self.for_ms.unwrap_or(FOR_MS_DEFAULT)
    }

    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(SEED_DEFAULT)
    }

    fn check_outages(&self, faults: &mut Faults) {
        let outages = self.outages.as_deref().unwrap_or_default();
        if outages.len() > OUTAGES_MAX {
            faults.note("outages", format!("has {} entries; give at most {OUTAGES_MAX}", outages.len()));
        }
        for (at, outage) in outages.iter().enumerate().take(OUTAGES_MAX) {
            let place = format!("/outages/{at}");
            if outage.from_ms == outage.to_ms {
                faults.note_at(place, "has no duration; its end must be after its start");
            } else if outage.from_ms > outage.to_ms {
                faults.note_at(place, "ends before it begins; the later time comes second");
            } else if outage.to_ms > self.for_ms() {
                faults
                    .note_at(place, "ends after the simulation; simulate longer, or end the outage earlier");
            }
        }
    }
}

impl Body for SimulationRequest {
    const WRITE: &'static [(&'static str, &'static str)] = &[
        ("route", "the name of a route, such as \"email\""),
        ("companies", "a whole number of companies, such as 200"),
        ("latencyMs", "whole milliseconds, such as 200"),
        ("forMs", "whole milliseconds, such as 7200000 for two hours"),
        ("seed", "a whole number from 0 on, such as 1"),
        ("fromMs", "whole milliseconds from the start, such as 600000"),
        ("toMs", "whole milliseconds from the start, such as 2400000"),
        ("ratePerSecond", "a number of jobs a second, such as 50 or 0.5"),
        ("outages", "a list such as [{\"fromMs\": 600000, \"toMs\": 2400000}], or [] for none"),
        ("policy", "a string with TOML, such as \"{ base = '5s', max_attempts = 8 }\""),
        ("against", "a string with TOML, such as \"{ base = '5s', max_attempts = 8 }\""),
    ];

    fn check(&self, faults: &mut Faults) {
        let rates = RATE_MIN..=RATE_MAX;
        faults.check_range(
            "ratePerSecond",
            self.rate_per_second,
            rates,
            format!("give {RATE_MIN} to {RATE_MAX} jobs a second"),
        );
        let companies = format!("give 1 to {COMPANIES_MAX} companies");
        faults.check_range("companies", self.companies, 1..=COMPANIES_MAX, companies);
        faults.check_range(
            "latencyMs",
            self.latency_ms,
            1..=LATENCY_MS_MAX,
            format!("give 1 to {LATENCY_MS_MAX} (an hour)"),
        );
        let times = format!("give {FOR_MS_MIN} (a second) to {FOR_MS_MAX} (7 days)");
        faults.check_range("forMs", self.for_ms, FOR_MS_MIN..=FOR_MS_MAX, times);
        faults.check_range("seed", self.seed, 0..=SEED_MAX, format!("give 0 to {SEED_MAX}"));
        self.check_outages(faults);
        for (name, policy) in [("policy", &self.policy), ("against", &self.against)] {
            if policy.as_ref().is_some_and(|policy| policy.chars().count() > POLICY_LEN_MAX) {
                faults.note(name, format!("is too long; give at most {POLICY_LEN_MAX} characters"));
            }
        }
        let jobs = self.rate_per_second() * self.for_ms() as f64 / 1_000.0;
        if jobs > JOBS_MAX as f64 {
            let fault = format!(
                "makes {jobs:.0} jobs, and {JOBS_MAX} is the most; lower it, or simulate a shorter time"
            );
            faults.note("ratePerSecond", fault);
        }
    }
}

/// Answer to `POST /v1/simulations`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Simulation {
    #[schema(value_type = String, example = "email")]
    pub route: RouteName,
    pub rate_per_second: f64,
    pub companies: u32,
    pub outages: Vec<Outage>,
    pub latency_ms: u64,
    pub for_ms: u64,
    pub seed: u64,
    /// One for `policy`, and one for `against` if that was given.
    pub policies: Vec<PolicySimulation>,
}

/// The outcome of a simulation under one policy. `accepted` is the sum of `sent`, `dead` and `waiting`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySimulation {
    /// `policy` or `against`.
    #[schema(example = "policy")]
    pub name: Box<str>,
    pub policy: RoutePolicy,
    pub accepted: u64,
    pub sent: u64,
    /// Jobs in the dead letter queue.
    pub dead: u64,
    /// Jobs that had neither been sent nor died when the time was over.
    pub waiting: u64,
    pub attempts: u64,
    pub peak_retries_per_second: u32,
    /// Time from the start until every job from before the end of the last outage had been sent or had died; `null` when
    /// that did not happen, or without an outage.
    #[schema(required)]
    pub recovered_at_ms: Option<u64>,
    /// Attempts at jobs that the provider may have had already: the attempt before had no answer.
    pub duplicates_possible: u64,
    /// Length of a step of the series.
    pub step_ms: u64,
    pub series: Vec<SimulationStep>,
}

/// A part of the time, up to 120 of which make the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimulationStep {
    /// Its beginning, counted from the start.
    pub at_ms: u64,
    pub accepted: u64,
    pub sent: u64,
    pub dead: u64,
    /// Attempts but the first of each job.
    pub retries: u64,
    /// Jobs that wait at its end.
    pub waiting: u64,
}
