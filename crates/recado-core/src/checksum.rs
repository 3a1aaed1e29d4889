//! Checksums of what a store keeps of a job, so that damage is noticed before anything is sent.
//!
//! A store writes them when it takes a job in and gives them back with the job; the engine compares before it sends.
//! They are no defence against people who can write to the store.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::dead_letter::DeadLetter;
use crate::job::{Job, NewJob};
use crate::values::named_enum::named_enum;
use crate::values::payload::{Payload, write_texts};

named_enum! {
    /// The part of a stored job that no longer matches its checksum.
    pub enum Damage {
        /// Its ids, its company or its route: no correction can repair that.
        Identity = "identity",
        /// The data that would be sent.
        Data = "data",
        /// The data that was accepted, where corrected data would be sent.
        OriginalData = "originalData",
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Damage::Identity => "the job's ids, company or route",
            Damage::Data => "the job's data",
            Damage::OriginalData => "the data that was accepted",
        })
    }
}

/// Checksums of a job's identity, of the data that was accepted and of the data that is sent.
///
/// The last two differ once a person has corrected the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checksum {
    identity: u32,
    accepted: u32,
    data: u32,
}

impl Checksum {
    /// Bytes of a stored checksum.
    pub const LEN_BYTES: usize = 12;

    /// The checksum of a job that is taken in.
    pub fn of_new(new: &NewJob) -> Self {
        let NewJob { id, route, company, user_id, correlation_id, data, .. } = new;
        let names = [id.as_str(), route.as_str(), company.as_str()];
        Checksum::of(names, [user_id, correlation_id], data)
    }

    /// The checksum of a job that comes without one.
    pub fn of_job(job: &Job) -> Self {
        let Job { id, route, company, user_id, correlation_id, data, .. } = job;
        let names = [id.as_str(), route.as_str(), company.as_str()];
        Checksum::of(names, [user_id, correlation_id], data)
    }

    fn of(names: [&str; 3], ids: [&Option<Box<str>>; 2], data: &Payload) -> Self {
        let data = sum_of(&[Some(data.as_str())]);
        Checksum { identity: identity(names, ids), accepted: data, data }
    }

    /// Returns the checksum for corrected data.
    pub fn with_data(self, data: &Payload) -> Self {
        Checksum { data: sum_of(&[Some(data.as_str())]), ..self }
    }

    /// Returns the checksum for other accepted data.
    pub fn with_accepted(self, accepted: &Payload) -> Self {
        Checksum { accepted: sum_of(&[Some(accepted.as_str())]), ..self }
    }

    /// Returns a checksum that does not match where this one does, for content that cannot be read.
    pub fn inverted(self, damage: Damage) -> Self {
        let Checksum { identity, accepted, data } = self;
        match damage {
            Damage::Identity => Checksum { identity: !identity, ..self },
            Damage::Data => Checksum { accepted: !accepted, data: !data, ..self },
            Damage::OriginalData => Checksum { accepted: !accepted, ..self },
        }
    }

    pub fn to_bytes(self) -> [u8; Checksum::LEN_BYTES] {
        let mut bytes = [0; Checksum::LEN_BYTES];
        for (part, sum) in bytes.chunks_exact_mut(4).zip([self.identity, self.accepted, self.data]) {
            part.copy_from_slice(&sum.to_be_bytes());
        }
        bytes
    }

    /// Reads a stored checksum; `None` when the bytes are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (parts, []) = bytes.as_chunks::<4>() else { return None };
        let [identity, accepted, data] = *parts else { return None };
        let [identity, accepted, data] = [identity, accepted, data].map(u32::from_be_bytes);
        Some(Checksum { identity, accepted, data })
    }
}

impl Job {
    /// Compares the job with its checksum. One that came without is only held to being JSON.
    ///
    /// An ended job has no data any more, so nothing can be said about it.
    pub fn damage(&self) -> Option<Damage> {
        let Some(checksum) = self.checksum else { return not_json(&self.data) };
        let names = [self.id.as_str(), self.route.as_str(), self.company.as_str()];
        if identity(names, [&self.user_id, &self.correlation_id]) != checksum.identity {
            return Some(Damage::Identity);
        }
        (sum_of(&[Some(self.data.as_str())]) != checksum.data).then_some(Damage::Data)
    }
}

impl DeadLetter {
    /// The checksum that the entry would have if it were as it was accepted.
    pub fn matching_checksum(&self) -> Checksum {
        let names = [self.job_id.as_str(), self.route.as_str(), self.company.as_str()];
        let checksum = Checksum::of(names, [&self.user_id, &self.correlation_id], self.data());
        checksum.with_accepted(&self.original_data)
    }

    /// Compares the entry with its job's checksum: the data that a replay sends first, the accepted data last. One
    /// that came without is only held to being JSON.
    pub fn damage(&self) -> Option<Damage> {
        let Some(checksum) = self.checksum else { return not_json(self.data()) };
        let own = self.matching_checksum();
        if own.identity != checksum.identity {
            return Some(Damage::Identity);
        }
        (own.data != checksum.data).then_some(Damage::Data).or_else(|| self.original_damage())
    }

    /// Compares the entry with its job's checksum, for a replay that sends the data that was accepted.
    pub fn original_damage(&self) -> Option<Damage> {
        let Some(checksum) = self.checksum else { return not_json(&self.original_data) };
        let own = self.matching_checksum();
        if own.identity != checksum.identity {
            return Some(Damage::Identity);
        }
        (own.accepted != checksum.accepted).then_some(Damage::OriginalData)
    }
}

fn not_json(data: &Payload) -> Option<Damage> {
    data.parse::<serde::de::IgnoredAny>().is_err().then_some(Damage::Data)
}

fn identity([id, route, company]: [&str; 3], [user, correlation]: [&Option<Box<str>>; 2]) -> u32 {
    sum_of(&[Some(id), Some(route), Some(company), user.as_deref(), correlation.as_deref()])
}

/// The checksum of some texts in this order. Its keys are fixed because sums are stored.
pub fn sum_of(parts: &[Option<&str>]) -> u32 {
    let mut hasher = SipHasher13::new_with_keys(0x7265_6361_646f_2032, 0x6368_6563_6b73_756d);
    write_texts(&mut hasher, parts);
    hasher.finish() as u32
}

#[cfg(test)]
mod tests {
    use crate::values::name::{CompanyId, JobId, RouteName};
    use crate::{BodyHash, Priority, Timestamp};

    use super::*;

    fn job() -> Job {
        let at = Timestamp::from_millis(0);
        Job::from(NewJob {
            id: JobId::new("order-1").unwrap(),
            route: RouteName::new("webhook").unwrap(),
            company: CompanyId::new("acme").unwrap(),
            data: Payload::new(r#"{"amount":"AMOUNT-1000"}"#).unwrap(),
            user_id: Some("u-1".into()),
            correlation_id: None,
            traceparent: None,
            priority: Priority::default(),
            enqueued_at: at,
            due_at: at,
            expires_at: at,
            body_hash: BodyHash(0),
        })
    }

    #[test]
    fn every_flipped_bit_of_data_and_ids_is_noticed() {
        assert_eq!(job().damage(), None);
        for text in [job().data.as_str().to_owned(), "acme".to_owned(), "u-1".to_owned()] {
            for (at, bit) in (0..text.len()).flat_map(|at| (0..7).map(move |bit| (at, bit))) {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let flipped = String::from_utf8(bytes).unwrap();
                let mut job = job();
                let expected = match &*text {
                    "acme" => {
                        job.company = CompanyId::trusted(&*flipped);
                        Damage::Identity
                    }
                    "u-1" => {
                        job.user_id = Some(flipped.into());
                        Damage::Identity
                    }
                    _ => {
                        job.data = Payload::trusted(flipped);
                        Damage::Data
                    }
                };
                assert_eq!(job.damage(), Some(expected), "byte {at}, bit {bit} of {text}");
            }
        }
    }

    #[test]
    fn a_checksum_reads_back_and_an_inverted_one_never_matches() {
        let mut job = job();
        let sum = job.checksum.unwrap();
        assert_eq!(Checksum::from_bytes(&sum.to_bytes()), Some(sum));
        assert_eq!(Checksum::from_bytes(&sum.to_bytes()[1..]), None);
        for damage in [Damage::Identity, Damage::Data] {
            job.checksum = Some(sum.inverted(damage));
            assert_eq!(job.damage(), Some(damage));
        }
        job.data = Payload::new(r#"{"corrected":true}"#).unwrap();
        job.checksum = Some(sum.with_data(&job.data));
        assert_eq!(job.damage(), None);
        job.checksum = None;
        assert_eq!(job.damage(), None);
        job.data = Payload::trusted(r#"{"amount:1}"#);
        assert_eq!(job.damage(), Some(Damage::Data), "without a checksum it has to be JSON at least");
    }
}
