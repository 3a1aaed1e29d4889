//! The provider: notes who brought which job when, and answers as it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde_json::Value;

use super::given::eventually;

/// A request that has come.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its idempotency key, which is the job's id.
    pub key: String,
    /// Which life of which node sent it.
    pub node: String,
    pub came: Instant,
    pub answered: Option<Instant>,
    /// It was out of order when this came.
    pub refused: bool,
}

pub struct FarEnd {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    manners_changed: Condvar,
}

#[derive(Default)]
struct Seen {
    arrivals: Vec<Arrival>,
    manners: Manners,
}

/// The far end's way of answering.
#[derive(Clone, Default)]
enum Manners {
    #[default]
    Well,
    After(Duration),
    /// Out of order.
    Broken,
    /// Keeps them waiting, of one node or of all, until told otherwise.
    Hold(Option<String>),
}

impl FarEnd {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let serving = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = serving.clone();
                std::thread::spawn(move || shared.converse(&stream));
            }
        });
        FarEnd { address, shared }
    }

    /// One that takes this long over each request.
    pub fn slow(takes: Duration) -> Self {
        let far_end = Self::start();
        far_end.told(Manners::After(takes));
        far_end
    }

    /// The provider `sink` and its route; each node says in a header who it is.
    pub fn lane(&self, terms: &str) -> String {
        format!(
            "[providers.sink]\ntransport = \"http\"\nurl = \"http://{}/\"\nheaders = {{ X-Node = \"${{NODE}}\" }}\n{terms}\
             [routes.sink]\nprovider = \"sink\"\n\
             policy = {{ base = \"50ms\", factor = 2, cap = \"500ms\", jitter = \"±25%\", max_attempts = 50 }}\n",
            self.address
        )
    }

    pub fn breaks(&self) {
        self.told(Manners::Broken);
    }

    /// It answers well again, also those that it kept waiting.
    pub fn recovers(&self) {
        self.told(Manners::Well);
    }

    pub fn holds(&self) {
        self.told(Manners::Hold(None));
    }

    /// Lets go of all but one node's.
    pub fn holds_only(&self, node: &str) {
        self.told(Manners::Hold(Some(node.to_owned())));
    }

    fn told(&self, manners: Manners) {
        self.shared.seen.lock().manners = manners;
        self.shared.manners_changed.notify_all();
    }

    /// In the order they came.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.shared.seen.lock().arrivals.clone()
    }

    pub fn count(&self) -> usize {
        self.shared.seen.lock().arrivals.len()
    }

    /// All arrivals, once there are so many.
    #[track_caller]
    pub fn once_come(&self, count: usize) -> Vec<Arrival> {
        eventually(|| self.count() >= count);
        self.arrivals()
    }

    /// Returns when this node has a request without an answer.
    #[track_caller]
    pub fn once_sending(&self, node: &str) {
        eventually(|| self.in_flight().contains(node));
    }

    /// Nodes with requests that have no answer so far.
    pub fn in_flight(&self) -> BTreeSet<String> {
        let seen = self.shared.seen.lock();
        let open = seen.arrivals.iter().filter(|arrival| arrival.answered.is_none());
        open.map(|arrival| arrival.node.clone()).collect()
    }
}

impl Shared {
    fn converse(&self, mut stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some((key, node)) = read_request(&mut reader) {
            let status = self.answer(key, node);
            let text = format!("HTTP/1.1 {status} Said\r\ncontent-length: 2\r\n\r\nok");
            if stream.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, key: String, node: String) -> u16 {
        let mut seen = self.seen.lock();
        let at = seen.arrivals.len();
        seen.arrivals.push(Arrival {
            key,
            node: node.clone(),
            came: Instant::now(),
            answered: None,
            refused: false,
        });
        while matches!(&seen.manners, Manners::Hold(whose) if whose.as_ref().is_none_or(|held| *held == node))
        {
            self.manners_changed.wait(&mut seen);
        }
        let manners = seen.manners.clone();
        drop(seen);
        if let Manners::After(takes) = manners {
            std::thread::sleep(takes);
        }
        let refused = matches!(manners, Manners::Broken);
        let mut seen = self.seen.lock();
        (seen.arrivals[at].answered, seen.arrivals[at].refused) = (Some(Instant::now()), refused);
        if refused { 503 } else { 200 }
    }
}

/// The idempotency key and the node of the next request.
fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<(String, String)> {
    let mut line = || {
        let mut line = String::new();
        let read = reader.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    };
    line()?;
    let mut headers = BTreeMap::new();
    while let Some((name, value)) = line()?.split_once(':') {
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length")?.parse().expect("a number");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let key = headers.remove("idempotency-key").expect("an Idempotency-Key");
    assert_eq!(body["id"], key.as_str(), "the idempotency key is the job's id, on every attempt");
    Some((key, headers.remove("x-node").expect("a node")))
}
