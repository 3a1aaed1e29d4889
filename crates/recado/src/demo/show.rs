//! What a person reads while it runs: what to open, what to look at and when, what happens, how it ended.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::tally::Tally;
use super::timetable::{ENTRIES, ROUND, Timetable};
use super::traffic::{CARELESS, NOISY};
use crate::screen::{Paint, Screen};
use crate::units::about_duration;

/// How often a pipe hears how it goes; a terminal sees it all the time.
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
        stops: Option<Duration>,
    ) -> io::Result<Self> {
        let strong = |words: &str| screen.painted(Paint::Strong, words);
        let url = format!("http://{address}");
        let stop = stops.map(|after| format!("after {} or ", about_duration(after))).unwrap_or_default();
        let mut text = format!(
            "Recado is at {}: open it in a browser.\n\n\
             Eight companies send e-mail, WhatsApp, claims, posts and webhooks through one engine. The providers are\n\
             fakes in this process, on loopback ports. Nothing leaves this machine, and nothing is left when it stops,\n\
             {stop}with Ctrl-C.\n\n",
            strong(&url)
        );
        let round = about_duration(timetable.hasten(ROUND));
        text += &format!("{}\n", strong(&format!("What happens, every {round}")));
        for entry in &ENTRIES {
            let (from, until) = (timetable.hasten(entry.from()), timetable.hasten(entry.until()));
            let time =
                if entry.is_a_moment() { clock(from) } else { format!("{}–{}", clock(from), clock(until)) };
            text += &format!("  {time:<10} {}: {}\n", entry.begins, entry.shows);
        }
        text += &format!("\n{}\n", strong("What to look at"));
        for (page, what) in [
            ("/", "what waits, what fails, what rings".to_owned()),
            ("/#/dlq", format!("why letters died, and the way back; most are of {CARELESS}")),
            ("/#/providers", "breakers and limits while a provider is down".to_owned()),
            ("/#/tenants", format!("turns, while {NOISY} is noisy")),
        ] {
            text += &format!("  {:<38} {what}\n", format!("{url}{page}"));
        }
        text += &format!("\n{}\n", strong("What to try in a second terminal"));
        for command in [
            "top",
            "events --event CircuitBreakerOpened,JobFailed",
            "dlq stats --by fingerprint",
            "dlq replay --route whatsapp --canary 2",
            "providers open youtube --reason 'to see what happens'",
            &format!("tenants set {NOISY} --max-per-minute 60"),
        ] {
            text += &format!("  recado {command} --url {url}\n");
        }
        screen.text(&(text + "\n"))?;
        let bar = screen.is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
            bar.with_style(
                ProgressStyle::with_template("{spinner} {wide_msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner()),
            )
        });
        Ok(Show { screen, bar, timetable, told_status_at: Duration::ZERO })
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

    /// How it goes.
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
    pub fn close(self, tally: &Tally) -> io::Result<()> {
        let ran = about_duration(Duration::from_secs(self.elapsed().as_secs()));
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        self.screen.line(format_args!("\nIt ran for {ran}:\n"))?;
        self.screen.table(&["route", "sent", "retried", "died"], tally.rows())?;
        self.screen.line("\nNothing of it is left.")
    }

    fn elapsed(&self) -> Duration {
        self.timetable.elapsed()
    }
}

/// Minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
