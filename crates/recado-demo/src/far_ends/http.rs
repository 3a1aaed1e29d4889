//! A provider that speaks HTTP: requests as they arrive, and what becomes of them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

/// A longer body is not waited for.
const BODY_MAX_BYTES: usize = 64 << 20;

/// The act once a request has arrived whole.
#[derive(Clone, Debug)]
pub enum Act {
    Answer(Answer),
    /// Say nothing, with the connection open, until the other side goes away.
    Hang,
    /// Close the connection without a word.
    Drop,
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

/// An answer of a proxy in between, which does not speak the provider's API.
pub fn page(status: u16) -> Act {
    let body = format!("<html><head><title>{status}</title></head><body>nginx</body></html>");
    answer(status, "text/html", body)
}

/// The same from one of few words.
pub fn text(status: u16, words: &str) -> Act {
    answer(status, "text/plain", words.to_owned())
}

fn answer(status: u16, content_type: &str, body: String) -> Act {
    let headers = vec![("content-type", content_type.to_owned())];
    Act::Answer(Answer { status, headers, body, after: Duration::ZERO })
}

impl Act {
    pub fn with(self, name: &'static str, value: impl ToString) -> Act {
        match self {
            Act::Answer(mut answer) => {
                answer.headers.push((name, value.to_string()));
                Act::Answer(answer)
            }
            other => other,
        }
    }

    /// The same, after a while.
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
    pub method: String,
    /// With its query.
    pub path: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find_map(|(key, value)| (key == name).then_some(&**value)).unwrap_or_default()
    }

    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub fn mentions(&self, words: &str) -> bool {
        self.path.contains(words) || self.text().contains(words)
    }
}

/// Lets `act` decide about every request.
pub fn start(act: impl Fn(Request) -> Act + Send + Sync + 'static) -> io::Result<SocketAddr> {
    let act = Arc::new(act);
    super::listen(move |stream| serve(stream, &*act))
}

fn serve(stream: &TcpStream, act: &dyn Fn(Request) -> Act) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader) {
        match act(request) {
            Act::Answer(answer) => {
                std::thread::sleep(answer.after);
                if write(stream, &answer).is_err() {
                    return;
                }
            }
            Act::Hang => {
                let _ = reader.read(&mut [0]);
                return;
            }
            Act::Drop => return,
        }
    }
}

fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<Request> {
    let mut line = || {
        let mut line = String::new();
        let read = reader.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    while let Some((name, value)) = line()?.split_once(':') {
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request { method, path, headers, body: Vec::new() };
    let length = request.header("content-length").parse().unwrap_or(0);
    if length > BODY_MAX_BYTES {
        return None;
    }
    request.body.resize(length, 0);
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}

fn write(mut stream: &TcpStream, answer: &Answer) -> io::Result<()> {
    let mut text = format!("HTTP/1.1 {} Said\r\ncontent-length: {}\r\n", answer.status, answer.body.len());
    for (name, value) in &answer.headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += "\r\n";
    text += &answer.body;
    stream.write_all(text.as_bytes())
}
