//! A provider on a real socket that does as it is told, good and bad, and remembers what it saw.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use recado_transport::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::PATIENCE;

/// The server's act once a request has arrived whole.
pub enum Act {
    /// Write this and keep the connection.
    Answer(String),
    /// Write this and close.
    Cut(String),
    /// Write this and say no more, with the connection open.
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

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub line: String,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Seen {
    /// All values of a header, joined as HTTP joins them.
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<_> =
            self.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| &**value).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

#[derive(Default)]
struct State {
    script: Mutex<VecDeque<Act>>,
    seen: Mutex<Vec<Seen>>,
    tls_hellos: AtomicUsize,
    connections: AtomicUsize,
    flood_refused: Notify,
}

pub struct FarEnd {
    port: u16,
    state: Arc<State>,
}

impl FarEnd {
    /// Listens, and answers one request after another with one act after another.
    pub async fn start(script: impl IntoIterator<Item = Act>) -> FarEnd {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State { script: Mutex::new(script.into_iter().collect()), ..State::default() });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        FarEnd { port, state }
    }

    pub fn url(&self, path: &str) -> Url {
        self.url_with("http", path)
    }

    pub fn url_with(&self, scheme: &str, path: &str) -> Url {
        format!("{scheme}://127.0.0.1:{}{path}", self.port).parse().expect("a URL")
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().expect("seen").clone()
    }

    /// The request, of which there has to have been exactly one.
    pub fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "the far end saw {seen:?}");
        seen[0].clone()
    }

    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    pub fn tls_hellos(&self) -> usize {
        self.state.tls_hellos.load(Ordering::SeqCst)
    }

    /// Waits until the reader of a flood has gone away.
    pub async fn flood_refused(&self) {
        tokio::time::timeout(PATIENCE, self.state.flood_refused.notified())
            .await
            .expect("somebody drinks the flood");
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    while let Some(seen) = read_request(&mut stream, &state).await {
        state.seen.lock().expect("seen").push(seen);
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
                return std::future::pending().await;
            }
            Act::Flood(text) => {
                let _ = stream.write_all(text.as_bytes()).await;
                while stream.write_all(&[b'x'; 64 * 1_024]).await.is_ok() {}
                return state.flood_refused.notify_one();
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
        // The first byte of a TLS hello. As plain servers do, complain in plain text and go.
        if head == [0x16] {
            state.tls_hellos.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            return None;
        }
    }
    let head = String::from_utf8(head).expect("an ASCII head");
    let mut lines = head.trim_end().split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .map_or(0, |(_, value)| value.parse().unwrap_or(0));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Seen { line, headers, body: String::from_utf8_lossy(&body).into_owned() })
}
