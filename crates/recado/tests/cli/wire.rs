//! A wire between a command and Redis that breaks or holds still before certain words reach the server, and can be
//! mended.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

pub struct Wire {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    break_before: Option<&'static str>,
    is_broken: bool,
    hold_before: Option<&'static str>,
    is_holding: bool,
}

impl Wire {
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let state = Arc::new(Mutex::new(State::default()));
        let carrying = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if let (false, Ok(server)) =
                    (carrying.lock().is_broken, TcpStream::connect(("127.0.0.1", port)))
                {
                    carry(&client, &server, &carrying);
                }
            }
        });
        Wire { address, state }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Cuts the connection before these words of a command reach the server.
    pub fn break_before(&self, words: &'static str) {
        *self.state.lock() = State { break_before: Some(words), ..State::default() };
    }

    /// The first command that writes these words waits with them until the wire is mended. All others get through.
    pub fn hold_before(&self, words: &'static str) {
        *self.state.lock() = State { hold_before: Some(words), ..State::default() };
    }

    pub fn is_holding(&self) -> bool {
        self.state.lock().is_holding
    }

    pub fn mend(&self) {
        *self.state.lock() = State::default();
    }

    pub fn is_broken(&self) -> bool {
        self.state.lock().is_broken
    }
}

fn carry(client: &TcpStream, server: &TcpStream, state: &Arc<Mutex<State>>) {
    let ends = || [client.try_clone().expect("a stream"), server.try_clone().expect("a stream")];
    let ([client, to_server], [to_client, server], state) = (ends(), ends(), state.clone());
    std::thread::spawn(move || {
        pump(&client, &to_server, |bytes| {
            if state.lock().holds(bytes) {
                super::given::eventually(|| !state.lock().is_holding);
            }
            state.lock().breaks(bytes)
        });
    });
    std::thread::spawn(move || pump(&server, &to_client, |_| false));
}

impl State {
    fn breaks(&mut self, bytes: &[u8]) -> bool {
        self.is_broken |= self.break_before.is_some_and(|words| contains(bytes, words));
        self.is_broken
    }

    fn holds(&mut self, bytes: &[u8]) -> bool {
        let holds = self.hold_before.take_if(|words| contains(bytes, words)).is_some();
        self.is_holding |= holds;
        holds
    }
}

fn contains(bytes: &[u8], words: &str) -> bool {
    bytes.windows(words.len()).any(|window| window == words.as_bytes())
}

fn pump(mut from: &TcpStream, mut to: &TcpStream, breaks: impl Fn(&[u8]) -> bool) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if breaks(&buffer[..read]) || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}
