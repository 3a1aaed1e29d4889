//! A master, its replica and the Sentinels that watch them.

use std::process::Command;
use std::time::Instant;

use tempfile::TempDir;

use super::{RedisServer, Running, ask, until};
use crate::free_port;

pub const SERVICE: &str = "main";

const SENTINELS: usize = 3;

#[derive(Debug)]
pub struct Sentinels {
    pub master: RedisServer,
    pub replica: RedisServer,
    sentinels: Vec<Sentinel>,
}

#[derive(Debug)]
struct Sentinel {
    port: u16,
    process: Running,
    _dir: TempDir,
}

impl Sentinels {
    /// Returns when the Sentinels know each other and the replica has caught up.
    pub fn start() -> Self {
        let master = RedisServer::with(&["appendonly no", "repl-diskless-sync-delay 0"]);
        let replica =
            RedisServer::with(&["appendonly no", &format!("replicaof 127.0.0.1 {}", master.port())]);
        until(replica.port(), &["INFO", "replication"], |info: &String| {
            info.contains("master_link_status:up")
        });
        let sentinels: Vec<_> = (0..SENTINELS).map(|_| Sentinel::start(master.port())).collect();
        let set = Sentinels { master, replica, sentinels };
        let others = format!("num-other-sentinels,{},", SENTINELS - 1);
        for sentinel in &set.sentinels {
            until(sentinel.port, &["SENTINEL", "MASTER", SERVICE], |fields: &Vec<String>| {
                let fields = fields.join(",") + ",";
                fields.contains(&others) && fields.contains("num-slaves,1,")
            });
        }
        set
    }

    pub fn url(&self) -> String {
        let hosts: Vec<_> =
            self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port)).collect();
        format!("redis+sentinel://{}/{SERVICE}", hosts.join(","))
    }

    /// Ends the master, waits until the replica has taken its place, and returns the moment of the master's death.
    pub fn fail_over(&mut self) -> Instant {
        self.master.kill();
        let died_at = Instant::now();
        assert!(self.sentinels[0].process.wait_for("+switch-master"), "the Sentinel ended");
        let name: Vec<String> =
            ask(self.sentinels[0].port, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
        assert_eq!(name[1], self.replica.port().to_string(), "another master was chosen");
        died_at
    }
}

impl Sentinel {
    fn start(master: u16) -> Self {
        for _ in 0..20 {
            let port = free_port();
            let dir = tempfile::tempdir().expect("a directory");
            let config = format!(
                "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor {SERVICE} 127.0.0.1 {master} 2\n\
                 sentinel down-after-milliseconds {SERVICE} 500\nsentinel failover-timeout {SERVICE} 3000\n",
                dir.path().display()
            );
            let path = dir.path().join("sentinel.conf");
            std::fs::write(&path, config).expect("a configuration");
            let process = Running::spawn(Command::new("redis-server").arg(path).arg("--sentinel"));
            if process.wait_for("+monitor master") {
                return Sentinel { port, process, _dir: dir };
            }
        }
        panic!("no Sentinel starts");
    }
}
