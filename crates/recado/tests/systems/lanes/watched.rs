//! A provider that notes when each request comes and whose it is, and that keeps them waiting when told to.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde_json::json;

use super::super::far_ends::{Act, FarEnd, Request, json as answer};
use super::super::given::eventually;

pub struct Watched {
    far_end: FarEnd,
    watch: Arc<Watch>,
}

/// A request that has come.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub at: Instant,
    pub company: String,
}

type Manners = Arc<dyn Fn(&Arrival) -> Act + Send + Sync>;

struct Watch {
    seen: Mutex<Seen>,
    let_go: Condvar,
}

struct Seen {
    arrivals: Vec<Arrival>,
    /// Requests without an answer, of each company.
    open: HashMap<String, usize>,
    /// The most that there have been.
    peaks: HashMap<String, usize>,
    /// Requests after this many wait for an answer.
    answered_max: Option<usize>,
    manners: Manners,
}

impl Deref for Watched {
    type Target = FarEnd;

    fn deref(&self) -> &FarEnd {
        &self.far_end
    }
}

impl Watched {
    pub fn start() -> Self {
        let seen = Seen {
            arrivals: Vec::new(),
            open: HashMap::new(),
            peaks: HashMap::new(),
            answered_max: None,
            manners: Arc::new(|_| answer(200, json!({}))),
        };
        let watch = Arc::new(Watch { seen: Mutex::new(seen), let_go: Condvar::new() });
        let watching = watch.clone();
        Watched { far_end: FarEnd::start(move |request| watching.answer(request)), watch }
    }

    /// From now on it answers like this. How many requests had another answer before.
    pub fn answers(&self, manners: impl Fn(&Arrival) -> Act + Send + Sync + 'static) -> usize {
        let mut seen = self.watch.seen.lock();
        seen.manners = Arc::new(manners);
        seen.arrivals.len()
    }

    /// Keeps requests from now on waiting for an answer.
    pub fn holds(&self) {
        self.holds_after(self.arrivals().len());
    }

    /// The same from a later request on: so many have come by then.
    pub fn holds_after(&self, answered_max: usize) {
        self.watch.seen.lock().answered_max = Some(answered_max);
    }

    pub fn lets_go(&self) {
        self.watch.seen.lock().answered_max = None;
        self.watch.let_go.notify_all();
    }

    pub fn arrivals(&self) -> Vec<Arrival> {
        self.watch.seen.lock().arrivals.clone()
    }

    /// All arrivals, once there are so many.
    #[track_caller]
    pub fn once_come(&self, count: usize) -> Vec<Arrival> {
        eventually(|| self.watch.seen.lock().arrivals.len() >= count);
        self.arrivals()
    }

    /// Requests that wait for an answer.
    pub fn open(&self) -> usize {
        self.watch.seen.lock().open.values().sum()
    }

    /// The most requests of a company that waited for an answer at the same time.
    pub fn peak_of(&self, company: &str) -> usize {
        self.watch.seen.lock().peaks.get(company).copied().unwrap_or_default()
    }
}

impl Watch {
    fn answer(&self, request: &Request) -> Act {
        let words = request.json()["words"].as_str().unwrap_or_default().to_owned();
        let company = words.split('-').next().unwrap_or_default().to_owned();
        let mut seen = self.seen.lock();
        let arrival = Arrival { at: Instant::now(), company: company.clone() };
        let before = seen.arrivals.len();
        seen.arrivals.push(arrival.clone());
        let open = seen.open.entry(company.clone()).or_default();
        *open += 1;
        let open = *open;
        let peak = seen.peaks.entry(company.clone()).or_default();
        *peak = open.max(*peak);
        while seen.answered_max.is_some_and(|max| before >= max) {
            self.let_go.wait(&mut seen);
        }
        let manners = seen.manners.clone();
        drop(seen);
        let act = manners(&arrival);
        *self.seen.lock().open.entry(company).or_default() -= 1;
        act
    }
}

/// The most arrivals in any window that is this long, wherever it begins.
pub fn most_within(arrivals: &[Arrival], window: Duration) -> usize {
    let in_window = |first: &Arrival, rest: &[Arrival]| {
        rest.iter().take_while(|arrival| arrival.at.duration_since(first.at) < window).count()
    };
    arrivals.iter().enumerate().map(|(at, first)| in_window(first, &arrivals[at..])).max().unwrap_or_default()
}
