//! Forces commits to disk, one step behind the writer.
//!
//! SQLite would do the fsync inside COMMIT, and the processor would wait for the disk. Here the writer commits
//! to the log (`synchronous=NORMAL`: everything is handed to the kernel, folding the log into the file is
//! still ordered by fsyncs of its own), and this thread forces the log and then answers. Commits that arrive
//! while the disk is busy share the next fsync. Answers leave in the order of the commits, so nobody is told
//! of something, not even by a claim, before it is on disk.

use std::fs::File;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use recado_core::RouteName;
use recado_store::{StoreError, Wakes, Watcher};

use crate::disk::StorePlace;
use crate::writer::{RECOVERS, Reply};

/// Commits that may wait for the disk. More would only make groups smaller.
const WAITING_COMMITS_MAX: usize = 2;

/// Between two looks at whether the files are still where they were, while nothing is acknowledged as durable. What is
/// acknowledged is looked after every time.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Who hears of commits, once somebody wants to.
pub type Watched = Arc<OnceLock<Arc<dyn Watcher>>>;

/// The reason why the store failed, from then on. A request that comes too late is told it, too.
pub type FailedWhy = Arc<OnceLock<String>>;

/// Fewer answers than this are sent where they are.
const ANSWERS_APART_MIN: usize = 4;

/// A transaction that is in the log, and whom to tell once it is on disk.
pub struct Commit {
    pub outcome: Result<(), StoreError>,
    /// Leases alone need not survive a crash of the machine: their loss costs a repeated claim.
    pub forced: bool,
    pub replies: Vec<Reply>,
    /// Lanes that may have work now.
    pub rung: Vec<RouteName>,
}

impl Default for Commit {
    fn default() -> Self {
        Commit { outcome: Ok(()), forced: false, replies: Vec::new(), rung: Vec::new() }
    }
}

#[derive(Debug)]
pub struct Forcer {
    commits: SyncSender<Commit>,
    thread: JoinHandle<()>,
}

/// The forcer has ended because the disk failed it.
#[derive(Debug)]
pub struct Gone;

impl Forcer {
    pub fn start(
        log: File,
        place: Option<Arc<StorePlace>>,
        wakes: Arc<Wakes>,
        watcher: Watched,
        failed_why: FailedWhy,
    ) -> std::io::Result<Self> {
        let (commits, inbox) = sync_channel(WAITING_COMMITS_MAX);
        let callers = tokio::runtime::Handle::try_current().ok();
        let disk = Disk { log, place, wakes, callers, watcher, failed_why };
        let thread =
            std::thread::Builder::new().name("recado-forcer".to_owned()).spawn(move || disk.run(&inbox))?;
        Ok(Forcer { commits, thread })
    }

    pub fn force(&self, commit: Commit) -> Result<(), Gone> {
        self.commits.send(commit).map_err(|_| Gone)
    }

    pub fn end(self) {
        drop(self.commits);
        let _ = self.thread.join();
    }
}

struct Disk {
    log: File,
    /// Absent in tests that are not about it.
    place: Option<Arc<StorePlace>>,
    wakes: Arc<Wakes>,
    /// The runtime that callers wait in, if the store was opened in one.
    callers: Option<tokio::runtime::Handle>,
    watcher: Watched,
    failed_why: FailedWhy,
}

impl Disk {
    fn run(&self, inbox: &Receiver<Commit>) {
        let mut group = Vec::new();
        let mut looked_at = Instant::now();
        while let Ok(first) = inbox.recv() {
            group.push(first);
            group.extend(inbox.try_iter());
            let is_forced = group.iter().any(|commit| commit.forced);
            // What the kernel still has of these pages after a failure is anybody's guess: no second try, ever.
            let mut broken = match is_forced {
                true => self
                    .force()
                    .err()
                    .map(|error| format!("the disk did not take the log: {error}; {RECOVERS}")),
                false => None,
            };
            if broken.is_none() && (is_forced || looked_at.elapsed() >= LOOK_EVERY) {
                looked_at = Instant::now();
                broken = self.place.as_ref().and_then(|place| place.find_missing());
            }
            if let Some(why) = broken {
                tracing::error!(why, "the store stops");
                let _ = self.failed_why.set(why.clone());
                let broken = StoreError::Broken(why);
                for commit in group.drain(..).chain(inbox.try_iter()) {
                    self.answer(Commit { outcome: Err(broken.clone()), ..commit });
                }
                return;
            }
            group.drain(..).for_each(|commit| self.answer(commit));
        }
    }

    fn force(&self) -> std::io::Result<()> {
        let began = Instant::now();
        self.log.sync_data()?;
        if let Some(watcher) = self.watcher.get() {
            watcher.forced(began.elapsed());
        }
        Ok(())
    }

    /// Tells everybody how the commit went. Many callers are told from inside the runtime they wait in: that
    /// is one wake-up from here, and the rest is handed around among the runtime's own threads.
    fn answer(&self, commit: Commit) {
        let Commit { outcome, replies, rung, .. } = commit;
        match &self.callers {
            Some(callers) if replies.len() >= ANSWERS_APART_MIN => {
                callers.spawn(async move { replies.into_iter().for_each(|reply| reply(outcome.clone())) });
            }
            _ => replies.into_iter().for_each(|reply| reply(outcome.clone())),
        }
        rung.iter().for_each(|route| self.wakes.ring(route));
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::mpsc;

    use super::*;

    fn commit(forced: bool, name: &'static str, told: &mpsc::Sender<(&'static str, bool)>) -> Commit {
        let told = told.clone();
        let reply: Reply =
            Box::new(move |outcome: Result<(), StoreError>| told.send((name, outcome.is_ok())).unwrap());
        Commit { forced, replies: vec![reply], ..Commit::default() }
    }

    #[test]
    fn answers_leave_in_the_order_of_the_commits() {
        let (tell, told) = mpsc::channel();
        let forcer = Forcer::start(
            tempfile::tempfile().unwrap(),
            None,
            Arc::default(),
            Arc::default(),
            Arc::default(),
        )
        .unwrap();
        for (forced, name) in [(true, "enqueue"), (false, "claim"), (true, "settle")] {
            forcer.force(commit(forced, name, &tell)).unwrap();
        }
        forcer.end();
        let told: Vec<_> = told.try_iter().collect();
        assert_eq!(told, [("enqueue", true), ("claim", true), ("settle", true)]);
    }

    /// A socket cannot be synced, which stands for a disk that fails.
    #[test]
    fn a_failed_fsync_is_told_to_everybody_and_never_tried_again() {
        let (tell, told) = mpsc::channel();
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let forcer = Forcer::start(
            File::from(OwnedFd::from(socket)),
            None,
            Arc::default(),
            Arc::default(),
            Arc::default(),
        )
        .unwrap();
        forcer.force(commit(false, "claim", &tell)).unwrap();
        assert_eq!(told.recv().unwrap(), ("claim", true), "leases alone are not forced");
        forcer.force(commit(true, "enqueue", &tell)).unwrap();
        assert_eq!(told.recv().unwrap(), ("enqueue", false));
        drop(tell);
        while !forcer.thread.is_finished() {
            std::thread::yield_now();
        }
        let late = commit(true, "late", &mpsc::channel().0);
        assert!(forcer.force(late).is_err(), "the writer hears that it must stop");
    }
}
