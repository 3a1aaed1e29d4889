//! Results of every recipient, over all transactions of one attempt.
//!
//! Relays limit how many recipients a transaction may have, and put off the rest. If those had to wait for
//! later attempts, a long list would use them up although each made progress. So they get further
//! transactions at once, with no more recipients than the relay has shown to take, for as long as each of
//! these gets somewhere and there is time.
//!
//! Absent on purpose: a memory of the relay's limit. Each attempt learns it anew, which costs one batch.

use std::time::Duration;

use recado_core::{Fault, RefusedRecipient};

use crate::deadline::Deadline;
use crate::reply::Reply;
use crate::transaction::Transaction;

#[derive(Default)]
pub(crate) struct Handover {
    pub accepted: Vec<Box<str>>,
    /// The server's yes to each message that it took.
    pub answers: Vec<Reply>,
    /// Recipients with a no of their own.
    pub refused: Vec<RefusedRecipient>,
    /// The recipients of the last transaction, if it failed, and its fault.
    pub failed: Option<(Vec<Box<str>>, Fault)>,
    /// Recipients who came when there were too many already.
    pub deferred: Vec<RefusedRecipient>,
    /// Recipients that the server takes at once, as it showed when it last put one off. None: there is no
    /// going on.
    at_once: usize,
    longest: Duration,
}

impl Handover {
    pub(crate) fn add(&mut self, transaction: Transaction) {
        let Transaction { others, refusals, answer, took } = transaction;
        if !refusals.deferred.is_empty() {
            self.at_once = others.len();
        }
        match answer {
            Ok(answer) => {
                self.accepted.extend(others);
                self.answers.extend(answer);
            }
            Err(fault) => {
                self.at_once = 0;
                self.failed = Some((others, fault));
            }
        }
        self.refused.extend(refusals.refused);
        // Behind those who wait, so that one who is put off time and again holds up no other.
        self.deferred.extend(refusals.deferred);
        self.longest = self.longest.max(took);
    }

    /// Takes the recipients of a further transaction, if there is to be one. Where the time may not suffice
    /// there is none: it could end between the final dot and its answer, and leave them uncertain.
    pub(crate) fn take_next(&mut self, deadline: Deadline) -> Option<Vec<RefusedRecipient>> {
        let count = self.at_once.min(self.deferred.len());
        let is_time = deadline.left() > self.longest;
        (count > 0 && is_time).then(|| self.deferred.drain(..count).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::RefusedRecipients;

    /// A server took one of three, in so much time.
    fn limited(took: Duration) -> Handover {
        let deferred = |recipient: &str| RefusedRecipient {
            recipient: recipient.into(),
            fault: Fault::answer("452", "4.5.3 too many recipients"),
        };
        let mut handover = Handover::default();
        handover.add(Transaction {
            others: vec!["ana".into()],
            refusals: RefusedRecipients {
                deferred: vec![deferred("bob"), deferred("eva")],
                ..RefusedRecipients::default()
            },
            answer: Ok(None),
            took,
        });
        handover
    }

    #[test]
    fn a_transaction_that_may_not_end_in_time_is_not_begun() {
        let deadline = Deadline::within(Duration::from_secs(3_600));
        let next = limited(Duration::from_secs(60)).take_next(deadline).expect("there is time");
        assert_eq!(next.iter().map(|one| &*one.recipient).collect::<Vec<_>>(), ["bob"]);

        let mut late = limited(Duration::from_secs(3_600));
        assert!(late.take_next(deadline).is_none());
        assert_eq!(late.deferred.len(), 2, "a recipient was forgotten");
    }
}
