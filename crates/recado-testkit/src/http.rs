//! An HTTP server on a real socket: requests as they arrive, and the act that answers each, good or bad.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue};
use rustix::net::sockopt::set_socket_linger;
use serde_json::Value;

/// A longer body is not waited for.
const BODY_MAX_BYTES: usize = 64 << 20;

/// The first byte of a TLS hello.
const TLS_HELLO: u8 = 0x16;

/// The act once a request has arrived whole. The texts are raw: status line, headers and all.
#[derive(Clone, Debug)]
pub enum Act {
    Answer(Answer),
    /// Write this and keep the connection.
    Write(String),
    /// Write this and close the connection.
    Cut(String),
    /// Write this and say no more, with the connection open, until the other side goes away.
    Hang(String),
    /// Write this and then a body without end, for as long as the other side reads.
    Flood(String),
    /// Write this and then a byte each second, for as long as the other side reads.
    Dribble(String),
    /// Reset the connection without a word.
    Reset,
}

#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    /// Time until it is found.
    after: Duration,
}

/// An answer in JSON.
pub fn json(status: u16, body: Value) -> Act {
    answer(status, "application/json", body.to_string())
}

/// An answer that claims to be JSON, whatever its text is.
pub fn json_text(status: u16, text: &str) -> Act {
    answer(status, "application/json", text.to_owned())
}

/// An answer of a proxy in between, which does not speak the provider's API.
pub fn page(status: u16) -> Act {
    let body = format!("<html><head><title>{status}</title></head><body>nginx</body></html>");
    answer(status, "text/html", body)
}

/// An answer in plain text.
pub fn text(status: u16, words: &str) -> Act {
    answer(status, "text/plain", words.to_owned())
}

fn answer(status: u16, content_type: &str, body: String) -> Act {
    let headers = vec![("content-type", content_type.to_owned())];
    Act::Answer(Answer { status, headers, body, after: Duration::ZERO })
}

/// A whole answer with this status line, these header lines and this body.
pub fn raw(status: &str, headers: &str, body: &str) -> Act {
    Act::Write(format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()))
}

impl Act {
    /// Say nothing, with the connection open, until the other side goes away.
    pub fn silence() -> Act {
        Act::Hang(String::new())
    }

    /// Close the connection without a word.
    pub fn hang_up() -> Act {
        Act::Cut(String::new())
    }

    pub fn with(self, name: &'static str, value: impl ToString) -> Act {
        match self {
            Act::Answer(mut answer) => {
                answer.headers.push((name, value.to_string()));
                Act::Answer(answer)
            }
            other => other,
        }
    }

    /// Delays the answer by this time.
    pub fn after(self, while_: Duration) -> Act {
        match self {
            Act::Answer(answer) => Act::Answer(Answer { after: while_, ..answer }),
            other => other,
        }
    }
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    /// The first line, whole.
    pub line: String,
    pub method: String,
    /// With its query.
    pub path: String,
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// The first value of a header; empty without one.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find_map(|(key, value)| (key == name).then_some(&**value)).unwrap_or_default()
    }

    /// All values of a header, joined as HTTP joins them.
    pub fn header_values(&self, name: &str) -> Option<String> {
        let values: Vec<_> =
            self.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| &**value).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    pub fn header_map(&self) -> HeaderMap {
        let header = |(name, value): &(String, String)| {
            Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value).ok()?))
        };
        self.headers.iter().filter_map(header).collect()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns true if the request is a webhook that was signed with the secret, by the library that customers are
    /// told to use.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let webhook = standardwebhooks::Webhook::new(secret);
        webhook.and_then(|webhook| webhook.verify(&self.body, &self.header_map())).is_ok()
    }

    pub fn mentions(&self, words: &str) -> bool {
        self.path.contains(words) || self.text().contains(words)
    }
}

/// Decides about every request, and hears what else happens.
pub trait Serve: Send + Sync + 'static {
    fn act(&self, request: Request) -> Act;

    /// A client has connected.
    fn on_connect(&self) {}

    /// A client began with TLS, which this server does not speak.
    fn on_tls_hello(&self) {}

    /// A client went away from a flood or a silence.
    fn on_leave(&self) {}
}

impl<F: Fn(Request) -> Act + Send + Sync + 'static> Serve for F {
    fn act(&self, request: Request) -> Act {
        self(request)
    }
}

/// Serves at a free port.
pub fn start(server: impl Serve) -> io::Result<SocketAddr> {
    start_at((Ipv4Addr::LOCALHOST, 0), Arc::new(server))
}

pub fn start_at(address: impl ToSocketAddrs, server: Arc<impl Serve>) -> io::Result<SocketAddr> {
    crate::listen(address, move |stream| {
        server.on_connect();
        // The conversation ends when either side has had enough; an error has no reader.
        let _ = converse(&stream, &*server);
    })
}

fn converse(stream: &TcpStream, server: &impl Serve) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    if reader.fill_buf()?.first() == Some(&TLS_HELLO) {
        server.on_tls_hello();
        // As plain servers do: it complains in plain text and goes.
        return writer.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    }
    while let Some(request) = read_request(&mut reader) {
        match server.act(request) {
            Act::Answer(answer) => {
                std::thread::sleep(answer.after);
                writer.write_all(answer.into_text().as_bytes())?;
            }
            Act::Write(text) => writer.write_all(text.as_bytes())?,
            Act::Cut(text) => return writer.write_all(text.as_bytes()),
            Act::Hang(text) => {
                let written = writer.write_all(text.as_bytes());
                let read = written.and_then(|()| io::copy(&mut reader, &mut io::sink()));
                server.on_leave();
                return read.map(drop);
            }
            Act::Flood(text) => {
                let mut written = writer.write_all(text.as_bytes());
                while written.is_ok() {
                    written = writer.write_all(&[b'x'; 64 << 10]);
                }
                server.on_leave();
                return written;
            }
            Act::Dribble(text) => {
                let mut written = writer.write_all(text.as_bytes());
                while written.is_ok() {
                    std::thread::sleep(Duration::from_secs(1));
                    written = writer.write_all(b"x");
                }
                server.on_leave();
                return written;
            }
            // A connection that does not linger ends with a reset.
            Act::Reset => return Ok(set_socket_linger(stream, Some(Duration::ZERO))?),
        }
    }
    Ok(())
}

fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<Request> {
    let mut next_line = || {
        let mut line = String::new();
        let read = reader.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    };
    let line = next_line()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    while let Some((name, value)) = next_line()?.split_once(':') {
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request { line, method, path, headers, body: Vec::new() };
    let length = request.header("content-length").parse().unwrap_or(0);
    if length > BODY_MAX_BYTES {
        return None;
    }
    request.body.resize(length, 0);
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}

impl Answer {
    fn into_text(self) -> String {
        let mut text = format!("HTTP/1.1 {} Said\r\ncontent-length: {}\r\n", self.status, self.body.len());
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text + "\r\n" + &self.body
    }
}
