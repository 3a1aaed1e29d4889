//! The providers of the demonstration: the far ends with their manners, the timetable's troubles, a little bad luck,
//! and refusals that a message brings upon itself.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_testkit::http::{self, Act, Request, page, text};
use recado_testkit::providers::{evolution, graph, openai, receiver, ses, tiktok, youtube};
use recado_testkit::smtp::{self, Greeting, Mail, Postmaster, SmtpAct, say};

use super::timetable::{Episode, Timetable};

/// An account at Instagram whose token was not renewed.
pub const EXPIRED_ACCOUNT: &str = "17841400008460056";
/// A domain that people write when they mean another.
pub const MISSPELLED_DOMAIN: &str = "gmial.example";
/// Mailboxes and numbers that do not exist.
pub const NO_MAILBOX: &str = "nao-existe";
pub const NO_WHATSAPP: &str = "0000";
/// A mailbox that stays full.
pub const FULL_MAILBOX: &str = "caixa.cheia";
/// A privacy level that TikTok does not know.
pub const UNKNOWN_PRIVACY: &str = "EVERYBODY";
/// A category that YouTube does not have.
pub const NO_CATEGORY: &str = "\"categoryId\":\"0\"";
/// Path of the customer's receiver that dies.
pub const DEAD_PATH: &str = "/pet-feliz";

/// Latency of an answer, and its largest addition.
const LATENCY: Duration = Duration::from_millis(20);
const LATENCY_MORE_MS: u64 = 150;
/// Latency of a relay that takes its time.
const LATENCY_SLOW: Duration = Duration::from_millis(1_500);

/// Jobs that bad luck is remembered of.
const STRUCK_MAX: usize = 10_000;

/// Addresses of all far ends.
#[derive(Clone, Copy, Debug)]
pub struct World {
    pub relay: SocketAddr,
    pub evolution: SocketAddr,
    pub instagram: SocketAddr,
    pub tiktok: SocketAddr,
    pub youtube: SocketAddr,
    pub openai: SocketAddr,
    pub ses: SocketAddr,
    /// Customers, and the people who are told of alerts.
    pub receiver: SocketAddr,
}

impl World {
    pub fn start(timetable: Timetable, seed: u64) -> io::Result<World> {
        let fate = Arc::new(Fate { timetable, seed, struck: Mutex::default() });
        let start = |temper: FaultProfile| {
            let fate = fate.clone();
            http::start(move |request| temper.answer(&fate, &request))
        };
        Ok(World {
            relay: smtp::start(Greeting::of_relay(), Arc::new(Relay(fate.clone())))?,
            evolution: start(FaultProfile {
                trouble: |fate, _| fate.is_on(Episode::WhatsappThrottles).then(|| fate.throttled()),
                bad_luck: (4, evolution::connection_closed),
                refuses: not_on_whatsapp,
                manners: evolution::manners,
            })?,
            instagram: start(FaultProfile {
                trouble: |fate, _| {
                    fate.is_on(Episode::InstagramDown).then(|| text(503, "Service Unavailable"))
                },
                bad_luck: (2, graph::transient),
                refuses: |request| request.mentions(EXPIRED_ACCOUNT).then(graph::token_expired),
                manners: graph::manners,
            })?,
            tiktok: start(FaultProfile {
                trouble: |_, _| None,
                bad_luck: (3, || tiktok::error(500, "internal_error")),
                refuses: |request| {
                    request.mentions(UNKNOWN_PRIVACY).then(|| tiktok::error(400, "invalid_params"))
                },
                manners: tiktok::manners,
            })?,
            youtube: start(FaultProfile {
                trouble: |_, _| None,
                bad_luck: (3, || page(502)),
                refuses: |request| {
                    let words = "The snippet.categoryId property specifies an invalid category ID.";
                    request.mentions(NO_CATEGORY).then(|| youtube::error(400, "invalidCategoryId", words))
                },
                manners: youtube::manners,
            })?,
            openai: start(FaultProfile {
                trouble: |fate, _| fate.is_on(Episode::OpenaiOverloaded).then(openai::overloaded),
                bad_luck: (1, || page(502)),
                refuses: |request| request.json()["messages"].is_null().then(openai::bad_request),
                manners: openai::manners,
            })?,
            ses: start(FaultProfile {
                trouble: |_, _| None,
                bad_luck: (4, || ses::error(500, "InternalServiceErrorException", "Something went wrong")),
                refuses: |request| {
                    let rejected = || ses::error(400, "MessageRejected", "Email address is not verified.");
                    request.mentions(MISSPELLED_DOMAIN).then(rejected)
                },
                manners: ses::manners,
            })?,
            receiver: start(FaultProfile {
                trouble: |fate, request| {
                    (request.path == DEAD_PATH && fate.is_on(Episode::ReceiverDead))
                        .then(|| text(502, "Bad Gateway"))
                },
                bad_luck: (2, || receiver::error(503)),
                refuses: |request| (!request.is_signed_with(receiver::SECRET)).then(|| receiver::error(401)),
                manners: receiver::manners,
            })?,
        })
    }
}

/// Faults of a provider that speaks HTTP; the first that applies counts.
struct FaultProfile {
    trouble: fn(&Fate, &Request) -> Option<Act>,
    /// Share of the jobs, in a hundred, that get this answer once.
    bad_luck: (u64, fn() -> Act),
    refuses: fn(&Request) -> Option<Act>,
    manners: fn(&Request) -> Act,
}

impl FaultProfile {
    fn answer(&self, fate: &Fate, request: &Request) -> Act {
        let key = job_of(request);
        let (percent, unlucky) = self.bad_luck;
        let answer = (self.trouble)(fate, request)
            .or_else(|| (self.refuses)(request))
            .or_else(|| fate.strikes(&key, percent).then(unlucky))
            .unwrap_or_else(|| (self.manners)(request));
        answer.after(fate.latency(&key))
    }
}

/// The identity of a job: its key, or, where a provider has none, its whole text.
fn job_of(request: &Request) -> Cow<'_, str> {
    match request.header("idempotency-key") {
        "" => String::from_utf8_lossy(&request.body),
        key => key.into(),
    }
}

fn not_on_whatsapp(request: &Request) -> Option<Act> {
    let message = request.json();
    let number = message["number"].as_str().filter(|number| number.ends_with(NO_WHATSAPP))?;
    Some(evolution::not_on_whatsapp(number))
}

/// The fate of each job. The same seed and the same job have the same luck.
struct Fate {
    timetable: Timetable,
    seed: u64,
    /// Those who had their bad luck; their next try passes.
    struck: Mutex<HashSet<u64>>,
}

impl Fate {
    fn is_on(&self, episode: Episode) -> bool {
        self.timetable.is_on(episode)
    }

    fn throttled(&self) -> Act {
        let wait = self.timetable.hasten(Duration::from_secs(4));
        evolution::too_many_requests().with("retry-after", wait.as_secs().max(1))
    }

    fn draw(&self, key: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, key).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns true if bad luck strikes now, which it does once.
    fn strikes(&self, key: &str, percent: u64) -> bool {
        let draw = self.draw(key);
        if draw % 100 >= percent {
            return false;
        }
        let mut struck = self.struck.lock();
        if struck.len() >= STRUCK_MAX {
            struck.clear();
        }
        struck.insert(draw)
    }

    fn latency(&self, key: &str) -> Duration {
        let more = Duration::from_millis(self.draw(key).rotate_left(32) % LATENCY_MORE_MS);
        self.timetable.hasten(LATENCY + more)
    }
}

/// The decisions of the mail relay.
struct Relay(Arc<Fate>);

impl Postmaster for Relay {
    fn act_at(&self, moment: &str) -> Option<SmtpAct> {
        let address = moment.strip_prefix("RCPT TO:<")?.split('>').next()?;
        let (mailbox, domain) = address.split_once('@')?;
        let reply = match () {
            () if domain == MISSPELLED_DOMAIN => "550 5.1.2 this domain does not take mail",
            () if mailbox.starts_with(NO_MAILBOX) => "550 5.1.1 no such user here",
            () if mailbox.starts_with(FULL_MAILBOX) => "452 4.2.2 the mailbox is full",
            () => return None,
        };
        Some(say(reply))
    }

    fn act_on_mail(&self, mail: &Mail) -> Option<SmtpAct> {
        let Relay(fate) = self;
        let text = String::from_utf8_lossy(&mail.text);
        let id = text.lines().find(|line| line.starts_with("Message-ID:")).unwrap_or_default();
        let slow = fate.is_on(Episode::RelaySlow);
        let latency = if slow { fate.timetable.hasten(LATENCY_SLOW) } else { fate.latency(id) };
        std::thread::sleep(latency);
        fate.strikes(id, 4).then(|| say("451 4.3.0 out of resources, try again later"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fate(seed: u64) -> Fate {
        Fate { timetable: Timetable::start(1), seed, struck: Mutex::default() }
    }

    fn struck(fate: &Fate) -> Vec<String> {
        (0..1_000).map(|n| format!("job-{n}")).filter(|job| fate.strikes(job, 5)).collect()
    }

    #[test]
    fn bad_luck_strikes_a_few_jobs_once_and_the_same_ones_under_the_same_seed() {
        let fate_1 = fate(1);
        let first = struck(&fate_1);
        assert!((20..100).contains(&first.len()), "{} of 1000 at 5 percent", first.len());
        assert_eq!(struck(&fate_1), Vec::<String>::new(), "it struck twice");
        assert_eq!(struck(&fate(1)), first);
        assert_ne!(struck(&fate(2)), first);
    }
}
