//! Dead letters: jobs that could not be delivered, with their reason, for a person to review.

pub mod bulk;

use std::time::Duration;

use crate::checksum::Checksum;
use crate::classify::Class;
use crate::job::{Attempt, Job, remember};
use crate::transition::Burial;
use crate::values::name::{CompanyId, JobId, RouteName};
use crate::values::named_enum::named_enum;
use crate::values::payload::Payload;
use crate::values::reason::Reason;
use crate::values::time::Timestamp;

/// Time that an entry is kept unless configured otherwise.
pub const DEAD_LETTER_TTL_DEFAULT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Shortest time that an entry is kept after its replay was cancelled.
pub const RECALLED_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

named_enum! {
    pub enum Cause {
        /// Every attempt the policy allows was spent.
        Exhausted = "EXHAUSTED",
        /// A permanent failure.
        Permanent = "PERMANENT",
        /// The next try would have come after the job's time.
        Expired = "EXPIRED",
        /// The payload cannot be turned into a request.
        InvalidPayload = "INVALID_PAYLOAD",
        /// The route's fallback gave it up.
        Fallback = "FALLBACK",
    }
}

named_enum! {
    pub enum DeadLetterState {
        Dead = "dead",
        /// A person brought it back; it leaves when that succeeds.
        Replaying = "replaying",
    }
}

named_enum! {
    /// Field to count dead letters by.
    #[derive(Default)]
    pub enum GroupBy {
        #[default]
        LastFailureCode = "lastFailureCode",
        Company = "companyId",
        Route = "route",
        Fingerprint = "fingerprint",
    }
}

impl GroupBy {
    /// The group of an entry.
    pub fn key_of(self, entry: &DeadLetter) -> Option<Box<str>> {
        match self {
            GroupBy::LastFailureCode => entry.failure.code.clone(),
            GroupBy::Company => Some(entry.company.as_str().into()),
            GroupBy::Route => Some(entry.route.as_str().into()),
            GroupBy::Fingerprint => Some(entry.failure.fingerprint.clone()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub job_id: JobId,
    pub company: CompanyId,
    pub route: RouteName,
    /// The payload as it was accepted.
    pub original_data: Payload,
    /// The payload that a person put in its place: the latest correction.
    pub corrected_data: Option<Payload>,
    pub failed_attempts: u32,
    pub failure: LastFailure,
    pub enqueued_at: Timestamp,
    pub moved_at: Timestamp,
    pub ttl: Duration,
    pub user_id: Option<Box<str>>,
    pub correlation_id: Option<Box<str>>,
    pub attempts: Vec<Attempt>,
    pub cause: Cause,
    pub state: DeadLetterState,
    /// Its job's.
    pub checksum: Option<Checksum>,
}

/// The failure that moved a job to the dead letter queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastFailure {
    pub reason: Reason,
    pub code: Option<Box<str>>,
    pub at: Timestamp,
    pub class: Class,
    pub stack_trace: Option<Box<str>>,
    /// The same for all failures that a person would call the same: see [`fingerprint`].
    pub fingerprint: Box<str>,
}

impl DeadLetter {
    /// Writes the entry for a job that is given up. `job` has its progress stepped, its history not yet. A job that
    /// failed again brings along what was `accepted` at first: its own data may be corrected.
    pub fn new(job: Job, accepted: Option<Payload>, burial: Burial) -> Self {
        let failure = burial.failure;
        let mut attempts = job.attempts;
        if let Some(attempt) = burial.attempt {
            remember(&mut attempts, attempt);
        }
        let mut entry = DeadLetter {
            failure: LastFailure {
                fingerprint: fingerprint(&job.route, failure.code.as_deref(), &failure.reason),
                reason: failure.reason,
                code: failure.code,
                at: burial.at,
                class: failure.class,
                stack_trace: failure.stack_trace,
            },
            job_id: job.id,
            company: job.company,
            route: job.route,
            original_data: accepted.unwrap_or_else(|| job.data.clone()),
            corrected_data: None,
            failed_attempts: job.progress.attempts_started,
            enqueued_at: job.enqueued_at,
            moved_at: burial.at,
            ttl: burial.ttl,
            user_id: job.user_id,
            correlation_id: job.correlation_id,
            attempts,
            cause: burial.cause,
            state: DeadLetterState::Dead,
            checksum: job.checksum,
        };
        entry.correct(job.data);
        entry
    }

    /// Notes what it was corrected to. A correction that corrects nothing is none.
    pub fn correct(&mut self, data: Payload) {
        self.corrected_data = (data != self.original_data).then_some(data);
    }

    /// The payload that a replay sends.
    pub fn data(&self) -> &Payload {
        self.corrected_data.as_ref().unwrap_or(&self.original_data)
    }

    /// Puts the entry back because its replay was cancelled. It is kept for a while from now on, whatever its time was, so
    /// that an operator sees it again.
    pub fn recall(&mut self, now: Timestamp) {
        self.state = DeadLetterState::Dead;
        self.ttl = self.ttl.max(now.plus(RECALLED_KEPT).since(self.moved_at));
    }

    pub fn expires_at(&self) -> Timestamp {
        self.moved_at.plus(self.ttl)
    }
}

/// Two failures that a person would call the same get the same fingerprint: what varies from message to
/// message (numbers, addresses, identifiers) is left out of the reason.
pub fn fingerprint(route: &RouteName, code: Option<&str>, reason: &Reason) -> Box<str> {
    let mut shape = String::with_capacity(64);
    for word in reason.as_str().split_whitespace().take(40) {
        let varies = word.contains('@') || word.bytes().any(|b| b.is_ascii_digit());
        shape.push_str(if varies { "*" } else { word });
        shape.push(' ');
    }
    let mut hasher = siphasher::sip::SipHasher24::new_with_keys(1, 2);
    for part in [route.as_str(), code.unwrap_or(""), &shape.to_lowercase()] {
        std::hash::Hasher::write(&mut hasher, part.as_bytes());
        std::hash::Hasher::write_u8(&mut hasher, 0xff);
    }
    format!("{:016x}", std::hash::Hasher::finish(&hasher)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_forgets_what_varies() {
        let route = RouteName::new("email").unwrap();
        let of = |code, text: &str| fingerprint(&route, Some(code), &Reason::new(text).unwrap());
        assert_eq!(
            of("550", "5.1.1 <ana@example.com> unknown"),
            of("550", "5.1.1 <rui@example.org> unknown")
        );
        assert_ne!(of("550", "unknown user"), of("551", "unknown user"));
        assert_ne!(of("550", "unknown user"), of("550", "mailbox full"));
        assert_ne!(of("550", "\"mailbox full\""), of("550", "<spam detected>"), "quoted words are words");
    }
}
