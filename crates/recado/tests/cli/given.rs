//! A place to work in, a server in it, and ways to ask it.
//!
//! Servers keep their jobs in their directory, or, when `RECADO_TEST_STORE` is `redis`, each place has a
//! `redis-server` of its own and its servers keep them there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use recado_testkit::PATIENCE;
pub use recado_testkit::eventually;
use recado_testkit::redis::RedisServer;
use serde_json::Value;
use tempfile::TempDir;

/// A directory to run in, with nothing else from outside.
pub struct Place {
    home: Arc<Home>,
}

struct Home {
    dir: TempDir,
    /// The Redis of its servers, unless they are told otherwise.
    redis: Option<RedisServer>,
}

impl Place {
    pub fn new() -> Self {
        let redis = match std::env::var("RECADO_TEST_STORE").as_deref() {
            Ok("redis") => Some(RedisServer::durable()),
            Ok(other) => panic!("RECADO_TEST_STORE is `{other}`; write `redis`, or leave it out"),
            Err(_) => None,
        };
        Place { home: Arc::new(Home { dir: tempfile::tempdir().expect("a directory"), redis }) }
    }

    /// With a recado.toml.
    pub fn with(config: &str) -> Self {
        let place = Place::new();
        place.write("recado.toml", config);
        place
    }

    pub fn path(&self) -> &Path {
        self.home.dir.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("a file");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).expect("a file")
    }

    /// The binary in this directory, without the caller's environment variables.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_recado"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("USER", "tester")
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Said {
        Said::of(self.command(arguments).output().expect("the binary runs"))
    }

    /// The same, told where the servers of this place keep their jobs.
    pub fn run_on_store(&self, arguments: &[&str]) -> Said {
        Said::of(self.command(arguments).envs(self.store()).output().expect("the binary runs"))
    }

    fn store(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.home.redis.iter().map(|redis| ("RECADO_STORE_URL", redis.url()))
    }

    pub fn serve(&self) -> Server {
        self.serve_with(&[], &[])
    }

    pub fn serve_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Server {
        let mut command = self.serve_command();
        command.args(arguments).envs(variables.iter().copied());
        self.start(command)
    }

    pub fn serve_command(&self) -> Command {
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.envs(self.store());
        command
    }

    /// Starts a server by a command made of [`Place::serve_command`].
    pub fn start(&self, command: Command) -> Server {
        self.try_start(command).unwrap_or_else(|why| panic!("{why}"))
    }

    /// The same, of a server that may end before it is ready: with what and why.
    pub fn try_start(&self, mut command: Command) -> Result<Server, String> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Server::start(command.spawn().expect("the server starts"), self.home.clone())
    }
}

/// The exit code and output of a command.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Said {
            code: output.status.code().expect("an exit code"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    #[track_caller]
    pub fn done(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    #[track_caller]
    pub fn json(self) -> Value {
        serde_json::from_str(&self.done()).expect("JSON")
    }

    #[track_caller]
    pub fn failed_with(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        self.err
    }
}

/// A running server. Ends with the test.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    lines: Arc<Mutex<Vec<String>>>,
    /// Its directory and store live as long as it does.
    _home: Arc<Home>,
}

impl Server {
    fn start(mut child: Child, home: Arc<Home>) -> Result<Self, String> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (stdout, kept) = (child.stdout.take().expect("a pipe"), lines.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                kept.lock().push(line);
            }
        });
        let started = Instant::now();
        let address = loop {
            if let Some(address) = ready_at(&lines.lock()) {
                break address;
            }
            if let Some(status) = child.try_wait().expect("a child") {
                let mut why = String::new();
                child.stderr.take().expect("a pipe").read_to_string(&mut why).expect("text");
                return Err(format!("the server ended with {status}: {why}"));
            }
            assert!(started.elapsed() < PATIENCE, "the server is not ready");
            std::thread::sleep(Duration::from_millis(2));
        };
        Ok(Server { child, address, lines, _home: home })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything it has logged so far.
    pub fn log(&self) -> Vec<Value> {
        let lines = self.lines.lock();
        lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
            .collect()
    }

    /// Log lines with this message, once there are so many. A line comes a moment after what it tells.
    #[track_caller]
    pub fn logged(&self, message: &str, count: usize) -> Vec<Value> {
        let mut lines = Vec::new();
        eventually(|| {
            lines = self.log().into_iter().filter(|line| line["message"] == message).collect();
            lines.len() >= count
        });
        lines
    }

    /// One of the binary's own commands, asking this server.
    pub fn run(&self, place: &Place, arguments: &[&str]) -> Said {
        Said::of(place.command(arguments).env("RECADO_URL", self.url()).output().expect("the binary runs"))
    }

    /// A request over HTTP: status and body.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        ask(self.address, method, path, body).expect("an answer")
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    #[track_caller]
    pub fn enqueue(&self, job: Value) -> String {
        let (status, body) = self.ask("POST", "/v1/jobs", &job);
        assert_eq!(status, 202, "{body}");
        body["jobId"].as_str().expect("an id").to_owned()
    }

    /// The job, once `condition` holds of it.
    #[track_caller]
    pub fn job_when(&self, id: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Value::Null;
        eventually(|| {
            seen = self.get(&format!("/v1/jobs/{id}"));
            condition(&seen)
        });
        seen
    }

    #[track_caller]
    pub fn job_once(&self, id: &str, status: &str) -> Value {
        let ended = ["sent", "failed", "cancelled", "discarded"];
        let job =
            self.job_when(id, |job| job["status"] == status || ended.iter().any(|end| job["status"] == *end));
        assert_eq!(job["status"], status, "{job:#}");
        job
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    }

    /// Waits until it has ended by itself.
    pub fn ended(mut self) -> (ExitStatus, String) {
        let started = Instant::now();
        while self.is_alive() {
            assert!(started.elapsed() < PATIENCE, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = self.child.wait().expect("a child");
        let mut err = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
        (status, err)
    }

    /// Stops it the usual way.
    pub fn stop(self) {
        self.signal("TERM");
        let (status, err) = self.ended();
        assert!(status.success(), "{err}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request over HTTP to a server that may be there: status and body. An answer that was cut off is none.
pub fn ask(address: SocketAddr, method: &str, path: &str, body: &Value) -> std::io::Result<(u16, Value)> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all((head + &body).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let cut_off = || std::io::Error::other("the answer was cut off");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(cut_off)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(cut_off)?;
    Ok((status, serde_json::from_str(body).unwrap_or(Value::Null)))
}

fn ready_at(lines: &[String]) -> Option<SocketAddr> {
    let parsed = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ready = parsed.into_iter().find(|line| line["message"] == "Recado is ready")?;
    ready["address"].as_str()?.strip_prefix("http://")?.parse().ok()
}

/// Milliseconds between two times of the wire.
#[track_caller]
pub fn between_ms(earlier: &Value, later: &Value) -> i64 {
    let at =
        |time: &Value| time.as_str().expect("a time").parse::<recado_core::Timestamp>().expect("RFC 3339");
    at(later).as_millis() - at(earlier).as_millis()
}

/// Fast enough for a test, and otherwise as the sandbox comes.
pub const FAST: &str = "[routes.sandbox]\npolicy = { base = \"20ms\" }\n";
