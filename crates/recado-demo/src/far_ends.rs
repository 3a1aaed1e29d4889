//! Providers on loopback ports that speak as the real ones do. Untold, each is well-mannered: it takes what its API
//! takes and answers as that does. Beside its manners each file has the refusals that its provider is known for.
//!
//! The demonstration plays with them, and so do the tests of the five systems, so that both meet the same world.
//! Absent on purpose: TLS, which is tested beside the transports, and an end: they live as long as the process.

pub mod evolution;
pub mod graph;
pub mod http;
pub mod mail;
pub mod openai;
pub mod receiver;
pub mod ses;
pub mod tiktok;
pub mod tiss;
pub mod youtube;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

/// Holds a conversation with every client, each in a thread of its own. Clients are on this machine.
fn listen(converse: impl Fn(&TcpStream) + Clone + Send + 'static) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let converse = converse.clone();
            std::thread::spawn(move || converse(&stream));
        }
    });
    Ok(address)
}
