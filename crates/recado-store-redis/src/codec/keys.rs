//! Names of keys: the partition of a job, and the stored form of its id.
//!
//! All keys of a partition begin with `recado:{0}`: the braces put them in one slot of a Cluster, so that a script
//! may change them together. A job's partition follows from its company. Its id is unique over all partitions, so
//! the id has a home partition that follows from itself, and says there which partition the job is in.

use std::hash::Hasher;

use recado_core::{CompanyId, JobId};
use recado_store::Fence;
use redis::{RedisWrite, ToRedisArgs};
use siphasher::sip::SipHasher13;
use uuid::Uuid;

use crate::link::{Script, ScriptCall};

/// Small hashes that the ids of a partition are spread over. Redis packs a hash of up to 128 short entries into one
/// allocation, so up to a million jobs of a partition cost a few bytes each here.
const BUCKETS: u64 = 8_192;

/// Begins a stored id that was written as a UUID and is kept as its sixteen bytes. No id begins with it.
const UUID_MARK: u8 = 0;

/// A job's id as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdKey {
    pub bucket: u16,
    pub bytes: Box<[u8]>,
    hash: u64,
}

impl IdKey {
    pub fn of(id: &JobId) -> Self {
        let bytes = pack(id.as_str());
        let hash = hash(&bytes);
        IdKey { bucket: (hash % BUCKETS) as u16, bytes, hash }
    }

    /// The partition that knows where the job with this id is.
    pub fn home(&self, partitions: u16) -> u16 {
        part(self.hash, partitions)
    }
}

/// Writes the key for scripts: the bucket, then the bytes.
impl ToRedisArgs for IdKey {
    fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
        (self.bucket, &*self.bytes).write_redis_args(out);
    }
}

/// The id that these bytes were made of.
pub fn unpack(bytes: &[u8]) -> Option<JobId> {
    Some(match bytes.split_first()? {
        (&UUID_MARK, uuid) => JobId::trusted(Uuid::from_slice(uuid).ok()?.to_string()),
        _ => JobId::trusted(std::str::from_utf8(bytes).ok()?),
    })
}

/// The partition of a company's jobs.
pub fn partition_of(company: &CompanyId, partitions: u16) -> u16 {
    part(hash(company.as_str().as_bytes()), partitions)
}

/// The common prefix of all keys of a partition, or of the key-value entries, with its hash tag.
#[derive(Debug)]
pub struct Root {
    root: Box<[u8]>,
    format: Box<[u8]>,
}

impl Root {
    pub fn of(prefix: &str, part: impl std::fmt::Display) -> Self {
        let root = format!("{prefix}:{{{part}}}").into_bytes();
        Root { format: [&*root, b":format"].concat().into(), root: root.into() }
    }

    pub fn key(&self, name: &str) -> Vec<u8> {
        [&*self.root, b":", name.as_bytes()].concat()
    }

    /// Begins a call of a script on these keys, for a writer with this fence.
    ///
    /// Two are named, one that is never there and one that always is: while a Cluster moves the slot, it refuses
    /// a script that names keys of which it has only some. So no script ever sees half of a partition. The fence is named as
    /// a third, see `root.lua`.
    pub fn call<'a>(&self, script: &'a Script, fence: Option<Fence>) -> ScriptCall<'a> {
        match fence.map(|Fence { name, number }| self.key(&format!("fence:{name}:{number}"))) {
            Some(fence) => script.on(&[&*self.root, &*self.format, &*fence]),
            None => script.on(&[&*self.root, &*self.format]),
        }
    }
}

fn part(hash: u64, partitions: u16) -> u16 {
    ((hash >> 32) % u64::from(partitions.max(1))) as u16
}

// The key is fixed because what it places is stored.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0x7265_6361_646f_2072, 0x6564_6973_2d70_6c61);
    hasher.write(bytes);
    hasher.finish()
}

/// Ids written as a UUID in small letters in sixteen bytes, others as they are.
fn pack(id: &str) -> Box<[u8]> {
    match Uuid::try_parse(id) {
        Ok(uuid) if uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == id => {
            [&[UUID_MARK], &uuid.into_bytes()[..]].concat().into()
        }
        _ => id.as_bytes().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_kept_in_seventeen_bytes_and_every_id_comes_back() {
        let uuid = JobId::new("123e4567-e89b-12d3-a456-426614174000").unwrap();
        assert_eq!(IdKey::of(&uuid).bytes.len(), 17);
        for id in [
            "123e4567-e89b-12d3-a456-426614174000",
            "123E4567-E89B-12D3-A456-426614174000",
            "123e4567-e89b-12d3-a456-42661417400g",
            "123e4567e89b12d3a456426614174000----",
            "-23e4567-e89b-12d3-a456-426614174000",
            "a",
            "7",
            "CLM-ENC-001:a.b_c",
        ] {
            let id = JobId::new(id).unwrap();
            assert_eq!(unpack(&IdKey::of(&id).bytes), Some(id));
        }
    }

    #[test]
    fn ids_and_companies_are_spread_over_buckets_and_partitions() {
        let ids = || (0..10_000).map(|n| IdKey::of(&JobId::new(format!("job-{n}")).unwrap()));
        let mut homes = [0; 3];
        let mut buckets = std::collections::HashSet::new();
        for key in ids() {
            homes[usize::from(key.home(3))] += 1;
            buckets.insert(key.bucket);
        }
        assert!(homes.iter().all(|count| (3_000..3_700).contains(count)), "{homes:?}");
        assert!(buckets.len() > 5_000, "{} buckets", buckets.len());
        let company = CompanyId::new("acme").unwrap();
        assert_eq!(partition_of(&company, 1), 0);
        assert_eq!(partition_of(&company, 7), partition_of(&company, 7));
    }
}
