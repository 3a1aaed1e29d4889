//! Lanes: a provider that is down, a company that is loud and a limit that is used up hold back their own
//! jobs and no others.
//!
//! The far end keeps the time: requests that came too soon or too often are counted there, and
//! no test asks how fast something went.

mod adaptive;
mod breaker;
mod failover;
mod fairness;
mod outage;
mod rates;
mod watched;

use std::net::TcpStream;

use serde_json::{Value, json};

use super::far_ends::{FarEnd, json as answer, page};
use super::given::{Server, eventually};
use super::scene::{Scene, tries};

/// A provider that takes everything until it is told otherwise.
fn far_end() -> FarEnd {
    FarEnd::start(|_| answer(200, json!({})))
}

/// The same, out of order.
fn broken() -> FarEnd {
    let far_end = far_end();
    far_end.always("", page(503));
    far_end
}

/// A provider and a route of the same name.
fn lane(name: &str, far_end: &FarEnd, terms: &str) -> String {
    let url = far_end.url();
    format!("[providers.{name}]\nurl = \"{url}\"\n{terms}[routes.{name}]\npolicy = {{ base = \"20ms\" }}\n")
}

/// It opens at the first failure and stays so for the rest of a test.
const OPENS_AT_ONCE: &str = "breaker = { failures = 1, reset = \"1h\" }\n";

fn data(words: &str) -> Value {
    json!({ "path": "v1/things", "body": { "words": words } })
}

/// Takes in `count` jobs of a company, named `company-0` and on.
#[track_caller]
fn enqueue(server: &Server, route: &str, company: &str, count: usize) -> Vec<String> {
    let ids: Vec<_> = (0..count).map(|at| format!("{company}-{at}")).collect();
    let job = |id: &String| json!({ "jobId": id, "route": route, "companyId": company, "data": data(id) });
    take_in(server, ids.iter().map(job).collect());
    ids
}

#[track_caller]
fn take_in(server: &Server, jobs: Vec<Value>) {
    for jobs in jobs.chunks(recado_wire::BATCH_JOBS_MAX) {
        let (status, body) = server.ask("POST", "/v1/jobs/batch", &json!(jobs));
        assert_eq!((status, &body["accepted"]), (200, &json!(jobs.len())), "{body}");
    }
}

/// The server after a death without notice and a start.
fn killed(scene: &Scene) -> Server {
    scene.signal("KILL");
    eventually(|| TcpStream::connect(scene.address).is_err());
    scene.place.serve()
}

#[track_caller]
fn tell(server: &Server, path: &str, body: Value) -> Value {
    let (status, told) = server.ask("POST", &format!("/v1/providers/{path}"), &body);
    assert_eq!(status, 200, "{path}: {told}");
    told
}

fn provider(server: &Server, name: &str) -> Value {
    server.get(&format!("/v1/providers/{name}"))
}

/// The job waits for this, and has spent nothing.
#[track_caller]
fn is_parked(server: &Server, id: &str, reason: &str) -> Value {
    let job = server.get(&format!("/v1/jobs/{id}"));
    assert_eq!((&job["status"], &job["waitingFor"]["reason"]), (&json!("parked"), &json!(reason)), "{job:#}");
    assert_eq!(tries(&job), Vec::<String>::new(), "{job:#}");
    job
}

fn jobs(server: &Server, route: &str) -> Vec<Value> {
    let list = server.get(&format!("/v1/jobs?route={route}&limit=1000"));
    list["items"].as_array().expect("jobs").clone()
}

/// The companies of the requests, in the order of their arrival.
fn companies(far_end: &FarEnd) -> Vec<String> {
    let company = |words: &Value| words.as_str().and_then(|words| words.split('-').next()).map(str::to_owned);
    far_end.ledger().iter().filter_map(|request| company(&request.json()["words"])).collect()
}

fn count(companies: &[String], name: &str) -> usize {
    companies.iter().filter(|company| *company == name).count()
}
