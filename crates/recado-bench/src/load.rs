//! A client that costs next to nothing: keep-alive connections, requests written as bytes.
//!
//! It runs on a thread of its own, so that what is measured is the server; both the bare handler and ours
//! are driven by exactly this.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Failed;

/// Answers are small; a longer one is a mistake worth hearing of.
const ANSWER_MAX_BYTES: usize = 4 << 20;

#[derive(Debug, Default)]
pub struct Driven {
    pub requests: u64,
    pub took: Duration,
    pub latencies: Vec<Duration>,
}

impl Driven {
    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }
}

/// One connection that asks and waits, again and again.
pub struct Caller {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Caller {
    pub async fn connect(address: SocketAddr) -> Result<Self, Failed> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Caller { stream, answer: Vec::with_capacity(4_096) })
    }

    /// Posts a body and waits for the whole answer. Anything but a 2xx is an error.
    pub async fn post(&mut self, path: &str, content_type: &str, body: &str) -> Result<(), Failed> {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.exchange(&request).await
    }

    /// Asks for a path and waits for the whole answer. Anything but a 2xx is an error.
    pub async fn get(&mut self, path: &str) -> Result<(), Failed> {
        self.exchange(&format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")).await
    }

    async fn exchange(&mut self, request: &str) -> Result<(), Failed> {
        self.stream.write_all(request.as_bytes()).await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err("the server closed the connection".into());
            }
            if let Some(end) = find(&self.answer, b"\r\n\r\n") {
                let head = std::str::from_utf8(&self.answer[..end])?.to_ascii_lowercase();
                let length: usize = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length:"))
                    .map_or(Ok(0), |length| length.trim().parse())?;
                if self.answer.len() >= end + 4 + length {
                    if !head.starts_with("http/1.1 2") {
                        return Err(
                            format!("the server answered {}", String::from_utf8_lossy(&self.answer)).into()
                        );
                    }
                    return Ok(());
                }
            }
            if self.answer.len() > ANSWER_MAX_BYTES {
                return Err("the answer is far too long".into());
            }
        }
    }
}

fn find(text: &[u8], want: &[u8]) -> Option<usize> {
    text.windows(want.len()).position(|part| part == want)
}

/// Drives `connections` callers for `time`, each with bodies of its own.
pub fn drive(
    address: SocketAddr,
    connections: usize,
    time: Duration,
    path: &'static str,
    content_type: &'static str,
    body: impl Fn() -> String + Send + Sync + 'static,
) -> Result<Driven, Failed> {
    let body = Arc::new(body);
    let stop = Arc::new(AtomicBool::new(false));
    let thread = std::thread::Builder::new().name("recado-load".to_owned()).spawn({
        let stop = stop.clone();
        move || -> Result<Driven, Failed> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async move {
                let started = Instant::now();
                let callers: Vec<_> = (0..connections)
                    .map(|_| tokio::spawn(call(address, path, content_type, body.clone(), stop.clone())))
                    .collect();
                let mut driven = Driven::default();
                for caller in callers {
                    let latencies = caller.await??;
                    driven.requests += latencies.len() as u64;
                    driven.latencies.extend(latencies);
                }
                driven.took = started.elapsed();
                Ok(driven)
            })
        }
    })?;
    std::thread::sleep(time);
    stop.store(true, Ordering::Relaxed);
    thread.join().map_err(|_| "the load thread panicked")?
}

async fn call(
    address: SocketAddr,
    path: &'static str,
    content_type: &'static str,
    body: Arc<impl Fn() -> String>,
    stop: Arc<AtomicBool>,
) -> Result<Vec<Duration>, Failed> {
    let mut caller = Caller::connect(address).await?;
    let mut latencies = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let body = body();
        let asked = Instant::now();
        caller.post(path, content_type, &body).await?;
        latencies.push(asked.elapsed());
    }
    Ok(latencies)
}
