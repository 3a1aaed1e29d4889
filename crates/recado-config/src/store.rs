//! Place of the jobs.

use std::path::PathBuf;

use recado_store_redis::link::{RedisOptions, TIMEOUT, Target};

use super::Store;
use super::raw::RawStore;
use super::reader::FaultList;
use crate::units::show_size;

pub const DATA_DIR_DEFAULT: &str = "./recado-data";

/// Batches may be larger than single jobs, whatever those are limited to.
const BATCH_BODY_MIN_BYTES: u64 = 32 << 20;

/// Bytes at most in a prefix: every key begins with it.
const PREFIX_LEN_MAX: usize = 64;

/// The largest batch that the API takes.
pub fn batch_body_max_bytes(max_body_bytes: u64) -> u64 {
    BATCH_BODY_MIN_BYTES.max(max_body_bytes)
}

/// The least that must be kept free on the disk. A batch that comes just before new jobs are refused is written to the
/// log, and once more into the file when the log is folded.
fn reserve_min_bytes(max_body_bytes: u64) -> u64 {
    2 * batch_body_max_bytes(max_body_bytes)
}

pub fn resolve(raw: RawStore, max_body_bytes: u64, faults: &FaultList) -> Store {
    let data_dir = raw.data_dir.as_ref().map_or(DATA_DIR_DEFAULT, |said| &said.value);
    let reserve_min = reserve_min_bytes(max_body_bytes);
    if let Some(reserve) = raw.reserve_bytes.as_ref().filter(|said| said.value < reserve_min) {
        faults.borrow_mut().push(reserve.fault(format!(
            "write at least \"{}\": a batch of up to {} is written to the disk twice, and jobs that are in could not end \
             on a disk without room for that",
            show_size(reserve_min),
            show_size(batch_body_max_bytes(max_body_bytes))
        )));
    }
    Store {
        data_dir: PathBuf::from(data_dir),
        reserve_bytes: raw.reserve_bytes.as_ref().map_or(reserve_min, |said| said.value),
        max_size_bytes: raw.max_size_bytes.as_ref().map(|said| said.value),
        ca_file: raw.ca_file.as_ref().map(|said| said.value.clone()),
        redis: redis(raw, faults),
    }
}

fn redis(raw: RawStore, faults: &FaultList) -> Option<RedisOptions> {
    let fault = |fault| faults.borrow_mut().push(fault);
    let url = raw.url?;
    let target = Target::read(&url.value).map_err(|error| fault(url.fault(error.to_string()))).ok();
    if let Some(prefix) = &raw.prefix
        && !is_prefix(&prefix.value)
    {
        fault(prefix.fault(
            "write 1 to 64 letters, digits, hyphens, dots, colons or underscores, such as \"recado\"",
        ));
    }
    let ca_file = raw.ca_file.filter(|_| target.is_some_and(|target| target.tls));
    let trusted_roots_pem = ca_file.and_then(|path| match std::fs::read_to_string(&path.value) {
        Ok(pem) => Some(pem),
        Err(error) => {
            fault(path.fault(format!("cannot be read ({error}); give a file with PEM certificates")));
            None
        }
    });
    let mut options = RedisOptions::new(url.value);
    options.trusted_roots_pem = trusted_roots_pem;
    options.timeout = raw.timeout.map_or(TIMEOUT, |said| said.value);
    if let Some(partitions) = raw.partitions.and_then(|said| u16::try_from(said.value).ok()) {
        options.partitions = partitions;
    }
    if let Some(prefix) = raw.prefix {
        options.prefix = prefix.value.into();
    }
    Some(options)
}

/// Braces would decide which shard a key is on, and that is not theirs to decide.
fn is_prefix(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:_".contains(&byte);
    (1..=PREFIX_LEN_MAX).contains(&text.len()) && text.bytes().all(plain)
}
