//! The output of the demonstration: what to open, what to look at and when, what happens, how it ended.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use recado_config::units::about_duration;
use recado_terminal::{Paint, Screen};

use super::tally::EventTally;
use super::timetable::{CYCLE, ENTRIES, Timetable, TimetableEntry};
use super::traffic::{CARELESS, NOISY};

/// Interval of status lines in a pipe; a terminal shows it all the time.
const STATUS_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Show<'a> {
    screen: &'a mut Screen,
    /// The last line of a terminal, drawn again and again.
    bar: Option<ProgressBar>,
    timetable: Timetable,
    told_status_at: Duration,
}

impl<'a> Show<'a> {
    /// Says what there is to see.
    pub fn open(
        screen: &'a mut Screen,
        address: SocketAddr,
        timetable: Timetable,
        stop_after: Option<Duration>,
    ) -> io::Result<Self> {
        let url = format!("http://{address}");
        let stop = stop_after.map(|after| format!("after {} or ", about_duration(after))).unwrap_or_default();
        screen.line(format_args!(
            "Recado is at {}: open it in a browser.\n\n\
             Eight companies send e-mail, WhatsApp, claims, posts and webhooks through one engine. The providers are\n\
             fakes in this process, on loopback ports. Nothing leaves this machine, and nothing is left when it stops,\n\
             {stop}with Ctrl-C.",
            screen.painted(Paint::Strong, &url)
        ))?;
        let cycle = about_duration(timetable.hasten(CYCLE));
        for (head, lines) in [
            (format!("What happens, every {cycle}"), what_happens(&timetable)),
            ("What to look at".to_owned(), what_to_look_at(&url)),
            ("What to try in a second terminal".to_owned(), what_to_try(&url)),
        ] {
            screen.line(format_args!("\n{}", screen.painted(Paint::Strong, head)))?;
            for line in lines {
                screen.line(format_args!("  {line}"))?;
            }
        }
        screen.line("")?;
        screen.flush()?;
        Ok(Show {
            bar: screen.is_terminal().then(live_line),
            screen,
            timetable,
            told_status_at: Duration::ZERO,
        })
    }

    /// One more line of the story.
    pub fn tell(&mut self, paint: Paint, words: &str) -> io::Result<()> {
        let time = self.screen.painted(Paint::Faint, format_args!("{:>5}", clock(self.elapsed())));
        let line = format!("{time}  {}", self.screen.painted(paint, words));
        match &self.bar {
            Some(bar) => {
                bar.println(line);
                Ok(())
            }
            None => self.screen.line(line).and_then(|()| self.screen.flush()),
        }
    }

    /// Shows the status.
    pub fn status(&mut self, words: &str) -> io::Result<()> {
        let elapsed = self.elapsed();
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}  {words}", clock(elapsed)));
            bar.tick();
            return Ok(());
        }
        if elapsed >= self.told_status_at + STATUS_EVERY {
            self.told_status_at = elapsed;
            return self.tell(Paint::Faint, words);
        }
        Ok(())
    }

    /// The live line is gone; what follows is for keeps.
    pub fn close(self, tally: &EventTally) -> io::Result<()> {
        let ran = about_duration(Duration::from_secs(self.elapsed().as_secs()));
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        self.screen.line(format_args!("\nIt ran for {ran}:\n"))?;
        tally.table(self.screen)?;
        self.screen.line("\nNothing of it is left.")
    }

    fn elapsed(&self) -> Duration {
        self.timetable.elapsed()
    }
}

fn what_happens(timetable: &Timetable) -> Vec<String> {
    let line = |entry: &TimetableEntry| {
        let (from, until) = (clock(timetable.hasten(entry.from)), clock(timetable.hasten(entry.until)));
        let time = if entry.is_a_moment() { from } else { format!("{from}–{until}") };
        format!("{time:<10} {}: {}", entry.begins, entry.shows)
    };
    ENTRIES.iter().map(line).collect()
}

fn what_to_look_at(url: &str) -> Vec<String> {
    let pages = [
        ("/", "what waits, what fails, which alerts fire".to_owned()),
        (
            "/#/dlq",
            format!("why letters died, and the way back; {CARELESS} has an address book full of slips"),
        ),
        ("/#/providers", "breakers and limits while a provider is down".to_owned()),
        ("/#/tenants", format!("whose turn it is while {NOISY} is noisy")),
    ];
    pages.map(|(page, what)| format!("{:<36} {what}", format!("{url}{page}"))).into()
}

fn what_to_try(url: &str) -> Vec<String> {
    let commands = [
        "top".to_owned(),
        "events --event CircuitBreakerOpened,JobFailed".to_owned(),
        "dlq stats --by fingerprint".to_owned(),
        "dlq replay --route whatsapp --canary 2".to_owned(),
        "providers open youtube --reason 'to see what waits'".to_owned(),
        format!("tenants set {NOISY} --max-per-minute 60"),
        "send sandbox --company you --data '{\"script\":[\"503 busy\",\"ok\"]}' --wait".to_owned(),
    ];
    commands.map(|command| format!("recado {command} --url {url}")).into()
}

fn live_line() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {wide_msg}");
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

/// Minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
