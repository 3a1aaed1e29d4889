//! A wire between client and server that can be cut, held and made to lose answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// Nothing goes through, and connections stay open.
    Stall,
    /// Requests arrive, answers do not.
    LoseAnswers,
    /// Requests arrive; instead of the answer the connection ends.
    CutAtAnswer,
}

#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    wire: Arc<Wire>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Wire {
    mode: watch::Sender<Mode>,
    /// Grows with every cut.
    cuts: watch::Sender<u64>,
    open: AtomicU64,
    /// Messages that met a mode other than `Pass`.
    hurt: AtomicU64,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.wire.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Proxy {
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let wire = Arc::new(Wire {
            mode: watch::Sender::new(Mode::Pass),
            cuts: watch::Sender::new(0),
            open: AtomicU64::new(0),
            hurt: AtomicU64::new(0),
        });
        let shared = wire.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let wire = shared.clone();
                tokio::spawn(async move {
                    if let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await {
                        wire.carry(client, server).await;
                    }
                });
            }
        });
        Proxy { address, wire, task: task.abort_handle() }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub fn set(&self, mode: Mode) {
        self.wire.mode.send_replace(mode);
    }

    /// Ends every connection; answers how many there were.
    pub fn cut(&self) -> u64 {
        let open = self.wire.open.load(Ordering::SeqCst);
        self.wire.cuts.send_modify(|cuts| *cuts += 1);
        open
    }

    /// Messages that were held, lost or answered with an end, so far.
    pub fn hurt(&self) -> u64 {
        self.wire.hurt.load(Ordering::SeqCst)
    }
}

impl Wire {
    async fn carry(&self, client: TcpStream, server: TcpStream) {
        let mut cuts = self.cuts.subscribe();
        cuts.mark_unchanged();
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        self.open.fetch_add(1, Ordering::SeqCst);
        tokio::select! {
            () = self.pump(from_client, to_server, false) => {}
            () = self.pump(from_server, to_client, true) => {}
            _ = cuts.changed() => {}
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    async fn pump(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, answers: bool) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = match from.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(read) => read,
            };
            let mode = *self.mode.borrow();
            let hurts = match mode {
                Mode::Pass => false,
                Mode::Stall => true,
                Mode::LoseAnswers | Mode::CutAtAnswer => answers,
            };
            if hurts {
                self.hurt.fetch_add(1, Ordering::SeqCst);
                match mode {
                    Mode::CutAtAnswer => return,
                    Mode::LoseAnswers => continue,
                    // What was held goes on when the wire is whole again.
                    _ => {
                        let mut modes = self.mode.subscribe();
                        let _ = modes.wait_for(|mode| *mode == Mode::Pass).await;
                    }
                }
            }
            if to.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    }
}
