//! The one connection to a server that all calls share.
//!
//! A task of its own opens the connection, and opens it again when a call reports that it is lost. Calls wait for it as
//! long as their time allows, so that a short loss is a delay and not an error.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, ProtocolVersion, RedisError, RedisResult, ServerErrorKind, Value,
};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::fault::{self, Fault};
use super::location::Location;

/// Waits between tries to connect: doubled from the first to the last, each cut short by up to half.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_LAST: Duration = Duration::from_secs(2);

/// A connection that ends sooner was not a good one: the next one waits too.
const LIFE_MIN: Duration = Duration::from_secs(1);

/// Requests that wait for the connection's task at most; more wait in their callers.
const REQUESTS_QUEUED_MAX: usize = 1_024;

#[derive(Debug, Clone)]
struct OpenConnection {
    life: u64,
    /// The address that it leads to.
    at: Arc<str>,
    connection: MultiplexedConnection,
}

/// An open connection, or the reason why there is none.
type ConnectionState = Result<OpenConnection, Arc<str>>;

/// A lost connection, by number, and the reason.
type Lost = (u64, Arc<str>);

#[derive(Debug)]
pub(crate) struct Connection {
    name: Arc<str>,
    timeout: Duration,
    state: watch::Receiver<ConnectionState>,
    lost: Arc<watch::Sender<Lost>>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Begins to connect.
    pub fn start(location: Location, timeout: Duration) -> Self {
        let name: Arc<str> = location.to_string().into();
        let (report, state) = watch::channel(Err("not connected yet".into()));
        let (lost, losses) = watch::channel((0, "".into()));
        let task = tokio::spawn(keep_open(location, timeout, report, losses)).abort_handle();
        Connection { name, timeout, state, lost: Arc::new(lost), task }
    }

    /// Sends a command. An answer that is an error is an error.
    pub async fn send(&self, command: &Cmd, deadline: Instant) -> Result<Value, Fault> {
        let exchange = async |mut connection: MultiplexedConnection| {
            connection.send_packed_command(command).await?.extract_error()
        };
        self.exchange(exchange, deadline).await
    }

    /// Sends a command to the server that a slot is being moved to.
    pub async fn send_asking(&self, command: &Cmd, deadline: Instant) -> Result<Value, Fault> {
        let mut pair = redis::pipe();
        pair.cmd("ASKING").add_command(command.clone());
        let exchange = async |mut connection: MultiplexedConnection| {
            let answers = connection.send_packed_commands(&pair, 1, 1).await?;
            answers.into_iter().next().unwrap_or(Value::Nil).extract_error()
        };
        self.exchange(exchange, deadline).await
    }

    /// Sends two commands in one round trip. An error of the second one is no answer to it.
    pub async fn send_pair(
        &self,
        pair: [&Cmd; 2],
        deadline: Instant,
    ) -> Result<(Value, Option<Value>), Fault> {
        let mut both = redis::pipe();
        for command in pair {
            both.add_command(command.clone());
        }
        let exchange = async |mut connection: MultiplexedConnection| {
            let mut answers = connection.send_packed_commands(&both, 0, 2).await?.into_iter();
            let first = answers.next().unwrap_or(Value::Nil).extract_error()?;
            Ok((first, answers.next().and_then(|second| second.extract_error().ok())))
        };
        self.exchange(exchange, deadline).await
    }

    async fn exchange<T>(
        &self,
        exchange: impl AsyncFnOnce(MultiplexedConnection) -> RedisResult<T>,
        deadline: Instant,
    ) -> Result<T, Fault> {
        let OpenConnection { life, at, connection } = self.wait_for_connection(deadline).await?;
        let sent_at = Instant::now();
        match timeout_at(deadline, exchange(connection)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                if ends_connection(&error) {
                    self.mark_lost(life, &fault::words(&error));
                }
                Err(Fault::Redis { at, error })
            }
            Err(_) => {
                // A caller that had to wait for the connection had little time left to use it: that says
                // nothing about the connection.
                if sent_at.elapsed() >= self.timeout / 2 {
                    self.mark_lost(life, "it did not answer in time");
                }
                Err(Fault::Silent { at })
            }
        }
    }

    /// Returns when there is a connection; at once if there is one.
    pub async fn connected(&self) {
        let mut state = self.state.clone();
        if state.wait_for(|state| self.is_usable(state)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    pub fn is_up(&self) -> bool {
        self.is_usable(&self.state.borrow())
    }

    /// A connection that is known to be lost is not usable, even before its task has noticed.
    fn is_usable(&self, state: &ConnectionState) -> bool {
        state.as_ref().is_ok_and(|open| open.life > self.lost.borrow().0)
    }

    async fn wait_for_connection(&self, deadline: Instant) -> Result<OpenConnection, Fault> {
        let mut state = self.state.clone();
        let usable = timeout_at(deadline, state.wait_for(|state| self.is_usable(state))).await;
        let open = usable.ok().and_then(|state| state.ok()?.clone().ok());
        open.ok_or_else(|| self.unreachable())
    }

    pub fn unreachable(&self) -> Fault {
        let why = match &*self.state.borrow() {
            Err(why) => why.clone(),
            Ok(_) => self.lost.borrow().1.clone(),
        };
        Fault::Unreachable { at: self.name.clone(), why }
    }

    fn mark_lost(&self, life: u64, why: &str) {
        self.lost.send_if_modified(|lost| {
            let news = lost.0 < life;
            if news {
                *lost = (life, why.into());
            }
            news
        });
    }
}

/// Keeps one connection open until its owner drops it.
async fn keep_open(
    location: Location,
    limit: Duration,
    state: watch::Sender<ConnectionState>,
    mut losses: watch::Receiver<Lost>,
) {
    let mut life = 0;
    let mut failures = 0;
    loop {
        match connect(&location, limit).await {
            Ok((at, connection)) => {
                life += 1;
                let since = Instant::now();
                let _ = state.send_replace(Ok(OpenConnection { life, at: at.clone(), connection }));
                let Ok(why) = losses.wait_for(|lost| lost.0 >= life).await.map(|lost| lost.1.clone()) else {
                    return;
                };
                tracing::warn!(
                    address = &*at,
                    error = &*why,
                    "The connection to Redis is lost; opening a new one"
                );
                let _ = state.send_replace(Err(why));
                if since.elapsed() >= LIFE_MIN {
                    failures = 0;
                    continue;
                }
            }
            Err(why) => {
                if failures == 0 {
                    tracing::warn!(address = %location, error = why, "Cannot connect to Redis; trying again until it works");
                }
                let _ = state.send_replace(Err(why.into()));
            }
        }
        failures += 1;
        tokio::time::sleep(location.random.jitter(backoff(failures))).await;
    }
}

/// Opens a connection that may be used. Returns it with the address that it leads to.
async fn connect(location: &Location, limit: Duration) -> Result<(Arc<str>, MultiplexedConnection), String> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(REQUESTS_QUEUED_MAX);
    let opened = timeout(limit, async {
        let (at, client) = location.client(ProtocolVersion::RESP2).await?;
        let mut connection =
            client.get_multiplexed_async_connection_with_config(&config).await.map_err(why)?;
        location.confirm(&mut connection).await?;
        Ok((at, connection))
    });
    match opened.await {
        Ok(opened) => opened,
        Err(_) => Err(format!("no connection within {} ms", limit.as_millis())),
    }
}

/// The reason for a missing connection, in words that help.
pub(super) fn why(error: RedisError) -> String {
    match error.kind() {
        ErrorKind::AuthenticationFailed => {
            "it refuses the login; put the right user and password into the store's URL".to_owned()
        }
        _ => fault::words(&error),
    }
}

/// The longest wait before the next attempt to connect.
fn backoff(failures: u32) -> Duration {
    BACKOFF_FIRST.saturating_mul(1 << (failures - 1).min(10)).min(BACKOFF_LAST)
}

/// Returns true if a new connection has a better chance: this one has ended, has lost its place in the
/// conversation, or leads to a server that is no longer the master.
fn ends_connection(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Io | ErrorKind::Parse | ErrorKind::AuthenticationFailed => true,
        ErrorKind::Server(kind) => matches!(kind, ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown),
        _ => error.code() == Some("NOAUTH"),
    }
}

#[cfg(test)]
mod tests {
    use recado_core::Random;

    use super::super::RedisOptions;
    use super::*;

    #[test]
    fn waits_between_tries_grow_to_a_bound_and_differ() {
        let options = RedisOptions::new("redis://127.0.0.1");
        let location = Location::read(&options, Arc::new(Random::from_seed(1))).unwrap();
        for failures in 1..40 {
            let most = (BACKOFF_FIRST * 2u32.pow((failures - 1).min(10))).min(BACKOFF_LAST);
            let waits: Vec<_> = (0..50).map(|_| location.random.jitter(backoff(failures))).collect();
            assert!(waits.iter().all(|wait| *wait >= most / 2 && *wait <= most), "{failures}: {waits:?}");
            assert!(waits.iter().any(|wait| *wait != waits[0]), "no jitter after {failures} failures");
        }
    }
}
