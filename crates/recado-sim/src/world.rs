//! Runs a plan: starts the nodes, does what the plan says when it says so, and looks at everything in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use recado_engine::{Clock, MOVED_NAMESPACES};
use recado_server::migrate::{Named, move_all};
use recado_store::reference::ReferenceStore;
use tokio::time::Instant;

use crate::ending;
use crate::history::{Entry, Event, History, NodeChange};
use crate::link::Link;
use crate::node::{self, NodeClock, Process};
use crate::operations;
use crate::plan::{FAULTS_END_MS, Fault, LIVENESS_END_MS, Mode, Plan, SAFETY_END_MS, stream};
use crate::provider::Providers;
use crate::server::{Server, ms};

/// After the faults, this long passes before new jobs test that all is well again.
const RECOVERY_MS: u64 = 60_000;

/// The target of a move numbers its dead letters above this: no number of the source means anything there.
const TARGET_NUMBERS: u64 = 1_000_000;

/// Everything of one run.
#[derive(Debug)]
pub struct World {
    pub plan: Plan,
    pub history: History,
    pub server: Arc<Server>,
    pub providers: Arc<Providers>,
    nodes: Vec<Node>,
    /// The store is on its way to another one: no node starts.
    moving: AtomicBool,
    last_walk: AtomicU64,
}

/// One node: the processes that run under its name, one after another.
#[derive(Debug)]
struct Node {
    name: String,
    clock: Arc<NodeClock>,
    lives: AtomicU32,
    process: Mutex<Option<Process>>,
    starting: AtomicBool,
    stopping: AtomicBool,
}

/// Runs a plan in virtual time, and returns all that happened.
pub fn run(plan: &Plan) -> Vec<Entry> {
    let builder = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    // The builder fails only where the system has no descriptors left.
    let runtime = builder.expect("a runtime without I/O can be made");
    // Its mover's futures are bound to one thread.
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let world = Arc::new(World::new(plan.clone()));
        world.clone().run().await;
        world.history.take()
    })
}

impl World {
    fn new(plan: Plan) -> Self {
        let history = History::begin();
        let node = |place: usize| Node {
            name: format!("node-{place}"),
            clock: Arc::new(NodeClock { began: history.began(), set_by_ms: AtomicI64::new(0) }),
            lives: AtomicU32::new(0),
            process: Mutex::default(),
            starting: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        };
        World {
            server: Arc::new(Server::new(plan.nodes > 1)),
            providers: Arc::new(Providers::new(plan.seed)),
            nodes: (0..plan.nodes).map(node).collect(),
            moving: AtomicBool::new(false),
            last_walk: AtomicU64::new(0),
            history,
            plan,
        }
    }

    async fn run(self: Arc<Self>) {
        for place in 0..self.nodes.len() {
            self.clone().start(place).await;
        }
        let operations = self.plan.operations.clone();
        let faults = self.plan.faults.clone();
        let (mut operations, mut faults) = (operations.into_iter().peekable(), faults.into_iter().peekable());
        loop {
            let (next, fault) = (operations.peek().map(|one| one.at_ms), faults.peek().map(|one| one.at_ms));
            let Some(at_ms) = next.into_iter().chain(fault).min() else { break };
            self.until(at_ms).await;
            if next == Some(at_ms)
                && let Some(operation) = operations.next()
            {
                tokio::spawn(operations::perform(self.clone(), operation.what));
            } else if let Some(fault) = faults.next() {
                tokio::task::spawn_local(self.clone().inflict(fault.what));
            }
        }
        match self.plan.mode {
            Mode::Safety => {
                self.until(SAFETY_END_MS).await;
            }
            Mode::Liveness => {
                // The last faults end first.
                self.until(FAULTS_END_MS + 1).await;
                ending::record_views(&self).await;
                self.clone().heal().await;
                self.clone().recover().await;
                if ending::is_over(&self).await {
                    ending::record_running(&self).await;
                }
            }
        }
        ending::record_views(&self).await;
        ending::record(&self).await;
        if self.plan.mode == Mode::Liveness {
            for place in 0..self.nodes.len() {
                self.stop(place).await;
            }
        }
        self.history.add(Event::Ended);
    }

    /// Waits until this time of the run.
    pub async fn until(&self, at_ms: u64) {
        tokio::time::sleep_until(self.history.began() + ms(at_ms)).await;
    }

    /// Returns the process of a node, or of the next one that has one.
    pub fn process(&self, place: usize) -> Option<Process> {
        let count = self.nodes.len();
        (place..place + count).find_map(|at| self.nodes[at % count].process.lock().clone())
    }

    pub fn processes(&self) -> Vec<Process> {
        self.nodes.iter().filter_map(|node| node.process.lock().clone()).collect()
    }

    pub fn clock(&self) -> &NodeClock {
        &self.nodes[0].clock
    }

    pub fn next_walk(&self) -> u64 {
        self.last_walk.fetch_add(1, Ordering::Relaxed)
    }

    /// Starts a node, as soon as its store answers.
    async fn start(self: Arc<Self>, place: usize) {
        let node = &self.nodes[place];
        while self.moving.load(Ordering::Relaxed) {
            tokio::time::sleep(ms(1_000)).await;
        }
        if node.starting.swap(true, Ordering::Relaxed) {
            return;
        }
        if node.process.lock().is_none() {
            let process = loop {
                let life = node.lives.fetch_add(1, Ordering::Relaxed) + 1;
                let random = |purpose: &str| stream(self.plan.seed, &format!("{purpose} {place} {life}"));
                let (server, history) = (self.server.clone(), self.history.clone());
                let name = match self.plan.renames {
                    true => format!("{}.{life}", node.name),
                    false => node.name.clone(),
                };
                let link = Link::new(name, life, server, history, random("link"), self.plan.latency_ms);
                let starting = node::start(link, node.clock.clone(), &self.providers, random("engine"));
                match starting.await {
                    Ok(process) => break process,
                    Err(_) => tokio::time::sleep(ms(1_000)).await,
                }
            };
            self.history.add(Event::Node {
                node: process.link.name.clone(),
                life: process.link.life,
                what: NodeChange::Started,
            });
            *node.process.lock() = Some(process);
        }
        node.starting.store(false, Ordering::Relaxed);
    }

    async fn start_after(self: Arc<Self>, place: usize, down_ms: u64) {
        let up_at = (self.history.now() + down_ms).min(self.faults_end());
        self.until(up_at).await;
        self.start(place).await;
    }

    /// Stops a node gracefully.
    async fn stop(&self, place: usize) {
        let node = &self.nodes[place];
        let Some(process) = node.process.lock().take() else { return };
        let told = |what| Event::Node { node: process.link.name.clone(), life: process.link.life, what };
        self.history.add(told(NodeChange::StopAsked));
        node.stopping.store(true, Ordering::Relaxed);
        let clean = process.engine.stop().await.is_ok();
        node.stopping.store(false, Ordering::Relaxed);
        if !process.link.is_killed() {
            process.link.cut_off();
            self.history.add(told(NodeChange::Stopped { clean }));
        }
    }

    fn faults_end(&self) -> u64 {
        match self.plan.mode {
            Mode::Safety => SAFETY_END_MS,
            Mode::Liveness => FAULTS_END_MS,
        }
    }

    fn fault(&self, kind: &'static str, place: Option<usize>, for_ms: u64) -> Instant {
        let until = (self.history.now() + for_ms).min(self.faults_end());
        let running =
            |place: usize| self.nodes[place].process.lock().as_ref().map(|one| one.link.name.clone());
        let node = place.map(|place| running(place).unwrap_or_else(|| self.nodes[place].name.clone()));
        self.history.add(Event::Fault { kind, node, until: Some(until) });
        self.history.began() + ms(until)
    }

    async fn inflict(self: Arc<Self>, fault: Fault) {
        let link =
            |place: usize| self.nodes[place].process.lock().as_ref().map(|process| process.link.clone());
        match fault {
            Fault::Kill { node, down_ms } => {
                let running = self.nodes[node].process.lock().take();
                if let Some(process) = running {
                    self.fault("kill", Some(node), 0);
                    process.link.kill();
                }
                self.clone().start_after(node, down_ms).await;
            }
            Fault::KillAt { node, moment, side, down_ms } => {
                let Some(link) = link(node) else { return };
                link.die_at(moment, side);
                link.wait_until_killed().await;
                drop(self.nodes[node].process.lock().take_if(|process| process.link.is_killed()));
                self.clone().start_after(node, down_ms).await;
            }
            Fault::Standstill { node, for_ms } => {
                let Some(link) = link(node) else { return };
                link.stand_still(self.fault("standstill", Some(node), for_ms));
            }
            Fault::Partition { node, for_ms } => {
                let Some(link) = link(node) else { return };
                link.cut(self.fault("partition", Some(node), for_ms));
            }
            Fault::Stop { node, down_ms } => {
                self.fault("stop", Some(node), 0);
                self.stop(node).await;
                self.clone().start_after(node, down_ms).await;
            }
            Fault::ClockStep { node, by_ms, for_ms } => {
                let places = node.map_or(0..self.nodes.len(), |node| node..node + 1);
                let kind = if by_ms > 0 { "clock forward" } else { "clock back" };
                let until = self.fault(kind, node, if node.is_some() { for_ms } else { 0 });
                let step = |by_ms: i64| {
                    let name = node.map(|node| self.nodes[node].name.clone());
                    self.history.add(Event::ClockSet { node: name, by_ms });
                    for place in places.clone() {
                        self.nodes[place].clock.set_by_ms.fetch_add(by_ms, Ordering::Relaxed);
                    }
                };
                step(by_ms);
                if node.is_some() {
                    tokio::time::sleep_until(until).await;
                    step(-by_ms);
                }
            }
            Fault::Away { for_ms } => {
                let until = self.fault("server away", None, for_ms);
                self.server.trouble(|troubles| troubles.away_until = until.max(troubles.away_until));
            }
            Fault::Stall { for_ms } => {
                let until = self.fault("server stalls", None, for_ms);
                self.server.trouble(|troubles| troubles.stalled_until = until.max(troubles.stalled_until));
            }
            Fault::Full { for_ms } => {
                let until = self.fault("server full", None, for_ms);
                self.server.trouble(|troubles| troubles.full_until = until.max(troubles.full_until));
            }
            Fault::LoseWrites { of_last_ms, for_ms } => {
                let store = self.server.store();
                let saved = store.save_state();
                tokio::time::sleep(ms(of_last_ms)).await;
                if self.moving.load(Ordering::Relaxed) || !Arc::ptr_eq(&store, &self.server.store()) {
                    return;
                }
                let since = Event::Fault {
                    kind: "writes lost since",
                    node: None,
                    until: Some(self.history.now() - of_last_ms),
                };
                self.history.add(since);
                let until = self.fault("server loses writes", None, for_ms);
                self.server.trouble(|troubles| troubles.away_until = until.max(troubles.away_until));
                store.restore_state(saved);
            }
            Fault::BadNetwork { for_ms, per_mille } => {
                let until = self.fault("bad network", None, for_ms);
                self.server.trouble(|troubles| {
                    troubles.bad_until = until.max(troubles.bad_until);
                    troubles.bad_per_mille = per_mille;
                });
            }
            Fault::Outage { provider, how, for_ms } => {
                let until = self.fault("outage", None, for_ms);
                self.providers.break_down(provider, how, until);
            }
            Fault::Move => self.clone().move_store().await,
        }
    }

    /// Stops all nodes, moves everything to another store, and starts them there.
    async fn move_store(self: Arc<Self>) {
        if self.moving.swap(true, Ordering::Relaxed) {
            return;
        }
        // A server does not start on a store that is being moved.
        while self.nodes.iter().any(|node| node.starting.load(Ordering::Relaxed)) {
            tokio::time::sleep(ms(100)).await;
        }
        for place in 0..self.nodes.len() {
            self.stop(place).await;
        }
        // Nor is a store moved while a process has it open.
        while self.nodes.iter().any(|node| node.stopping.load(Ordering::Relaxed)) {
            tokio::time::sleep(ms(100)).await;
        }
        self.fault("move", None, 0);
        let (from, to) = (self.server.store(), Arc::new(ReferenceStore::numbered_above(TARGET_NUMBERS)));
        let named =
            |store: &Arc<ReferenceStore>, name: &str| Named { store: store.clone(), name: name.to_owned() };
        // Beats of processes that were killed stand for a minute.
        loop {
            let now = self.clock().now();
            let (source, target) = (named(&from, "redis://one"), named(&to, "redis://two"));
            match move_all(&source, &target, &MOVED_NAMESPACES, now, |_| {}).await {
                Ok(_) => break,
                Err(_) => tokio::time::sleep(ms(2_000)).await,
            }
        }
        self.server.serve(to);
        self.moving.store(false, Ordering::Relaxed);
        for place in 0..self.nodes.len() {
            self.clone().start(place).await;
        }
    }

    /// Ends every fault: all nodes run, all clocks agree, nothing is paused.
    async fn heal(self: Arc<Self>) {
        while self.moving.load(Ordering::Relaxed) {
            tokio::time::sleep(ms(1_000)).await;
        }
        let right = self.nodes[0].clock.set_by_ms.load(Ordering::Relaxed);
        for node in &self.nodes {
            node.clock.set_by_ms.store(right, Ordering::Relaxed);
        }
        self.providers.calm_down();
        for place in 0..self.nodes.len() {
            // One that was to die at a call that never came lives on.
            if let Some(process) = self.nodes[place].process.lock().as_ref() {
                process.link.cancel_planned_kill();
            }
            self.clone().start(place).await;
        }
        // One may be starting already.
        while self.processes().len() < self.nodes.len() {
            tokio::time::sleep(ms(100)).await;
        }
        self.history.add(Event::Healed);
        operations::resume_all(&self).await;
    }

    /// Lets everything end that can, with new jobs on the way.
    async fn recover(self: Arc<Self>) {
        let worker = tokio::spawn(operations::work_on(self.clone()));
        let healed_at = self.history.now();
        self.until(healed_at + RECOVERY_MS).await;
        operations::probe(&self).await;
        loop {
            tokio::time::sleep(ms(5_000)).await;
            if self.history.now() >= LIVENESS_END_MS || ending::is_over(&self).await {
                break;
            }
        }
        worker.abort();
    }
}
