//! One message over one connection: MAIL, RCPT for each recipient, DATA, the text, the final dot.
//!
//! Where the server allows it (PIPELINING), MAIL and RCPT go out in batches and DATA along with the last of them, so
//! that a message costs two round trips. The text waits for their answers: without a recipient none is begun.

use std::time::Duration;

use recado_core::{Fault, RefusedRecipient};
use tokio::time::Instant;

use crate::config::Timeouts;
use crate::deadline::Deadline;
use crate::open::Capabilities;
use crate::reply::Reply;
use crate::wire::{ConnectionError, Step, Wire, run_until};

/// Commands at most that wait for their answers at once: few enough for any server's buffers.
const BATCH_MAX: usize = 50;

const GO_AHEAD: u16 = 354;
const BAD_SEQUENCE: u16 = 503;

pub(crate) struct Envelope<'a> {
    pub sender: &'a str,
    pub recipients: &'a [&'a str],
    /// Message text before dot-stuffing.
    pub message: &'a [u8],
}

/// The result of a transaction.
pub(crate) struct Transaction {
    pub refusals: RefusedRecipients,
    /// All the others.
    pub others: Vec<Box<str>>,
    /// The server's answer to the message, for the accepted recipients; nothing when there are none.
    pub answer: Result<Option<Reply>, Fault>,
    pub took: Duration,
}

/// Recipients that were refused at RCPT.
#[derive(Default)]
pub(crate) struct RefusedRecipients {
    /// Those with a no of their own.
    pub refused: Vec<RefusedRecipient>,
    /// Those with a no that is not about them, but about how many came before them.
    pub deferred: Vec<RefusedRecipient>,
}

impl RefusedRecipients {
    fn len(&self) -> usize {
        self.refused.len() + self.deferred.len()
    }

    fn concern(&self, recipient: &str) -> bool {
        self.refused.iter().chain(&self.deferred).any(|one| &*one.recipient == recipient)
    }
}

/// A connection that takes mail.
pub(crate) struct Connection {
    pub wire: Wire,
    offers: Capabilities,
    timeouts: Timeouts,
    /// Transactions begun.
    pub used: u32,
    /// True between two transactions. False from the beginning of one until it ended in an answer: while it
    /// is false, the next reply may belong to an earlier command.
    pub ready: bool,
    /// The last transaction was left open: no recipient took the message.
    to_reset: bool,
}

/// Tells whether DATA went out along with the recipients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    Asked,
    NotAsked,
}

/// The reason why a transaction came to no answer about its message.
enum TransactionError {
    /// An old connection was closed or out of step before MAIL.
    Stale(Fault),
    /// An answer makes no sense where it came. Those before it may have belonged to other commands.
    OutOfStep(Fault),
    Failed(Fault),
}

impl From<Fault> for TransactionError {
    fn from(fault: Fault) -> Self {
        TransactionError::Failed(fault)
    }
}

impl Connection {
    pub(crate) fn new(wire: Wire, offers: Capabilities, timeouts: Timeouts) -> Self {
        Connection { wire, offers, timeouts, used: 0, ready: true, to_reset: false }
    }

    pub(crate) async fn quit(mut self) {
        // The answer is not awaited.
        let _ = self.wire.write(b"QUIT\r\n").await;
    }

    /// Runs one transaction. It returns an error where the connection turned out stale before MAIL, which only one
    /// that was used before can be.
    pub(crate) async fn transact(
        &mut self,
        envelope: &Envelope<'_>,
        deadline: Deadline,
    ) -> Result<Transaction, Fault> {
        let began = Instant::now();
        let mut refusals = RefusedRecipients::default();
        let answer = match self.run(envelope, deadline, &mut refusals).await {
            Ok(answer) => Ok(answer),
            Err(TransactionError::OutOfStep(fault)) => {
                // A no that was counted as one recipient's may have been another's.
                refusals = RefusedRecipients::default();
                Err(fault)
            }
            Err(TransactionError::Failed(fault)) => Err(fault),
            Err(TransactionError::Stale(fault)) => return Err(fault),
        };
        self.used += 1;
        let others = envelope.recipients.iter().filter(|recipient| !refusals.concern(recipient));
        let others = others.map(|recipient| Box::from(*recipient)).collect();
        Ok(Transaction { others, refusals, answer, took: began.elapsed() })
    }

    async fn run(
        &mut self,
        envelope: &Envelope<'_>,
        deadline: Deadline,
        refusals: &mut RefusedRecipients,
    ) -> Result<Option<Reply>, TransactionError> {
        self.ready = false;
        self.reset(deadline).await?;
        let data = self.address(envelope, deadline, refusals).await?;
        if refusals.len() == envelope.recipients.len() {
            self.ready = match data {
                Data::Asked => self.data_is_refused(deadline).await?,
                Data::NotAsked => true,
            };
            self.to_reset = true;
            return Ok(None);
        }
        self.begin_text(data, deadline).await?;
        let verdict = self.text(envelope.message, deadline).await?;
        self.ready = !verdict.is_closing();
        match verdict {
            yes if yes.is_positive() => Ok(Some(yes)),
            no if no.is_negative() => Err(no.fault().into()),
            odd => {
                self.ready = false;
                Err(odd.out_of_place(Step::FINAL_DOT).into())
            }
        }
    }

    async fn reset(&mut self, deadline: Deadline) -> Result<(), TransactionError> {
        if !std::mem::take(&mut self.to_reset) {
            return Ok(());
        }
        match run_until(deadline.step(self.timeouts.envelope), self.wire.ask("RSET")).await {
            Ok(reply) if reply.is_positive() => Ok(()),
            Ok(reply) => Err(TransactionError::Stale(reply.out_of_place(Step::RESET))),
            Err(error) => Err(TransactionError::Stale(error.into_fault(Step::RESET))),
        }
    }

    /// Sends MAIL, RCPT for each recipient, and DATA where it may go along with them.
    async fn address(
        &mut self,
        envelope: &Envelope<'_>,
        deadline: Deadline,
        refusals: &mut RefusedRecipients,
    ) -> Result<Data, TransactionError> {
        let batch_max = if self.offers.pipelining { BATCH_MAX } else { 1 };
        let mut recipients = envelope.recipients;
        let mut commands = self.mail_from(envelope);
        let mut mail_is_open = false;
        loop {
            let room = batch_max - usize::from(!mail_is_open);
            let (batch, later) = recipients.split_at(room.min(recipients.len()));
            for recipient in batch {
                commands.extend(["RCPT TO:<", recipient, ">\r\n"]);
            }
            let data = match self.offers.pipelining && later.is_empty() {
                true => Data::Asked,
                false => Data::NotAsked,
            };
            if data == Data::Asked {
                commands.push_str("DATA\r\n");
            }
            let step = if mail_is_open { Step::RECIPIENT } else { Step::MAIL };
            let end = deadline.step(self.timeouts.envelope);
            let written = run_until(end, self.wire.write(commands.as_bytes())).await;
            written.map_err(|error| self.connection_failed(error, step))?;
            commands.clear();
            if !mail_is_open {
                self.mail_answer(batch.len(), data, deadline).await?;
                mail_is_open = true;
            }
            self.recipient_answers(batch, deadline, refusals).await?;
            if let Some(last) = refusals.deferred.last() {
                // It would meet every later recipient, too.
                let fault = last.fault.clone();
                refusals.deferred.extend(later.iter().map(|recipient| refusal_of(recipient, fault.clone())));
                return Ok(data);
            }
            recipients = later;
            if recipients.is_empty() {
                return Ok(data);
            }
        }
    }

    fn mail_from(&self, envelope: &Envelope<'_>) -> String {
        let size = if self.offers.size { format!(" SIZE={}", envelope.message.len()) } else { String::new() };
        format!("MAIL FROM:<{}>{size}\r\n", envelope.sender)
    }

    /// Reads the answer to MAIL; after a no, also those to the commands that were sent along with it.
    async fn mail_answer(
        &mut self,
        recipients: usize,
        data: Data,
        deadline: Deadline,
    ) -> Result<(), TransactionError> {
        let reply = self.answer(Step::MAIL, deadline).await?;
        if reply.is_positive() {
            return Ok(());
        }
        if self.used > 0 && (reply.is_closing() || reply.code == BAD_SEQUENCE) {
            return Err(TransactionError::Stale(reply.out_of_place(Step::MAIL)));
        }
        if !reply.is_negative() {
            return Err(reply.out_of_place(Step::MAIL).into());
        }
        let mut in_step = !reply.is_closing();
        for _ in 0..recipients {
            in_step =
                in_step && self.answer(Step::RECIPIENT, deadline).await.is_ok_and(|no| !no.is_closing());
        }
        if data == Data::Asked {
            in_step = in_step && self.data_is_refused(deadline).await.unwrap_or(false);
        }
        self.ready = in_step;
        self.to_reset = true;
        Err(reply.fault().into())
    }

    /// Records the recipients that were refused.
    async fn recipient_answers(
        &mut self,
        batch: &[&str],
        deadline: Deadline,
        refusals: &mut RefusedRecipients,
    ) -> Result<(), TransactionError> {
        for recipient in batch {
            let reply = self.answer(Step::RECIPIENT, deadline).await?;
            if reply.is_positive() {
                continue;
            }
            let fault = self.no(reply, Step::RECIPIENT)?;
            let kind = if is_too_many(&fault) { &mut refusals.deferred } else { &mut refusals.refused };
            kind.push(refusal_of(recipient, fault));
        }
        Ok(())
    }

    /// Reads the answer to a DATA that has no recipient. Returns false where the server waits for a text all the same,
    /// or is about to go: the connection is of no use then, and closing it sends nothing.
    async fn data_is_refused(&mut self, deadline: Deadline) -> Result<bool, TransactionError> {
        match run_until(deadline.step(self.timeouts.data), self.wire.read_reply()).await {
            Ok(yes) if yes.is_positive() => Err(TransactionError::OutOfStep(yes.out_of_place(Step::DATA))),
            answer => Ok(answer.is_ok_and(|reply| reply.is_negative() && !reply.is_closing())),
        }
    }

    async fn begin_text(&mut self, data: Data, deadline: Deadline) -> Result<(), TransactionError> {
        let end = deadline.step(self.timeouts.data);
        let answer = match data {
            Data::Asked => run_until(end, self.wire.read_reply()).await,
            Data::NotAsked => run_until(end, self.wire.ask("DATA")).await,
        };
        let reply = answer.map_err(|error| self.connection_failed(error, Step::DATA))?;
        if reply.code == GO_AHEAD {
            return Ok(());
        }
        let fault = self.no(reply, Step::DATA)?;
        if !self.wire.says_goodbye() {
            // With more words behind it, it was the answer to a recipient.
            let in_step = self.wire.check_in_step();
            in_step.map_err(|error| self.connection_failed(error, Step::DATA))?;
        }
        self.ready = true;
        self.to_reset = true;
        Err(fault.into())
    }

    /// The text with its final dot, and what the server says then. It may have taken the message once all of it is
    /// written, and not before: what is said or fails earlier is about the text.
    async fn text(&mut self, message: &[u8], deadline: Deadline) -> Result<Reply, TransactionError> {
        let text = with_dots(message);
        let writing = run_until(deadline.end(), self.wire.write_unless_answered(&text)).await;
        if let Some(early) = writing.map_err(|error| error.into_fault(Step::TEXT))? {
            let is_refusal = early.is_negative();
            return Err(if is_refusal { early.fault() } else { early.out_of_place(Step::TEXT) }.into());
        }
        let verdict = run_until(deadline.end(), self.wire.read_reply()).await;
        Ok(verdict.map_err(|error| error.into_fault(Step::FINAL_DOT))?)
    }

    async fn answer(&mut self, step: Step, deadline: Deadline) -> Result<Reply, TransactionError> {
        let answer = run_until(deadline.step(self.timeouts.envelope), self.wire.read_reply()).await;
        answer.map_err(|error| self.connection_failed(error, step))
    }

    fn connection_failed(&self, error: ConnectionError, step: Step) -> TransactionError {
        let is_stale = self.used > 0 && step == Step::MAIL;
        let error_of = match error {
            _ if is_stale => TransactionError::Stale,
            ConnectionError::Unasked => TransactionError::OutOfStep,
            _ => TransactionError::Failed,
        };
        error_of(error.into_fault(step))
    }

    /// Returns the fault of a refusal after which the transaction can go on.
    fn no(&self, reply: Reply, step: Step) -> Result<Fault, TransactionError> {
        match reply.code {
            // Our commands are in order. On an old connection what came before may have upset it.
            BAD_SEQUENCE if self.used > 0 => Err(TransactionError::OutOfStep(reply.out_of_place(step))),
            421 => Err(reply.fault().into()),
            400.. => Ok(reply.fault()),
            _ => Err(TransactionError::OutOfStep(reply.out_of_place(step))),
        }
    }
}

pub(crate) fn refusal_of(recipient: &str, fault: Fault) -> RefusedRecipient {
    RefusedRecipient { recipient: recipient.into(), fault }
}

/// Returns true if the refusal is about the number of recipients, not about this one.
fn is_too_many(fault: &Fault) -> bool {
    let coded = fault.enhanced.as_deref().is_some_and(|code| code.ends_with(".5.3"));
    let said = fault.text.to_ascii_lowercase().contains("too many recipients");
    matches!(fault.code.as_deref(), Some("452" | "552")) && (coded || said)
}

/// The text with every line end made CRLF, a second dot where a line begins with one, and the dot that ends it. Bare
/// line ends are how one message is smuggled inside another.
fn with_dots(message: &[u8]) -> Vec<u8> {
    const END: &[u8] = b".\r\n";
    let mut text = Vec::with_capacity(message.len() + message.len() / 64 + 2 + END.len());
    let mut rest = message;
    while !rest.is_empty() {
        if rest[0] == b'.' {
            text.push(b'.');
        }
        let length = memchr::memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
        let (line, end) = rest.split_at(length);
        text.extend_from_slice(line);
        text.extend_from_slice(b"\r\n");
        rest = match end {
            [b'\r', b'\n', next @ ..] | [_, next @ ..] => next,
            [] => end,
        };
    }
    text.extend_from_slice(END);
    text
}

#[cfg(test)]
mod tests {
    use recado_core::{FaultKind, NetworkKind};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Bytes that wait between client and server at most.
    const BUFFER_BYTES: usize = 64;

    /// The fault of a message to a server that says go ahead, reads little of the text, says `words` and goes.
    async fn refused_text(words: &str) -> Fault {
        let (client, mut server) = tokio::io::duplex(BUFFER_BYTES);
        let mut connection = Connection::new(Wire::new(client), Capabilities::default(), Timeouts::default());
        let message = b"a line\r\n".repeat(BUFFER_BYTES);
        let serving = async move {
            server.read_exact(&mut [0; BUFFER_BYTES]).await.expect("a text");
            server.write_all(words.as_bytes()).await.expect("a client");
        };
        let deadline = Deadline::within(Duration::from_secs(20));
        match tokio::join!(connection.text(&message, deadline), serving).0 {
            Err(TransactionError::Failed(fault)) => fault,
            _ => panic!("a failure was due"),
        }
    }

    #[tokio::test]
    async fn a_server_that_goes_before_the_final_dot_is_written_has_not_taken_the_message() {
        let lost = refused_text("").await;
        assert_eq!(
            (lost.kind, lost.uncertain),
            (FaultKind::Network(NetworkKind::Connect), false),
            "{}",
            lost.text
        );
        let refused = refused_text("552 5.3.4 too big\r\n").await;
        assert_eq!((refused.code.as_deref(), refused.uncertain), (Some("552"), false), "{}", refused.text);
    }

    #[tokio::test]
    async fn a_no_to_data_with_more_words_behind_it_was_the_last_recipients() {
        for (answers, is_theirs) in [
            ("250 fine\r\n250 fine\r\n250 fine\r\n554 no\r\n421 too many errors\r\n", true),
            ("250 fine\r\n250 fine\r\n250 fine\r\n550 no such user\r\n354 go ahead\r\n", false),
        ] {
            let (client, mut server) = tokio::io::duplex(1_024);
            let offers = Capabilities { pipelining: true, ..Capabilities::default() };
            let mut connection = Connection::new(Wire::new(client), offers, Timeouts::default());
            server.write_all(answers.as_bytes()).await.expect("room");
            let recipients = ["ana@example.com", "bob@example.com"];
            let envelope = Envelope { sender: "acme@acme.example", recipients: &recipients, message: b"hi" };
            let deadline = Deadline::within(Duration::from_secs(20));
            let transaction = connection.transact(&envelope, deadline).await.expect("a new connection");
            let fault = transaction.answer.expect_err("a failure was due");
            assert_eq!(
                (fault.kind == FaultKind::Answer, transaction.others.len()),
                (is_theirs, 2),
                "{}",
                fault.text
            );
        }
    }

    #[test]
    fn dots_are_doubled_at_the_start_of_lines_only() {
        for (message, text) in [
            ("a\r\n", "a\r\n.\r\n"),
            ("a", "a\r\n.\r\n"),
            ("", ".\r\n"),
            (".", "..\r\n.\r\n"),
            ("..\r\n.a\r\nb.\r\n", "...\r\n..a\r\nb.\r\n.\r\n"),
            ("a\r\n.\r\nb", "a\r\n..\r\nb\r\n.\r\n"),
            ("a\r\n\r\n\n\rb", "a\r\n\r\n\r\n\r\nb\r\n.\r\n"),
        ] {
            assert_eq!(with_dots(message.as_bytes()), text.as_bytes(), "{message:?}");
        }
    }

    #[test]
    fn a_bare_line_end_cannot_end_the_message() {
        for smuggled in ["a\n.\nMAIL", "a\r.\rMAIL", "a\n.\r\nMAIL", "a\r\n.\nMAIL", "a\r.\nMAIL"] {
            assert_eq!(with_dots(smuggled.as_bytes()), b"a\r\n..\r\nMAIL\r\n.\r\n", "{smuggled:?}");
        }
    }
}
