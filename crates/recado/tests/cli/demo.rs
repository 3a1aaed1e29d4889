//! `recado demo` from outside: nothing configured before, everything alive meanwhile, nothing left afterwards.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;

use super::given::{Place, ask, eventually};

/// Every route but the sandbox, which opens no connection.
const ROUTES: [&str; 9] =
    ["email", "email-ses", "whatsapp", "tiss-claims", "instagram", "tiktok", "youtube", "openai", "webhook"];

/// A whole cycle within a test's patience.
const FAST: [&str; 2] = ["--speed", "10"];

/// A demonstration that runs. Ends with the test.
struct Demo {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    address: SocketAddr,
    temporary: PathBuf,
}

impl Demo {
    fn start(place: &Place, arguments: &[&str]) -> Demo {
        let mut child = command(place, arguments).spawn().expect("the demo starts");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (stdout, kept) = (child.stdout.take().expect("a pipe"), lines.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                kept.lock().push(line);
            }
        });
        let mut address = None;
        eventually(|| {
            let said =
                |line: &String| line.strip_prefix("Recado is at http://")?.split(": ").next()?.parse().ok();
            address = lines.lock().iter().find_map(said);
            address.is_some()
        });
        let demo = Demo { child, lines, address: address.expect("an address"), temporary: temporary(place) };
        demo.says("What to try in a second terminal");
        demo
    }

    fn get(&self, path: &str) -> Value {
        let (status, body) = ask(self.address, "GET", path, &Value::Null).expect("an answer");
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Waits for a line with these words.
    #[track_caller]
    fn says(&self, words: &str) {
        eventually(|| self.lines.lock().iter().any(|line| line.contains(words)));
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    }

    /// Its exit status, once it has ended.
    #[track_caller]
    fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        eventually(|| {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        status.expect("it has ended")
    }

    #[track_caller]
    fn left_nothing_behind(&self) {
        assert_eq!(leftovers(&self.temporary), Vec::<PathBuf>::new());
        assert!(TcpStream::connect(self.address).is_err());
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(place: &Place, arguments: &[&str]) -> Command {
    let temporary = temporary(place);
    std::fs::create_dir_all(&temporary).expect("a directory");
    let mut command = place.command(&["demo"]);
    command.args(arguments).env("TMPDIR", temporary).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn temporary(place: &Place) -> PathBuf {
    place.path().join("temporary")
}

fn leftovers(temporary: &std::path::Path) -> Vec<PathBuf> {
    std::fs::read_dir(temporary).expect("a directory").map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn with_nothing_configured_every_route_delivers_breakers_open_and_close_letters_die_and_ctrl_c_leaves_nothing()
 {
    let place = Place::new();
    let mut demo = Demo::start(&place, &[&FAST[..], &["--listen", "127.0.0.1:0"]].concat());
    assert_eq!(demo.get("/healthz")["status"], "alive");
    let page = raw(demo.address, "/");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<title>"), "{page}");

    demo.says("Instagram is down");
    demo.says("instagram: breaker open");
    demo.says("instagram: breaker half open");
    demo.says("instagram: breaker closed");
    demo.says("pet-feliz: endpoint switched off");
    for route in ROUTES {
        let sent =
            || demo.get(&format!("/v1/jobs?status=sent&route={route}&limit=1"))["items"][0].is_object();
        eventually(sent);
    }
    eventually(|| {
        let stats = demo.get("/v1/dlq/stats?by=fingerprint");
        stats["items"].as_array().is_some_and(|groups| groups.len() >= 5)
    });
    let companies = demo.get("/v1/tenants")["items"].as_array().map(Vec::len);
    assert!(companies.is_some_and(|count| count >= 8), "{companies:?}");
    // Signatures were checked: a receiver that found one wrong would have said 401.
    let refused = demo.get("/v1/dlq?route=webhook&lastFailureCode=401");
    assert_eq!(refused["items"], serde_json::json!([]));
    stays_on_this_machine(&demo);

    demo.signal("INT");
    assert!(demo.ended().success());
    demo.says("Nothing of it is left.");
    demo.left_nothing_behind();
    assert_eq!(leftovers(place.path()), [temporary(&place)], "something is in the working directory");
}

#[test]
fn after_its_time_it_stops_by_itself_and_tells_how_its_routes_fared() {
    let place = Place::new();
    place.write("recado.toml", "[server]\nlisten = \"this is no address\"\n");
    let mut demo = Demo::start(&place, &[&FAST[..], &["--listen", "127.0.0.1:0", "--for", "3s"]].concat());
    assert!(demo.ended().success(), "a recado.toml that lies around is nothing to it");
    demo.says("Nothing of it is left.");
    let lines = demo.lines.lock().clone();
    let from = lines.iter().position(|line| line.starts_with("route ")).expect("a table");
    let told: BTreeSet<_> = lines[from + 1..].iter().filter_map(|line| line.split(' ').next()).collect();
    assert!(told.contains("email"), "{lines:#?}");
    demo.left_nothing_behind();
}

#[test]
fn what_a_killed_one_left_is_swept_by_the_next_and_sigterm_is_a_clean_end_too() {
    let place = Place::new();
    let mut killed = Demo::start(&place, &["--listen", "127.0.0.1:0"]);
    let left = leftovers(&temporary(&place));
    assert_eq!(left.len(), 1, "{left:?}");
    killed.signal("KILL");
    assert!(!killed.ended().success());
    assert_eq!(leftovers(&temporary(&place)), left, "the fault did not fire");

    let mut next = Demo::start(&place, &["--listen", "127.0.0.1:0"]);
    assert!(!left[0].exists(), "the leftover is still there");
    next.signal("TERM");
    assert!(next.ended().success());
    next.left_nothing_behind();
}

#[test]
fn when_its_port_is_taken_it_says_which_one_it_takes_instead() {
    // Another server on that port serves as well.
    let _taken = TcpListener::bind("127.0.0.1:7400");
    let place = Place::new();
    let mut demo = Demo::start(&place, &["--for", "1s"]);
    demo.says(&format!("Port 7400 is taken, so this is on {}.", demo.address.port()));
    demo.says(&format!("recado top --url http://{}", demo.address));
    assert!(demo.ended().success());
    demo.left_nothing_behind();
}

#[test]
fn an_address_that_was_asked_for_and_cannot_be_had_is_an_error_that_says_what_to_do() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = command(&place, &["--listen", &address]).output().expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("another process does") && err.contains("--listen"), "{err}");

    let output = command(&place, &["--listen", "0.0.0.0:7499"]).output().expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("127.0.0.1:7500"), "{err}");

    let output = command(&place, &["--for", "0s"]).output().expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{err}");
    assert!(err.contains("--for 0 leaves nothing to see"), "{err}");
    assert_eq!(leftovers(&temporary(&place)), Vec::<PathBuf>::new());
}

#[test]
fn when_its_reader_leaves_it_ends_and_leaves_nothing_behind() {
    let place = Place::new();
    let mut child =
        command(&place, &["--listen", "127.0.0.1:0", "--speed", "20"]).spawn().expect("the demo starts");
    let mut first = [0; 10];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("a few words");
    let mut status = None;
    eventually(|| {
        status = child.try_wait().expect("a child");
        status.is_some()
    });
    assert!(status.is_some_and(|status| status.success()));
    assert_eq!(leftovers(&temporary(&place)), Vec::<PathBuf>::new());
}

fn raw(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let head =
        format!("GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: text/html\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Looks at the process's sockets for a while: both ends must be on this machine.
fn stays_on_this_machine(demo: &Demo) {
    let process = PathBuf::from(format!("/proc/{}", demo.child.id()));
    let until = Instant::now() + Duration::from_secs(1);
    let mut connections = 0;
    while Instant::now() < until {
        let sockets: BTreeSet<_> = std::fs::read_dir(process.join("fd"))
            .expect("open files")
            .filter_map(|file| {
                std::fs::read_link(file.ok()?.path()).ok()?.into_os_string().into_string().ok()
            })
            .filter_map(|name| Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
            .collect();
        for protocol in ["tcp", "tcp6", "udp", "udp6"] {
            let table = std::fs::read_to_string(process.join("net").join(protocol)).unwrap_or_default();
            for row in table.lines().skip(1) {
                let columns: Vec<_> = row.split_whitespace().collect();
                let (local, remote, inode) = (columns[1], columns[2], columns[9]);
                if !sockets.contains(inode) {
                    continue;
                }
                // 127.0.0.1 as the kernel writes it; a socket that listens has no other side.
                let is_here = |address: &str| address.starts_with("0100007F:");
                assert!(is_here(local), "{protocol}: {row}");
                assert!(is_here(remote) || remote == "00000000:0000", "{protocol}: {row}");
                connections += usize::from(is_here(remote));
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(connections > 0, "no socket was looked at");
}
