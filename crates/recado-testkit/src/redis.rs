//! Real servers on loopback, with every way to hurt them.
//!
//! Each one has a directory of its own and ends with its value. They tell what happens to them in their logs,
//! and tests wait for that, not for a time.

mod cluster;
mod sentinel;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use ::redis::{ConnectionLike, FromRedisValue};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tempfile::TempDir;

use crate::{PATIENCE, free_port};

pub use cluster::RedisCluster;
pub use sentinel::Sentinels;

/// Lines of a configuration that forces every write to disk before it answers.
pub const DURABLE: [&str; 2] = ["appendonly yes", "appendfsync always"];

/// A `redis-server`, or a `valkey-server`.
#[derive(Debug)]
pub struct RedisServer {
    program: &'static str,
    port: u16,
    dir: TempDir,
    settings: Vec<String>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    process: Child,
    log: Mutex<Receiver<String>>,
}

impl RedisServer {
    /// Keeps nothing on disk.
    pub fn start() -> Self {
        Self::with(&["appendonly no"])
    }

    /// Forces every write to disk before it answers.
    pub fn durable() -> Self {
        Self::with(&DURABLE)
    }

    /// Valkey; keeps nothing on disk.
    pub fn valkey() -> Self {
        Self::run("valkey-server", &["appendonly no"])
    }

    /// With lines of a configuration file.
    pub fn with(settings: &[&str]) -> Self {
        Self::run("redis-server", settings)
    }

    fn run(program: &'static str, settings: &[&str]) -> Self {
        for _ in 0..20 {
            if let Some(server) = Self::try_start(program, free_port(), settings) {
                return server;
            }
        }
        panic!("{program} does not start; install it with `cargo xtask setup`");
    }

    /// `None` when another process was faster to take the port.
    fn try_start(program: &'static str, port: u16, settings: &[&str]) -> Option<Self> {
        let settings = settings.iter().map(|line| (*line).to_owned()).collect();
        let dir = tempfile::tempdir().expect("a directory");
        let mut server = RedisServer { program, port, dir, settings, running: None };
        server.spawn();
        server.try_wait_for_log("Ready to accept connections").then_some(server)
    }

    fn spawn(&mut self) {
        let mut config = format!(
            "port {}\nbind 127.0.0.1\ndir {}\nsave \"\"\nenable-debug-command yes\n",
            self.port,
            self.dir.path().display()
        );
        for line in &self.settings {
            config.push_str(line);
            config.push('\n');
        }
        let path = self.dir.path().join("redis.conf");
        std::fs::write(&path, config).expect("a configuration");
        self.running = Some(Running::spawn(Command::new(self.program).arg(path)));
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Ends the server like `kill -9`: what is not on disk is gone.
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// On the same port and directory.
    pub fn restart(&mut self) {
        self.restart_without_waiting();
        self.wait_for_log("Ready to accept connections");
    }

    pub fn restart_without_waiting(&mut self) {
        self.kill();
        self.spawn();
    }

    /// Changes the configuration for the next start.
    pub fn configure(&mut self, setting: &str) {
        self.settings.push(setting.to_owned());
    }

    /// It stops where it is, with its connections open. Returns when it stands still.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let stopped = waitpid(Some(self.running.as_ref().expect("it runs").id()), WaitOptions::UNTRACED);
        assert!(stopped.is_ok_and(|status| status.is_some()), "port {}: it does not stop", self.port);
    }

    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Past a connection of our own, so that nothing of the code under test is involved.
    pub fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        ask(self.port, words)
    }

    /// As [`Server::ask`], with words that are not text.
    pub fn send<T: FromRedisValue>(&self, command: &::redis::Cmd) -> T {
        try_send(self.port, command).unwrap_or_else(|error| panic!("port {}: {error}", self.port))
    }

    pub fn wait_for_log(&self, words: &str) {
        assert!(self.try_wait_for_log(words), "port {}: the server ended without `{words}`", self.port);
    }

    fn try_wait_for_log(&self, words: &str) -> bool {
        self.running.as_ref().expect("it runs").wait_for(words)
    }

    fn signal(&self, signal: Signal) {
        self.running.as_ref().expect("it runs").signal(signal);
    }
}

impl Running {
    fn spawn(command: &mut Command) -> Self {
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server is not installed; `cargo xtask setup` installs it");
        let output = process.stdout.take().expect("a pipe");
        let (tell, log) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // The receiver may be gone, and yet the pipe must not fill up.
                let _ = tell.send(line);
            }
        });
        Running { process, log: Mutex::new(log) }
    }

    /// False when the server ended first.
    fn wait_for(&self, words: &str) -> bool {
        let log = self.log.lock();
        let until = Instant::now() + PATIENCE;
        loop {
            match log.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(words) => return true,
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => panic!("no `{words}` in the log within {PATIENCE:?}"),
            }
        }
    }

    fn id(&self) -> Pid {
        i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).expect("a process id")
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).expect("our own process");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends a command over a connection of its own.
pub fn ask<T: FromRedisValue>(port: u16, words: &[&str]) -> T {
    try_ask(port, words).unwrap_or_else(|error| panic!("port {port}: {words:?}: {error}"))
}

pub fn try_ask<T: FromRedisValue>(port: u16, words: &[&str]) -> ::redis::RedisResult<T> {
    try_send(port, ::redis::cmd(words[0]).arg(&words[1..]))
}

fn try_send<T: FromRedisValue>(port: u16, command: &::redis::Cmd) -> ::redis::RedisResult<T> {
    let client = ::redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
    let mut connection = client.get_connection_with_timeout(PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    ::redis::from_redis_value(connection.req_command(command)?.extract_error()?).map_err(Into::into)
}

/// Asks until the answer pleases, for what servers do not log.
pub fn until<T: FromRedisValue>(port: u16, words: &[&str], pleases: impl Fn(&T) -> bool) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match try_ask(port, words) {
            Ok(answer) if pleases(&answer) => return answer,
            _ => assert!(Instant::now() < end, "port {port}: {words:?} never pleased"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
