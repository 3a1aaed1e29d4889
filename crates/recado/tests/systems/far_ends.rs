//! Providers on loopback ports. Untold, each is well-mannered: it takes what its API takes and answers as
//! it does. What it is told to do instead applies to requests that mention given words. Every request is
//! in its ledger.

pub mod collector;
pub mod evolution;
pub mod graph;
pub mod mail;
pub mod openai;
pub mod receiver;
pub mod ses;
pub mod tiktok;
pub mod tiss;
pub mod youtube;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::given::eventually;

/// What to do once a request has arrived whole.
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
}

/// An answer in JSON.
pub fn json(status: u16, body: Value) -> Act {
    Act::Answer(Answer {
        status,
        headers: vec![("content-type", "application/json".to_owned())],
        body: body.to_string(),
    })
}

/// An answer of a proxy in between, which does not speak the provider's API.
pub fn page(status: u16) -> Act {
    let body = format!("<html><head><title>{status}</title></head><body>nginx</body></html>");
    Act::Answer(Answer { status, headers: vec![("content-type", "text/html".to_owned())], body })
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

    fn mentions(&self, words: &str) -> bool {
        self.path.contains(words) || self.text().contains(words)
    }
}

/// What is to happen to requests that mention some words.
struct Order {
    about: String,
    acts: VecDeque<Act>,
    for_ever: bool,
}

struct Shared {
    manners: Box<dyn Fn(&Request) -> Act + Send + Sync>,
    orders: Mutex<Vec<Order>>,
    ledger: Mutex<Vec<Request>>,
}

pub struct FarEnd {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl FarEnd {
    pub fn start(manners: impl Fn(&Request) -> Act + Send + Sync + 'static) -> FarEnd {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            manners: Box::new(manners),
            orders: Mutex::default(),
            ledger: Mutex::default(),
        });
        let serving = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = serving.clone();
                std::thread::spawn(move || serve(&stream, &shared));
            }
        });
        FarEnd { address, shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Requests that mention these words get one act after another, and good manners after the last.
    pub fn orders(&self, about: &str, acts: impl IntoIterator<Item = Act>) {
        self.order(about, acts, false);
    }

    /// The same act for all that mention these words.
    pub fn always(&self, about: &str, act: Act) {
        self.order(about, [act], true);
    }

    fn order(&self, about: &str, acts: impl IntoIterator<Item = Act>, for_ever: bool) {
        let order = Order { about: about.to_owned(), acts: acts.into_iter().collect(), for_ever };
        self.shared.orders.lock().push(order);
    }

    /// Good manners from now on.
    pub fn recovers(&self) {
        self.shared.orders.lock().clear();
    }

    pub fn ledger(&self) -> Vec<Request> {
        self.shared.ledger.lock().clone()
    }

    /// The requests that mention these words.
    pub fn about(&self, words: &str) -> Vec<Request> {
        self.ledger().into_iter().filter(|request| request.mentions(words)).collect()
    }

    /// The one request that mentions these words.
    #[track_caller]
    pub fn only(&self, words: &str) -> Request {
        let mut about = self.about(words);
        assert_eq!(about.len(), 1, "{about:?}");
        about.remove(0)
    }

    /// The requests that mention these words, once there are so many.
    #[track_caller]
    pub fn once(&self, words: &str, count: usize) -> Vec<Request> {
        eventually(|| self.about(words).len() >= count);
        self.about(words)
    }

    /// Asserts that so many requests came, all under the job's id.
    #[track_caller]
    pub fn was_asked(&self, job: &str, times: usize) {
        let ledger = self.ledger();
        let count = ledger.iter().filter(|request| request.header("idempotency-key") == job).count();
        assert_eq!(count, times, "requests for {job} in {ledger:#?}");
    }
}

fn serve(stream: &TcpStream, shared: &Shared) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader) {
        let act = ordered(shared, &request).unwrap_or_else(|| (shared.manners)(&request));
        shared.ledger.lock().push(request);
        match act {
            Act::Answer(answer) => {
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

fn ordered(shared: &Shared, request: &Request) -> Option<Act> {
    let mut orders = shared.orders.lock();
    let order = orders.iter_mut().find(|order| !order.acts.is_empty() && request.mentions(&order.about))?;
    if order.for_ever { order.acts.front().cloned() } else { order.acts.pop_front() }
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
    request.body.resize(length, 0);
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}

fn write(mut stream: &TcpStream, answer: &Answer) -> std::io::Result<()> {
    let mut text = format!("HTTP/1.1 {} Said\r\ncontent-length: {}\r\n", answer.status, answer.body.len());
    for (name, value) in &answer.headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += "\r\n";
    text += &answer.body;
    stream.write_all(text.as_bytes())
}
