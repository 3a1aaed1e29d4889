//! A wire between a command and Redis that breaks once so many bytes have gone to the server, and can be mended.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

pub struct Wire {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    /// Bytes that still go to the server; none: it is broken.
    bytes_left: Mutex<u64>,
    bytes_passed: Mutex<u64>,
}

impl Wire {
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let state = Arc::new(State { bytes_left: Mutex::new(u64::MAX), bytes_passed: Mutex::default() });
        let carrying = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if let (false, Ok(server)) = (carrying.is_broken(), TcpStream::connect(("127.0.0.1", port))) {
                    carrying.carry(&client, &server);
                }
            }
        });
        Wire { address, state }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Lets so many bytes through from now on; what has gone through is counted anew.
    pub fn break_after(&self, bytes: u64) {
        *self.state.bytes_left.lock() = bytes;
        *self.state.bytes_passed.lock() = 0;
    }

    pub fn is_broken(&self) -> bool {
        self.state.is_broken()
    }

    pub fn bytes_passed(&self) -> u64 {
        *self.state.bytes_passed.lock()
    }
}

impl State {
    fn is_broken(&self) -> bool {
        *self.bytes_left.lock() == 0
    }

    fn carry(self: &Arc<Self>, client: &TcpStream, server: &TcpStream) {
        let ends = || [client.try_clone().expect("a stream"), server.try_clone().expect("a stream")];
        let ([client, to_server], [to_client, server], state) = (ends(), ends(), self.clone());
        std::thread::spawn(move || pump(&client, &to_server, |bytes| state.let_through(bytes)));
        std::thread::spawn(move || pump(&server, &to_client, |bytes| bytes));
    }

    /// How many of these bytes reach the server.
    fn let_through(&self, bytes: usize) -> usize {
        let mut left = self.bytes_left.lock();
        let through = (bytes as u64).min(*left);
        *left -= through;
        *self.bytes_passed.lock() += through;
        through as usize
    }
}

fn pump(mut from: &TcpStream, mut to: &TcpStream, let_through: impl Fn(usize) -> usize) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let through = let_through(read);
        if to.write_all(&buffer[..through]).is_err() || through < read {
            break;
        }
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}
