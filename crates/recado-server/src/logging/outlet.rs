//! The way of lines out of the process: a bounded buffer, and a thread that empties it.
//!
//! A logging thread never waits for the reader. While the reader keeps up, a write takes all lines that
//! gathered during the one before. When it does not, the buffer fills, further lines are counted instead of
//! kept, and the count is written as a line of its own as soon as there is room: no loss is silent.

use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use recado_engine::Clock;

use super::line::{Format, write_lost};

/// Bytes at most that wait for the reader: tens of thousands of lines.
pub const WAITING_MAX_BYTES: usize = 16 << 20;

/// Bytes that the buffer keeps allocated between bursts.
const WAITING_KEPT_MAX_BYTES: usize = 256 << 10;

/// Pause after a write: lines that come meanwhile leave together, and wake no thread. The first line after a silence
/// leaves at once.
const GATHER: Duration = Duration::from_millis(2);

/// Time that the end of the process waits for the last lines.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Takes lines from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Outlet(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<OutletState>,
    /// There are lines, or it is over.
    filled: Condvar,
    /// The thread has written everything there was.
    emptied: Condvar,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct OutletState {
    waiting: Vec<u8>,
    lost: u64,
    writing: bool,
    closed: bool,
}

impl Outlet {
    pub fn new(
        sink: impl Write + Send + 'static,
        format: Format,
        clock: Arc<dyn Clock>,
        max_bytes: usize,
    ) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            max_bytes,
        });
        let theirs = shared.clone();
        let run = move || empty(&theirs, sink, format, clock.as_ref());
        // Without a thread there is no log; the process has worse problems then.
        if std::thread::Builder::new().name("recado-log".to_owned()).spawn(run).is_err() {
            shared.state.lock().closed = true;
        }
        Outlet(shared)
    }

    /// Takes one whole line.
    pub fn line(&self, line: &[u8]) {
        let mut state = self.0.state.lock();
        if state.closed {
            return;
        }
        if state.waiting.len() + line.len() > self.0.max_bytes || state.lost > 0 {
            state.lost += 1;
            return;
        }
        state.waiting.extend_from_slice(line);
        // While the thread writes, or pauses after it, it looks again on its own.
        if !state.writing {
            self.0.filled.notify_one();
        }
    }

    /// Waits, within bounds, until everything is written, and takes no more.
    pub fn close(&self) {
        let mut state = self.0.state.lock();
        state.closed = true;
        self.0.filled.notify_one();
        let busy = |state: &mut OutletState| state.writing || !state.waiting.is_empty();
        self.0.emptied.wait_while_for(&mut state, busy, CLOSE_WAIT);
    }
}

fn empty(shared: &Shared, mut sink: impl Write, format: Format, clock: &dyn Clock) {
    let mut lines = Vec::new();
    loop {
        let mut state = shared.state.lock();
        state.writing = false;
        if state.waiting.is_empty() && state.lost == 0 {
            shared.emptied.notify_all();
            if state.closed {
                return;
            }
            shared.filled.wait_while(&mut state, |state| state.waiting.is_empty() && !state.closed);
        }
        lines.clear();
        lines.shrink_to(WAITING_KEPT_MAX_BYTES);
        std::mem::swap(&mut lines, &mut state.waiting);
        let lost = std::mem::take(&mut state.lost);
        state.writing = true;
        drop(state);
        if lost > 0 {
            write_lost(&mut lines, lost, clock.now(), format);
        }
        if let Err(error) = sink.write_all(&lines).and_then(|()| sink.flush())
            && error.kind() == ErrorKind::BrokenPipe
        {
            // The reader is gone for good.
            let mut state = shared.state.lock();
            *state = OutletState { closed: true, ..OutletState::default() };
            shared.emptied.notify_all();
            return;
        }
        let mut state = shared.state.lock();
        shared.filled.wait_while_for(&mut state, |state| !state.closed, GATHER);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use recado_core::Timestamp;

    use super::*;

    #[derive(Debug)]
    struct Stopped;

    impl Clock for Stopped {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(0)
        }
    }

    /// A reader that takes a write only when it is told to.
    struct Slow {
        may_take: mpsc::Receiver<()>,
        taken: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.may_take.recv().map_err(|_| ErrorKind::BrokenPipe)?;
            let _ = self.taken.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn slow_outlet(max_bytes: usize) -> (Outlet, mpsc::Sender<()>, mpsc::Receiver<Vec<u8>>) {
        let (let_take, may_take) = mpsc::channel();
        let (taken, writes) = mpsc::channel();
        let outlet = Outlet::new(Slow { may_take, taken }, Format::Json, Arc::new(Stopped), max_bytes);
        (outlet, let_take, writes)
    }

    #[test]
    fn lines_that_a_slow_reader_costs_are_counted_and_told() {
        let (outlet, let_take, writes) = slow_outlet(20);
        for _ in 0..10 {
            outlet.line(b"0123456789\n");
        }
        for _ in 0..3 {
            let _ = let_take.send(());
        }
        outlet.close();
        let written: Vec<u8> = writes.try_iter().flatten().collect();
        let written = String::from_utf8(written).unwrap();
        let kept = written.matches("0123456789\n").count() as u64;
        let lost: u64 = written
            .split("\"lost\":")
            .skip(1)
            .map(|rest| rest.split(',').next().unwrap().parse::<u64>().unwrap())
            .sum();
        assert!((1..10).contains(&kept), "{written}");
        assert_eq!(kept + lost, 10, "{written}");
    }

    #[test]
    fn lines_gather_while_a_write_is_under_way_and_leave_in_order() {
        let (outlet, let_take, writes) = slow_outlet(1 << 20);
        for number in 0..1_000 {
            outlet.line(format!("{number}\n").as_bytes());
        }
        for _ in 0..1_000 {
            let _ = let_take.send(());
        }
        outlet.close();
        let writes: Vec<_> = writes.try_iter().collect();
        assert!(writes.len() < 1_000);
        let expected: String = (0..1_000).map(|number| format!("{number}\n")).collect();
        assert_eq!(String::from_utf8(writes.concat()).unwrap(), expected);
    }

    #[test]
    fn a_reader_that_is_gone_holds_no_writer_up() {
        let (outlet, let_take, _) = slow_outlet(1 << 20);
        drop(let_take);
        outlet.line(b"x\n");
        outlet.close();
        outlet.line(b"y\n");
    }
}
