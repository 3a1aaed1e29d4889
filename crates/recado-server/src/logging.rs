//! One line for each event on standard output: JSON for machines, words for people on a terminal.
//!
//! ```text
//! tracing event ─▶ LineLayer (formats into a buffer of its thread) ─▶ Outlet (bounded) ─▶ thread ─▶ stdout
//! ```
//!
//! Field names are the required ones and stay flat: `level`, `message`, the event's fields, `timestamp`.
//! Deliberately absent: spans, files, rotation (the service manager's work), and payloads, which are never logged.

mod line;
mod outlet;

use std::borrow::Cow;
use std::io::IsTerminal;
use std::sync::{Arc, LazyLock};

use recado_config::{Level, Log, LogFormat};
use recado_engine::Clock;
use regex::Regex;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry, reload};

use line::Format;
use outlet::{Outlet, WAITING_MAX_BYTES};

/// Writes what is still buffered when it is dropped.
#[derive(Debug)]
pub struct Logging {
    outlet: Outlet,
    volume: Volume,
}

/// Changes the level while the process runs.
type Volume = reload::Handle<Targets, Registry>;

impl Logging {
    pub fn set_level(&self, level: Level) -> Result<(), reload::Error> {
        self.volume.reload(targets(level))
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.outlet.close();
    }
}

/// Turns events into lines and hands them on.
struct LineLayer {
    format: Format,
    clock: Arc<dyn Clock>,
    outlet: Outlet,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LineLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        line::with_buffer(|line| {
            line::write(line, event, self.clock.now(), self.format);
            self.outlet.line(line);
        });
    }
}

/// Logs to standard output for the rest of the process's life.
pub fn start(log: Log, clock: Arc<dyn Clock>) -> Logging {
    let stdout = std::io::stdout();
    let is_terminal = stdout.is_terminal();
    let format = match log.format {
        LogFormat::Json => Format::Json,
        LogFormat::Auto if !is_terminal => Format::Json,
        LogFormat::Auto | LogFormat::Human if is_terminal && recado_terminal::colour_is_welcome() => {
            Format::Coloured
        }
        LogFormat::Auto | LogFormat::Human => Format::Plain,
    };
    let outlet = Outlet::new(stdout, format, clock.clone(), WAITING_MAX_BYTES);
    let (subscriber, volume) = subscriber(log.level, LineLayer { format, clock, outlet: outlet.clone() });
    // Fails only when a test has set one up already, which then keeps it.
    let _ = tracing::subscriber::set_global_default(subscriber);
    std::panic::set_hook(Box::new(report_panic));
    Logging { outlet, volume }
}

fn subscriber(level: Level, layer: LineLayer) -> (impl Subscriber + Send + Sync, Volume) {
    let (filter, volume) = reload::Layer::new(targets(level));
    (Registry::default().with(layer.with_filter(filter)), volume)
}

/// Our own events at `level`, those of libraries only when they warn.
fn targets(level: Level) -> Targets {
    let own = level.as_str().parse().unwrap_or(LevelFilter::INFO);
    Targets::new().with_default(LevelFilter::WARN.min(own)).with_target("recado", own)
}

/// A panic is one more line, not a page of text in the middle of the others.
fn report_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let words = without_quotations(panic.payload_as_str().unwrap_or("no message"));
    let place = panic.location().map(ToString::to_string);
    tracing::error!(panic = &*words, at = place, "A task panicked");
}

/// Removes quotations from a panic's message: they may hold payload, as when a text is cut in the wrong
/// place.
fn without_quotations(words: &str) -> Cow<'_, str> {
    #[expect(clippy::unwrap_used, reason = "the pattern is a constant, and a test uses it")]
    static QUOTATION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"(?s)`[^`]*`?|"[^"]*"?"#).unwrap());
    QUOTATION.replace_all(words, "`***`")
}

#[cfg(test)]
mod tests;
