//! Leader leases: which process does a duty that only one may do at a time. Alerts, bulk acts and the archiver use them.
//!
//! A duty keeps its state in a note that names the holder and is written by compare-and-set; every renewal gives the note
//! a new version. Another process takes over when it has seen the same version for the length of the lease by its own
//! monotonic clock, so that no wall clock decides, whatever is done to it. A holder that was replaced finds out at its
//! next write. Where no other process can share the store, the note is the last process's, and is taken over at once.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::Inner;

/// Watches a lease that another process may hold.
#[derive(Debug, Default)]
pub(crate) struct LeaseWatch {
    /// The version of the note, and since when it has been that one.
    seen: Option<(u64, Instant)>,
}

impl LeaseWatch {
    /// Returns true when this process may hold the lease: it is free, its own, or its holder has been silent for
    /// `length`. An empty name stands for no holder.
    pub fn may_take(&mut self, engine: &Inner, holder: Option<&str>, version: u64, length: Duration) -> bool {
        let is_free = holder.is_none_or(|holder| holder.is_empty() || *holder == *engine.settings.node);
        if is_free || !engine.store.is_shared() {
            self.seen = None;
            return true;
        }
        match self.seen {
            Some((seen, since)) if seen == version => since.elapsed() >= length,
            _ => {
                self.seen = Some((version, Instant::now()));
                false
            }
        }
    }
}
