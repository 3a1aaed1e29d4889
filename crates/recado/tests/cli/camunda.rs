//! The binary between a real server and a process engine: `recado camunda`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use recado_testkit::camunda::{CamundaTask, FakeCamunda, Guard, TaskStatus};
use serde_json::{Value, json};

use super::given::{Place, Server, eventually};

#[derive(Clone, Copy, Debug)]
enum Version {
    Eight,
    Seven,
}

const BOTH: [Version; 2] = [Version::Eight, Version::Seven];

/// A running `recado camunda`. Ends with the test.
struct Worker {
    child: Child,
    lines: Arc<Mutex<Vec<Value>>>,
}

impl Worker {
    fn start(
        place: &Place,
        version: Version,
        fake: &FakeCamunda,
        server: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let (engine, url) = match version {
            Version::Eight => ("8", fake.url("")),
            Version::Seven => ("7", fake.url("/engine-rest")),
        };
        let mut command = place.command(&["camunda", "--engine", engine, "--url", &url, "--server", server]);
        command.args(arguments).envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the worker starts");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (stdout, kept) = (child.stdout.take().expect("a pipe"), Arc::clone(&lines));
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
                kept.lock().push(line);
            }
        });
        let worker = Worker { child, lines };
        worker.logged("Working for the process engine");
        worker
    }

    fn usual(place: &Place, version: Version, fake: &FakeCamunda, server: &Server) -> Self {
        Worker::start(place, version, fake, &server.url(), &[], &[])
    }

    /// The first log line with this message, once it is there.
    #[track_caller]
    fn logged(&self, message: &str) -> Value {
        let find = || self.lines.lock().iter().find(|line| line["message"] == message).cloned();
        eventually(|| find().is_some());
        find().expect("it was there")
    }

    fn terminate(&self) {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    }

    #[track_caller]
    fn ends_well(self) {
        let (code, err) = self.ends();
        assert_eq!(code, Some(0), "{err}");
    }

    /// Its exit code and its last words, once it has ended by itself.
    #[track_caller]
    fn ends(mut self) -> (Option<i32>, String) {
        let mut status = None;
        eventually(|| {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        let mut err = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
        (status.and_then(|status| status.code()), err)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn claim(id: &str, error: &str, retry_count: i64) -> Value {
    json!({"claimId": id, "submissionError": error, "retryCount": retry_count, "patient": "Ana"})
}

fn output(job: &CamundaTask, name: &str) -> Value {
    let value = &job.outputs[name];
    value.get("value").unwrap_or(value).clone()
}

#[test]
fn t19_t23_a_job_for_each_required_scenario() {
    for version in BOTH {
        let (place, fake) = (Place::new(), FakeCamunda::start());
        let server = place.serve();
        let _worker = Worker::usual(&place, version, &fake, &server);
        for (count, range) in [(0, 5..=6), (1, 8..=12), (2, 16..=24), (3, 32..=48), (4, 64..=96)] {
            let job = fake.ended(&fake.add(claim("CLM-1", "SERVICE_UNAVAILABLE", count)));
            assert_eq!(job.status, TaskStatus::Completed, "{version:?} {job:?}");
            let minutes = output(&job, "backoffMinutes").as_i64().expect("minutes");
            assert!(range.contains(&minutes), "retry {count} after {minutes} min");
            assert_eq!(output(&job, "shouldRetry"), true);
            assert_eq!(output(&job, "retryCount"), count + 1);
            assert_eq!(output(&job, "retryReason"), format!("Retry {} of 5", count + 1));
            assert_eq!(output(&job, "errorClassification"), "TRANSIENT");
            assert!(output(&job, "nextRetryTime").is_string());
        }
        let unknown = fake.ended(&fake.add(claim("CLM-2", "the flux is inverted", 0)));
        assert_eq!(
            (unknown.status.clone(), output(&unknown, "errorClassification")),
            (TaskStatus::Completed, "UNKNOWN".into())
        );
        let permanent = fake.ended(&fake.add(claim("CLM-3", "INVALID_PROCEDURE_CODE", 0)));
        assert_eq!(
            (permanent.status, permanent.error_code.as_deref()),
            (TaskStatus::Thrown, Some("PERMANENT_ERROR"))
        );
        assert_eq!(permanent.message.as_deref(), Some("INVALID_PROCEDURE_CODE"));
        let exhausted = fake.ended(&fake.add(claim("CLM-4", "TIMEOUT", 5)));
        assert_eq!(
            (exhausted.status, exhausted.error_code.as_deref()),
            (TaskStatus::Thrown, Some("MAX_RETRIES_EXCEEDED"))
        );
        let invalid = fake.ended(&fake.add(claim("CLM-5", " ", -1)));
        assert_eq!((invalid.status, invalid.retries), (TaskStatus::Incident, Some(0)));
        let message = invalid.message.expect("a message");
        assert!(message.contains("submissionError") && message.contains("retryCount"), "{message}");
    }
}

#[test]
fn t19_t22_every_decision_is_logged_here_and_on_record_there() {
    let (place, fake) = (Place::new(), FakeCamunda::start());
    let server = place.serve();
    let worker = Worker::usual(&place, Version::Eight, &fake, &server);
    let job = fake.ended(&fake.add(claim("CLM-7", "SERVICE_UNAVAILABLE for Ana", 0)));
    let line = worker.logged("Retry scheduled");
    assert_eq!(line["event"], "submission_retry_scheduled");
    assert_eq!((&line["claimId"], &line["retryCount"]), (&json!("CLM-7"), &json!(1)));
    assert_eq!(line["errorClassification"], "TRANSIENT");
    assert_eq!(line["backoffMinutes"], output(&job, "backoffMinutes"));
    assert_eq!(line["nextRetryTime"], output(&job, "nextRetryTime"));
    let there = server.logged("Retry scheduled", 1);
    assert_eq!(there[0]["nextRetryTime"], line["nextRetryTime"], "the server decided");
    let all = format!("{:?}", worker.lines.lock());
    assert!(!all.contains("Ana"), "a variable's content is in {all}");
}

#[test]
fn t19_in_backoff_mode_the_job_waits_in_the_engine() {
    for version in BOTH {
        let (place, fake) = (Place::new(), FakeCamunda::start());
        let server = place.serve();
        let _worker = Worker::start(&place, version, &fake, &server.url(), &["--mode", "backoff"], &[]);
        let key = fake.add(claim("CLM-1", "TIMEOUT", 0));
        fake.until(|state| state.jobs[&key].message.is_some());
        let job = fake.job(&key);
        assert_eq!((job.status, job.retries), (TaskStatus::Open, Some(4)));
        let minutes = job.locked_until_ms / 60_000;
        assert!((5..=6).contains(&minutes), "{version:?}: {minutes} min");
        fake.advance(Duration::from_secs(60 * minutes));
        let job = fake.ended(&key);
        assert_eq!(
            (job.status.clone(), output(&job, "backoffMinutes")),
            (TaskStatus::Completed, json!(minutes))
        );
    }
}

#[test]
fn t19_a_sigterm_lets_the_job_at_hand_end_and_takes_no_more() {
    for version in BOTH {
        let (place, fake) = (Place::new(), FakeCamunda::start());
        let server = place.serve();
        let worker = Worker::usual(&place, version, &fake, &server);
        fake.until(|state| state.polls_waiting == 1);
        // A server that stands still keeps the job between its taking and its report.
        server.signal("STOP");
        let taken = fake.add(claim("CLM-1", "TIMEOUT", 0));
        fake.until(|state| state.jobs[&taken].handed_out == 1 && state.polls_waiting == 1);
        worker.terminate();
        worker.logged("Stopping: jobs at hand end first; a second signal stops at once");
        fake.until(|state| state.polls_waiting == 0);
        let late = fake.add(claim("CLM-2", "TIMEOUT", 0));
        server.signal("CONT");
        worker.ends_well();
        assert_eq!(fake.job(&taken).status, TaskStatus::Completed, "{version:?}");
        assert_eq!(fake.job(&late).handed_out, 0);
    }
}

#[test]
fn a_second_sigterm_stops_at_once_and_the_job_comes_back() {
    let (place, fake) = (Place::new(), FakeCamunda::start());
    let server = place.serve();
    let worker = Worker::usual(&place, Version::Eight, &fake, &server);
    server.signal("STOP");
    let key = fake.add(claim("CLM-1", "TIMEOUT", 0));
    // It asks for more only once it has this one.
    fake.until(|state| state.jobs[&key].handed_out == 1 && state.polls_waiting == 1);
    worker.terminate();
    worker.logged("Stopping: jobs at hand end first; a second signal stops at once");
    worker.terminate();
    let (code, err) = worker.ends();
    assert_eq!(code, Some(1));
    assert!(err.contains("jobs at hand are offered again"), "{err}");
    let job = fake.job(&key);
    assert_eq!((job.status, job.retries), (TaskStatus::Open, Some(3)));
    server.signal("CONT");
}

#[test]
fn t19_an_engine_that_goes_away_is_served_again_when_it_is_back() {
    for version in BOTH {
        let (place, mut fake) = (Place::new(), FakeCamunda::start());
        let server = place.serve();
        let worker = Worker::usual(&place, version, &fake, &server);
        fake.until(|state| state.polls_waiting == 1);
        fake.go_away();
        let away = worker.logged("Cannot fetch jobs from the process engine");
        assert!(
            away["error"].as_str().is_some_and(|why| why.contains("is the process engine running")),
            "{away}"
        );
        let key = fake.add(claim("CLM-1", "TIMEOUT", 0));
        fake.come_back();
        assert_eq!(fake.ended(&key).status, TaskStatus::Completed, "{version:?}");
        worker.logged("The process engine answers again");
    }
}

#[test]
fn t19_without_a_server_jobs_go_back_with_all_their_retries() {
    for (version, retries) in [(Version::Eight, Some(3)), (Version::Seven, None)] {
        let (place, fake) = (Place::new(), FakeCamunda::start());
        let worker = Worker::start(&place, version, &fake, "http://127.0.0.1:9", &[], &[]);
        let key = fake.add(claim("CLM-1", "TIMEOUT", 0));
        let line = worker.logged("No decision; the job goes back with all its retries");
        assert!(
            line["error"].as_str().is_some_and(|why| why.contains("is `recado serve` running")),
            "{line}"
        );
        fake.until(|state| {
            let back = |path: &str| path.ends_with("/failure") || path.ends_with("/unlock");
            state.requests.iter().any(|request| back(&request.path))
        });
        let job = fake.job(&key);
        assert_eq!((job.status, job.retries), (TaskStatus::Open, retries), "{version:?}");
        worker.terminate();
        worker.ends_well();
    }
}

#[test]
fn a_route_that_the_server_does_not_know_harms_no_job() {
    let (place, fake) = (Place::new(), FakeCamunda::start());
    let server = place.serve();
    let arguments = ["--route", "tiss-clams"];
    let worker = Worker::start(&place, Version::Eight, &fake, &server.url(), &arguments, &[]);
    let key = fake.add(claim("CLM-1", "TIMEOUT", 0));
    let line = worker.logged("No decision; the job goes back with all its retries");
    assert!(line["error"].as_str().is_some_and(|why| why.contains("tiss-claims")), "{line}");
    assert_eq!(fake.job(&key).status, TaskStatus::Open);
}

#[test]
fn secrets_come_from_variables() {
    let (place, fake) = (Place::new(), FakeCamunda::start());
    let server = place.serve();
    fake.guard(Guard::OAuth { secret: "s3cr3t".to_owned(), lives_seconds: 3_600, revoked: 0 });
    let token_url = fake.url("/oauth/token");
    let variables = [
        ("CAMUNDA_OAUTH_URL", token_url.as_str()),
        ("CAMUNDA_CLIENT_ID", "recado"),
        ("CAMUNDA_CLIENT_SECRET", "s3cr3t"),
        ("CAMUNDA_TOKEN_AUDIENCE", "zeebe-api"),
    ];
    let worker = Worker::start(&place, Version::Eight, &fake, &server.url(), &[], &variables);
    let job = fake.ended(&fake.add(claim("CLM-1", "TIMEOUT", 0)));
    assert_eq!((job.status, fake.tokens_granted()), (TaskStatus::Completed, 1));
    assert!(!format!("{:?}", worker.lines.lock()).contains("s3cr3t"));
}

#[test]
fn faults_of_usage_say_what_to_give() {
    let place = Place::new();
    let url = ["camunda", "--url", "http://localhost:8080"];
    for (arguments, advice) in [
        (&["--token", "a", "--user", "b"][..], "give one of --token, --user and --oauth-url"),
        (&["--user", "b"], "CAMUNDA_PASSWORD"),
        (&["--oauth-url", "http://localhost/token"], "--client-id"),
        (&["--oauth-url", "http://localhost/token", "--client-id", "c"], "CAMUNDA_CLIENT_SECRET"),
        (&["--lock", "1s"], "at least 20s"),
        (&["--poll", "2h"], "1ms to 30m"),
        (&["--engine", "9"], "[possible values: 8, 7]"),
    ] {
        let said = place.run(&[&url, arguments].concat()).failed_with(2);
        assert!(said.contains(advice), "{arguments:?}: {said}");
    }
    let said = place.run(&["camunda", "--url", "localhost:8080"]).failed_with(2);
    assert!(said.contains("write one such as http://localhost:8080"), "{said}");
    assert!(place.run(&["camunda", "--help"]).done().contains("EXAMPLES:"));
}
