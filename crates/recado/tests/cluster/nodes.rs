//! Processes of `recado serve` that share one Redis, each with a directory of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::given::{Place, Server};

/// A node, dead or alive.
struct Node {
    place: Place,
    /// Address of its Redis.
    store: String,
    lives: usize,
    server: Option<Server>,
}

/// Address of each node, as clients know it. A dead one's is out of date.
pub type Addresses = Arc<Mutex<Vec<SocketAddr>>>;

pub struct Nodes {
    config: String,
    nodes: Vec<Node>,
    pub addresses: Addresses,
}

impl Nodes {
    /// Three of them.
    pub fn start(config: &str, store: &str) -> Self {
        Self::with_stores(config, [store, store, store])
    }

    pub fn with_stores<'a>(config: &str, stores: impl IntoIterator<Item = &'a str>) -> Self {
        let mut nodes =
            Nodes { config: config.to_owned(), nodes: Vec::new(), addresses: Addresses::default() };
        for store in stores {
            nodes.add(store);
        }
        nodes
    }

    /// One more, and its place among them.
    pub fn add(&mut self, store: &str) -> usize {
        let place = Place::with(&self.config);
        self.nodes.push(Node { place, store: store.to_owned(), lives: 0, server: None });
        self.start_again(self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    pub fn start_again(&mut self, at: usize) {
        self.nodes[at].lives += 1;
        let (life, node) = (self.life(at), &mut self.nodes[at]);
        let server = node.place.serve_with(&["--store", &node.store], &[("NODE", &life)]);
        let mut addresses = self.addresses.lock();
        match addresses.get_mut(at) {
            Some(address) => *address = server.address,
            None => addresses.push(server.address),
        }
        node.server = Some(server);
    }

    /// As `kill -9`.
    pub fn kill(&mut self, at: usize) {
        self.nodes[at].server.take().expect("it runs");
    }

    /// As an orchestrator does: SIGTERM, and wait.
    pub fn stop(&mut self, at: usize) {
        self.nodes[at].server.take().expect("it runs").stop();
    }

    /// The node's name in this life, as far ends see it.
    pub fn life(&self, at: usize) -> String {
        format!("{at}.{}", self.nodes[at].lives)
    }

    pub fn at(&self, at: usize) -> &Server {
        self.nodes[at].server.as_ref().expect("it runs")
    }

    pub fn all(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().filter_map(|node| node.server.as_ref())
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }
}

/// Takes in jobs of a company at one node, named `company-0` and on.
#[track_caller]
pub fn enqueue(server: &Server, company: &str, count: usize) -> Vec<String> {
    let ids: Vec<_> = (0..count).map(|at| format!("{company}-{at}")).collect();
    let jobs: Vec<_> = ids.iter().map(|id| job(id, company, "deliver")).collect();
    for jobs in jobs.chunks(recado_wire::BATCH_JOBS_MAX) {
        let (status, body) = server.ask("POST", "/v1/jobs/batch", &json!(jobs));
        assert_eq!((status, &body["accepted"]), (200, &json!(jobs.len())), "{body}");
    }
    ids
}

pub fn job(id: &str, company: &str, path: &str) -> Value {
    json!({ "jobId": id, "route": "sink", "companyId": company, "data": { "path": path, "body": { "id": id } } })
}
