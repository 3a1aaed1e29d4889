//! A client that costs next to nothing: keep-alive connections, requests written as bytes.
//!
//! It runs on a thread of its own, so that what is measured is the server; both the bare handler and ours
//! are driven by exactly this.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Failed;
use super::scene::at_once;

/// Answers are small; a longer one is a mistake worth hearing of.
const ANSWER_MAX_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub struct Driven {
    pub took: Duration,
    pub latencies: Vec<Duration>,
}

impl Driven {
    pub fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
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

    /// Posts a body and returns the whole answer's. Anything but a 2xx is an error.
    pub async fn post(&mut self, path: &str, content_type: &str, body: &str) -> Result<&str, Failed> {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.exchange(&request).await
    }

    /// Asks for a path and returns the answer's body. Anything but a 2xx is an error.
    pub async fn get(&mut self, path: &str) -> Result<&str, Failed> {
        self.exchange(&format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")).await
    }

    async fn exchange(&mut self, request: &str) -> Result<&str, Failed> {
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
                    return Ok(std::str::from_utf8(&self.answer[end + 4..])?);
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

/// A request that is posted again and again, each time with a body of its own.
pub struct Posted<B> {
    pub path: &'static str,
    pub content_type: &'static str,
    pub body: B,
}

/// Drives `connections` callers for `time`.
pub async fn drive<B: Fn() -> String + Send + Sync + 'static>(
    address: SocketAddr,
    connections: usize,
    time: Duration,
    posted: Posted<B>,
) -> Result<Driven, Failed> {
    let posted = Arc::new(posted);
    let thread = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async move {
            let started = Instant::now();
            let latencies = at_once(connections, |_| call(address, started + time, posted.clone())).await?;
            Ok(Driven { took: started.elapsed(), latencies: latencies.concat() })
        })
    };
    tokio::task::spawn_blocking(thread).await?
}

async fn call<B: Fn() -> String>(
    address: SocketAddr,
    until: Instant,
    posted: Arc<Posted<B>>,
) -> Result<Vec<Duration>, Failed> {
    let mut caller = Caller::connect(address).await?;
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let body = (posted.body)();
        let asked = Instant::now();
        caller.post(posted.path, posted.content_type, &body).await?;
        latencies.push(asked.elapsed());
    }
    Ok(latencies)
}
