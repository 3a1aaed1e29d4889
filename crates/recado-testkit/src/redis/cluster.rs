//! A Cluster of masters.

use super::{RedisServer, ask, until};
use crate::free_port;

const SLOTS: u16 = 16_384;

#[derive(Debug)]
pub struct RedisCluster {
    pub masters: Vec<RedisServer>,
}

impl RedisCluster {
    /// Returns when every master says that it is whole.
    pub fn start(masters: u16) -> Self {
        Self::with(masters, &["appendonly no"])
    }

    pub fn with(masters: u16, settings: &[&str]) -> Self {
        let start = |_| {
            let bus = free_port();
            let bus_line = format!("cluster-port {bus}");
            let mut lines = vec!["cluster-enabled yes", "cluster-node-timeout 2000", &bus_line];
            lines.extend(settings);
            (RedisServer::with(&lines), bus)
        };
        let started: Vec<_> = (0..masters).map(start).collect();
        let share = SLOTS / masters;
        for (at, (server, _)) in (0..masters).zip(&started) {
            let last = if at + 1 == masters { SLOTS - 1 } else { (at + 1) * share - 1 };
            let (first, last) = ((at * share).to_string(), last.to_string());
            server.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            server.ask::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
        }
        let first = started[0].0.port();
        for (server, bus) in &started[1..] {
            let (port, bus) = (server.port().to_string(), bus.to_string());
            ask::<()>(first, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let masters: Vec<_> = started.into_iter().map(|(server, _)| server).collect();
        let whole = |info: &String| {
            info.contains("cluster_state:ok") && info.contains(&format!("cluster_size:{}", masters.len()))
        };
        for server in &masters {
            until(server.port(), &["CLUSTER", "INFO"], whole);
        }
        RedisCluster { masters }
    }

    pub fn url(&self) -> String {
        let hosts: Vec<_> =
            self.masters.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The master that has a slot now, and one that has not.
    pub fn holder_and_other(&self, slot: u16) -> (&RedisServer, &RedisServer) {
        let share = SLOTS / u16::try_from(self.masters.len()).expect("a few");
        let at = usize::from(slot / share).min(self.masters.len() - 1);
        (&self.masters[at], &self.masters[(at + 1) % self.masters.len()])
    }

    /// Begins to move a slot: the holder answers ASK for keys that it does not have any more.
    pub fn begin_move(&self, slot: u16) {
        let (from, to) = self.holder_and_other(slot);
        let (from_id, to_id): (String, String) =
            (from.ask(&["CLUSTER", "MYID"]), to.ask(&["CLUSTER", "MYID"]));
        let slot = slot.to_string();
        to.ask::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
        from.ask::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
    }

    /// Ends the move: the old holder answers MOVED.
    pub fn end_move(&self, slot: u16) {
        let (from, to) = self.holder_and_other(slot);
        let to_id: String = to.ask(&["CLUSTER", "MYID"]);
        let number = slot.to_string();
        for server in [to, from].into_iter().chain(&self.masters) {
            server.ask::<()>(&["CLUSTER", "SETSLOT", &number, "NODE", &to_id]);
        }
    }
}
