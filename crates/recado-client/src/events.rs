//! The stream of events, which outlives its connections.
//!
//! The stream opens another connection when one is lost, as often as it takes, and goes on after the last
//! event it heard. Events that cannot be made up for are reported as a gap. A first connection that fails is an error,
//! for then the address is probably wrong; so is a server that says no and will not change its mind.

use std::time::Duration;

use recado_wire::events::{Event, EventKind, EventQuery, GAP, Gap};

use crate::client::Client;
use crate::error::ClientError;
use crate::sse::{Message, Reader, TooLong};

/// Silence after which a connection counts as lost; the server gives a sign of life every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// First and longest wait before another connection.
const RECONNECT_MIN: Duration = Duration::from_millis(100);
const RECONNECT_MAX: Duration = Duration::from_secs(10);

/// An item of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamItem {
    Event(Box<Event>),
    /// Some events are missing here.
    Gap(Gap),
}

/// Events as they happen, from [`Client::events`].
#[derive(Debug)]
pub struct EventStream {
    client: Client,
    query: EventQuery,
    last_event_id: Option<String>,
    connection: Option<Connection>,
    wait: Duration,
}

#[derive(Debug)]
struct Connection {
    response: reqwest::Response,
    reader: Reader,
    /// Something has arrived: it was not just taken and closed.
    has_received: bool,
}

impl EventStream {
    pub(crate) async fn open(client: Client, mut query: EventQuery) -> Result<Self, ClientError> {
        let last_event_id = query.last_event_id.take();
        let response = client.listen(&query, last_event_id.as_deref()).await?;
        let connection = Some(Connection::new(response));
        Ok(EventStream { client, query, last_event_id, connection, wait: RECONNECT_MIN })
    }

    /// The last event read; a later start goes on from there.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }

    /// Waits for the next item. Nothing is lost when the future is dropped half-way.
    pub async fn next(&mut self) -> Result<StreamItem, ClientError> {
        loop {
            let Some(connection) = &mut self.connection else {
                if let Some(gap) = self.reconnect().await? {
                    return Ok(StreamItem::Gap(gap));
                }
                continue;
            };
            match connection.message().await {
                Ok(Some(message)) => {
                    if let Some(item) = self.read(message)? {
                        return Ok(item);
                    }
                }
                Ok(None) => {
                    if connection.has_received {
                        self.wait = RECONNECT_MIN;
                    }
                    self.connection = None;
                }
                Err(TooLong) => return Err(self.unreadable("one event without end")),
            }
        }
    }

    /// Tries once, after a while. Without an event to go on from, whatever happened meanwhile is missing.
    async fn reconnect(&mut self) -> Result<Option<Gap>, ClientError> {
        tokio::time::sleep(self.wait).await;
        self.wait = (self.wait * 2).min(RECONNECT_MAX);
        match self.client.listen(&self.query, self.last_event_id.as_deref()).await {
            Ok(response) => self.connection = Some(Connection::new(response)),
            Err(error) if may_pass(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        let reason = "the connection was lost before an event was heard";
        Ok(self.last_event_id.is_none().then(|| Gap { reason: reason.to_owned(), missed: None }))
    }

    /// `None` for an event of a newer server that this client does not know.
    fn read(&mut self, message: Message) -> Result<Option<StreamItem>, ClientError> {
        let item = if message.event == GAP {
            serde_json::from_str(&message.data).map(|gap| Some(StreamItem::Gap(gap)))
        } else if EventKind::parse(&message.event).is_some() {
            serde_json::from_str(&message.data).map(|event| Some(StreamItem::Event(event)))
        } else {
            Ok(None)
        };
        let item = item.map_err(|error| self.unreadable(&error.to_string()))?;
        self.last_event_id = message.id.or(self.last_event_id.take());
        Ok(item)
    }

    fn unreadable(&self, cause: &str) -> ClientError {
        ClientError::Decode { url: self.client.origin(), cause: cause.to_owned() }
    }
}

impl Connection {
    fn new(response: reqwest::Response) -> Self {
        Connection { response, reader: Reader::default(), has_received: false }
    }

    /// The next message; `None` when the connection is lost.
    async fn message(&mut self) -> Result<Option<Message>, TooLong> {
        loop {
            if let Some(message) = self.reader.next() {
                return Ok(Some(message));
            }
            match tokio::time::timeout(SILENCE_MAX, self.response.chunk()).await {
                Ok(Ok(Some(bytes))) => {
                    self.has_received = true;
                    self.reader.take(&bytes)?;
                }
                Ok(Ok(None) | Err(_)) | Err(_) => return Ok(None),
            }
        }
    }
}

/// Returns true if a repetition may succeed in a while: no server is there, it has too much to do, or a proxy
/// answers in its place.
fn may_pass(error: &ClientError) -> bool {
    match error {
        ClientError::Connect { .. } | ClientError::Timeout { .. } | ClientError::Decode { .. } => true,
        ClientError::Problem(problem) => problem.status >= 500,
        ClientError::Setup(_) => false,
    }
}
