//! A receiver on a real socket that does as it is told, good and bad, and remembers what it saw; and a trap,
//! which no connection may touch.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::PATIENCE;

/// The receiver's act once a request has arrived whole.
pub enum Act {
    /// Write this and keep the connection.
    Answer(String),
    /// Write this and close.
    Cut(String),
    /// Write this and say no more, until the other side goes away.
    Hang(String),
    /// Write this and then a body without end, for as long as anybody reads.
    Flood(String),
    /// Reset the connection without a word.
    Reset,
}

/// A whole answer with this status line, these header lines and this body.
pub fn answer(status: &str, headers: &str, body: &str) -> Act {
    Act::Answer(format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()))
}

pub fn ok() -> Act {
    answer("200 OK", "", "")
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub line: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Seen {
    /// A header that may come once at most.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().expect("ASCII");
        assert_eq!(values.next(), None, "{name} comes twice");
        Some(value)
    }
}

#[derive(Default)]
struct State {
    script: Mutex<VecDeque<Act>>,
    seen: Mutex<Vec<Seen>>,
    tls_hellos: Mutex<usize>,
    arrived: Notify,
    left: Notify,
}

pub struct Receiver {
    address: std::net::SocketAddr,
    state: Arc<State>,
}

impl Receiver {
    pub async fn start(script: impl IntoIterator<Item = Act>) -> Receiver {
        Receiver::at("127.0.0.1:0", script).await
    }

    /// Listens, and answers one request after another with one act after another.
    pub async fn at(address: &str, script: impl IntoIterator<Item = Act>) -> Receiver {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State { script: Mutex::new(script.into_iter().collect()), ..State::default() });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Receiver { address, state }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook?from=recado", self.address)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().expect("seen").clone()
    }

    /// The request, of which there has to have been exactly one.
    pub fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "the receiver saw {seen:?}");
        seen[0].clone()
    }

    pub fn tls_hellos(&self) -> usize {
        *self.state.tls_hellos.lock().expect("hellos")
    }

    /// Waits until a request has arrived whole.
    pub async fn arrived(&self) {
        self.soon(&self.state.arrived, "no request came").await;
    }

    /// Waits until the other side has gone away from a flood or a silence.
    pub async fn left(&self) {
        self.soon(&self.state.left, "a request still waits").await;
    }

    async fn soon(&self, event: &Notify, otherwise: &str) {
        tokio::time::timeout(PATIENCE, event.notified()).await.expect(otherwise);
    }
}

/// A port that refuses every connection.
pub async fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// Listens, and accepts no connection until it is asked whether one came.
pub struct Trap(std::net::TcpListener);

impl Trap {
    pub fn at(address: &str) -> Trap {
        let listener = std::net::TcpListener::bind(address).expect("an address of this machine");
        listener.set_nonblocking(true).expect("a socket that does not block");
        Trap(listener)
    }

    pub fn port(&self) -> u16 {
        self.0.local_addr().expect("an address").port()
    }

    /// Panics if anybody connected: the system keeps such connections until they are accepted.
    pub fn assert_untouched(&self) {
        match self.0.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => panic!("a connection touched the trap: {other:?}"),
        }
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    while let Some(seen) = read_request(&mut stream, &state).await {
        state.seen.lock().expect("seen").push(seen);
        state.arrived.notify_one();
        let act = state.script.lock().expect("script").pop_front();
        let act = act.unwrap_or_else(|| answer("500 The Test's Script Is Over", "", ""));
        match act {
            Act::Answer(text) => {
                if stream.write_all(text.as_bytes()).await.is_err() {
                    return;
                }
            }
            Act::Cut(text) => {
                let _ = stream.write_all(text.as_bytes()).await;
                return;
            }
            Act::Hang(text) => {
                let _ = stream.write_all(text.as_bytes()).await;
                let _ = stream.read_u8().await;
                return state.left.notify_one();
            }
            Act::Flood(text) => {
                let _ = stream.write_all(text.as_bytes()).await;
                while stream.write_all(&[b'x'; 64 * 1_024]).await.is_ok() {}
                return state.left.notify_one();
            }
            Act::Reset => {
                stream.set_zero_linger().expect("linger");
                return;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream, state: &State) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
        // The first byte of a TLS hello.
        if head == [0x16] {
            *state.tls_hellos.lock().expect("hellos") += 1;
            return None;
        }
    }
    let head = String::from_utf8(head).expect("an ASCII head");
    let mut lines = head.trim_end().split("\r\n");
    let line = lines.next()?.to_owned();
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let name: HeaderName = name.parse().expect("a header's name");
        headers.append(name, HeaderValue::from_str(value).expect("a header's value"));
    }
    let length = headers.get("content-length").map_or("0", |value| value.to_str().expect("ASCII"));
    let mut body = vec![0; length.parse().expect("a length")];
    stream.read_exact(&mut body).await.ok()?;
    Some(Seen { line, headers, body })
}
