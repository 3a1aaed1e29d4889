//! Bytes to and from a server, and the faults when they stop.

use recado_core::words::describe_tls_error;
use std::fmt;
use std::io;

use recado_core::{Fault, NetworkKind};
use recado_transport::patience;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use crate::reply::{NotAReply, Reply};
use crate::tls::Tls;

/// A TCP connection, or TLS over one.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

pub(crate) struct Wire {
    socket: Box<dyn Socket>,
    /// Read off the socket and not yet looked at.
    unread: Vec<u8>,
}

/// The step of the conversation, as faults name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step(&'static str);

impl Step {
    pub const CONNECTING: Step = Step("connecting");
    pub const HANDSHAKE: Step = Step("the TLS handshake");
    pub const GREETING: Step = Step("the greeting");
    pub const HELLO: Step = Step("EHLO");
    pub const START_TLS: Step = Step("STARTTLS");
    pub const AUTH: Step = Step("AUTH");
    pub const RESET: Step = Step("RSET");
    pub const MAIL: Step = Step("MAIL");
    pub const RECIPIENT: Step = Step("RCPT");
    pub const DATA: Step = Step("DATA");
    pub const TEXT: Step = Step("the message's text");
    /// The message is out, and whether it was taken is not known yet.
    pub const FINAL_DOT: Step = Step("the end of the message");
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The reason why a connection can no longer be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("the server closed the connection")]
    Closed,
    #[error("{}", describe_tls_error(&.0.to_string()))]
    Broken(io::Error),
    #[error("no answer in time")]
    Late,
    #[error(transparent)]
    Garbage(NotAReply),
    /// Words from the server that belong to no command of ours.
    #[error("the server said more than it was asked")]
    Unasked,
    /// A well-formed reply where it makes no sense.
    #[error("unexpected answer: {}", .0.quoted())]
    OutOfPlace(Reply),
}

impl ConnectionError {
    /// The shortage of our own that it was, if it was one.
    pub(crate) fn shortage(&self) -> Option<Fault> {
        match self {
            ConnectionError::Broken(error) => recado_transport::shortage::of_io(error),
            _ => None,
        }
    }

    pub(crate) fn into_fault(self, step: Step) -> Fault {
        let kind = match (&self, step) {
            (ConnectionError::Late, _) => NetworkKind::Timeout,
            (ConnectionError::Closed | ConnectionError::Broken(_), Step::HANDSHAKE) => NetworkKind::Tls,
            (ConnectionError::Closed | ConnectionError::Broken(_), Step::FINAL_DOT) => NetworkKind::Dropped,
            (ConnectionError::Closed | ConnectionError::Broken(_), _) => NetworkKind::Connect,
            _ => NetworkKind::Protocol,
        };
        let fault = Fault::network(kind, &format!("at {step}: {self}"));
        Fault { uncertain: step == Step::FINAL_DOT, ..fault }
    }
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => ConnectionError::Closed,
            _ => ConnectionError::Broken(error),
        }
    }
}

/// Runs one step of the conversation for no longer than it may take.
pub(crate) async fn run_until<T>(
    end: Instant,
    step: impl Future<Output = Result<T, ConnectionError>>,
) -> Result<T, ConnectionError> {
    patience::until(end, step).await.unwrap_or(Err(ConnectionError::Late))
}

impl Wire {
    pub(crate) fn new(socket: impl Socket + 'static) -> Self {
        Wire { socket: Box::new(socket), unread: Vec::new() }
    }

    /// The same connection under TLS. Bytes that came in before the handshake and were not asked for may come
    /// from an attacker on the path: they must not be read as if TLS had vouched for them.
    pub(crate) async fn start_tls(self, tls: &Tls) -> Result<Wire, ConnectionError> {
        if !self.unread.is_empty() {
            return Err(ConnectionError::Broken(io::Error::other(
                "the server spoke in the clear after STARTTLS",
            )));
        }
        let socket = tls.connector.connect(tls.server_name.clone(), self.socket).await?;
        Ok(Wire::new(socket))
    }

    /// After unexpected words, every answer would be taken for that to the command before.
    pub(crate) fn check_in_step(&self) -> Result<(), ConnectionError> {
        if self.unread.is_empty() { Ok(()) } else { Err(ConnectionError::Unasked) }
    }

    /// Returns true if the next words are those of a server that closes the connection. They come unasked.
    pub(crate) fn says_goodbye(&self) -> bool {
        self.unread.starts_with(b"421")
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        self.check_in_step()?;
        self.socket.write_all(bytes).await?;
        Ok(self.socket.flush().await?)
    }

    pub(crate) async fn read_reply(&mut self) -> Result<Reply, ConnectionError> {
        loop {
            if let Some(reply) = Reply::take(&mut self.unread).map_err(ConnectionError::Garbage)? {
                return Ok(reply);
            }
            if self.socket.read_buf(&mut self.unread).await? == 0 {
                return Err(ConnectionError::Closed);
            }
        }
    }

    pub(crate) async fn ask(&mut self, command: &str) -> Result<Reply, ConnectionError> {
        self.write(format!("{command}\r\n").as_bytes()).await?;
        self.read_reply().await
    }

    /// Writes a long text. A server may refuse in the midst of it and read no further: its reply is brought
    /// back then, and the rest stays unwritten.
    pub(crate) async fn write_unless_answered(
        &mut self,
        bytes: &[u8],
    ) -> Result<Option<Reply>, ConnectionError> {
        self.check_in_step()?;
        let (mut reader, mut writer) = tokio::io::split(&mut self.socket);
        let writing = async {
            writer.write_all(bytes).await?;
            writer.flush().await
        };
        let read = tokio::select! {
            biased;
            read = reader.read_buf(&mut self.unread) => read?,
            written = writing => match written {
                Ok(()) => return Ok(None),
                // It may have said why before it went.
                Err(error) => match reader.read_buf(&mut self.unread).await {
                    Ok(read @ 1..) => read,
                    _ => return Err(error.into()),
                },
            },
        };
        if read == 0 {
            return Err(ConnectionError::Closed);
        }
        self.read_reply().await.map(Some)
    }

    /// Returns true if there is nothing to be read, not even an end. Does not wait.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        tokio::select! {
            biased;
            _ = self.socket.read_buf(&mut self.unread) => false,
            () = std::future::ready(()) => self.unread.is_empty(),
        }
    }
}
