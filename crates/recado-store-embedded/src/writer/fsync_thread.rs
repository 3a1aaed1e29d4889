//! Forces commits to disk, one step behind the writer.
//!
//! SQLite would do the fsync inside COMMIT, and the processor would wait for the disk. Here the writer commits
//! to the log (`synchronous=NORMAL`: everything is handed to the kernel, checkpoints of the log are
//! still ordered by fsyncs of its own), and this thread forces the log and then answers. Commits that arrive
//! while the disk is busy share the next fsync. Answers leave in the order of the commits, so no caller hears
//! of something before it is on disk. Claims of jobs that are on disk are answered by the writer, before this thread.

use std::fs::File;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use recado_core::RouteName;
use recado_store::{StoreError, Wakes, Watcher};

use crate::disk::StoreFiles;
use crate::writer::RECOVERS;
use crate::writer::queue_thread::QueueThread;
use crate::writer::request::Change;
use crate::writer::unsynced::SyncedCommit;

/// Commits that may wait for the disk. More would only make groups smaller.
const WAITING_COMMITS_MAX: usize = 2;

/// Time between two checks that the files are still where they were, while nothing is acknowledged as durable. Before
/// each acknowledgement they are checked anyway.
const CHECK_FILES_EVERY: Duration = Duration::from_millis(200);

/// The observer of commits, once there is one.
pub type SharedWatcher = Arc<OnceLock<Arc<dyn Watcher>>>;

/// The reason why the store failed, from then on. A request that comes too late is told it, too.
pub type FailureReason = Arc<OnceLock<String>>;

/// Fewer replies than this are sent from the fsync thread itself.
const SPAWNED_REPLIES_MIN: usize = 4;

/// A transaction that is in the log, with the changes to answer once it is on disk.
#[derive(Default)]
pub struct Commit {
    /// Nothing of it was kept.
    pub failure: Option<StoreError>,
    /// Leases alone need not survive a crash of the machine: their loss costs a repeated claim.
    pub needs_fsync: bool,
    /// Number of the commit among those that did not fail.
    pub number: u64,
    /// In the order of their requests.
    pub replies: Vec<Box<dyn Change>>,
    /// Claims that the writer itself answers, as soon as the transaction is in the log.
    pub early_replies: Vec<Box<dyn Change>>,
    /// Routes that may have work now.
    pub routes_to_wake: Vec<RouteName>,
}

/// The replies of each commit in its queue leave once it is on disk. It ends when an fsync has failed.
pub type FsyncThread = QueueThread<Commit>;

pub struct FsyncLoop {
    pub log: File,
    /// Absent in tests that are not about it.
    pub files: Option<Arc<StoreFiles>>,
    pub wakes: Arc<Wakes>,
    /// The runtime that callers wait in, if the store was opened in one.
    pub callers: Option<tokio::runtime::Handle>,
    pub watcher: SharedWatcher,
    pub failure_reason: FailureReason,
    pub synced: SyncedCommit,
}

impl FsyncLoop {
    #[cfg(test)]
    pub fn of_a_test(log: File) -> Self {
        let (wakes, watcher, failure_reason, synced) = Default::default();
        FsyncLoop { log, files: None, wakes, callers: None, watcher, failure_reason, synced }
    }

    pub fn start(self) -> std::io::Result<FsyncThread> {
        QueueThread::start("recado-fsync", WAITING_COMMITS_MAX, move |inbox| self.run(&inbox))
    }

    fn run(&self, inbox: &Receiver<Commit>) {
        let mut group = Vec::new();
        let mut checked_at = Instant::now();
        while let Ok(first) = inbox.recv() {
            group.push(first);
            group.extend(inbox.try_iter());
            let needs_fsync = group.iter().any(|commit| commit.needs_fsync);
            // The kernel may have dropped these pages after a failure: no second try, ever.
            let mut broken = match needs_fsync {
                true => self
                    .sync_log()
                    .err()
                    .map(|error| format!("the disk did not take the log: {error}; {RECOVERS}")),
                false => None,
            };
            if broken.is_none() && (needs_fsync || checked_at.elapsed() >= CHECK_FILES_EVERY) {
                checked_at = Instant::now();
                broken = self.files.as_ref().and_then(|files| files.find_missing());
            }
            if let Some(why) = broken {
                tracing::error!(why, "The store stops");
                let _ = self.failure_reason.set(why.clone());
                let broken = StoreError::Broken(why);
                for commit in group.drain(..).chain(inbox.try_iter()) {
                    self.send_replies(Commit { failure: Some(broken.clone()), ..commit });
                }
                return;
            }
            // Those that need no fsync changed leases alone: all jobs of the commits before them are on disk.
            let synced = group.iter().map(|commit| commit.number).max().unwrap_or_default();
            self.synced.fetch_max(synced, Ordering::Release);
            group.drain(..).for_each(|commit| self.send_replies(commit));
        }
    }

    fn sync_log(&self) -> std::io::Result<()> {
        let began = Instant::now();
        self.log.sync_data()?;
        if let Some(watcher) = self.watcher.get() {
            watcher.on_fsync(began.elapsed());
        }
        Ok(())
    }

    /// Sends the replies of a commit. Many are sent from inside the runtime that their callers wait in: that
    /// is one wake-up from here, and the rest is handed around among the runtime's own threads.
    fn send_replies(&self, commit: Commit) {
        let Commit { failure, replies, routes_to_wake, .. } = commit;
        let many = replies.len() >= SPAWNED_REPLIES_MIN;
        let send = move || {
            let committed = failure.map_or(Ok(()), Err);
            replies.into_iter().for_each(|change| change.reply(committed.clone()));
        };
        match &self.callers {
            Some(callers) if many => drop(callers.spawn(async move { send() })),
            _ => send(),
        }
        routes_to_wake.iter().for_each(|route| self.wakes.wake(route));
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::mpsc;

    use super::*;
    use crate::writer::apply::WriteTransaction;
    use crate::writer::request::ChangeError;

    /// Tells its name and the outcome instead of answering a caller.
    struct Teller(&'static str, mpsc::Sender<(&'static str, bool)>);

    impl Change for Teller {
        fn apply(&mut self, _: &mut WriteTransaction<'_, '_>) -> Result<(), ChangeError> {
            Ok(())
        }

        fn reply(self: Box<Self>, committed: Result<(), StoreError>) {
            self.1.send((self.0, committed.is_ok())).unwrap();
        }
    }

    fn commit(needs_fsync: bool, name: &'static str, told: &mpsc::Sender<(&'static str, bool)>) -> Commit {
        Commit { needs_fsync, replies: vec![Box::new(Teller(name, told.clone()))], ..Commit::default() }
    }

    fn start(log: File) -> FsyncThread {
        FsyncLoop::of_a_test(log).start().unwrap()
    }

    #[test]
    fn answers_leave_in_the_order_of_the_commits() {
        let (tell, told) = mpsc::channel();
        let fsync_thread = start(tempfile::tempfile().unwrap());
        for (needs_fsync, name) in [(true, "enqueue"), (false, "claim"), (true, "settle")] {
            fsync_thread.queue.send(commit(needs_fsync, name, &tell)).unwrap();
        }
        fsync_thread.join();
        let told: Vec<_> = told.try_iter().collect();
        assert_eq!(told, [("enqueue", true), ("claim", true), ("settle", true)]);
    }

    /// A socket cannot be synced, which stands for a disk that fails.
    #[test]
    fn a_failed_fsync_is_answered_to_every_caller_and_never_tried_again() {
        let (tell, told) = mpsc::channel();
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let fsync_thread = start(File::from(OwnedFd::from(socket)));
        fsync_thread.queue.send(commit(false, "claim", &tell)).unwrap();
        assert_eq!(told.recv().unwrap(), ("claim", true), "leases alone need no fsync");
        fsync_thread.queue.send(commit(true, "enqueue", &tell)).unwrap();
        assert_eq!(told.recv().unwrap(), ("enqueue", false));
        drop(tell);
        while !fsync_thread.thread.is_finished() {
            std::thread::yield_now();
        }
        let late = commit(true, "late", &mpsc::channel().0);
        assert!(fsync_thread.queue.send(late).is_err(), "the writer hears that it must stop");
    }
}
