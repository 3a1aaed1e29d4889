//! The events of a run, in plain words and numbers: the only thing that the checker sees.
//!
//! Nothing here is a type of the engine, the stores or the core. Times are milliseconds of virtual time since the run
//! began, measured outside all nodes.

use std::sync::Arc;

use parking_lot::Mutex;

/// One moment of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub at: u64,
    pub event: Event,
}

/// Something that a client, an operator, a provider, the shared server or the simulator itself saw.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The server took a job in; the client may not know it yet.
    Stored {
        job: String,
        company: String,
        route: String,
        data: String,
        delay_ms: u64,
    },
    /// A client has the answer that its job is accepted, now or before.
    Acknowledged {
        job: String,
        data: String,
    },
    /// A client was told that its job is refused for good.
    Refused {
        job: String,
        data: String,
    },
    /// The server gave leases on one route, in this order. The node asked at `asked`, by its own clock; `held` names the
    /// companies that the claim left out.
    Leased {
        route: String,
        node: String,
        asked: u64,
        held: Vec<String>,
        leases: Vec<Lease>,
    },
    Extended {
        token: String,
        until: u64,
    },
    /// The server was asked to settle a lease. `done` is false when the token was not the current one.
    Settled {
        job: String,
        token: String,
        node: String,
        what: Settlement,
        done: bool,
    },
    Cancelled {
        job: String,
    },
    Replayed {
        job: String,
        data: Option<String>,
        bulk: Option<String>,
    },
    Discarded {
        job: String,
        bulk: Option<String>,
    },
    /// A request reached a provider. `takes` is true when the provider delivers it, whatever it answers.
    Called(Call),
    /// The caller has the provider's answer; a retry must wait `wait_ms` at least.
    Answered {
        call: u64,
        answer: Answer,
        wait_ms: u64,
    },
    /// An operator's act was answered with success.
    Acted {
        act: Act,
        subject: String,
    },
    /// An operator asks for an act; it may take effect from now on, answered or not.
    Asked {
        act: Act,
        subject: String,
    },
    WalkBegan {
        walk: u64,
    },
    WalkShowed {
        walk: u64,
        job: String,
    },
    WalkEnded {
        walk: u64,
    },
    /// A bulk act was accepted that was asked for at `asked_at`.
    BulkBegan {
        bulk: String,
        company: Option<String>,
        asked_at: u64,
    },
    BulkEnded {
        bulk: String,
        state: String,
        done: u64,
        skipped: u64,
        failed: u64,
        total: u64,
    },
    /// A process began, was killed, was asked to stop, or ended after that.
    Node {
        node: String,
        life: u32,
        what: NodeChange,
    },
    /// Something was broken, or mended, on purpose.
    Fault {
        kind: &'static str,
        node: Option<String>,
        until: Option<u64>,
    },
    /// The wall clock of one node, or of all, was set.
    ClockSet {
        node: Option<String>,
        by_ms: i64,
    },
    /// Every fault is over.
    Healed,
    /// The subjects that a process takes for paused, and those that the store has as paused.
    View {
        node: String,
        paused: Vec<String>,
        in_store: Vec<String>,
    },
    /// The deliveries that a node counts as running at a provider, when all work has ended.
    Running {
        node: String,
        provider: String,
        deliveries: u64,
    },
    /// A record of the audit trail, in the end, in order.
    Audit {
        number: u64,
        kind: String,
        job: Option<String>,
        subject: String,
    },
    /// A job as the store has it in the end.
    Found {
        job: String,
        status: String,
        is_due: bool,
        is_listed: bool,
    },
    /// A dead letter as the store has it in the end.
    FoundDead {
        job: String,
        reason: String,
        cause: String,
        attempts: u64,
    },
    Ended,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    pub job: String,
    pub company: String,
    pub token: String,
    pub until: u64,
    pub provider: Option<String>,
    /// It takes over a lease that ran out.
    pub takes_over: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub call: u64,
    pub node: String,
    pub life: u32,
    pub provider: String,
    pub receiver: Option<String>,
    pub job: String,
    pub company: String,
    pub route: String,
    pub attempt: u32,
    pub key: String,
    pub data: String,
    pub takes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    Deliver,
    Retry,
    Postpone,
    Bury,
    Release,
    /// Its holder vanished.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Ok,
    Transient,
    Permanent,
    TooMany,
    /// The answer was lost on the way.
    Lost,
    Panic,
    /// The caller gave up waiting.
    Timeout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    PauseProvider,
    ResumeProvider,
    PauseRoute,
    ResumeRoute,
    PauseCompany,
    ResumeCompany,
    Cancel,
    Replay,
    Discard,
    LiftHold,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeChange {
    Started,
    Killed,
    StopAsked,
    /// It stopped; `clean` is false when it said that deliveries or outcomes were left.
    Stopped {
        clean: bool,
    },
}

/// Collects what happens. Cheap to clone.
#[derive(Clone, Debug)]
pub struct History {
    entries: Arc<Mutex<Vec<Entry>>>,
    began: tokio::time::Instant,
}

impl History {
    /// Begins now.
    pub fn begin() -> Self {
        History { entries: Arc::default(), began: tokio::time::Instant::now() }
    }

    pub fn now(&self) -> u64 {
        recado_core::time::millis(self.began.elapsed())
    }

    pub fn began(&self) -> tokio::time::Instant {
        self.began
    }

    pub fn add(&self, event: Event) {
        self.add_at(self.now(), event);
    }

    /// Adds what is known only now to have happened at that time.
    pub fn add_at(&self, at: u64, event: Event) {
        self.entries.lock().push(Entry { at, event });
    }

    pub fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.entries.lock())
    }
}
