//! One server, and the one connection to it that all calls share.
//!
//! A task of its own opens the connection and opens it again when a call says that it is lost. Calls wait for
//! it as long as their time allows, so that a blip is a delay and not an error.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::fault::{self, Fault};
use super::place::Place;

/// Waits between tries to connect: doubled from the first to the last, each cut short by up to half.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_LAST: Duration = Duration::from_secs(2);

/// A connection that ends sooner was not a good one: the next one waits too.
const LIFE_MIN: Duration = Duration::from_secs(1);

/// Requests that wait for the connection's task at most; more wait in their callers.
const REQUESTS_QUEUED_MAX: usize = 1_024;

/// A request: one command, or several at once.
#[derive(Clone, Copy)]
pub(crate) enum Request<'a> {
    One(&'a Cmd),
    Many(&'a Pipeline),
}

#[derive(Clone)]
enum State {
    Down { why: Arc<str> },
    Up { life: u64, at: Arc<str>, connection: MultiplexedConnection },
}

/// A connection that is lost, by number, and why.
type Lost = (u64, Arc<str>);

#[derive(Debug)]
pub(crate) struct Node {
    name: Arc<str>,
    timeout: Duration,
    state: watch::Receiver<State>,
    lost: Arc<watch::Sender<Lost>>,
    task: AbortHandle,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, State::Up { .. }) { "Up" } else { "Down" })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Node {
    /// Begins to connect.
    pub fn start(place: Place, timeout: Duration) -> Self {
        let name: Arc<str> = place.to_string().into();
        let (tell, state) = watch::channel(State::Down { why: "not connected yet".into() });
        let (lost, losses) = watch::channel((0, "".into()));
        let task = tokio::spawn(keep(place, timeout, tell, losses)).abort_handle();
        Node { name, timeout, state, lost: Arc::new(lost), task }
    }

    /// An answer to each command; a refusal of any is the refusal of all.
    pub async fn send(&self, request: Request<'_>, deadline: Instant) -> Result<Vec<Value>, Fault> {
        let values = self.send_each(request, deadline).await?;
        self.accepted(values)
    }

    /// An answer to each command, refusals among them.
    pub async fn send_each(&self, request: Request<'_>, deadline: Instant) -> Result<Vec<Value>, Fault> {
        let (life, at, mut connection) = self.connection(deadline).await?;
        let sent_at = Instant::now();
        let answer = match request {
            Request::One(command) => {
                let answer = timeout_at(deadline, connection.send_packed_command(command)).await;
                answer.map(|answer| answer.map(|value| vec![value]))
            }
            Request::Many(pipeline) => {
                timeout_at(deadline, connection.send_packed_commands(pipeline, 0, pipeline.len())).await
            }
        };
        match answer {
            Ok(Ok(values)) => {
                if let Some(error) = refusals(&values).find(ends_connection) {
                    self.lose(life, &fault::words(&error));
                }
                Ok(values)
            }
            Ok(Err(error)) => {
                if ends_connection(&error) {
                    self.lose(life, &fault::words(&error));
                }
                Err(Fault::Redis { at, error })
            }
            Err(_) => {
                // A caller that had to wait for the connection had little time left to use it: that says
                // nothing about the connection.
                if sent_at.elapsed() >= self.timeout / 2 {
                    self.lose(life, "it did not answer in time");
                }
                Err(Fault::Silent { at })
            }
        }
    }

    /// Answers of which none is a refusal.
    pub fn accepted(&self, values: Vec<Value>) -> Result<Vec<Value>, Fault> {
        let refusal = refusals(&values).next();
        match refusal {
            Some(error) => Err(Fault::Redis { at: self.name.clone(), error }),
            None => Ok(values),
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

    /// Not if it is known to be lost, even before its task has heard of it.
    fn is_usable(&self, state: &State) -> bool {
        matches!(state, State::Up { life, .. } if *life > self.lost.borrow().0)
    }

    async fn connection(&self, deadline: Instant) -> Result<(u64, Arc<str>, MultiplexedConnection), Fault> {
        let mut state = self.state.clone();
        match timeout_at(deadline, state.wait_for(|state| self.is_usable(state))).await {
            Ok(Ok(state)) => match &*state {
                State::Up { life, at, connection } => Ok((*life, at.clone(), connection.clone())),
                State::Down { .. } => Err(self.unreachable()),
            },
            _ => Err(self.unreachable()),
        }
    }

    pub fn unreachable(&self) -> Fault {
        let why = match &*self.state.borrow() {
            State::Down { why } => why.clone(),
            State::Up { .. } => self.lost.borrow().1.clone(),
        };
        Fault::Unreachable { at: self.name.clone(), why }
    }

    fn lose(&self, life: u64, why: &str) {
        self.lost.send_if_modified(|lost| {
            let news = lost.0 < life;
            if news {
                *lost = (life, why.into());
            }
            news
        });
    }
}

/// Keeps one connection open until the node is dropped.
async fn keep(place: Place, limit: Duration, state: watch::Sender<State>, mut losses: watch::Receiver<Lost>) {
    let mut life = 0;
    let mut failures = 0;
    loop {
        match connect(&place, limit).await {
            Ok((at, connection)) => {
                life += 1;
                let since = Instant::now();
                state.send_replace(State::Up { life, at: at.clone(), connection });
                let why = match losses.wait_for(|lost| lost.0 >= life).await {
                    Ok(lost) => lost.1.clone(),
                    Err(_) => return,
                };
                tracing::warn!(
                    address = &*at,
                    error = &*why,
                    "The connection to Redis is lost; opening a new one"
                );
                state.send_replace(State::Down { why });
                if since.elapsed() >= LIFE_MIN {
                    failures = 0;
                    continue;
                }
            }
            Err(why) => {
                if failures == 0 {
                    tracing::warn!(address = %place, error = why, "Cannot connect to Redis; trying again until it works");
                }
                state.send_replace(State::Down { why: why.into() });
            }
        }
        failures += 1;
        tokio::time::sleep(backoff(failures)).await;
    }
}

/// A connection that may be used, and where it leads.
async fn connect(place: &Place, limit: Duration) -> Result<(Arc<str>, MultiplexedConnection), String> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(REQUESTS_QUEUED_MAX);
    let opened = timeout(limit, async {
        let (at, client) = place.client(limit).await?;
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| why(&error))?;
        place.confirm(&mut connection).await?;
        Ok((at, connection))
    });
    match opened.await {
        Ok(opened) => opened,
        Err(_) => Err(format!("no connection within {} ms", limit.as_millis())),
    }
}

/// The reason for a missing connection, in words that help.
pub(super) fn why(error: &RedisError) -> String {
    match error.kind() {
        ErrorKind::AuthenticationFailed => {
            "it refuses the login; put the right user and password into the store's URL".to_owned()
        }
        _ => fault::words(error),
    }
}

fn refusals(values: &[Value]) -> impl Iterator<Item = RedisError> {
    values.iter().filter_map(|value| match value {
        Value::ServerError(error) => Some(error.clone().into()),
        _ => None,
    })
}

fn backoff(failures: u32) -> Duration {
    let whole = BACKOFF_FIRST.saturating_mul(1 << (failures - 1).min(10)).min(BACKOFF_LAST);
    whole.mul_f64(1.0 - fastrand::f64() / 2.0)
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
    use super::*;

    #[test]
    fn waits_between_tries_grow_to_a_bound_and_differ() {
        for failures in 1..40 {
            let most = (BACKOFF_FIRST * 2u32.pow((failures - 1).min(10))).min(BACKOFF_LAST);
            let waits: Vec<_> = (0..50).map(|_| backoff(failures)).collect();
            assert!(waits.iter().all(|wait| *wait >= most / 2 && *wait <= most), "{failures}: {waits:?}");
            assert!(waits.iter().any(|wait| *wait != waits[0]), "no jitter after {failures} failures");
        }
    }
}
