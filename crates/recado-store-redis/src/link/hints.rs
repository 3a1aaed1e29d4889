//! Hints between nodes: there may be work, a key-value entry has changed.
//!
//! By publish and subscribe, which promises nothing: a node that is not listening at that moment never gets
//! it. Correctness never depends on it. Whenever hints may have been lost, listeners are told so.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, PushKind, Value};
use tokio::sync::{Notify, broadcast, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::RedisOptions;
use super::connection::why;
use super::shards::Shards;

/// Hints that a slow listener may be behind before it misses some, and that wait to be published.
const HINTS_MAX: usize = 1_024;

/// Interval at which a silent connection is checked.
const PING_EVERY: Duration = Duration::from_secs(2);

const RECONNECT_AFTER: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    Said(Arc<str>),
    /// The connection was lost; hints may have been missed.
    Missed,
}

#[derive(Debug)]
pub(super) struct Hints {
    pub channel: Arc<str>,
    pub said: broadcast::Sender<Hint>,
    pub outgoing: mpsc::Sender<Box<str>>,
}

impl Hints {
    pub fn start(tasks: &mut JoinSet<()>, shards: &Arc<Shards>, options: &RedisOptions) -> Self {
        let channel: Arc<str> = format!("{}:hints", options.prefix).into();
        let said = broadcast::Sender::new(HINTS_MAX);
        let (outgoing, queued) = mpsc::channel(HINTS_MAX);
        tasks.spawn(speak(shards.clone(), channel.clone(), queued, options.timeout));
        tasks.spawn(listen(shards.clone(), channel.clone(), said.clone(), options.timeout));
        Hints { channel, said, outgoing }
    }
}

async fn speak(
    shards: Arc<Shards>,
    channel: Arc<str>,
    mut queued: mpsc::Receiver<Box<str>>,
    limit: Duration,
) {
    while let Some(text) = queued.recv().await {
        let mut command = redis::cmd("PUBLISH");
        command.arg(&*channel).arg(&*text);
        let _ = shards.send(channel.as_bytes(), &command, Instant::now() + limit).await;
    }
}

async fn listen(shards: Arc<Shards>, channel: Arc<str>, said: broadcast::Sender<Hint>, limit: Duration) {
    let mut is_reported = false;
    loop {
        let ended = Arc::new(Notify::new());
        match timeout(limit, subscribe(&shards, &channel, &said, &ended)).await {
            Ok(Ok(connection)) => {
                is_reported = false;
                let _ = said.send(Hint::Missed);
                watch_over(connection, &ended, limit).await;
            }
            failed if !is_reported => {
                let error =
                    failed.map_or("no answer".to_owned(), |subscribed| subscribed.err().unwrap_or_default());
                tracing::warn!(
                    error,
                    "Cannot listen for hints of other nodes; their work is found a little later"
                );
                is_reported = true;
            }
            _ => {}
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

/// Messages go from the connection straight to the listeners.
async fn subscribe(
    shards: &Shards,
    channel: &str,
    said: &broadcast::Sender<Hint>,
    ended: &Arc<Notify>,
) -> Result<MultiplexedConnection, String> {
    let (said, ended) = (said.clone(), ended.clone());
    let hear = move |push: PushInfo| -> Result<(), Infallible> {
        match (push.kind, push.data.last()) {
            (PushKind::Message, Some(Value::BulkString(text))) => {
                let _ = said.send(Hint::Said(String::from_utf8_lossy(text).into()));
            }
            (PushKind::Disconnection, _) => ended.notify_one(),
            _ => {}
        }
        Ok(())
    };
    let (_, client) = shards.subscribe_location().client(ProtocolVersion::RESP3).await?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_push_sender(hear);
    let opened = client.get_multiplexed_async_connection_with_config(&config).await;
    let mut connection = opened.map_err(why)?;
    connection.subscribe(channel).await.map_err(why)?;
    Ok(connection)
}

/// Returns when the connection has ended or does not answer.
async fn watch_over(mut connection: MultiplexedConnection, ended: &Notify, limit: Duration) {
    let ping = redis::cmd("PING");
    while timeout(PING_EVERY, ended.notified()).await.is_err() {
        let answer = timeout(limit, connection.send_packed_command(&ping)).await;
        if !matches!(answer, Ok(Ok(_))) {
            return;
        }
    }
}
