//! The far ends of `recado demo`, each with a ledger of all it was asked, and open to orders: what it is told to do
//! instead of its manners applies to requests that mention given words.

pub mod collector;
pub mod mail;
pub mod receiver;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
pub use recado_demo::far_ends::http::{Act, Request, json, page};

use super::given::eventually;

macro_rules! far_ends {
    ($($name:ident),*) => {$(
        pub mod $name {
            pub use recado_demo::far_ends::$name::*;

            use super::FarEnd;

            pub fn start() -> FarEnd {
                FarEnd::start(manners)
            }

            pub fn provider(far_end: &FarEnd) -> String {
                recado_demo::far_ends::$name::provider(&far_end.url())
            }
        }
    )*};
}

far_ends!(evolution, graph, openai, ses, tiktok, tiss, youtube);

/// An act for requests that mention some words.
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
        let shared = Arc::new(Shared {
            manners: Box::new(manners),
            orders: Mutex::default(),
            ledger: Mutex::default(),
        });
        let serving = shared.clone();
        let act = move |request: Request| {
            let act = ordered(&serving, &request).unwrap_or_else(|| (serving.manners)(&request));
            serving.ledger.lock().push(request);
            act
        };
        let address = recado_demo::far_ends::http::start(act).expect("a free port");
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

fn ordered(shared: &Shared, request: &Request) -> Option<Act> {
    let mut orders = shared.orders.lock();
    let order = orders.iter_mut().find(|order| !order.acts.is_empty() && request.mentions(&order.about))?;
    if order.for_ever { order.acts.front().cloned() } else { order.acts.pop_front() }
}
