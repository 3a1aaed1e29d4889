//! A wire between a client and a server that can be cut, held, and made to lose or break off answers.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// A chunk is as large as this at most, so that the words of a request arrive in one as a rule.
const CHUNK_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Pass,
    /// Nothing goes through, and connections stay open.
    Stall,
    /// Requests arrive, answers do not.
    LoseAnswers,
    /// Requests arrive; instead of the answer the connection ends.
    CutAtAnswer,
    /// Everything goes through, each chunk [`LATE`].
    Late,
    /// Requests arrive; instead of each answer comes one that no server gives, by turns of [`GARBAGE`].
    Garbage,
}

/// Bytes that are no protocol, lengths that no memory has, an answer of the wrong kind.
const GARBAGE: [&[u8]; 4] =
    [b"\x00\xff\xfe garbage\r\n", b"$99999999999\r\nx", b"*2147483647\r\n:1\r\n", b"+surprise\r\n"];

/// The latency of [`Mode::Late`].
const LATE: Duration = Duration::from_millis(100);

pub struct Proxy {
    address: SocketAddr,
    wire: Arc<Wire>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("address", &self.address).finish_non_exhaustive()
    }
}

type Inspect = dyn Fn(&[u8]) + Send + Sync;

struct Wire {
    state: Mutex<WireState>,
    changed: Condvar,
    /// Sees every chunk before the server does.
    inspect: Box<Inspect>,
}

#[derive(Default)]
struct WireState {
    faults: Faults,
    open: HashMap<u64, [TcpStream; 2]>,
    /// Chunks that were held, late, lost, replaced or answered with an end.
    hurt: u64,
    /// Chunks on their way to the server.
    requests: u64,
    closed: bool,
}

impl WireState {
    fn is_late(&mut self) -> bool {
        let is_late = self.faults.mode == Mode::Late;
        self.hurt += u64::from(is_late);
        is_late
    }
}

#[derive(Default)]
struct Faults {
    mode: Mode,
    answers_to_cut: usize,
    break_before: Option<&'static str>,
    /// Requests that still pass before the wire breaks.
    break_after: Option<u64>,
    is_broken: bool,
    hold_before: Option<&'static str>,
    is_holding: bool,
}

#[derive(Clone, Copy)]
enum Direction {
    ToServer,
    ToClient,
}

/// The fate of a chunk.
enum Fate {
    Passes,
    IsLost,
    IsReplaced(&'static [u8]),
    EndsConnection,
}

impl Proxy {
    /// To a server on this machine.
    pub fn to(port: u16) -> Self {
        Proxy::inspecting(port, |_| {})
    }

    /// Calls the inspector with every chunk on its way to the server.
    pub fn inspecting(port: u16, inspect: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let wire =
            Arc::new(Wire { state: Mutex::default(), changed: Condvar::new(), inspect: Box::new(inspect) });
        let carrying = wire.clone();
        std::thread::spawn(move || {
            for (id, client) in (0..).zip(listener.incoming().map_while(Result::ok)) {
                let state = carrying.state.lock();
                if state.closed {
                    return;
                }
                let is_broken = state.faults.is_broken;
                drop(state);
                if let (false, Ok(server)) = (is_broken, TcpStream::connect((Ipv4Addr::LOCALHOST, port))) {
                    carrying.carry(id, client, server).expect("two threads");
                }
            }
        });
        Proxy { address, wire }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a Redis behind it.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub fn set(&self, mode: Mode) {
        self.change(|faults| faults.mode = mode);
    }

    /// Ends connections instead of so many answers, from now on.
    pub fn cut_answers(&self, count: usize) {
        self.change(|faults| faults.answers_to_cut = count);
    }

    /// Cuts the connection before these words of a request reach the server, and lets nothing through afterwards.
    pub fn break_before(&self, words: &'static str) {
        self.change(|faults| *faults = Faults { break_before: Some(words), ..Faults::default() });
    }

    /// Cuts the connection after so many more requests, as far as each is a chunk, and lets nothing through afterwards.
    pub fn break_after(&self, requests: u64) {
        self.change(|faults| *faults = Faults { break_after: Some(requests), ..Faults::default() });
    }

    /// Requests so far, as far as each is a chunk.
    pub fn requests(&self) -> u64 {
        self.wire.state.lock().requests
    }

    /// The first request that has these words waits with them until the wire is mended. All others get through.
    pub fn hold_before(&self, words: &'static str) {
        self.change(|faults| *faults = Faults { hold_before: Some(words), ..Faults::default() });
    }

    /// Lets everything through from now on.
    pub fn mend(&self) {
        self.change(|faults| *faults = Faults::default());
    }

    pub fn is_broken(&self) -> bool {
        self.wire.state.lock().faults.is_broken
    }

    pub fn is_holding(&self) -> bool {
        self.wire.state.lock().faults.is_holding
    }

    /// Ends every connection; answers how many there were.
    pub fn cut(&self) -> usize {
        let state = self.wire.state.lock();
        state.open.values().flatten().for_each(end);
        state.open.len()
    }

    /// Chunks that were held, late, lost or answered with an end, so far.
    pub fn hurt(&self) -> u64 {
        self.wire.state.lock().hurt
    }

    fn change(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.wire.state.lock().faults);
        self.wire.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.wire.state.lock().closed = true;
        self.mend();
        self.cut();
        // Wakes the thread that accepts, which finds the wire closed.
        let _ = TcpStream::connect(self.address);
    }
}

impl Wire {
    fn carry(self: &Arc<Self>, id: u64, client: TcpStream, server: TcpStream) -> io::Result<()> {
        self.state.lock().open.insert(id, [client.try_clone()?, server.try_clone()?]);
        let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
        for (from, to, direction) in
            [(from_client, to_server, Direction::ToServer), (server, client, Direction::ToClient)]
        {
            let wire = self.clone();
            std::thread::spawn(move || {
                wire.pump(&from, &to, direction);
                [&from, &to].into_iter().for_each(end);
                wire.state.lock().open.remove(&id);
            });
        }
        Ok(())
    }

    fn pump(&self, mut from: &TcpStream, mut to: &TcpStream, direction: Direction) {
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let chunk = &buffer[..read];
            if matches!(direction, Direction::ToServer) {
                (self.inspect)(chunk);
            }
            if self.state.lock().is_late() {
                std::thread::sleep(LATE);
            }
            match self.fate_of(chunk, direction) {
                Fate::Passes if to.write_all(chunk).is_ok() => {}
                Fate::IsReplaced(other) if to.write_all(other).is_ok() => {}
                Fate::IsLost => {}
                Fate::Passes | Fate::IsReplaced(_) | Fate::EndsConnection => return,
            }
        }
    }

    fn fate_of(&self, chunk: &[u8], direction: Direction) -> Fate {
        let mut state = self.state.lock();
        match direction {
            Direction::ToServer => {
                state.requests += 1;
                let contains = |words: &str| chunk.windows(words.len()).any(|part| part == words.as_bytes());
                if state.faults.hold_before.take_if(|words| contains(words)).is_some() {
                    state.faults.is_holding = true;
                    self.wait_while(&mut state, |faults| faults.is_holding);
                }
                state.faults.is_broken |= state.faults.break_before.is_some_and(contains);
                match &mut state.faults.break_after {
                    Some(0) => state.faults.is_broken = true,
                    Some(left) => *left -= 1,
                    None => {}
                }
                if state.faults.is_broken {
                    return Fate::EndsConnection;
                }
            }
            Direction::ToClient => {
                let is_cut = state.faults.answers_to_cut > 0;
                state.faults.answers_to_cut -= usize::from(is_cut);
                if is_cut || state.faults.mode == Mode::CutAtAnswer {
                    state.hurt += 1;
                    return Fate::EndsConnection;
                }
                if state.faults.mode == Mode::Garbage {
                    state.hurt += 1;
                    return Fate::IsReplaced(GARBAGE[state.hurt as usize % GARBAGE.len()]);
                }
                if state.faults.mode == Mode::LoseAnswers {
                    state.hurt += 1;
                    return Fate::IsLost;
                }
            }
        }
        if state.faults.mode == Mode::Stall {
            state.hurt += 1;
            // The chunk goes on when the wire is whole again, however late that is.
            self.wait_while(&mut state, |faults| faults.mode == Mode::Stall);
        }
        Fate::Passes
    }

    fn wait_while(&self, state: &mut MutexGuard<'_, WireState>, holds: impl Fn(&Faults) -> bool) {
        while holds(&state.faults) {
            self.changed.wait(state);
        }
    }
}

fn end(stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Both);
}
