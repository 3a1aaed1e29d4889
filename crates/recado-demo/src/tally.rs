//! Counts of events for the summary, and lines for the few that deserve one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use recado_core::{Event, EventKind};
use recado_terminal::{Field, Paint, Screen, clean};

/// Results of the jobs of one route.
#[derive(Clone, Copy, Debug, Default)]
struct RouteResults {
    sent: u64,
    retried: u64,
    died: u64,
}

#[derive(Debug, Default)]
pub struct EventTally {
    routes: BTreeMap<String, RouteResults>,
    /// Providers whose breaker is not closed.
    open_breakers: BTreeSet<String>,
}

impl EventTally {
    /// Counts an event; returns words for one that deserves a line.
    pub fn hear(&mut self, event: &Event) -> Option<(Paint, String)> {
        let provider = event.data.provider.as_deref().unwrap_or_default();
        match event.kind {
            EventKind::JobSent => self.route(event).sent += 1,
            EventKind::JobRetryScheduled => self.route(event).retried += 1,
            EventKind::JobFailed => self.route(event).died += 1,
            EventKind::CircuitBreakerOpened => drop(self.open_breakers.insert(provider.to_owned())),
            EventKind::CircuitBreakerClosed => drop(self.open_breakers.remove(provider)),
            _ => {}
        }
        line_of(event, provider)
    }

    fn route(&mut self, event: &Event) -> &mut RouteResults {
        self.routes.entry(event.data.job.route.as_deref().unwrap_or_default().to_owned()).or_default()
    }

    /// In one line.
    pub fn line(&self) -> String {
        let sum = |of: fn(&RouteResults) -> u64| self.routes.values().map(of).sum::<u64>();
        let open_breakers: Vec<_> = self.open_breakers.iter().map(|name| &**name).collect();
        let open = if open_breakers.is_empty() {
            String::new()
        } else {
            format!("  open: {}", open_breakers.join(", "))
        };
        format!(
            "sent {}  retried {}  died {}{open}",
            sum(|it| it.sent),
            sum(|it| it.retried),
            sum(|it| it.died)
        )
    }

    /// Shows a row for each route.
    pub fn table(&self, screen: &mut Screen) -> io::Result<()> {
        let routes: Vec<_> = self.routes.iter().collect();
        screen.table(
            &routes,
            &[
                ("route", |(route, _)| Field::from(route)),
                ("sent", |(_, results)| Field::from(results.sent)),
                ("retried", |(_, results)| Field::from(results.retried)),
                ("died", |(_, results)| Field::from(results.died)),
            ],
        )
    }
}

fn line_of(event: &Event, provider: &str) -> Option<(Paint, String)> {
    let data = &event.data;
    let company = event.company_id.as_ref().map(|company| company.as_str()).unwrap_or_default();
    let reason = data.reason.as_deref().map(|reason| format!(": {}", clean(reason))).unwrap_or_default();
    Some(match event.kind {
        EventKind::CircuitBreakerOpened => (Paint::Bad, format!("{provider}: breaker open")),
        EventKind::CircuitBreakerHalfOpen => {
            (Paint::Warn, format!("{provider}: breaker half open, one probe goes out"))
        }
        EventKind::CircuitBreakerClosed => (Paint::Good, format!("{provider}: breaker closed")),
        EventKind::EndpointDisabled => (Paint::Bad, format!("{company}: endpoint switched off{reason}")),
        EventKind::TokenExpired => (Paint::Bad, format!("{company}: {provider} no longer takes its token")),
        // Of breakers the lines above tell.
        EventKind::AlertFired | EventKind::AlertResolved
            if data.alert.name.as_deref() == Some("breaker_open") =>
        {
            return None;
        }
        EventKind::AlertFired => (Paint::Bad, format!("alert{reason}")),
        EventKind::AlertResolved => (Paint::Good, reason.replacen(": Resolved", "alert over", 1)),
        EventKind::JobSent
        | EventKind::JobRetryScheduled
        | EventKind::JobFailed
        | EventKind::JobRetryExhausted
        | EventKind::JobExpired
        | EventKind::JobReplayed
        | EventKind::JobDiscarded => return None,
    })
}
