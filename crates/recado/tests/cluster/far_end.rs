//! The provider: notes who brought which job when, and answers as it is told.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use recado_testkit::http::{self, Act, Request, text};

use super::given::eventually;

/// A request that has come.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its idempotency key, which is the job's id.
    pub key: String,
    /// The node, and its life, that sent it.
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
        let shared = Arc::new(Shared::default());
        let serving = shared.clone();
        let address = http::start(move |request: Request| serving.act(&request)).expect("a free port");
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
    fn act(&self, request: &Request) -> Act {
        let key = request.header("idempotency-key");
        assert_eq!(request.json()["id"], key, "the idempotency key is the job's id, on every attempt");
        let node = request.header("x-node");
        assert!(!key.is_empty() && !node.is_empty(), "no key or no node: {request:?}");
        text(self.answer(key.to_owned(), node.to_owned()), "ok")
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
