//! A thread that works off a bounded queue.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// It ends when its queue is dropped, or by itself: then the queue takes nothing any more.
pub struct QueueThread<T> {
    pub queue: SyncSender<T>,
    pub thread: JoinHandle<()>,
}

impl<T: Send + 'static> QueueThread<T> {
    /// Starts a thread whose queue has room for `max` items.
    pub fn start(
        name: &str,
        max: usize,
        run: impl FnOnce(Receiver<T>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (queue, inbox) = sync_channel(max);
        let thread = Builder::new().name(name.to_owned()).spawn(move || run(inbox))?;
        Ok(QueueThread { queue, thread })
    }

    /// Waits until all that is in the queue is done.
    pub fn join(self) {
        drop(self.queue);
        let _ = self.thread.join();
    }
}
