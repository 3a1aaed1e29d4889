//! A port that no connection may touch.

use std::io::ErrorKind;

/// Listens, and accepts no connection until it is asked whether one came.
pub struct Trap(std::net::TcpListener);

impl Trap {
    pub fn at(address: &str) -> Trap {
        let listener = std::net::TcpListener::bind(address).expect("an address of this machine");
        listener.set_nonblocking(true).expect("a socket that does not block");
        Trap(listener)
    }

    pub fn port(&self) -> u16 {
        self.0.local_addr().expect("an address").port()
    }

    /// Panics if a client connected: the system keeps such connections until they are accepted.
    pub fn assert_untouched(&self) {
        match self.0.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => panic!("a connection touched the trap: {other:?}"),
        }
    }
}
