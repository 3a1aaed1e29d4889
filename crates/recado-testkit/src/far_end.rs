//! An HTTP server with a record of all it was asked, and open to orders: the acts it is told apply, instead of its
//! manners, to requests that mention given words.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::http::{self, Act, Request, Serve, json_text, raw};
use crate::{PATIENCE, eventually};

/// Acts for requests that mention some words.
#[derive(Debug)]
struct Order {
    about: String,
    acts: VecDeque<Act>,
    repeats: bool,
}

struct Shared {
    manners: Box<dyn Fn(&Request) -> Act + Send + Sync>,
    orders: Mutex<Vec<Order>>,
    requests: watch::Sender<Vec<Request>>,
    connections: AtomicUsize,
    tls_hellos: AtomicUsize,
    left: Notify,
}

pub struct FarEnd {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl fmt::Debug for FarEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarEnd").field("address", &self.address).finish_non_exhaustive()
    }
}

impl FarEnd {
    pub fn start(manners: impl Fn(&Request) -> Act + Send + Sync + 'static) -> FarEnd {
        FarEnd::start_at("127.0.0.1:0", manners)
    }

    pub fn start_at(address: &str, manners: impl Fn(&Request) -> Act + Send + Sync + 'static) -> FarEnd {
        let shared = Arc::new(Shared {
            manners: Box::new(manners),
            orders: Mutex::default(),
            requests: watch::Sender::default(),
            connections: AtomicUsize::new(0),
            tls_hellos: AtomicUsize::new(0),
            left: Notify::new(),
        });
        let address = http::start_at(address, shared.clone()).expect("a free port");
        FarEnd { address, shared }
    }

    /// Answers one request after another with one act after another.
    pub fn scripted(script: impl IntoIterator<Item = Act>) -> FarEnd {
        FarEnd::scripted_at("127.0.0.1:0", script)
    }

    pub fn scripted_at(address: &str, script: impl IntoIterator<Item = Act>) -> FarEnd {
        let far_end = FarEnd::start_at(address, |_| raw("500 The Test's Script Is Over", "", ""));
        far_end.orders("", script);
        far_end
    }

    /// Answers every request with yes and an empty object, until told otherwise.
    pub fn agreeable() -> FarEnd {
        FarEnd::start(|_| json_text(200, "{}"))
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn url(&self) -> String {
        self.url_of("")
    }

    /// The URL of a path, as the type that the caller needs.
    pub fn url_of<T: FromStr<Err: fmt::Debug>>(&self, path: &str) -> T {
        self.url_with("http", path)
    }

    pub fn url_with<T: FromStr<Err: fmt::Debug>>(&self, scheme: &str, path: &str) -> T {
        format!("{scheme}://{}{path}", self.address).parse().expect("a URL")
    }

    /// Requests that mention these words get one act after another, and good manners after the last.
    pub fn orders(&self, about: &str, acts: impl IntoIterator<Item = Act>) {
        self.push_order(Order { about: about.to_owned(), acts: acts.into_iter().collect(), repeats: false });
    }

    /// Requests that mention these words all get this act.
    pub fn always(&self, about: &str, act: Act) {
        self.push_order(Order { about: about.to_owned(), acts: [act].into(), repeats: true });
    }

    fn push_order(&self, order: Order) {
        self.shared.orders.lock().push(order);
    }

    /// From now on every request gets this act.
    pub fn answers(&self, act: Act) {
        *self.shared.orders.lock() = vec![Order { about: String::new(), acts: [act].into(), repeats: true }];
    }

    /// From now on every request gets this status and this body.
    pub fn says(&self, status: u16, body: &str) {
        self.answers(json_text(status, body));
    }

    /// Good manners from now on.
    pub fn recovers(&self) {
        self.shared.orders.lock().clear();
    }

    /// All requests so far.
    pub fn ledger(&self) -> Vec<Request> {
        self.shared.requests.borrow().clone()
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

    /// Waits until so many requests have arrived, and returns all.
    pub async fn arrived(&self, count: usize) -> Vec<Request> {
        let mut requests = self.shared.requests.subscribe();
        match tokio::time::timeout(PATIENCE, requests.wait_for(|all| all.len() >= count)).await {
            Ok(all) => all.expect("the far end lives").clone(),
            Err(_) => panic!("{} of {count} requests arrived", self.ledger().len()),
        }
    }

    /// Waits until the other side has gone away from a flood or a silence.
    pub async fn left(&self) {
        let left = tokio::time::timeout(PATIENCE, self.shared.left.notified()).await;
        left.expect("the other side still listens");
    }

    /// Asserts that so many requests came, all under the job's id.
    #[track_caller]
    pub fn was_asked(&self, job: &str, times: usize) {
        let ledger = self.ledger();
        let count = ledger.iter().filter(|request| request.header("idempotency-key") == job).count();
        assert_eq!(count, times, "requests for {job} in {ledger:#?}");
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Connections that began with TLS.
    pub fn tls_hellos(&self) -> usize {
        self.shared.tls_hellos.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn ordered_act(&self, request: &Request) -> Option<Act> {
        let mut orders = self.orders.lock();
        let order =
            orders.iter_mut().find(|order| !order.acts.is_empty() && request.mentions(&order.about))?;
        if order.repeats { order.acts.front().cloned() } else { order.acts.pop_front() }
    }
}

impl Serve for Shared {
    fn act(&self, request: Request) -> Act {
        let act = self.ordered_act(&request).unwrap_or_else(|| (self.manners)(&request));
        self.requests.send_modify(|all| all.push(request));
        act
    }

    fn on_connect(&self) {
        self.connections.fetch_add(1, Ordering::SeqCst);
    }

    fn on_tls_hello(&self) {
        self.tls_hellos.fetch_add(1, Ordering::SeqCst);
    }

    fn on_leave(&self) {
        self.left.notify_one();
    }
}
