//! The store that nodes share: how fast jobs come in and go out over Redis, what a waiting one costs there, and how
//! soon the jobs of a node that died run again.
//!
//! A server of our own is started unless one is named. Nodes are processes of this program, each with an engine and
//! connections of its own. `bench/run` puts the same figures of other queues beside these.

mod flow;
pub mod node;
mod server;

use super::{BenchOptions, Failed, Report};
use server::RedisServer;

const ROUTE: &str = "sandbox";

/// Fsync settings of our own server: the usual, and the safest.
const FSYNC: [&str; 2] = ["everysec", "always"];

/// Partitions and nodes that drain a full queue.
const DRAINS: [(u16, usize); 6] = [(1, 1), (2, 1), (1, 2), (1, 3), (3, 1), (3, 3)];

pub async fn measure(options: &BenchOptions, progress: impl Fn(&str)) -> Result<Report, Failed> {
    let mut server = RedisServer::at(options).await?;
    let mut report = Report::default();
    progress("enqueues on Redis, 1,000 a batch");
    flow::enqueue_batches(&mut server, &mut report).await?;
    progress("single enqueues on Redis");
    flow::enqueue_singly(options, &mut server, "", &mut report).await?;
    progress("single enqueues on Redis, delivered by a node");
    flow::end_to_end(options, &mut server, &mut report).await?;
    progress("jobs of a node that was killed");
    flow::orphans(options, &mut server, &mut report).await?;
    for policy in FSYNC {
        let is_usual = policy == FSYNC[0];
        if server.is_ours() {
            server.set_fsync(policy).await?;
        } else if !is_usual {
            break;
        }
        let with = if is_usual { String::new() } else { format!(", appendfsync {policy}") };
        if !is_usual {
            progress(&format!("single enqueues{with}"));
            flow::enqueue_singly(options, &mut server, &with, &mut report).await?;
        }
        for (partitions, nodes) in DRAINS {
            let what = format!("drain, partitions: {partitions}, nodes: {nodes}{with}");
            progress(&what);
            let rate = flow::drain(options, &mut server, partitions, nodes).await?;
            report.add(what, rate, "jobs/s");
        }
    }
    Ok(report)
}
