//! The store that nodes share: how fast jobs come in and go out over Redis, what a waiting one costs there, and how
//! soon the jobs of a node that died run again.
//!
//! A server of our own is started unless one is named. Nodes are engines in this process, each with connections of
//! its own. `bench/run` puts the same figures of other queues beside these.

mod flow;
mod server;

use super::{Failed, Options, Report};
use server::Server;

const FSYNC_ALWAYS: &str = "always";

pub async fn measure(options: &Options, progress: impl Fn(&str)) -> Result<Report, Failed> {
    let mut server = Server::at(options).await?;
    let mut report = Report::default();
    progress("enqueues on Redis, 1,000 a batch");
    flow::enqueue_batches(&mut server, &mut report).await?;
    progress("single enqueues on Redis");
    flow::enqueue_singly(options, &mut server, &mut report).await?;
    for (partitions, nodes) in [(1, 1), (1, 2), (1, 3), (3, 1), (3, 3)] {
        let what = format!("drain, partitions: {partitions}, nodes: {nodes}");
        progress(&what);
        let rate = flow::drain(options, &mut server, partitions, nodes).await?;
        report.add(what, rate, "jobs/s");
    }
    progress("jobs of a node that died");
    flow::orphans(options, &mut server, &mut report).await?;
    if server.is_ours() {
        server.set_fsync(FSYNC_ALWAYS).await?;
        progress("a drain with appendfsync always");
        let rate = flow::drain(options, &mut server, 1, 1).await?;
        report.add("drain, appendfsync always", rate, "jobs/s");
    }
    Ok(report)
}
