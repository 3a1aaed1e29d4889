//! A shortage of our own: it spends no attempt, blames no provider, moves no breaker, and keeps no caller out.

use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::far_ends::{FarEnd, json as answer};
use super::given::{Place, Server, eventually};
use super::observing::fetch;
use super::scene::tries;

/// Descriptors of the server in these tests: few, so that the test itself gets by with its own.
const DESCRIPTORS: u32 = 256;

/// Less than silent sockets may live before the server closes them by itself.
const SOON: Duration = Duration::from_secs(8);

/// Starts a server whose process may have so many file descriptors and no more.
fn serve_with_descriptors(place: &Place, max: u32) -> Server {
    let serve = place.serve_command();
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("ulimit -n {max}; exec \"$0\" \"$@\""));
    command.arg(serve.get_program()).args(serve.get_args());
    command.current_dir(place.path()).env_clear().stdin(Stdio::null());
    command.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    place.start(command)
}

#[test]
fn idle_sockets_take_no_descriptor_from_deliveries_and_keep_no_caller_out() {
    let far_end = FarEnd::start(|_| answer(200, json!({})));
    let config = format!(
        "[providers.main]\nurl = \"{}\"\nbreaker = {{ failures = 1 }}\n[routes.main]\npolicy = {{ max_attempts = 1 }}\n",
        far_end.url()
    );
    let place = Place::with(&config);
    let server = serve_with_descriptors(&place, DESCRIPTORS);
    let job = |id: &str, delay_ms: u64| {
        let data = json!({ "path": "v1/things", "body": {} });
        json!({ "jobId": id, "route": "main", "companyId": "acme", "data": data, "delayMs": delay_ms })
    };
    assert_eq!(server.ask("POST", "/v1/jobs", &job("before", 2_000)).0, 202);
    let idle: Vec<_> = (0..DESCRIPTORS + 64)
        .map(|_| TcpStream::connect(server.address).expect("the system takes a connection"))
        .collect();
    let opened = Instant::now();
    assert_eq!(server.ask("POST", "/v1/jobs", &job("meanwhile", 0)).0, 202);
    let took = opened.elapsed();
    assert!(took < SOON, "a caller waited for {took:?}");
    for id in ["before", "meanwhile"] {
        let job = server.job_once(id, "sent");
        assert_eq!(tries(&job), ["sent"], "{job:#}");
    }
    assert_eq!(server.get("/v1/providers/main")["state"], "CLOSED");
    drop(idle);
}

/// Deliveries at the same time would take more descriptors than there are.
#[test]
fn a_delivery_without_a_descriptor_spends_no_attempt_and_moves_no_breaker() {
    const JOBS: usize = 120;
    let far_end = FarEnd::start(|_| answer(200, json!({})).after(Duration::from_secs(1)));
    let config = format!(
        "[providers.main]\nurl = \"{}\"\nconcurrency = 200\nbreaker = {{ failures = 1, reset = \"1h\" }}\n\
         [routes.main]\npolicy = {{ max_attempts = 1, base = \"20ms\" }}\n",
        far_end.url()
    );
    let place = Place::with(&config);
    let server = serve_with_descriptors(&place, 96);
    let job = |n: usize| {
        let data = json!({ "path": "v1/things", "body": {} });
        json!({ "jobId": format!("job-{n}"), "route": "main", "companyId": "acme", "data": data })
    };
    let jobs: Vec<_> = (0..JOBS).map(job).collect();
    let (status, body) = server.ask("POST", "/v1/jobs/batch", &json!(jobs));
    assert_eq!(status, 200, "{body}");
    // Until then the server may be too short of descriptors to answer a request.
    eventually(|| far_end.ledger().len() >= JOBS);
    for n in 0..JOBS {
        let mut job = Value::Null;
        eventually(|| {
            // The last deliveries still hold theirs, and a read of the store may need one.
            let (status, shown) = server.ask("GET", &format!("/v1/jobs/job-{n}"), &Value::Null);
            job = shown;
            status == 200 && job["status"] == "sent"
        });
        assert_eq!(tries(&job), ["sent"], "{job:#}");
    }
    assert_eq!(server.get("/v1/providers/main")["state"], "CLOSED");
    let metrics = fetch(server.address, "/metrics");
    let shortages = metrics.lines().find_map(|line| line.strip_prefix("recado_local_shortages_total "));
    assert_ne!(
        shortages.expect("the counter"),
        "0",
        "no delivery was short of a descriptor: nothing was tested"
    );
}
