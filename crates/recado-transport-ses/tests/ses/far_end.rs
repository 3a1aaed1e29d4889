//! An SES endpoint on a real socket that does as it is told, good and bad, and remembers what it saw.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use recado_transport::Url;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::given::PATIENCE;

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
pub fn http(status: &str, headers: &str, body: &str) -> Act {
    Act::Answer(format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()))
}

/// SES's yes.
pub fn yes() -> Act {
    http("200 OK", "Content-Type: application/json\r\n", r#"{"MessageId":"0100018f-ses"}"#)
}

/// SES's no as it comes as a rule, with the error's name in a header.
pub fn no(status: u16, name: &str, message: &str) -> Act {
    let headers = format!(
        "Content-Type: application/json\r\nx-amzn-RequestId: 5f1c\r\nx-amzn-ErrorType: {name}:http://internal.amazon.com/coral/com.amazonaws.services.simpleemailv2/\r\n"
    );
    http(&format!("{status} No"), &headers, &json!({ "message": message }).to_string())
}

/// The same with the name in the body, as gateways before SES write it.
pub fn no_in_body(status: u16, name: &str, message: &str) -> Act {
    let body = json!({ "__type": format!("com.amazon.coral.service#{name}"), "Message": message });
    http(&format!("{status} No"), "Content-Type: application/x-amz-json-1.1\r\n", &body.to_string())
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub line: String,
    headers: Vec<(String, String)>,
    pub body: Value,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|(key, value)| (key == name).then_some(&**value))
    }

    /// The raw message, read as text.
    pub fn message(&self) -> String {
        let data = self.body["Content"]["Raw"]["Data"].as_str().expect("raw content");
        String::from_utf8(BASE64_STANDARD.decode(data).expect("base64")).expect("ASCII")
    }

    pub fn tag(&self, name: &str) -> Option<&str> {
        let tags = self.body["EmailTags"].as_array()?;
        tags.iter().find(|tag| tag["Name"] == name)?["Value"].as_str()
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

    pub fn url(&self) -> Url {
        self.url_with("http")
    }

    pub fn url_with(&self, scheme: &str) -> Url {
        format!("{scheme}://127.0.0.1:{}", self.port).parse().expect("a URL")
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
        match act.unwrap_or_else(|| http("500 The Test's Script Is Over", "", "")) {
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
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap_or(0))];
    stream.read_exact(&mut body).await.ok()?;
    Some(Seen { line, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
}
