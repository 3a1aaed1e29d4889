//! A `redis-server` of a test's own, on a loopback port and in a directory that goes with it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Forces every write to disk before it answers.
pub const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// Ends with the test.
pub struct Redis {
    port: u16,
    settings: Vec<String>,
    dir: TempDir,
    process: Child,
}

impl Redis {
    pub fn with(settings: &[&str]) -> Self {
        let settings: Vec<_> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        for _ in 0..20 {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            let port = free.expect("a free port").port();
            let dir = tempfile::tempdir().expect("a directory");
            // Another process may have been faster to take the port.
            if let Some(process) = start(port, &dir, &settings) {
                return Redis { port, settings, dir, process };
            }
        }
        panic!("redis-server does not start");
    }

    /// Three masters of a Cluster, a third of the slots each, that goes on without one of them; and its URL.
    pub fn cluster() -> (Vec<Redis>, String) {
        let bus = || TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let start = |_| {
            let bus = bus().expect("a free port").port().to_string();
            let lasting = ["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"];
            (Redis::with(&[&lasting[..], &["--cluster-port", &bus]].concat()), bus)
        };
        let masters: Vec<_> = (0..3).map(start).collect();
        for ((redis, _), slots) in masters.iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
            redis.say(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
        }
        for (redis, bus) in &masters[1..] {
            masters[0].0.say(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", redis.port));
        }
        let is_whole = |redis: &Redis| {
            let info = redis.say("CLUSTER INFO");
            info.contains("cluster_state:ok") && info.contains("cluster_size:3")
        };
        super::eventually(|| masters.iter().all(|(redis, _)| is_whole(redis)));
        let addresses: Vec<_> =
            masters.iter().map(|(redis, _)| format!("127.0.0.1:{}", redis.port)).collect();
        let url = format!("redis+cluster://{}", addresses.join(","));
        (masters.into_iter().map(|(redis, _)| redis).collect(), url)
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// As `kill -9`: what is not on disk is gone.
    pub fn kill(&mut self) {
        self.process.kill().expect("SIGKILL");
        self.process.wait().expect("it ended");
    }

    /// It stands still, with its connections open.
    pub fn freeze(&self) {
        let id =
            i32::try_from(self.process.id()).ok().and_then(rustix::process::Pid::from_raw).expect("an id");
        rustix::process::kill_process(id, rustix::process::Signal::STOP).expect("SIGSTOP");
    }

    /// After a kill: the same port, the same files.
    pub fn start_again(&mut self) {
        self.process = start(self.port, &self.dir, &self.settings).expect("redis-server starts again");
    }

    /// A command in a line, and the answer as it came.
    pub fn say(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(!answer.starts_with('-'), "{command}: {answer}");
        answer
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `None` when it ended before it was ready.
fn start(port: u16, dir: &TempDir, settings: &[String]) -> Option<Child> {
    let mut process = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(dir.path())
        .args(settings)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("redis-server is not installed; `cargo xtask setup` installs it");
    let log = BufReader::new(process.stdout.take().expect("a pipe"));
    let mut lines = log.lines().map_while(Result::ok);
    let ready = lines.any(|line| line.contains("Ready to accept connections"));
    // The pipe must not fill up.
    std::thread::spawn(move || lines.for_each(drop));
    if !ready {
        let _ = process.wait();
    }
    ready.then_some(process)
}
