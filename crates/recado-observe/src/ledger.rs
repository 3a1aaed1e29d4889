//! Takes facts from many threads, and gives figures.
//!
//! A fact lands on the sheet of its thread's shard, under a lock that hardly anybody else wants. A sheet
//! holds facts of one slot of time only: it is carried over into the book when the next slot begins, and
//! before every reading, so that a reading holds every fact that was noted before it.
//!
//! Locks are taken in one order, shard before book, and a shard waits for the book at most once a slot.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use recado_core::Timestamp;

use crate::aggregate::Book;
use crate::fact::Fact;
use crate::gauges::Gauges;
use crate::history::SLOT_MS;
use crate::kpis::{self, DeadLetterFlow, Kpis};
use crate::shard_counters::Sheet;
use crate::{OTHER, metrics};

const SHARDS: usize = 16;

#[derive(Debug)]
pub struct Ledger {
    routes: Routes,
    shards: [Shard; SHARDS],
    book: Mutex<Book>,
}

/// A cache line of its own, so that threads do not disturb each other.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(Mutex<(i64, Sheet)>);

impl Ledger {
    /// `routes` are all there are; a fact about any other counts as [`OTHER`].
    pub fn new<N: Into<Box<str>>>(routes: impl IntoIterator<Item = N>) -> Self {
        let routes = Routes::new(routes.into_iter().map(Into::into));
        let count = routes.names.len();
        Ledger {
            shards: std::array::from_fn(|_| Shard(Mutex::new((0, Sheet::new(count))))),
            book: Mutex::new(Book::new(count)),
            routes,
        }
    }

    pub fn note(&self, fact: &Fact<'_>, now: Timestamp) {
        let slot = now.as_millis().div_euclid(SLOT_MS);
        let mut shard = self.shards[own_shard()].0.lock();
        if shard.0 != slot || shard.1.is_full() {
            self.carry_over(&mut shard);
            shard.0 = slot;
        }
        shard.1.note(fact, &self.routes, now);
    }

    fn carry_over(&self, (slot, sheet): &mut (i64, Sheet)) {
        self.book.lock().enter(sheet, Timestamp::from_millis(*slot * SLOT_MS));
    }

    /// Everything that was noted so far.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        for shard in &self.shards {
            self.carry_over(&mut shard.0.lock());
        }
        self.book.lock()
    }

    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// All of it in Prometheus's text format, of type [`crate::CONTENT_TYPE`].
    pub fn metrics(&self, gauges: &Gauges, now: Timestamp) -> String {
        metrics::render(&self.book(), &self.routes, gauges, now)
    }

    /// Returns the retry KPIs for a route, or for all of them; nothing for a route that there is not. The
    /// window may be up to a week.
    pub fn kpis(&self, route: Option<&str>, window: Duration, now: Timestamp) -> Option<Kpis> {
        let place = match route {
            Some(name) => Some(self.routes.known(name)?),
            None => None,
        };
        Some(kpis::of(&self.book(), &self.routes, place, window, now))
    }

    /// Returns the flow into the dead letter queue in the window; it is counted since `since`.
    pub fn dead_letter_flow(&self, window: Duration, since: Timestamp, now: Timestamp) -> DeadLetterFlow {
        kpis::flow(&self.book(), window, since, now)
    }
}

/// The routes by their place in the book.
#[derive(Debug)]
pub(crate) struct Routes {
    names: Vec<Box<str>>,
    places: HashMap<Box<str>, usize>,
}

impl Routes {
    fn new(names: impl Iterator<Item = Box<str>>) -> Self {
        let mut routes = Routes { names: Vec::new(), places: HashMap::new() };
        for name in names.chain([OTHER.into()]) {
            if !routes.places.contains_key(&name) {
                routes.places.insert(name.clone(), routes.names.len());
                routes.names.push(name);
            }
        }
        routes
    }

    fn known(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    pub fn place(&self, name: &str) -> usize {
        self.known(name).unwrap_or_else(|| self.places[OTHER])
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// The name that a route's figures go by.
    pub fn label(&self, name: &str) -> &str {
        &self.names[self.place(name)]
    }
}

/// The shard of this thread: handed out in turn, kept for the thread's life.
fn own_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        let shard = own.get().unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        own.set(Some(shard));
        shard
    })
}
