//! Delivery by SMTP.
//!
//! One [`Smtp`] speaks to one relay over a few connections that it keeps (`pool`). A delivery takes
//! one of them, opens it if need be (`open`: greeting, EHLO, STARTTLS, AUTH), and runs one transaction
//! on it (`transaction`: MAIL, RCPT for each recipient, DATA, the text and its final dot), or several where
//! the relay does not take that many recipients at once (`handover`). Each recipient has an answer of its
//! own: one that is refused neither fails nor repeats the others. On a later attempt only those are asked
//! who have neither got it nor refused it for good.
//!
//! A failure before MAIL is about the connection or the login, and its words say at which step.
//! A failure between the final dot and its answer is uncertain. A connection goes back to the pool
//! only after a transaction that ended in an answer; dropping the future at any point drops it.
//!
//! The conversation is our own rather than a mail library's, because the one at hand keeps what a server
//! sent before TLS for after it (so that an attacker on the path can put words into the server's mouth),
//! reads lines without a bound and only in UTF-8, and cannot give each step a time of its own.
//!
//! Absent on purpose: retries (the engine's), delivery to MX hosts (a relay's), DKIM (a relay's), HELO for
//! servers from before 1995, SMTPUTF8 and 8BITMIME (messages are ASCII), and CHUNKING.

mod auth;
mod config;
mod deadline;
mod handover;
mod open;
mod outcome;
mod pool;
mod reply;
mod tls;
mod transaction;
mod url;
mod wire;

use std::fmt;

use async_trait::async_trait;
use recado_core::{Fault, Outcome, Payload};
use recado_email::{Email, message_id};
use recado_transport::{DataFault, Delivery, Transport, TransportKind, data};

pub use config::{ConfigError, Credentials, Mechanism, Security, SmtpConfig, Timeouts};

use deadline::Deadline;
use handover::Handover;
use open::Opener;
use pool::{Pool, Slot};
use transaction::{Envelope, Transaction};

pub struct Smtp {
    opener: Opener,
    pool: Pool,
}

impl Smtp {
    pub fn new(config: SmtpConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let pool = Pool::new(&config);
        Ok(Smtp { opener: Opener::new(config)?, pool })
    }

    /// Runs as many transactions as all recipients need. All of them have one slot, so that no other message
    /// comes between them and uses up their time.
    async fn hand_over(&self, envelope: &Envelope<'_>, deadline: Deadline) -> Result<Handover, Fault> {
        let slot = self.pool.acquire_slot(deadline).await?;
        let mut handover = Handover::default();
        handover.add(self.transact(&slot, envelope, deadline).await?);
        while let Some(deferred) = handover.take_next(deadline) {
            let recipients: Vec<_> = deferred.iter().map(|one| &*one.recipient).collect();
            let further = Envelope { recipients: &recipients, ..*envelope };
            let Ok(transaction) = self.transact(&slot, &further, deadline).await else {
                // No connection could be had. That says nothing of them: they are as they were.
                handover.deferred.extend(deferred);
                break;
            };
            handover.add(transaction);
        }
        Ok(handover)
    }

    /// Runs one transaction, on a connection that is there or on a new one.
    async fn transact(
        &self,
        slot: &Slot,
        envelope: &Envelope<'_>,
        deadline: Deadline,
    ) -> Result<Transaction, Fault> {
        if let Some(mut kept) = slot.take_idle().await {
            // It may have died unheard. That shows before the message is spoken of, so nothing is lost.
            if let Ok(transaction) = kept.transact(envelope, deadline).await {
                slot.return_connection(kept);
                return Ok(transaction);
            }
        }
        let mut fresh = self.opener.open(deadline).await?;
        let transaction = fresh.transact(envelope, deadline).await?;
        slot.return_connection(fresh);
        Ok(transaction)
    }
}

#[async_trait]
impl Transport for Smtp {
    fn kind(&self) -> TransportKind {
        TransportKind::Smtp
    }

    fn check(&self, data: &Payload) -> Result<(), Vec<DataFault>> {
        Email::read(data).map(drop)
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        let deadline = Deadline::within(delivery.timeout);
        let email = match Email::read(&delivery.job.data) {
            Ok(email) => email,
            Err(faults) => return Outcome::Failed(data::unusable(&faults)),
        };
        let all_recipients = email.recipients();
        let state = outcome::split_recipients(delivery.job, &all_recipients);
        if state.pending.is_empty() {
            return state.outcome_without_sending();
        }
        let message_id = message_id(&delivery.job.id, email.from.domain());
        let message = email.message(&message_id, delivery.job.enqueued_at);
        let envelope =
            Envelope { sender: email.from.address(), recipients: &state.pending, message: &message };
        match self.hand_over(&envelope, deadline).await {
            Ok(handover) => state.outcome(handover, &message_id),
            Err(fault) => Outcome::Failed(fault),
        }
    }
}

impl fmt::Debug for Smtp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Smtp").field("config", &self.opener.config).finish_non_exhaustive()
    }
}
