//! Receipts: tell a repeated settlement from any other one of the same lease.
//!
//! A receipt is stored with the head that its settlement made. A caller whose answer was lost settles again, perhaps at
//! another node, and a receipt that matches answers it as done. So the digest is over stored forms and codes of its own,
//! and not over names of the program: two versions have to agree on it.
//!
//! Versions before this one hashed the transition's debug text. A settlement whose answer was lost on such a node and
//! that is repeated at one of this version (or the other way round) does not match, and is answered as stale. That is
//! safe: the settlement was carried out once, its job is not leased any more, and callers repeat within seconds.

use std::hash::Hasher;

use recado_core::{Attempt, NewJob, Timestamp, Transition};
use recado_store::{Settlement, StoreResult};
use siphasher::sip::SipHasher13;

use crate::codec::record::{Receipt, json};
use crate::codec::token::Token;

/// The receipt of a settlement. `audit` is its audit record as it is stored.
pub fn receipt_of(token: Token, settlement: &Settlement, audit: &[u8]) -> StoreResult<Receipt> {
    let mut digest = Digest::default();
    digest.transition(&settlement.transition)?;
    digest.bytes(audit);
    digest.time(settlement.now);
    for NewJob { id, body_hash, .. } in &settlement.follow_ups {
        digest.bytes(id.as_str().as_bytes());
        digest.bytes(&body_hash.0.to_be_bytes());
    }
    Ok(Receipt { fence: token.fence, digest: digest.0.finish() })
}

/// Hashes values so that no two lists of them look alike.
#[derive(Default)]
struct Digest(SipHasher13);

impl Digest {
    /// Codes of transitions are stored with every receipt: they do not change.
    fn transition(&mut self, transition: &Transition) -> StoreResult<()> {
        match transition {
            Transition::Deliver { attempt, answer } => {
                self.code(1);
                self.attempt(Some(attempt))?;
                self.optional(answer.as_ref().map(|answer| answer.as_str().as_bytes()));
            }
            Transition::RetryAt { at, attempt } => {
                self.code(2);
                self.time(*at);
                self.attempt(Some(attempt))?;
            }
            Transition::Postpone { until } => {
                self.code(3);
                self.time(*until);
            }
            Transition::Bury(burial) => {
                self.code(4);
                self.bytes(&json(&burial.cause)?);
                self.bytes(&json(&burial.failure.class)?);
                self.optional(burial.failure.code.as_deref().map(str::as_bytes));
                self.bytes(burial.failure.reason.as_str().as_bytes());
                self.optional(burial.failure.stack_trace.as_deref().map(str::as_bytes));
                self.attempt(burial.attempt.as_ref())?;
                self.time(burial.at);
                self.bytes(&burial.ttl.as_millis().to_be_bytes());
            }
            Transition::Release { at, lost } => {
                self.code(5);
                self.time(*at);
                self.attempt(lost.as_ref())?;
            }
        }
        Ok(())
    }

    /// An attempt as heads have it.
    fn attempt(&mut self, attempt: Option<&Attempt>) -> StoreResult<()> {
        let stored = attempt.map(json).transpose()?;
        self.optional(stored.as_deref());
        Ok(())
    }

    fn time(&mut self, at: Timestamp) {
        self.bytes(&at.as_millis().to_be_bytes());
    }

    fn optional(&mut self, bytes: Option<&[u8]>) {
        self.code(u8::from(bytes.is_some()));
        self.bytes(bytes.unwrap_or_default());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.write(&(bytes.len() as u64).to_be_bytes());
        self.0.write(bytes);
    }

    fn code(&mut self, code: u8) {
        self.0.write(&[code]);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use recado_core::{
        AttemptResult, Blame, BodyHash, Burial, Cause, Class, CompanyId, Failure, JobId, Payload, Priority,
        Reason, RouteName,
    };

    use super::*;

    const T0: Timestamp = Timestamp::from_millis(1_736_677_800_000);
    const TOKEN: Token = Token { partition: 0, seq: 7, fence: 9 };

    fn attempt() -> Attempt {
        Attempt::ended(1, T0, T0, AttemptResult::Sent)
    }

    fn settlement(transition: Transition) -> Settlement {
        Settlement { token: TOKEN.into(), transition, audit: None, now: T0, follow_ups: Vec::new() }
    }

    fn digest(settlement: &Settlement, audit: &[u8]) -> u64 {
        receipt_of(TOKEN, settlement, audit).unwrap().digest
    }

    fn transitions() -> [Transition; 7] {
        let failure = Failure {
            class: Class::Permanent,
            code: Some("550".into()),
            reason: Reason::new("no such user").unwrap(),
            rule: "rule".into(),
            blame: Blame::Message,
            retry_after: None,
            asked_wait: None,
            uncertain: false,
            invalid_payload: false,
            stack_trace: None,
        };
        let burial = Burial {
            cause: Cause::Permanent,
            failure,
            attempt: Some(attempt()),
            held_up: false,
            at: T0,
            ttl: Duration::from_secs(60),
        };
        [
            Transition::Deliver { attempt: attempt(), answer: None },
            Transition::Deliver { attempt: attempt(), answer: Some(Payload::trusted("1")) },
            Transition::RetryAt { at: T0, attempt: attempt() },
            Transition::Postpone { until: T0 },
            Transition::Bury(burial),
            Transition::Release { at: T0, lost: None },
            Transition::Release { at: T0, lost: Some(attempt()) },
        ]
    }

    /// Stored digests are compared with those of later versions. Whatever is renamed, these numbers stay.
    #[test]
    fn the_digest_of_a_settlement_never_changes() {
        let digests = transitions().map(|transition| digest(&settlement(transition), b"{}"));
        let stored = [
            7_913_400_881_787_925_879,
            6_812_494_303_268_866_147,
            18_296_359_896_814_077_529,
            13_114_739_518_539_854_232,
            1_778_642_501_987_427_294,
            1_694_262_757_629_023_884,
            12_691_417_197_937_949_556,
        ];
        assert_eq!(digests, stored);
        let new = NewJob {
            id: JobId::new("follows").unwrap(),
            route: RouteName::new("email").unwrap(),
            company: CompanyId::new("acme").unwrap(),
            data: Payload::trusted("null"),
            user_id: None,
            correlation_id: None,
            traceparent: None,
            priority: Priority::default(),
            enqueued_at: T0,
            due_at: T0,
            expires_at: T0,
            body_hash: BodyHash(1),
        };
        let follows = Settlement { follow_ups: vec![new], ..settlement(Transition::Postpone { until: T0 }) };
        assert_eq!(digest(&follows, b""), 9_246_265_764_169_596_035);
    }

    #[test]
    fn settlements_that_differ_have_different_digests() {
        let all: std::collections::HashSet<u64> =
            transitions().into_iter().map(|transition| digest(&settlement(transition), b"{}")).collect();
        assert_eq!(all.len(), 7);
        let one = settlement(Transition::Postpone { until: T0 });
        assert_ne!(digest(&one, b""), digest(&one, b"{}"), "the audit record counts");
        let later = Settlement { now: T0.plus(Duration::from_millis(1)), ..one.clone() };
        assert_ne!(digest(&one, b""), digest(&later, b""), "the time counts");
    }
}
