//! A server with its configuration, and the questions that every system's tests ask it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::given::{Place, Said, Server, eventually};

pub struct Scene {
    pub place: Place,
    server: Server,
}

impl Deref for Scene {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Scene {
    pub fn with(config: &str) -> Self {
        let place = Place::with(config);
        let server = place.serve();
        Scene { place, server }
    }

    /// On a store that is elsewhere, whatever the other tests use.
    pub fn on(store: &str, config: &str) -> Self {
        let place = Place::with(config);
        let server = place.serve_with(&["--store", store], &[]);
        Scene { place, server }
    }

    /// The same after a stop and a start.
    pub fn restarted(self) -> Self {
        let Scene { place, server } = self;
        server.stop();
        let server = place.serve();
        Scene { place, server }
    }

    pub fn recado(&self, arguments: &[&str]) -> Said {
        self.server.run(&self.place, arguments)
    }

    /// Enqueues by `recado send`, under an id of the test's choice.
    #[track_caller]
    pub fn send(&self, route: &str, company: &str, id: &str, data: &Value) {
        let data = data.to_string();
        let arguments = ["send", route, "--company", company, "--job-id", id, "--json", "--data", &data];
        let accepted = self.recado(&arguments).json();
        assert_eq!((accepted["jobId"].as_str(), accepted["duplicate"].as_bool()), (Some(id), Some(false)));
    }

    pub fn job(&self, id: &str) -> Value {
        self.get(&format!("/v1/jobs/{id}"))
    }

    #[track_caller]
    pub fn sent(&self, id: &str) -> Value {
        self.job_once(id, "sent")
    }

    /// The job, once it waits for the try after this one.
    #[track_caller]
    pub fn retrying(&self, id: &str, after: usize) -> Value {
        self.retrying_within(id, after, Duration::from_secs(30))
    }

    #[track_caller]
    pub fn retrying_within(&self, id: &str, after: usize, patience: Duration) -> Value {
        let started = Instant::now();
        loop {
            let job = self.job(id);
            let tried = job["attempts"].as_array().expect("attempts").len();
            if job["status"] == "retrying" && tried == after {
                return job;
            }
            let ended = job["status"] == "sent" || job["status"] == "failed" || tried > after;
            assert!(!ended && started.elapsed() < patience, "it does not wait for a retry: {job:#}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The dead letter, once the job has failed for this cause. It tells the same as the job does.
    #[track_caller]
    pub fn buried(&self, id: &str, cause: &str) -> Value {
        let job = self.job_once(id, "failed");
        let entry = self.get(&format!("/v1/dlq/{id}"));
        assert_eq!(entry["cause"], cause, "{entry:#}");
        assert_eq!(entry["attempts"], job["attempts"]);
        assert!(!entry["lastFailureReason"].as_str().expect("a reason").is_empty());
        entry
    }

    #[track_caller]
    pub fn is_not_buried(&self, id: &str) {
        assert_eq!(self.ask("GET", &format!("/v1/dlq/{id}"), &Value::Null).0, 404);
    }

    /// Adds an endpoint: its id and its secret.
    #[track_caller]
    pub fn endpoint(&self, company: &str, url: &str, events: &[&str]) -> (String, String) {
        let (status, body) =
            self.ask("POST", "/v1/endpoints", &json!({ "companyId": company, "url": url, "events": events }));
        assert_eq!(status, 201, "{body}");
        let text = |name: &str| body[name].as_str().expect("a text").to_owned();
        (text("id"), text("secret"))
    }

    /// A request whose answer's head matters: status, head and body.
    pub fn exchange(&self, method: &str, path: &str, body: &Value) -> (u16, String, Value) {
        let (address, body) = (self.address, body.to_string());
        let mut stream = TcpStream::connect(address).expect("a connection");
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all((head + &body).as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
        (status, head.to_ascii_lowercase(), serde_json::from_str(body).expect("JSON"))
    }

    /// Hears every event from now on.
    pub fn listen(&self) -> Listener {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        let head = format!("GET /v1/events HTTP/1.1\r\nhost: {}\r\n\r\n", self.address);
        stream.write_all(head.as_bytes()).expect("a request");
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        let status = lines.next().expect("an answer");
        assert!(status.contains(" 200 "), "{status}");
        assert!(lines.any(|line| line.is_empty()), "the head has an end");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let keeping = heard.clone();
        std::thread::spawn(move || {
            for line in lines {
                if let Some(data) = line.strip_prefix("data: ") {
                    keeping.lock().push(serde_json::from_str(data).expect("JSON"));
                }
            }
        });
        Listener { heard }
    }
}

/// Hears `GET /v1/events`.
pub struct Listener {
    heard: Arc<Mutex<Vec<Value>>>,
}

impl Listener {
    /// The first event of this kind about this: a job's id, an endpoint's or a company's.
    #[track_caller]
    pub fn hears(&self, kind: &str, about: &str) -> Value {
        let mut found = Value::Null;
        let is_about = |event: &Value| {
            event["type"] == kind
                && [&event["data"]["jobId"], &event["data"]["endpointId"], &event["companyId"]]
                    .iter()
                    .any(|id| **id == about)
        };
        eventually(|| {
            found = self.heard.lock().iter().find(|event| is_about(event)).cloned().unwrap_or_default();
            !found.is_null()
        });
        found
    }

    /// Events of this kind so far.
    pub fn count(&self, kind: &str) -> usize {
        self.heard.lock().iter().filter(|event| event["type"] == kind).count()
    }
}

/// Each attempt in a line: result, code, class, rule.
pub fn tries(job: &Value) -> Vec<String> {
    let attempts = job["attempts"].as_array().expect("attempts").iter();
    let line = |attempt: &Value| {
        let words = ["result", "errorCode", "errorClassification", "rule"];
        let words: Vec<_> = words.iter().filter_map(|name| attempt[name].as_str()).collect();
        words.join(" ")
    };
    attempts.map(line).collect()
}

/// The milliseconds that were waited after each attempt but the last.
pub fn waits(job: &Value) -> Vec<u64> {
    let attempts = job["attempts"].as_array().expect("attempts").iter();
    attempts.filter_map(|attempt| attempt["nextRetryDelayMs"].as_u64()).collect()
}
