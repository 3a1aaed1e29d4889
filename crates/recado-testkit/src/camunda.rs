//! A process engine on a real socket: its jobs, locks, retries and incidents, and its moods.
//!
//! [`eight`] and [`seven`] put the same jobs into the words of Camunda 8 and Camunda 7. The engine's time is
//! its own and moves only when a test says so; long polls wait in real time. It runs on a runtime of its
//! own, so that tests with and without one can use it, and so that it can go away as a machine does.

mod door;
mod eight;
mod seven;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::PATIENCE;

pub use door::{CamundaAct, CamundaRequest, Guard};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// Waiting or locked.
    Open,
    Completed,
    Thrown,
    Incident,
}

#[derive(Clone, Debug)]
pub struct CamundaTask {
    pub status: TaskStatus,
    kind: String,
    variables: Map<String, Value>,
    /// The task's own, gone with it.
    local: Map<String, Value>,
    /// None until a failure is reported; Camunda 8 counts that as 3.
    pub retries: Option<u64>,
    worker: Option<String>,
    pub locked_until_ms: u64,
    pub handed_out: u32,
    /// The variables that the process got.
    pub outputs: Map<String, Value>,
    pub error_code: Option<String>,
    pub message: Option<String>,
}

impl CamundaTask {
    fn is_due(&self, kind: &str, now_ms: u64) -> bool {
        self.status == TaskStatus::Open
            && self.kind == kind
            && self.retries != Some(0)
            && self.locked_until_ms <= now_ms
    }

    fn hand_out(&mut self, worker: &str, until_ms: u64) {
        self.worker = Some(worker.to_owned());
        self.locked_until_ms = until_ms;
        self.handed_out += 1;
    }

    fn fail(&mut self, retries: u64, message: &Value, due_ms: u64) {
        self.retries = Some(retries);
        self.message = message.as_str().map(str::to_owned);
        self.locked_until_ms = due_ms;
        if retries == 0 {
            self.status = TaskStatus::Incident;
        }
    }

    /// One of the task's own variables.
    pub fn local(&self, name: &str) -> Value {
        self.local[name].clone()
    }

    /// The variables of these names that the task sees.
    fn visible(&self, names: &[Value]) -> Map<String, Value> {
        let all = self.variables.iter().chain(&self.local);
        let asked = |name: &String| names.is_empty() || names.iter().any(|it| it == name.as_str());
        all.filter(|(name, _)| asked(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

#[derive(Debug, Default)]
pub struct CamundaState {
    pub jobs: BTreeMap<String, CamundaTask>,
    pub requests: Vec<CamundaRequest>,
    pub polls_waiting: usize,
    pub tokens_granted: u64,
    now_ms: u64,
    acts: Vec<(String, CamundaAct)>,
    guard: Guard,
    /// True to write keys as numbers, as Camunda 8 did before 8.8.
    numeric_keys: bool,
}

#[derive(Debug, Default)]
struct Engine {
    state: Mutex<CamundaState>,
    changed: Condvar,
    jobs_due: Notify,
}

impl Engine {
    fn state(&self) -> MutexGuard<'_, CamundaState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something and wakes all that wait for a change.
    fn change<R>(&self, change: impl FnOnce(&mut CamundaState) -> R) -> R {
        let result = change(&mut self.state());
        self.changed.notify_all();
        self.jobs_due.notify_waiters();
        result
    }

    /// Ends a poll with what it takes, in one change: a test that sees a job handed out must not count its poll as the next.
    fn take_from_poll<R>(&self, take: &mut impl FnMut(&mut CamundaState) -> Option<R>) -> Option<R> {
        let taken = {
            let mut state = self.state();
            let taken = take(&mut state);
            state.polls_waiting -= usize::from(taken.is_some());
            taken
        };
        self.changed.notify_all();
        taken
    }

    /// Due jobs as soon as there are any, none when the wait is over.
    async fn long_poll<R>(
        &self,
        wait: Duration,
        mut take: impl FnMut(&mut CamundaState) -> Option<R>,
    ) -> Option<R> {
        let deadline = tokio::time::Instant::now() + wait;
        let waiting = Waiting::new(self);
        loop {
            let mut due = std::pin::pin!(self.jobs_due.notified());
            due.as_mut().enable();
            if let Some(taken) = self.take_from_poll(&mut take) {
                std::mem::forget(waiting);
                return Some(taken);
            }
            if tokio::time::timeout_at(deadline, due).await.is_err() {
                return None;
            }
        }
    }
}

/// Counts a poll for as long as its client is connected.
struct Waiting<'a>(&'a Engine);

impl<'a> Waiting<'a> {
    fn new(engine: &'a Engine) -> Self {
        engine.change(|state| state.polls_waiting += 1);
        Waiting(engine)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.polls_waiting -= 1);
    }
}

/// The engine and the machine it runs on. Gone with the test.
#[derive(Debug)]
pub struct FakeCamunda {
    engine: Arc<Engine>,
    address: SocketAddr,
    machine: Option<Runtime>,
}

impl FakeCamunda {
    pub fn start() -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut fake = FakeCamunda { engine: Arc::default(), address, machine: None };
        fake.come_back();
        fake
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A process arrives at the task with these variables.
    pub fn add(&self, variables: Value) -> String {
        let Value::Object(variables) = variables else { panic!("variables are an object") };
        self.engine.change(|state| {
            let key = (2_251_799_813_685_249 + state.jobs.len() as u64).to_string();
            let job = CamundaTask {
                status: TaskStatus::Open,
                kind: "retry-submission-backoff".to_owned(),
                variables,
                local: Map::new(),
                retries: None,
                worker: None,
                locked_until_ms: 0,
                handed_out: 0,
                outputs: Map::new(),
                error_code: None,
                message: None,
            };
            state.jobs.insert(key.clone(), job);
            key
        })
    }

    pub fn job(&self, key: &str) -> CamundaTask {
        self.engine.state().jobs[key].clone()
    }

    /// The job once it is no longer open.
    #[track_caller]
    pub fn ended(&self, key: &str) -> CamundaTask {
        self.until(|state| state.jobs[key].status != TaskStatus::Open);
        self.job(key)
    }

    #[track_caller]
    pub fn until(&self, condition: impl Fn(&CamundaState) -> bool) {
        let started = Instant::now();
        let mut state = self.engine.state();
        while !condition(&state) {
            let left = PATIENCE.checked_sub(started.elapsed());
            let left = left.unwrap_or_else(|| panic!("it did not happen; {state:#?}"));
            let waited = self.engine.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The engine's own time goes on.
    pub fn advance(&self, by: Duration) {
        self.engine.change(|state| state.now_ms += u64::try_from(by.as_millis()).expect("a test's time"));
    }

    /// The job's lock runs out, and before any other worker a rival takes it and keeps it.
    pub fn rival_takes(&self, key: &str) {
        self.engine.change(|state| {
            state.now_ms = state.now_ms.max(state.jobs[key].locked_until_ms);
            let until_ms = state.now_ms + 60_000;
            state.jobs.get_mut(key).expect("the job").hand_out("rival", until_ms);
        });
    }

    /// Has a rival take the job, as [`Self::rival_takes`] does, and complete it.
    pub fn rival_completes(&self, key: &str) {
        self.rival_takes(key);
        self.engine.change(|state| {
            let job = state.jobs.get_mut(key).expect("the job");
            job.status = TaskStatus::Completed;
            job.outputs.insert("by".to_owned(), "rival".into());
        });
    }

    /// The next request whose path ends so gets this instead of what it asked for.
    pub fn next(&self, path_end: &str, act: CamundaAct) {
        self.engine.change(|state| state.acts.push((path_end.to_owned(), act)));
    }

    /// Times that a request whose path ends so was answered with this status.
    pub fn answered(&self, path_end: &str, status: u16) -> usize {
        let state = self.engine.state();
        let such = |request: &&CamundaRequest| request.path.ends_with(path_end) && request.status == status;
        state.requests.iter().filter(such).count()
    }

    pub fn requests(&self, path_end: &str) -> Vec<CamundaRequest> {
        let state = self.engine.state();
        state.requests.iter().filter(|request| request.path.ends_with(path_end)).cloned().collect()
    }

    pub fn guard(&self, guard: Guard) {
        self.engine.change(|state| state.guard = guard);
    }

    /// Every token so far stops being one.
    pub fn revoke_tokens(&self) {
        self.engine.change(|state| state.guard.revoke(state.tokens_granted));
    }

    pub fn tokens_granted(&self) -> u64 {
        self.engine.state().tokens_granted
    }

    pub fn write_keys_as_numbers(&self) {
        self.engine.change(|state| state.numeric_keys = true);
    }

    /// The machine is gone, and every connection with it; the engine's state is on its disk. Connections are
    /// noted with status 0.
    pub fn go_away(&mut self) {
        self.boot(door::refuse_all);
    }

    pub fn come_back(&mut self) {
        self.boot(|listener, engine| async {
            axum::serve(listener, door::app(engine)).await.expect("a socket");
        });
    }

    fn boot<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        work: impl FnOnce(TcpListener, Arc<Engine>) -> F + Send + 'static,
    ) {
        self.shut_down();
        let machine = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let machine = machine.expect("a runtime");
        let started = Instant::now();
        let listener = loop {
            // The port of a machine that has just gone away may take a moment.
            match std::net::TcpListener::bind(self.address) {
                Ok(listener) => break listener,
                Err(error) => assert!(started.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::yield_now();
        };
        listener.set_nonblocking(true).expect("a socket");
        self.address = listener.local_addr().expect("an address");
        let engine = Arc::clone(&self.engine);
        machine.spawn(async move {
            work(TcpListener::from_std(listener).expect("a listener"), engine).await;
        });
        self.machine = Some(machine);
    }

    fn shut_down(&mut self) {
        if let Some(machine) = self.machine.take() {
            // On a thread of its own: a test's runtime does not allow waiting for another one.
            let gone = std::thread::spawn(move || machine.shutdown_timeout(PATIENCE));
            gone.join().expect("it ends");
        }
    }
}

impl Drop for FakeCamunda {
    fn drop(&mut self) {
        self.shut_down();
    }
}
