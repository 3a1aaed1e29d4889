//! The configuration that the demonstration runs on: what an operator would write, with every wait shortened so that
//! a whole story fits into a cycle.

use std::net::SocketAddr;
use std::time::Duration;

use recado_config::catalogue::Kind;
use recado_core::time::show_duration;
use recado_testkit::providers::{evolution, graph, openai, receiver, ses, tiktok, youtube};
use recado_testkit::smtp;

use super::timetable::Timetable;
use super::world::World;

/// Alerts are not measured more often than this.
const MEASURE_MIN: Duration = Duration::from_secs(1);

/// Below this an alert cannot look back.
const WINDOW_MIN: Duration = Duration::from_secs(20);

/// A `recado.toml`.
pub fn text(world: &World, timetable: &Timetable) -> String {
    let hasten = |usual_s: u64| timetable.hasten(Duration::from_secs(usual_s));
    let time = |usual_s: u64| show_duration(hasten(usual_s));
    let at_least = |least: Duration, usual_s: u64| show_duration(hasten(usual_s).max(least));
    let waits = |usual_s: &[u64]| {
        usual_s.iter().map(|wait| format!("{:?}", time(*wait))).collect::<Vec<_>>().join(", ")
    };

    format!(
        include_str!("../pages/recado.toml"),
        breaker = format_args!(r#"within = "{}", reset = "{}", ramp = "{}""#, time(20), time(6), time(5)),
        social = format_args!("policy = {{ schedule = [{}] }}", waits(&[0, 4, 12])),
        window = format_args!(r#"window = "{}", pending = "{}""#, at_least(WINDOW_MIN, 60), time(5)),
        smtp = smtp::provider(world.relay),
        evolution = evolution::provider(&url(world.evolution)),
        instagram = graph::provider(&url(world.instagram)),
        tiktok = tiktok::provider(&url(world.tiktok)),
        youtube = youtube::provider(&url(world.youtube)),
        openai = openai::provider(&url(world.openai)),
        webhook = receiver::provider(),
        ops = receiver::channel("ops", &url(world.receiver)),
        ses = by_ses(world, &time(1), &time(8), &time(20)),
        whatsapp = waits(&[0, 2, 6, 15]),
        callbacks = waits(&[0, 2, 5]),
        one = time(1),
        three = time(3),
        eight = time(8),
        ten = time(10),
        cap = time(24),
        ceiling = time(40),
        every = at_least(MEASURE_MIN, 2),
    )
}

/// A build without SES does without its route.
fn by_ses(world: &World, base: &str, cap: &str, per: &str) -> String {
    if !Kind::Ses.is_built() {
        return String::new();
    }
    format!(
        "{}rate = {{ max = 100, per = \"{per}\" }}\n\
         [routes.email-ses]\npolicy = {{ base = \"{base}\", cap = \"{cap}\", max_attempts = 4 }}\n",
        ses::provider(&url(world.ses))
    )
}

pub fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}
