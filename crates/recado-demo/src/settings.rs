//! The configuration that the demonstration runs on: what an operator would write, with every wait shortened so that
//! a whole story fits into a cycle.

use std::net::SocketAddr;
use std::time::Duration;

use recado_config::catalogue::Kind;
use recado_core::time::show_duration;

use super::far_ends::{evolution, graph, mail, openai, receiver, ses, tiktok, youtube};
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

    let breaker = format!("within = \"{}\", reset = \"{}\", ramp = \"{}\"", time(20), time(6), time(5));
    let social = format!("policy = {{ schedule = [{}] }}", waits(&[0, 4, 12]));
    let window = format!("window = \"{}\", pending = \"{}\"", at_least(WINDOW_MIN, 60), time(5));
    format!(
        r#"
{smtp}concurrency = 8
{evolution}concurrency = 8
{instagram}concurrency = 8
breaker = {{ failures = 5, {breaker} }}
{tiktok}concurrency = 8
breaker = {{ failures = 5, {breaker} }}
{youtube}concurrency = 8
breaker = {{ failures = 5, {breaker} }}
{openai}concurrency = 8
breaker = {{ failures = 3, {breaker} }}
{webhook}
{ops}
[routes.email]
policy = {{ base = "{one}", cap = "{eight}", max_attempts = 4 }}
[routes.whatsapp]
policy = {{ schedule = [{whatsapp}] }}
[routes.tiss-claims]
policy = {{ base = "{three}", cap = "{cap}", floor = "{one}", ceiling = "{ceiling}", max_attempts = 4 }}
fallback = {{ on = ["dead"], do = "mark_failed", notify = "ops" }}
[routes.instagram]
{social}
[routes.tiktok]
{social}
[routes.youtube]
{social}
[routes.openai]
{social}
[routes.webhook]
policy = {{ schedule = [{callbacks}] }}
{ses}
[alerts]
every = "{every}"
notify = "ops"
dlq_size = {{ threshold = 40, clear = "{ten}" }}
dlq_company = {{ threshold = 20, clear = "{ten}" }}
breaker_open = {{ clear = "{three}" }}
queue_age = {{ threshold = 10, pending = "{three}", clear = "{ten}" }}
failure_rate = {{ threshold = 0.2, {window}, clear = "{ten}" }}
dlq_rate = {{ threshold = 0.1, {window}, clear = "{ten}" }}
permanent_rate = {{ threshold = 0.2, {window}, clear = "{ten}" }}

# It may run for days, and what is in it is of no use to anybody.
[engine]
stop_grace = "5s"
[retention]
ended_max_age = "30m"
[dlq]
ttl = "30m"
max_size = 2000
"#,
        smtp = mail::provider(world.relay),
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
