//! A wire between one node and Redis that can be cut, held, and made to break at the answer.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// Nothing goes through, and connections stay open.
    Stall,
    /// Requests arrive; instead of the answer the connection ends.
    CutAtAnswer,
}

pub struct Proxy {
    address: SocketAddr,
    wire: Arc<Wire>,
}

struct Wire {
    mode: Mutex<Mode>,
    mode_changed: Condvar,
    open: Mutex<HashMap<u64, [TcpStream; 2]>>,
    /// Messages that met a mode other than `Pass`.
    hurt: AtomicU64,
}

impl Proxy {
    pub fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let wire = Arc::new(Wire {
            mode: Mutex::new(Mode::Pass),
            mode_changed: Condvar::new(),
            open: Mutex::default(),
            hurt: AtomicU64::new(0),
        });
        let carrying = wire.clone();
        std::thread::spawn(move || {
            for (id, client) in (0..).zip(listener.incoming().map_while(Result::ok)) {
                if let Ok(server) = TcpStream::connect(server) {
                    carrying.carry(id, client, server).expect("two threads");
                }
            }
        });
        Proxy { address, wire }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub fn set(&self, mode: Mode) {
        *self.wire.mode.lock() = mode;
        self.wire.mode_changed.notify_all();
    }

    /// Ends every connection; answers how many there were.
    pub fn cut(&self) -> usize {
        let open = self.wire.open.lock();
        open.values().flatten().for_each(end);
        open.len()
    }

    /// Messages that were held or answered with an end, so far.
    pub fn hurt(&self) -> u64 {
        self.wire.hurt.load(Ordering::SeqCst)
    }
}

impl Wire {
    fn carry(self: &Arc<Self>, id: u64, client: TcpStream, server: TcpStream) -> std::io::Result<()> {
        self.open.lock().insert(id, [client.try_clone()?, server.try_clone()?]);
        let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
        for (from, to, answers) in [(from_client, to_server, false), (server, client, true)] {
            let wire = self.clone();
            std::thread::spawn(move || {
                wire.pump(&from, &to, answers);
                [&from, &to].into_iter().for_each(end);
                wire.open.lock().remove(&id);
            });
        }
        Ok(())
    }

    fn pump(&self, mut from: &TcpStream, mut to: &TcpStream, answers: bool) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let mut mode = self.mode.lock();
            let hurts = *mode == Mode::Stall || (answers && *mode == Mode::CutAtAnswer);
            self.hurt.fetch_add(u64::from(hurts), Ordering::SeqCst);
            if hurts && *mode == Mode::CutAtAnswer {
                return;
            }
            // What was held goes on when the wire is whole again, however late that is.
            while *mode == Mode::Stall {
                self.mode_changed.wait(&mut mode);
            }
            drop(mode);
            if to.write_all(&buffer[..read]).is_err() {
                return;
            }
        }
    }
}

fn end(stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Both);
}
