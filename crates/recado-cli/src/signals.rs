//! Signals, for commands that have to clean up before they end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a command: Ctrl-C, SIGTERM, and SIGHUP of a terminal that was closed.
pub struct Signals([Signal; 3]);

impl Signals {
    pub fn listen() -> std::io::Result<Self> {
        let [interrupt, terminate, hangup] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        Ok(Signals([interrupt?, terminate?, hangup?]))
    }

    pub async fn recv(&mut self) {
        let Signals([interrupt, terminate, hangup]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
