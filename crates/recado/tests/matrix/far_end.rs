//! The provider of the matrix: keeps what came, and refuses jobs whose path asks for it.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use recado_testkit::http::{self, Act, Request, text};

/// A path that is refused for good, for as long as the far end refuses.
pub const REFUSED: &str = "refuse";

/// A path whose requests are answered badly, for as long as the far end misbehaves.
pub const HOSTILE: &str = "hostile";

/// A request that has come, and the answer to it.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its idempotency key, which is the job's id.
    pub key: String,
    /// The life of the server that sent it.
    pub life: String,
    pub is_delivered: bool,
}

pub struct FarEnd {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    arrivals: Vec<Arrival>,
    holds: bool,
    refuses: bool,
    /// The answer to requests for [`HOSTILE`] paths.
    misbehaves: Option<Act>,
}

impl FarEnd {
    pub fn start() -> Self {
        let state = State { arrivals: Vec::new(), holds: false, refuses: true, misbehaves: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let serving = shared.clone();
        let address = http::start(move |request: Request| serving.act(&request)).expect("a free port");
        FarEnd { address, shared }
    }

    /// The provider `sink` and its route. The server says in a header which life of it sends.
    pub fn lane(&self) -> String {
        format!(
            "[providers.sink]\ntransport = \"http\"\nurl = \"http://{}/\"\nheaders = {{ X-Life = \"${{LIFE}}\" }}\n\
             [routes.sink]\nprovider = \"sink\"\n\
             policy = {{ base = \"50ms\", factor = 2, cap = \"500ms\", jitter = \"±25%\", max_attempts = 50 }}\n\
             [engine]\npoison_after = 100\n",
            self.address
        )
    }

    /// Keeps requests waiting from now on.
    pub fn holds(&self) {
        self.shared.state.lock().holds = true;
    }

    /// Answers requests for hostile paths like this from now on.
    pub fn misbehaves(&self, act: Option<Act>) {
        self.shared.state.lock().misbehaves = act;
    }

    /// Answers all, and all with yes.
    pub fn agrees(&self) {
        let mut state = self.shared.state.lock();
        (state.holds, state.refuses) = (false, false);
        self.shared.changed.notify_all();
    }

    /// Answers those that it kept waiting.
    pub fn lets_go(&self) {
        self.shared.state.lock().holds = false;
        self.shared.changed.notify_all();
    }

    /// In the order they came.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.shared.state.lock().arrivals.clone()
    }
}

impl Shared {
    fn act(&self, request: &Request) -> Act {
        let key = request.header("idempotency-key").to_owned();
        assert_eq!(request.json()["id"], key, "the idempotency key is the job's id, on every attempt");
        let mut state = self.state.lock();
        let bad = state.misbehaves.clone().filter(|_| request.path.contains(HOSTILE));
        let is_delivered = bad.is_none() && !(state.refuses && request.path.contains(REFUSED));
        state.arrivals.push(Arrival { key, life: request.header("x-life").to_owned(), is_delivered });
        while state.holds {
            self.changed.wait(&mut state);
        }
        if let Some(bad) = bad {
            return bad;
        }
        if is_delivered { text(200, "ok") } else { text(404, "no such account") }
    }
}
