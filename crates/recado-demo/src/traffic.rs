//! The traffic: clinics, shops and an agency, each with habits of its own. One of them is noisy, another has
//! an address book full of slips. The same seed sends the same jobs in the same order.

use std::time::Duration;

use fastrand::Rng;
use recado_client::JobRequest;

use super::message::{self, MessageKind, Writer};
use super::timetable::{self, Episode, Timetable};

/// A company that does one thing again and again.
#[derive(Clone, Copy, Debug)]
struct Habit {
    company: &'static str,
    kind: MessageKind,
    per_minute: u32,
}

const fn habit(company: &'static str, kind: MessageKind, per_minute: u32) -> Habit {
    Habit { company, kind, per_minute }
}

/// The noisy one.
pub const NOISY: &str = "mercado-relampago";
/// The one with the slips.
pub const CARELESS: &str = "loja-do-bairro";
/// Its claims get turns twice as long.
pub const HOSPITAL: &str = "hospital-santa-clara";
/// Those who listen to webhooks; the receiver of the first one dies.
pub const LISTENERS: [&str; 3] = ["pet-feliz", "moda-carioca", HOSPITAL];

const HABITS: [Habit; 22] = [
    habit("clinica-sao-lucas", message::reminder, 40),
    habit("clinica-sao-lucas", message::confirmation, 30),
    habit("clinica-sao-lucas", message::claim, 12),
    habit("clinica-sorriso", message::confirmation, 25),
    habit("clinica-sorriso", message::reminder, 20),
    habit(HOSPITAL, message::claim, 30),
    habit(HOSPITAL, message::reminder, 20),
    habit(HOSPITAL, message::login_code, 12),
    habit(CARELESS, message::careless_mail, 24),
    habit(CARELESS, message::careless_chat, 16),
    habit(CARELESS, message::receipt, 12),
    habit("moda-carioca", message::post, 40),
    habit("moda-carioca", message::video, 15),
    habit("moda-carioca", message::upload, 12),
    habit("moda-carioca", message::caption, 20),
    habit("agencia-nova", message::caption, 20),
    habit("agencia-nova", message::post_without_token, 3),
    habit("agencia-nova", message::upload, 8),
    habit(LISTENERS[0], message::hook, 60),
    habit(LISTENERS[0], message::receipt, 15),
    habit(NOISY, message::mailing, 90),
    habit(NOISY, message::receipt, 30),
];

/// E-mails of one campaign.
const CAMPAIGN_JOBS: usize = 300;

/// Jobs without end: when each comes, at the usual speed, and what it is.
#[derive(Debug)]
pub struct Traffic {
    rng: Rng,
    writer: Writer,
    /// Time of each habit's next job.
    next: [Duration; HABITS.len()],
    /// Time of the next campaign, and the rest of the one that has begun.
    campaign: Duration,
    campaign_left: usize,
}

impl Traffic {
    /// `endpoint` is where webhooks go.
    pub fn new(seed: u64, endpoint: &str) -> Self {
        let mut rng = Rng::with_seed(seed);
        let next = HABITS.map(|habit| gap(&habit, &mut rng));
        Traffic {
            rng,
            writer: Writer::new(endpoint),
            next,
            campaign: campaign_at(),
            campaign_left: CAMPAIGN_JOBS,
        }
    }
}

impl Iterator for Traffic {
    type Item = (Duration, JobRequest);

    fn next(&mut self) -> Option<Self::Item> {
        let (at, first) = self.next.iter().enumerate().map(|(at, time)| (*time, at)).min()?;
        if self.campaign <= at {
            let at = self.campaign;
            self.campaign_left -= 1;
            if self.campaign_left == 0 {
                self.campaign_left = CAMPAIGN_JOBS;
                self.campaign += timetable::CYCLE;
            }
            return Some((at, self.writer.write(message::mailing, NOISY, &mut self.rng)));
        }
        let habit = HABITS.get(first)?;
        self.next[first] += gap(habit, &mut self.rng);
        Some((at, self.writer.write(habit.kind, habit.company, &mut self.rng)))
    }
}

/// People are never quite on time.
fn gap(habit: &Habit, rng: &mut Rng) -> Duration {
    Duration::from_secs_f64(60.0 / f64::from(habit.per_minute) * (0.5 + rng.f64()))
}

fn campaign_at() -> Duration {
    let entry = timetable::ENTRIES.iter().find(|entry| entry.episode == Episode::Campaign);
    entry.map_or(Duration::MAX, |entry| entry.from)
}

/// The job with its times at the timetable's speed.
pub fn hastened(mut job: JobRequest, timetable: &Timetable) -> JobRequest {
    let hasten = |usual_ms: u64| timetable.hasten(Duration::from_millis(usual_ms)).as_millis() as u64;
    job.delay_ms = job.delay_ms.map(hasten);
    job.ttl_ms = job.ttl_ms.map(|ttl| hasten(ttl).max(TTL_MIN_MS));
    job
}

/// Recado takes no job that is worth less.
const TTL_MIN_MS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_same_seed_sends_the_same_jobs_and_another_one_others() {
        let of = |seed| Traffic::new(seed, "ep_1").take(500).collect::<Vec<_>>();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn a_cycle_has_jobs_of_every_route_in_order_under_ids_of_their_own() {
        let cycle: Vec<_> = Traffic::new(7, "ep_1").take_while(|(at, _)| *at < timetable::CYCLE).collect();
        assert!(cycle.is_sorted_by_key(|(at, _)| *at));
        let routes: BTreeSet<_> = cycle.iter().map(|(_, job)| &*job.route).collect();
        let mut expected: BTreeSet<_> =
            recado_config::catalogue::ROUTES.iter().map(|row| row.name.as_str()).collect();
        expected.remove("sandbox");
        assert_eq!(routes, expected);
        let ids: BTreeSet<_> = cycle.iter().filter_map(|(_, job)| job.job_id.as_deref()).collect();
        assert_eq!(ids.len(), cycle.len());
        let campaign = cycle.iter().filter(|(at, _)| *at == campaign_at()).count();
        assert!(campaign >= CAMPAIGN_JOBS, "{campaign}");
    }
}
