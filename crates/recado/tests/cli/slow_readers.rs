//! Readers that ask for large answers and do not take them: what the server holds for them has a bound.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::given::{FAST, Place, Server, eventually};

/// Memory that slow readers may cost the server, as SECURITY.md says.
const GROWTH_MAX_KIB: u64 = 256 << 10;

/// Without a bound each reader would be owed all of them, sixty times 10 MB.
const LETTERS: usize = 10;
const READERS: usize = 60;
const PAGES: &str = "/v1/dlq?limit=200";

/// Dead letters of 1 MB each.
fn bury_large(server: &Server) {
    let data = json!({"script": ["550 no such user"], "pad": "x".repeat(1_000_000)});
    let job =
        |n| json!({"jobId": format!("large-{n}"), "route": "sandbox", "companyId": "acme", "data": data});
    let jobs: Vec<Value> = (0..LETTERS).map(job).collect();
    let (status, answer) = server.ask("POST", "/v1/jobs/batch", &json!(jobs));
    assert_eq!((status, &answer["accepted"]), (200, &json!(LETTERS)));
    eventually(|| get_in_time(server, "/v1/dlq/stats")["total"] == LETTERS);
}

/// Asks, and takes nothing of the answer.
fn ask_and_stall(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let head = format!("GET {PAGES} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", server.address);
    stream.write_all(head.as_bytes()).expect("a request");
    stream
}

/// A value of `/proc/…/status`, in KiB.
fn status_kib(server: &Server, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("a process");
    let line = status.lines().find(|line| line.starts_with(name)).expect("a value");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

/// The whole answer, or nothing if it was cut off.
fn read_on(mut stream: TcpStream) -> Option<(u16, Value)> {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let text = String::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}

/// The answer, asked for again while the server says that it has no room, or that Redis is busy with the large ones.
fn get_in_time(server: &Server, path: &str) -> Value {
    let mut found = Value::Null;
    eventually(|| {
        let (status, answer) = server.ask("GET", path, &Value::Null);
        assert!(matches!(status, 200 | 503), "{path}: {answer}");
        found = answer;
        status == 200
    });
    found
}

#[test]
fn readers_that_do_not_read_cost_no_more_than_the_budget_and_hold_back_no_other() {
    let place = Place::with(FAST);
    let server = place.serve();
    bury_large(&server);
    // From here on the high-water mark counts.
    std::fs::write(format!("/proc/{}/clear_refs", server.pid()), "5").expect("the mark is reset");
    let before_kib = status_kib(&server, "VmRSS:");
    let readers: Vec<_> = (0..READERS).map(|_| ask_and_stall(&server)).collect();

    let data = json!({"script": ["ok"]});
    let small = server.enqueue(json!({"route": "sandbox", "companyId": "acme", "data": data}));
    server.job_once(&small, "sent");
    let page = get_in_time(&server, PAGES);
    assert!(!page["items"].as_array().expect("items").is_empty());

    let grown_kib = status_kib(&server, "VmHWM:").saturating_sub(before_kib);
    println!("{READERS} readers: the server grew by {} MiB", grown_kib >> 10);
    assert!(grown_kib <= GROWTH_MAX_KIB, "the server grew by {} MiB", grown_kib >> 10);

    // A reader that goes on has a whole answer, or knows that it has not.
    let answers: Vec<_> = readers.into_iter().filter_map(read_on).collect();
    for (status, answer) in &answers {
        match status {
            200 => assert!(answer["items"].as_array().is_some_and(|items| !items.is_empty())),
            _ => assert_eq!((*status, &answer["code"]), (503, &json!("overloaded"))),
        }
    }
    assert!(answers.iter().any(|(status, _)| *status == 200), "not one reader got its answer");

    let (mut found, mut pages, mut path) = (0, 0, PAGES.to_owned());
    loop {
        let page = get_in_time(&server, &path);
        found += page["items"].as_array().expect("items").len();
        pages += 1;
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("{PAGES}&cursor={cursor}");
    }
    assert_eq!(found, LETTERS, "a walk by cursor sees all, on {pages} pages");
}
