//! Fake far ends on loopback ports, for the tests of every crate. `recado demo` plays with the providers too.
//!
//! | module | what |
//! |---|---|
//! | [`http`] | an HTTP server in threads: each request, and the act that answers it |
//! | [`far_end`] | such a server with a record of all requests, open to orders |
//! | [`smtp`] | an SMTP server in threads, good or bad as it is told |
//! | [`camunda`] | a process engine that speaks as Camunda 7 and 8 do |
//! | [`redis`] | Redis servers of a test's own: one, a Cluster, a set with Sentinels |
//! | [`fault_proxy`] | a wire that can be cut, held, and made to lose answers |
//! | [`jobs`] | jobs and failures that tests start from |
//! | [`providers`] | answers and refusals of real providers, with their lines of configuration |
//!
//! Everything runs in threads of its own, so that tests with and without a runtime can use it. Only `recado-demo`
//! depends on this crate outside its tests.

pub mod camunda;
pub mod far_end;
pub mod fault_proxy;
pub mod http;
pub mod jobs;
pub mod providers;
pub mod redis;
pub mod smtp;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine: only a test that fails waits so long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A free port of this machine, which refuses every connection until it is taken.
pub fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.expect("a free port").port()
}

/// Checks again and again until the condition holds.
#[track_caller]
pub fn eventually(mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "it did not happen within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Holds a conversation with every client, each in a thread of its own.
fn listen(
    address: impl ToSocketAddrs,
    converse: impl Fn(TcpStream) + Clone + Send + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let converse = converse.clone();
            std::thread::spawn(move || converse(stream));
        }
    });
    Ok(address)
}
